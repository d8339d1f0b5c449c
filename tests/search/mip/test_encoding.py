"""Fix the input, solve, and the model's scores must equal the network's, for every perturbation."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.dependency import find_dependencies
from vhagar.network import Affine, Convolution, Relu
from vhagar.network.network import confidence
from vhagar.perturbation import PERTURBATIONS, AbstractPiece
from vhagar.search.mip.encoding import Encoding, PieceFacts, encode, known_ranges
from vhagar.search.mip.hexagons import hexagons_of
from vhagar.solver.backends import SolveStatus
from vhagar.solver.backends.highs import HighsModel

from ...marks import mostly_slow

SHAPE = (2, 3, 3)
SOURCE, TARGET = 1, 2

PERTURBED = [
    ("linf(0.2)", True),
    ("patch([0,0.5],2,[1,2],2)", True),
    ("occlusion([1,2],2,2)", True),
    ("translation([-1,1],1)", True),
    ("rotation(25)", True),
    ("rotation(90)", True),
    ("brightness([-0.3,0.4])", True),
    ("brightness([-0.3,0.4])", False),
    ("brightness([-0.3,-0.1])", True),
    ("contrast([0.6,0.6])", True),
    ("contrast([1.7,1.7])", True),
    ("contrast([1.7,1.7])", False),
    ("features([0,3],[0.1,0.4])", False),
]


def network(scale: float) -> Network:
    rng = np.random.default_rng(5)
    draw = lambda *size: scale * rng.normal(size=size)  # noqa: E731
    first = Convolution(draw(2, 2, 2, 2), draw(2), SHAPE, padding=(0, 1, 0, 0))
    return Network(
        (
            first,
            Relu(first.out_shape),
            Affine(draw(5, first.out_size), scale * draw(5), first.out_shape, (5,)),
            Relu((5,)),
            Affine(draw(3, 5), scale**2 * draw(3), (5,), (3,)),
        ),
        SHAPE,
    )


def point_of(encoding: Encoding, x: np.ndarray, x_p: np.ndarray) -> np.ndarray:
    """The model's solution with input and image fixed, the classes free."""
    arrays = encoding.arrays
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    assert encoding.x_p is not None
    lower[encoding.x_p] = upper[encoding.x_p] = x_p
    lower[encoding.x] = upper[encoding.x] = x
    # Any confidence: the column then shows the real one, not the better of it and 0.
    lower[encoding.delta] = -arrays.column_upper[encoding.delta]
    rows = (encoding.target_rows, np.full(len(encoding.target_rows), -np.inf))
    solved = HighsModel(arrays, encoding.delta).solve(lower=lower, upper=upper, row_lower=rows)
    assert solved.status is SolveStatus.OPTIMAL
    assert solved.solution is not None
    return solved.solution


def a_pair(piece: AbstractPiece, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(piece.domain.lower, piece.domain.upper, (1, piece.domain.size))
    parameters = rng.uniform(*piece.parameter_bounds, (1, len(piece.parameter_bounds[0])))
    return x[0], piece.apply(x, parameters)[0]


def test_every_perturbation_is_here() -> None:
    kinds = {
        type(Problem(network(1.0), perturbation=text, source=SOURCE).perturbation)
        for text, _ in PERTURBED
    }
    assert kinds == set(PERTURBATIONS)


def tightening_of(model: Network, piece: AbstractPiece, related: bool, lambdas: bool) -> PieceFacts:
    relations = find_dependencies(model, piece).layers if related else None
    if not lambdas:
        return PieceFacts(relations=relations)
    ranges = known_ranges(model, piece, None)
    hexagons = hexagons_of(model, piece, ranges, relations, refined=True)
    return PieceFacts((ranges.first[1:], ranges.second[1:]), relations, hexagons)


@pytest.mark.parametrize("lambdas", [False, True])
@pytest.mark.parametrize("related", [False, True])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("perturbation", "clip"), mostly_slow(PERTURBED, 3))
def test_the_model_computes_what_the_network_computes(
    perturbation: str, clip: bool, scale: float, related: bool, lambdas: bool
) -> None:
    model = network(scale)
    problem = Problem(
        model,
        perturbation=perturbation,
        source=SOURCE,
        targets=TARGET,
        clip=clip,
        input_range=(-0.25, 1),
    )
    rng = np.random.default_rng(1)
    shown = 0
    for piece in problem.pieces:
        encoding = encode(problem, piece, TARGET, tightening_of(model, piece, related, lambdas))
        x, x_p = a_pair(piece, rng)
        point = point_of(encoding, x, x_p)
        scores = model.forward(np.array([x, x_p]))
        noise = 1e-6 * encoding.target_scale
        sure = float(confidence(scores, SOURCE)[0])
        if abs(sure) < encoding.arrays.column_upper[encoding.delta]:
            assert point[encoding.delta] == pytest.approx(sure, abs=noise)
            shown += 1
        # The rows of the target hold the margins of the image.
        margins = (encoding.arrays.matrix @ point)[encoding.target_rows]
        expected = scores[1, TARGET] - np.delete(scores[1], TARGET)
        assert margins == pytest.approx(expected, abs=noise)
    assert shown


def test_without_a_piece_there_is_one_copy() -> None:
    model = network(1.0)
    encoding = encode(Problem(model, perturbation=None, source=SOURCE), None, None)
    assert encoding.x_p is None
    x = np.random.default_rng(3).uniform(size=18)
    lower, upper = encoding.arrays.column_lower.copy(), encoding.arrays.column_upper.copy()
    lower[encoding.x] = upper[encoding.x] = x
    lower[encoding.delta] = -upper[encoding.delta]
    solved = HighsModel(encoding.arrays, encoding.delta).solve(lower=lower, upper=upper)
    expected = confidence(model.forward(x[None]), SOURCE)[0]
    assert solved.solution is not None
    assert solved.solution[encoding.delta] == pytest.approx(expected, abs=1e-5)
