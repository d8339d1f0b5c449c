"""Bounds that outlive a problem change nothing but the time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Result, UserPerturbation
from vhagar.network import Affine, Relu
from vhagar.options import Options
from vhagar.relaxation import bounds_cache, layerwise
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.runtime.deadline import Deadline
from vhagar.search import region_cache as regions
from vhagar.search.bounders import first_bounds
from vhagar.search.branch_and_bound import Bab
from vhagar.verify import run_engine

ALONE = Options(workers=0, relative_gap=0.5)


def _network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    layers: list[Any] = []
    for into, out in ((9, 6), (6, 5), (5, 4)):
        weight = rng.normal(size=(out, into)).astype(np.float32).astype(np.float64)
        layers += [Affine(weight, np.zeros(out), (into,), (out,)), Relu((out,))]
    first = replace(layers[0], in_shape=(1, 3, 3))
    return Network((first, *layers[1:-1]), (1, 3, 3))


@pytest.fixture(scope="module")
def network() -> Network:
    return _network(2)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pieces whose bounds were computed."""
    pieces: list[Any] = []

    def counting(network: Network, piece: Any, *rest: Any, **options: Any) -> layerwise.TwinBounds:
        pieces.append(piece)
        return layerwise.quick_bounds(network, piece, *rest, **options)

    for users in (regions, first_bounds):
        monkeypatch.setattr(users, "quick_bounds", counting)
    return pieces


def _story(result: Result) -> Any:
    """All that does not depend on the clock, to the last bit."""
    moments = [(moment.lower, moment.upper) for moment in result.history]
    witness = None if result.witness is None else result.witness.x.tobytes()
    return result.status, result.nodes, moments, result.lower, result.upper, witness


@pytest.mark.parametrize(
    "perturbation",
    [
        "occlusion(1,1,2)",
        "linf(0.1)",
        pytest.param("brightness([0,0.05])", marks=pytest.mark.slow),
        "rotation(20)",
    ],
)
def test_results_are_the_same_with_and_without(network: Network, perturbation: str) -> None:
    memory = BoundsCache()
    problems = [
        Problem(network, perturbation=perturbation, source=source, targets=target)
        for source, target in ((0, 1), (0, 2), (3, 1))
    ]
    for problem in problems:
        alone = run_engine(problem, Bab(), ALONE, timeout=120)
        remembering = run_engine(problem, Bab(), ALONE, timeout=120, bounds=memory)
        assert _story(alone) == _story(remembering)


def test_each_piece_is_bounded_once_for_all_pairs(network: Network, computed: list[Any]) -> None:
    memory = BoundsCache()
    for source, target in ((0, 1), (1, 2), (2, 0)):
        problem = Problem(network, perturbation="occlusion(1,1,2)", source=source, targets=target)
        run_engine(problem, Bab(), ALONE, timeout=120, bounds=memory)
    # The perturbation's piece, and at most the identity's for the search of the ceiling.
    assert 1 <= len(computed) <= 2


@pytest.mark.parametrize(
    ("perturbation", "clip"),
    [("contrast([0.5,0.9])", True), (UserPerturbation(matrix=1.2, offset=-0.1), True)],
    ids=["contrast", "a clipped map"],
)
def test_a_reduced_problem_is_bounded_once_too(
    network: Network, computed: list[Any], perturbation: Any, clip: bool
) -> None:
    """A reduction writes the network anew for every problem."""
    memory = BoundsCache()
    for source, target in ((0, 1), (1, 2), (2, 0)):
        problem = Problem(
            network, perturbation=perturbation, source=source, targets=target, clip=clip
        )
        run_engine(problem, Bab(), ALONE, timeout=120, bounds=memory)
    roots = [(type(piece).__name__, piece.label, piece.span) for piece in computed]
    assert len(set(roots)) == len(roots)


def test_another_perturbation_is_another_matter(network: Network, computed: list[Any]) -> None:
    memory = BoundsCache()
    for text in ("linf(0.1)", "linf(0.2)"):
        problem = Problem(network, perturbation=text, source=0, targets=1)
        run_engine(problem, Bab(), ALONE, timeout=120, bounds=memory)
    limits = {piece.limit for piece in computed if hasattr(piece, "limit")}
    assert limits == {0.1, 0.2}


@pytest.mark.slow
def test_another_network_is_another_matter(network: Network) -> None:
    memory, other = BoundsCache(), _network(3)
    for one in (network, other, network):
        problem = Problem(one, perturbation="linf(0.1)", source=0, targets=1)
        alone = run_engine(problem, Bab(), ALONE, timeout=120)
        remembering = run_engine(problem, Bab(), ALONE, timeout=120, bounds=memory)
        assert _story(alone) == _story(remembering)


@pytest.mark.slow
def test_clipping_is_another_matter(network: Network) -> None:
    memory = BoundsCache()
    for clip in (True, False, True):
        problem = Problem(
            network, perturbation="brightness([0,0.05])", source=0, targets=1, clip=clip
        )
        alone = run_engine(problem, Bab(), ALONE, timeout=120)
        remembering = run_engine(problem, Bab(), ALONE, timeout=120, bounds=memory)
        assert _story(alone) == _story(remembering)


def test_only_the_most_recent_are_kept(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds_cache, "_MOST_KEPT", 2)
    memory = BoundsCache()
    problem = Problem(network, perturbation="linf(0.1)", source=0, targets=1)
    made = []

    def compute() -> Any:
        made.append(SimpleNamespace(cut_short=False))
        return made[-1]

    for part in ("a", "b", "a", "c", "a", "b"):
        memory.of(problem, part, compute)
    assert len(made) == 4  # b went when c came, as a was in use


def test_bounds_that_were_cut_short_are_not_kept(network: Network) -> None:
    """They are valid, but the next problem may have the time for better ones."""
    problem = Problem(network, perturbation="linf(0.1)", source=0)
    cache, (piece,) = BoundsCache(), problem.pieces
    short = cache.of(
        problem, 0, lambda: layerwise.quick_bounds(network, piece, should_stop=lambda: True)
    )
    assert short.cut_short
    whole = cache.of(problem, 0, lambda: layerwise.quick_bounds(network, piece))
    assert not whole.cut_short
    wide = [layer.upper - layer.lower for layer in short.hexagons]
    own = [layer.upper - layer.lower for layer in whole.hexagons]
    assert all((one >= other).all() for one, other in zip(wide, own, strict=True))
    assert (wide[-1] > own[-1]).any()
    assert cache.of(problem, 0, lambda: short) is whole


def test_a_layer_s_share_of_the_time_cuts_short(network: Network) -> None:
    problem = Problem(network, perturbation="linf(0.1)", source=0)
    (piece,) = problem.pieces
    assert layerwise.quick_bounds(network, piece, deadline=Deadline.after(0)).cut_short
    assert not layerwise.quick_bounds(network, piece, deadline=Deadline.after(1e4)).cut_short
    asked = iter([True])
    found = layerwise.quick_bounds(network, piece, should_stop=lambda: next(asked, False))
    whole = layerwise.quick_bounds(network, piece)
    assert found.cut_short  # in the first layer; the others had their time
    assert (found.hexagons[-1].upper < np.inf).all()
    assert len(found.hexagons) == len(whole.hexagons)
