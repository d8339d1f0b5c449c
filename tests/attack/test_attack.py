"""The attack as a whole: known answers, no false success, the same every time."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from vhagar import Network, Problem
from vhagar.attack import images
from vhagar.attack import run as running
from vhagar.attack.ascent import Solutions, ascend
from vhagar.attack.batch import Batch, batch_for
from vhagar.attack.hints import NO_HINT
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.multi_start import multi_start
from vhagar.attack.options import AttackOptions
from vhagar.attack.region_search import RegionSearch
from vhagar.attack.run import attack
from vhagar.errors import InvalidInput, VhagarError
from vhagar.network import Affine, Relu, confidence
from vhagar.result import Witness, WitnessCheck
from vhagar.runtime import devices

_SMALL = AttackOptions(inputs=32, steps=30, patience=10, rounds=1, device="cpu")
_UNTIL_TOLD = replace(_SMALL, rounds=None)
_PLAIN = AttackOptions.paper(inputs=64, steps=100)


def _lower(problem: Problem, options: AttackOptions = _SMALL) -> float:
    return attack(problem, options=options).lower


def test_the_corner_is_reached_exactly(corner: Problem) -> None:
    assert 4.0 - 1e-4 <= _lower(corner) <= 4.0


@pytest.mark.parametrize(
    ("perturbation", "clip", "optimum"),
    [
        ("linf(0.125)", True, 0.25),  # both pixels come closer by 1/8
        ("contrast([0.5,1])", True, 0.25),  # half of 1/2 is left
        ("contrast([0.5,2])", False, 0.25),
        ("brightness([0,0.25])", True, 0.25),  # the darker pixel comes hidden, clipped or not
        ("occlusion(1,1,1)", True, 0.75),  # from (1, 0) nothing is left
        ("rotation(180)", True, 0.75),
        ("translation(0,1)", True, 0.75),
        ("patch([0,0.5],1,1,1)", True, 0.5),
    ],
)
def test_known_optima(hidden: Network, perturbation: str, clip: bool, optimum: float) -> None:
    problem = Problem(hidden, perturbation=perturbation, source=0, targets=1, clip=clip)
    assert optimum - 1e-4 <= _lower(problem) <= optimum


def test_the_best_angle_of_a_range_is_found(hidden: Network) -> None:
    """Nothing but a black image is left from some angle on."""
    found = attack(
        Problem(hidden, perturbation="rotation([0,120])", source=0, targets=1), options=_SMALL
    )
    assert 0.75 - 1e-4 <= found.lower <= 0.75


def test_without_a_perturbation_it_is_the_largest_confidence(corner: Problem) -> None:
    problem = Problem(corner.network, perturbation=None, source=0)
    found = attack(problem, options=_SMALL)
    assert set(found.attacks) == {None}
    assert 6.0 - 1e-4 <= found.lower <= 6.0


def test_each_target_has_its_witness() -> None:
    """The scores are the pixels, without a hidden layer: any two come closer by 1/2."""
    network = Network((Affine(np.eye(3), np.zeros(3), (1, 1, 3), (3,)),), (1, 1, 3))
    problem = Problem(network, perturbation="linf(0.25)", source=0)
    found = attack(problem, options=_SMALL)
    assert set(found.attacks) == {1, 2}
    check = WitnessCheck(problem)
    for target, best in found.attacks.items():
        verdict = check(target, best.x, best.piece_index, best.parameters)
        assert isinstance(verdict, Witness)
        assert verdict.confidence == best.confidence
        assert 0.5 - 1e-4 <= best.confidence <= 0.5


@pytest.mark.parametrize(
    "options",
    [
        _PLAIN,
        replace(_SMALL, lagrangian=False),
        replace(_SMALL, smooth=False),
        replace(_SMALL, starts=False),
        replace(_SMALL, rounds=2, aim=False),
        replace(_SMALL, regions=False),
        replace(_SMALL, regions=False, polish=False),
    ],
    ids=["paper", "balanced", "not smooth", "no starts", "no aim", "no regions", "no polish"],
)
def test_every_part_can_be_switched_off(corner: Problem, options: AttackOptions) -> None:
    assert 3.0 <= _lower(corner, options) <= 4.0


def test_the_polish_is_what_makes_it_exact(corner: Problem) -> None:
    rough = replace(_SMALL, steps=3, regions=False)
    assert _lower(corner, rough) >= 4.0 - 1e-4 > _lower(corner, replace(rough, polish=False))


def test_more_pieces_than_inputs(corner: Problem) -> None:
    """Only the pixel (1,1) matters: the other 15 squares find less."""
    problem = Problem(corner.network, perturbation="occlusion([1,4],[1,4],1)", source=0, targets=1)
    found = attack(problem, options=replace(_SMALL, inputs=3, rounds=3))
    assert 4.0 - 1e-4 <= found.lower <= 4.0
    assert found.attacks[1].piece_index == 0


def test_pieces_without_a_formula(corner: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_formula", lambda piece: None)
    assert 4.0 - 1e-4 <= _lower(corner) <= 4.0


def _outcome(found: Any) -> list[Any]:
    attacks = [
        (k, a.piece_index, a.x.tolist(), a.parameters.tolist()) for k, a in found.attacks.items()
    ]
    hints = [[part.tolist() for part in (*h.first, *h.second)] for h in found.hints.values()]
    return [found.lower, attacks, hints]


@pytest.mark.parametrize(
    "perturbation",
    [
        "linf(0.2)",
        "contrast([0.5,2])",
        pytest.param("rotation([0,40])", marks=pytest.mark.slow),
    ],
)
def test_the_same_seed_gives_the_same_result(random_network: Network, perturbation: str) -> None:
    problem = Problem(random_network, perturbation=perturbation, source=1, targets=0)
    options = replace(_SMALL, inputs=8, steps=10, patience=4, rounds=2)
    once, again = (attack(problem, options=options) for _ in range(2))
    assert _outcome(once) == _outcome(again)
    other = attack(problem, options=replace(options, seed=1))
    assert _outcome(other) != _outcome(once)


def test_a_false_success_is_refused(corner: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ascent that claims the most of an input that stays in its class."""

    def lying(batch: Any, *_: Any) -> Solutions:
        rows = len(batch)
        return Solutions(np.full(rows, 6.0), np.ones((rows, 16)), (np.zeros((rows, 0)),))

    monkeypatch.setattr(running, "ascend", lying)
    heard: list[AttackFound] = []
    options = replace(_SMALL, regions=False, polish=False)
    found = attack(corner, options=options, on_attack=heard.append)
    assert found.attacks == {}
    assert found.lower == 0.0
    assert heard == []


def test_improvements_are_reported_as_they_come(random_network: Network) -> None:
    problem = Problem(random_network, perturbation="linf(0.3)", source=0, targets=1)
    heard: list[AttackFound] = []
    found = attack(problem, options=_SMALL, on_attack=heard.append)
    confidences = [one.confidence for one in heard]
    assert len(heard) > 1
    assert all(earlier < later for earlier, later in itertools.pairwise(confidences))
    assert heard[-1] is found.attacks[1]


def test_hints_are_what_the_solutions_share(corner: Problem) -> None:
    found = attack(corner, options=_PLAIN)
    (hints,) = found.hints.values()
    # The pixel is black in the second copy, and 0 counts as active there.
    assert hints.first[0].tolist() == hints.second[0].tolist() == [1, 1, 0]
    assert hints.first[1].tolist() == [1, 1]
    nothing = Problem(corner.network, perturbation="occlusion(4,4,1)", source=1, targets=0)
    none = attack(nothing, options=_PLAIN)
    assert none.attacks == {}
    assert all((layer == NO_HINT).all() for layer in none.hints[0].first)


def test_no_witness_where_there_is_none() -> None:
    """Class 0 leads by the first pixel, which the perturbation leaves alone."""
    network = Network(
        (
            Affine(np.eye(2), np.zeros(2), (1, 1, 2), (2,)),
            Relu((2,)),
            Affine(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0.5, 0.0]), (2,), (2,)),
        ),
        (1, 1, 2),
    )
    found = attack(Problem(network, perturbation="linf(0.5)", source=0, targets=1), options=_SMALL)
    assert found.attacks == {}


def test_it_stops_when_told(corner: Problem) -> None:
    forever = replace(_SMALL, rounds=None)
    asked = itertools.count()
    found = attack(corner, options=forever, should_stop=lambda: next(asked) > 100, timeout=1e9)
    assert 0 < found.lower <= 4.0
    ended = attack(corner, options=forever, timeout=0.0)
    assert ended.rounds == 1


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("regions", [False, True])
def test_an_import_that_would_outlast_the_attack_is_not_begun(
    regions: bool, imported: bool, corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing ends it in the middle; what needs no torch goes on until it is told to stop."""
    built: list[Batch] = []
    searched: list[int | None] = []

    def noted(*given: Any) -> Batch:
        built.append(batch_for(*given))
        return built[-1]

    def watched(target: int | None, *given: Any) -> Any:
        searched.append(target)
        return multi_start(target, *given)

    monkeypatch.setattr(running, "_QUICK", 0)
    monkeypatch.setattr(running, "batch_for", noted)
    monkeypatch.setattr(running, "multi_start", watched)
    monkeypatch.setattr(devices, "torch_is_imported", lambda: imported)
    monkeypatch.setattr(devices, "_IMPORT_SECONDS", 2e9)
    asked = itertools.count()
    options = replace(_UNTIL_TOLD, polish=regions, regions=regions)
    found = attack(corner, options=options, should_stop=lambda: next(asked) > 2000, timeout=1e9)
    assert next(asked) > 2001
    assert found.lower > 0
    assert not found.completed
    assert bool(built) == imported
    assert bool(searched) == regions
    # Without a timeout there is time for everything.
    built.clear()
    unlimited = attack(corner, options=_SMALL)
    assert unlimited.lower > 0
    assert unlimited.completed
    assert built
    # A number of rounds is one of ascents.
    assert attack(corner, options=_SMALL, timeout=1e9).completed == imported


@pytest.mark.subprocess
def test_without_time_for_it_torch_is_not_imported() -> None:
    program = """
import sys
import numpy as np
from vhagar import Network, Problem
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import attack
from vhagar.network import Affine
network = Network((Affine(np.eye(2), np.zeros(2), (2,), (2,)),), (2,))
problem = Problem(network, perturbation="linf(0.1)", source=0, targets=1)
for options in (AttackOptions(), AttackOptions.paper()):
    assert not attack(problem, timeout=0.2, options=options).completed
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_an_ascent_ends_while_it_looks_for_starts(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> Solutions:
        raise AssertionError("it was to end before")

    monkeypatch.setattr(running, "ascend", none)
    for steps in (1, 5, 30, 60):
        asked = itertools.count()
        options = replace(_SMALL, inputs=300)
        found = attack(corner, options=options, should_stop=lambda: next(asked) >= steps)  # noqa: B023
        assert next(asked) <= steps + 3
        assert found.rounds == 1


def test_suggestions_are_taken_up_once_checked(corner: Problem) -> None:
    good = np.full(16, 0.4)
    good[0] = 1.0
    offered = [[(1, 0, np.ones(16), np.zeros(0)), (1, 0, good, np.zeros(0))]]
    heard: list[AttackFound] = []
    attack(
        corner,
        options=replace(_SMALL, inputs=1, steps=1, starts=False),
        on_attack=heard.append,
        suggestions=lambda: offered.pop() if offered else (),
    )
    assert not offered
    expected = confidence(corner.network.forward(good[None]), 0)[0]
    assert any(abs(one.confidence - expected) < 1e-5 for one in heard)
    assert all(one.confidence <= 4.0 for one in heard)


def test_an_endless_attack_is_refused(corner: Problem) -> None:
    with pytest.raises(InvalidInput, match="never end"):
        attack(corner)
    with pytest.raises(InvalidInput, match="number of seconds"):
        attack(corner, timeout=float("nan"))


def _fruitless(batch: Any, state: Any, *_: Any) -> Solutions:
    """An ascent that finds nothing."""
    rows = len(batch)
    parameters = tuple(part.numpy() for part in state.parameters)
    return Solutions(np.full(rows, -np.inf), state.x.double().numpy(), parameters)


def test_relaxations_lead_to_attacks_without_any_ascent(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ascend", _fruitless)
    monkeypatch.setattr(running, "from_start_points", lambda *_: iter(()))
    for text, optimum in (("linf(0.125)", 0.25), ("occlusion([1,1],[1,2],1)", 0.75)):
        problem = Problem(hidden, perturbation=text, source=0, targets=1)
        assert _lower(problem) == 0.0
        assert optimum - 1e-4 <= _lower(problem, replace(_SMALL, relax_first=True)) <= optimum


def test_regions_are_searched_before_the_first_ascent(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where short attacks and linear programs suffice, torch is not needed."""

    def never(*_: Any) -> None:
        raise AssertionError("there was time for an ascent")

    monkeypatch.setattr(running, "ascend", never)
    best = [0.0]
    found = attack(
        corner,
        timeout=100,
        on_attack=lambda attack: best.append(attack.confidence),
        should_stop=lambda: max(best) >= 4.0 - 1e-4,
    )
    assert 4.0 - 1e-4 <= found.lower <= 4.0
    # The best attack's signs are hints where there was no ascent.
    first, *_ = found.hints[1].first
    assert first.tolist() == [1, 1, 0]


def test_targets_without_a_first_attack_do_not_wait_for_the_regions_of_others(
    random_network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ascent, which is for all of them, comes before any search around an attack."""
    order: list[str] = []
    around = RegionSearch.search_around

    def searched(*given: Any, **more: Any) -> AttackFound | None:
        order.append("regions")
        return around(*given, **more)

    def ascended(*given: Any) -> Solutions:
        order.append("ascent")
        return ascend(*given)

    monkeypatch.setattr(RegionSearch, "search_around", searched)
    monkeypatch.setattr(running, "ascend", ascended)
    for targets in ([0], [0, 2]):
        order.clear()
        problem = Problem(random_network, perturbation="linf(0.3)", source=1, targets=targets)
        attack(problem, timeout=100, options=_UNTIL_TOLD, should_stop=lambda: len(set(order)) == 2)
        assert order[0] == ("ascent" if len(targets) > 1 else "regions")


def test_later_ascents_start_near_the_best_attack(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first finds nothing and the second starts half of its rows where something is known."""
    good = np.full(16, 0.4)
    good[0] = 1.0
    distances: list[np.ndarray] = []

    def watching(batch: Any, state: Any, *_: Any) -> Solutions:
        distances.append(abs(state.x.double().numpy() - good).mean(axis=1))
        return _fruitless(batch, state)

    monkeypatch.setattr(running, "ascend", watching)
    offered = [[(1, 0, good, np.zeros(0))], []]
    # Without starts that were moved by other means, which may come near by themselves.
    options = replace(_SMALL, rounds=2, polish=False, regions=False, starts=False)
    attack(corner, options=options, suggestions=lambda: offered.pop() if offered else ())
    first, second = distances
    assert first.min() > 0.1
    assert 1e-4 < second[:16].min() < 0.02
    assert second[16:].min() > 0.1


def test_starts_are_dimmed_until_there_is_an_attack(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = np.full(16, 0.4)
    good[0] = 1.0
    dimmed: list[int] = []

    def watching(starts: np.ndarray, *_: Any) -> np.ndarray:
        dimmed.append(len(starts))
        return starts

    monkeypatch.setattr(running, "ascend", lambda batch, state, *_: _fruitless(batch, state))
    monkeypatch.setattr(running, "dimmed", watching)
    options = replace(_SMALL, rounds=3, polish=False, regions=False)
    offered = [[(1, 0, good, np.zeros(0))], [], []]
    attack(corner, options=options, suggestions=lambda: offered.pop() if offered else ())
    assert len(dimmed) == 2  # not in the third round


def test_a_batch_that_does_not_fit_is_halved(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def small_memory(batch: Any, *arguments: Any) -> Solutions:
        tried.append(len(batch))
        if len(batch) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return ascend(batch, *arguments)

    monkeypatch.setattr(running, "ascend", small_memory)
    found = attack(corner, options=replace(_SMALL, rounds=2))
    assert tried == [32, 16, 8, 8]
    assert 4.0 - 1e-4 <= found.lower <= 4.0


def test_no_memory_at_all_is_an_error(corner: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any) -> Solutions:
        raise MemoryError

    monkeypatch.setattr(running, "ascend", no_memory)
    with pytest.raises(VhagarError, match="memory of cpu; use --device cpu, or fewer targets"):
        attack(corner, options=_SMALL)
