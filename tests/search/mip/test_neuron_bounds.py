"""Concrete bounds: they hold for every input, get tighter from rule to rule, and trust nobody."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from vhagar import Network
from vhagar.errors import SolverFailure
from vhagar.network import Affine, Relu
from vhagar.relaxation import Bounds
from vhagar.search.mip.neuron_bounds import CopyBounds, LayerModel, layers_to_bound, same_in_both
from vhagar.solver.backends import Solved, SolveStatus
from vhagar.solver.backends.highs import HighsModel

BOX = Bounds(np.zeros(2), np.ones(2))


def valley() -> Network:
    """`relu(x1 - x2) + relu(x2 - x1) - 1/2 = |x1 - x2| - 1/2`, from -1/2 to 1/2.

    Interval arithmetic says up to 3/2, the LP 1/2: both ReLUs cannot be large at once.
    """
    return Network(
        (
            Affine(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2), (2,), (2,)),
            Relu((2,)),
            Affine(np.array([[1.0, 1.0]]), np.array([-0.5]), (2,), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.zeros(2), (1,), (2,)),
        ),
        (2,),
    )


def ridge() -> Network:
    """`relu(x1 - x2) - 3 relu(x1 - 1/2) - 3/8`: at most 1/8, where the LP sees 3/8."""
    return Network(
        (
            Affine(np.array([[1.0, -1.0], [1.0, 0.0]]), np.array([0.0, -0.5]), (2,), (2,)),
            Relu((2,)),
            Affine(np.array([[1.0, -3.0]]), np.array([-0.375]), (2,), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.zeros(2), (1,), (2,)),
        ),
        (2,),
    )


def model_of(network: Network, position: int = 2) -> LayerModel:
    copy = CopyBounds(network, BOX)
    return LayerModel(HighsModel, network, BOX, copy.layers, position)


def bounds_of(network: Network, seconds: float = 60.0) -> tuple[float, float]:
    return model_of(network).bounds(0, seconds, 0, lambda: False)


def test_the_lp_sees_what_intervals_do_not() -> None:
    copy = CopyBounds(valley(), BOX)
    assert copy.layers[2].upper[0] >= 1.5
    low, high = bounds_of(valley())
    assert -0.5 - 1e-6 <= low <= -0.5
    assert 0.5 <= high <= 0.5 + 1e-6


def test_the_mip_sees_what_the_lp_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def relaxed(model: HighsModel, **arguments: Any) -> Solved:
        return honest(model, **{**arguments, "integer": False})

    _, high = bounds_of(ridge())
    assert 0.125 <= high <= 0.125 + 1e-6
    honest = HighsModel.solve
    monkeypatch.setattr(HighsModel, "solve", relaxed)
    _, by_lp = bounds_of(ridge())
    assert by_lp > 0.2


def random_network(rng: np.random.Generator) -> Network:
    sizes = (3, 5, 4, 3)
    layers: list[Affine | Relu] = []
    for into, out in itertools.pairwise(sizes):
        layers += [Affine(rng.normal(size=(out, into)), rng.normal(size=out), (into,), (out,))]
        layers += [Relu((out,))]
    return Network(tuple(layers[:-1]), (3,))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("seconds", [0.0, 0.003, 60.0])
def test_no_input_is_beyond_the_bounds(seed: int, seconds: float) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = Bounds(rng.uniform(-1, 0, 3), rng.uniform(0, 1, 3))
    copy = CopyBounds(network, box)
    before = [bounds.upper - bounds.lower for bounds in copy.layers]
    (position,) = layers_to_bound(network)
    assert position == 2
    model = LayerModel(HighsModel, network, box, copy.layers, position)
    found = np.array([model.bounds(k, seconds, 0, lambda: False) for k in range(4)])
    copy.meet(position, Bounds(found[:, 0], found[:, 1]))
    values = rng.uniform(box.lower, box.upper, (4000, 3))
    corners = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
    values = np.concatenate([values, corners])
    for layer, bounds, width in zip(network.layers, copy.layers, before, strict=True):
        values = layer.forward(values)
        # What float64 rounds in a forward pass is not the bounds' business.
        assert (values >= bounds.lower - 1e-12).all()
        assert (values <= bounds.upper + 1e-12).all()
        assert (bounds.upper - bounds.lower <= width).all()
    if seconds > 1:
        assert (copy.layers[-1].upper - copy.layers[-1].lower < before[-1]).any()


@pytest.mark.parametrize(
    "answer",
    [
        Solved(SolveStatus.FAILED, -7.0, None),
        Solved(SolveStatus.INFEASIBLE, -7.0, None),
        Solved(SolveStatus.OPTIMAL, math.nan, None),
        Solved(SolveStatus.STOPPED, math.inf, None),
        SolverFailure("no"),
    ],
)
def test_what_is_no_bound_changes_nothing(
    answer: Solved | SolverFailure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(*_: Any, **__: Any) -> Solved:
        if isinstance(answer, SolverFailure):
            raise answer
        return answer

    known = CopyBounds(valley(), BOX).layers[2]
    monkeypatch.setattr(HighsModel, "solve", solve)
    assert bounds_of(valley()) == (known.lower[0], known.upper[0])


def test_a_neuron_whose_sign_is_known_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def solve(_: HighsModel, **arguments: Any) -> Solved:
        asked.append(arguments["integer"])
        return Solved(SolveStatus.OPTIMAL, -0.25, None)  # the first end: it is always positive

    monkeypatch.setattr(HighsModel, "solve", solve)
    low, _ = bounds_of(valley())
    assert low == 0.25
    assert asked == [False]


def test_bounds_that_contradict_what_is_known_are_not_taken() -> None:
    copy = CopyBounds(valley(), BOX)
    known = copy.layers[2]
    for wrong in ((5.0, 6.0), (math.nan, math.nan), (-9.0, -8.0)):
        copy.meet(2, Bounds(np.array([wrong[0]]), np.array([wrong[1]])))
        assert copy.layers[2].lower == known.lower
        assert copy.layers[2].upper == known.upper


def test_what_a_layer_gains_is_passed_on() -> None:
    copy = CopyBounds(valley(), BOX)
    copy.meet(2, Bounds(np.array([-0.5]), np.array([0.5])))
    assert copy.layers[3].upper == 0.5
    assert 0.5 <= copy.layers[4].upper[0] <= 0.5 + 1e-9
    assert copy.undecided(2).tolist() == [0]


def test_values_that_see_only_inputs_of_the_same_range() -> None:
    first = Affine(np.array([[1.0, 0.0], [1.0, 1.0]]), np.zeros(2), (2,), (2,))
    last = Affine(np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2), (2,), (2,))
    network = Network((first, Relu((2,)), last), (2,))
    other = Bounds(np.array([0.0, 0.25]), np.ones(2))
    for same in same_in_both(network, BOX, other):
        assert same.tolist() == [True, False]
