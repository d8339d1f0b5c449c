"""A range of angles against its angles one by one, in both engines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Status, verify
from vhagar.network import Affine, Relu
from vhagar.result import Witness, WitnessCheck
from vhagar.search import ENGINES, engine_named

GAP = 0.02


def random_network(seed: int, shape: tuple[int, ...], hidden: int = 5) -> Network:
    rng = np.random.default_rng(seed)
    sizes = [int(np.prod(shape)), hidden, hidden, 3]
    layers = []
    for before, after in itertools.pairwise(sizes):
        weight, bias = rng.normal(size=(after, before)), 0.3 * rng.normal(size=after)
        entering = shape if not layers else (before,)
        layers += [Affine(weight, bias, entering, (after,)), Relu((after,))]
    return Network(tuple(layers[:-1]), shape)


def options(engine: str, gap: float) -> dict[str, Any]:
    return {"engine": engine_named(engine), "relative_gap": gap, "workers": 0}


# Networks whose optimum is positive, at an end of the range or inside.
CASES = [(0, (1, 4, 4)), (1, (1, 5, 5)), (8, (1, 5, 5)), (10, (1, 4, 4))]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("seed", "shape"), CASES)
def test_a_range_is_as_bad_as_its_worst_angle(
    seed: int, shape: tuple[int, ...], engine: str
) -> None:
    network = random_network(seed, shape)
    problem = Problem(network, perturbation="rotation([20,25])", source=0, targets=1)
    result = verify(problem, timeout=20.0, **options(engine, GAP))
    lowers = []
    for angle in np.linspace(20, 25, 6):
        alone = Problem(network, perturbation=f"rotation({angle})", source=0, targets=1)
        lowers.append(verify(alone, timeout=20.0, **options("bab", 1e-3)).lower)
        # Every witness at one angle is one of the range: no tolerance.
        assert result.upper >= lowers[-1]
    assert result.status is Status.CLOSED
    assert result.lower >= (1 - GAP) * max(lowers) > 0
    require_attained(problem, result.witness)


def require_attained(problem: Problem, witness: Witness | None) -> None:
    assert witness is not None
    assert witness.parameters is not None
    angle = witness.parameters["angle"]
    assert 20 <= angle <= 25
    alone = Problem(problem.network, perturbation=f"rotation({angle!r})", source=0, targets=1)
    again = WitnessCheck(alone)(1, witness.x.reshape(-1), 0, np.zeros(0))
    assert isinstance(again, Witness)
    assert again.confidence == witness.confidence


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_interval_around_no_turn_at_all_is_sound(engine: str) -> None:
    # Next to 0 degrees the border turns black at once.
    network = random_network(3, (1, 4, 4))
    problem = Problem(network, perturbation="rotation([-1,1])", source=0, targets=1)
    result = verify(problem, timeout=2.0, **options(engine, GAP))
    for angle in (-1, -1e-3, -1e-7, -1e-8, 0, 1e-9, 1e-3, 1):
        alone = Problem(network, perturbation=f"rotation({angle:.12f})", source=0, targets=1)
        assert result.upper >= verify(alone, timeout=20.0, **options("bab", 1e-3)).lower


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_whole_turns_work(engine: str) -> None:
    network = random_network(1, (1, 4, 4))
    result = verify(
        Problem(network, perturbation="rotation([0,360])", source=0, targets=1),
        timeout=3.0,
        **options(engine, GAP),
    )
    assert 0 <= result.lower <= result.upper
    assert np.isfinite(result.upper)
