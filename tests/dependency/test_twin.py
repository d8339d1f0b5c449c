"""The model of both copies: it admits what really happens, with all its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import DependencyOptions, Relations, add_copies, find_dependencies
from vhagar.dependency.relation import no_pairs
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.solver.backends import SolveStatus
from vhagar.solver.backends.highs import HighsModel
from vhagar.solver.linear_model import LinearArrays, LinearModel

from ..marks import mostly_slow
from .exact import convolutional_network, dense_network

PERTURBED = (
    ("occlusion(1,1,2)", True),
    ("brightness([0.1,0.4])", True),
    ("brightness([0.1,0.4])", False),
    ("contrast([1.5,1.5])", True),
    ("translation(0,1)", True),
    ("rotation(90)", True),
)


def networks(seed: int) -> tuple[Network, ...]:
    rng = np.random.default_rng([6, seed])
    return dense_network(rng, (1, 3, 3)), convolutional_network(rng, (1, 4, 4), 1, 1)


def fixed(arrays: LinearArrays, columns: np.ndarray, values: np.ndarray) -> LinearArrays:
    """The model with some columns fixed; where two values meet in one column, the last counts."""
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    lower[columns] = upper[columns] = np.clip(values, lower[columns], upper[columns])
    return replace(arrays, column_lower=lower, column_upper=upper)


@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBED, 3))
@pytest.mark.parametrize("seed", range(2))
def test_the_scores_are_the_networks(text: str, clip: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for network in networks(seed):
        (piece,) = parse(text).pieces(Domain(network.input_shape), clip)
        found = find_dependencies(network, piece, options=DependencyOptions(question_time=1.0))
        model = LinearModel()
        copies = add_copies(model, network, piece, found.ranges, found.layers)
        x = rng.choice([0.0, 0.25, 0.5, 1.0], (1, piece.domain.size))
        x_p = piece.apply(x, np.mean(piece.parameter_bounds, axis=0)[None])
        arrays = fixed(model.arrays(), copies.second[0], x_p[0])
        solved = HighsModel(fixed(arrays, copies.first[0], x[0]), int(copies.first[-1][0])).solve()
        assert solved.status is SolveStatus.OPTIMAL
        assert solved.solution is not None
        scores, scores_p = network.forward(x)[0], network.forward(x_p)[0]
        np.testing.assert_allclose(solved.solution[copies.first[-1]], scores, atol=1e-6)
        np.testing.assert_allclose(solved.solution[copies.second[-1]], scores_p, atol=1e-6)


def size_of(
    network: Network, piece: AbstractPiece, layers: tuple[Relations, ...] | None = None
) -> tuple[int, int]:
    """Booleans and columns, with the relations found or with those given."""
    found = find_dependencies(network, piece, options=DependencyOptions(optimise=False))
    model = LinearModel()
    add_copies(model, network, piece, found.ranges, layers or found.layers)
    arrays = model.arrays()
    return int(arrays.integer.sum()), len(arrays.integer)


@pytest.mark.parametrize("text", ["occlusion(1,1,2)", "translation(0,1)"])
def test_equal_neurons_share_their_columns(text: str) -> None:
    _, network = networks(0)
    (piece,) = parse(text).pieces(Domain(network.input_shape))
    nothing = tuple(no_pairs() for _ in range(len(network.layers) + 1))
    less, more = size_of(network, piece), size_of(network, piece, nothing)
    assert less[0] < more[0]
    assert less[1] < more[1]


def test_orders_of_booleans_are_rows() -> None:
    """A neuron that can only rise is active in the second copy where it is in the first."""
    network = dense_network(np.random.default_rng(1), (1, 3, 3))
    (piece,) = parse("brightness([0,0.4])").pieces(Domain((1, 3, 3)), clip=False)
    found = find_dependencies(network, piece, options=DependencyOptions(optimise=False))
    model = LinearModel()
    copies = add_copies(model, network, piece, found.ranges, found.layers)
    arrays = model.arrays()
    known = found.layers[2]
    a, a_p = copies.active[2][known.first], copies.active_p[2][known.second]
    both = (a >= 0) & (a_p >= 0) & (a != a_p)
    assert both.any()
    for one, two, low in zip(a[both], a_p[both], known.gap_lower[both], strict=True):
        touching = set(arrays.matrix[:, [one]].nonzero()[0]) & set(
            arrays.matrix[:, [two]].nonzero()[0]
        )
        (row,) = touching
        sides = arrays.row_lower[row], arrays.row_upper[row]
        assert sides == ((0.0, np.inf) if low == 0 else (-np.inf, 0.0))
        assert arrays.matrix[row, two] == 1.0
        assert arrays.matrix[row, one] == -1.0
