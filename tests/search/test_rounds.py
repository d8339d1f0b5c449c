"""The search in rounds: what the copies gain nothing on is bounded by the confidence alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar import Bab, Problem, Status, verify
from vhagar.attack.options import AttackOptions
from vhagar.network import Affine, Convolution, Network, Relu
from vhagar.result import BoundKind
from vhagar.runtime.deadline import CoreShare, Deadline
from vhagar.search.bounders import first_order
from vhagar.search.bounders.first_bounds import BoundMethod, RootBounder
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.rounds import SearchInRounds

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum
from ..relaxation.samples import network_of


def dense_network(inputs: int = 9, width: int = 12, classes: int = 2) -> Network:
    """Two dense layers with both signs everywhere: nothing is decided."""
    rng = np.random.default_rng(3)
    sizes = (inputs, width, width, classes)
    steps = [
        Affine(rng.normal(size=(out, size)), rng.normal(size=out), (size,), (out,))
        for size, out in itertools.pairwise(sizes)
    ]
    first, second, last = steps
    return Network((first, Relu((width,)), second, Relu((width,)), last), (inputs,))


def convolutional_network() -> Network:
    """On such, spectral bounds are far below those of hexagons."""
    rng = np.random.default_rng(3)
    one = Convolution(rng.normal(size=(4, 1, 3, 3)), rng.normal(size=4), (1, 8, 8))
    two = Affine(rng.normal(size=(6, one.out_size)) / 12, np.zeros(6), one.out_shape, (6,))
    last = Affine(rng.normal(size=(3, 6)), np.zeros(3), (6,), (3,))
    return Network((one, Relu(one.out_shape), two, Relu((6,)), last), (1, 8, 8))


@pytest.mark.parametrize("build", ["plain", "residual"])
@pytest.mark.parametrize("text", ["linf(0.4)", "linf(0.02)"])
def test_the_bound_is_never_above_that_of_the_confidence(build: str, text: str) -> None:
    """With the same rounds for both; strong perturbations leave nothing of the difference."""
    network = network_of(build, np.random.default_rng([7, len(build)]))
    problem = Problem(network, perturbation=text, source=0)
    options = {"engine": FirstOrder(attack=False), "workers": 0, "device": "cpu"}
    alone = verify(problem.without_perturbation(), **options)
    assert verify(problem, **options).upper <= alone.upper


@pytest.mark.parametrize("number", range(4))
def test_bounds_by_slopes_hold_before_all_rounds(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks whose linear programs take too long have them before all other bounds."""
    problem = Case(number).problem()
    monkeypatch.setattr("vhagar.search.branch_and_bound.programs_fit", lambda *_: False)
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    plain = {"workers": 0, "device": "cpu"}
    found = verify(problem, engine=Bab(attack=False, inputs=False), **plain)
    without = verify(problem, engine=Bab(attack=False, inputs=False, slopes=False), **plain)
    truth = max(optimum.low for optimum in exact_optimum(problem).values())
    assert truth <= Fraction(found.upper)
    assert found.upper <= without.upper


def test_bounds_by_slopes_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(dense_network(), perturbation="linf(0.02)", source=0, targets=[1])
    monkeypatch.setattr("vhagar.search.branch_and_bound.programs_fit", lambda *_: False)
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    found = verify(
        problem, engine=Bab(attack=False, inputs=False), workers=0, device="cpu", timeout=60
    )
    assert found.kind is BoundKind.QUADRATIC


def test_the_largest_confidence_has_quick_bounds_before_all_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it would as a ceiling: no question's bound is to be below that of its ceiling alone."""
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    monkeypatch.setattr(SearchInRounds, "bound_roots", _noted(methods := []))
    problem = Problem(dense_network(), perturbation=None, source=0)
    verify(problem, engine=FirstOrder(attack=False), workers=0, device="cpu")
    assert methods == [BoundMethod.DIFFERENCES, BoundMethod.QUICK]


def _noted(methods: list[BoundMethod]) -> Callable[..., None]:
    plain = SearchInRounds.bound_roots

    def bound_roots(search: SearchInRounds, method: BoundMethod, *given: Deadline) -> None:
        methods.append(method)
        plain(search, method, *given)

    return bound_roots


def test_the_attack_looks_for_confident_inputs_too() -> None:
    problem = Problem(dense_network(), perturbation=None, source=0)
    options = {"workers": 0, "device": "cpu", "relative_gap": 0.9, "timeout": 60}
    found = verify(problem, engine=FirstOrder(), **options)
    assert 0 < found.lower <= found.upper
    assert found.witness is not None


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_ceiling_has_as_much_work_on_a_busy_machine(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the largest confidence alone had a better bound than any question about it."""
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    monkeypatch.setattr(CoreShare, "__call__", lambda _: share)
    given: list[float] = []
    monkeypatch.setattr(
        SearchInRounds, "bound_ceiling", lambda _, method, deadline, share: given.append(share)
    )
    problem = Problem(dense_network(), perturbation="linf(0.1)", source=0, targets=[1])
    verify(problem, engine=FirstOrder(attack=False), workers=0, device="cpu", timeout=600)
    assert given == [min(0.1 / share, 0.3)]


@pytest.mark.parametrize(("text", "shares"), [("linf(0.001)", []), ("linf(0.9)", [0.5])])
def test_a_far_ceiling_has_no_quick_bounds_and_a_binding_one_may_finish(
    text: str, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    given: list[float] = []
    monkeypatch.setattr(
        SearchInRounds, "bound_ceiling", lambda _, method, deadline, share: given.append(share)
    )
    problem = Problem(dense_network(), perturbation=text, source=0, targets=[1])
    verify(problem, engine=FirstOrder(attack=False), workers=0, device="cpu", timeout=600)
    assert given == shares


@pytest.mark.parametrize("text", [None, "linf(0.02)", "linf(0.4)"])
def test_without_time_for_torch_numpy_goes_on(
    text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick bounds of roots and ceiling need no torch; first-order steps do."""
    problem = Problem(dense_network(), perturbation=text, source=0, targets=text and [1])
    options = {"engine": FirstOrder(attack=False), "workers": 0, "device": "cpu"}
    with monkeypatch.context() as patch:
        patch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
        before = verify(problem, **options)
    monkeypatch.setattr(SearchInRounds, "_can_import_torch", lambda *_: False)
    monkeypatch.setattr(SearchInRounds, "_device", lambda _: pytest.fail("torch was imported"))
    without = verify(problem, **options)
    assert without.upper < before.upper or (text is None and without.upper == before.upper)


def test_an_attack_without_time_for_torch_is_left_out_and_more_time_would_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch cannot be interrupted while it is imported: runs ended seconds after the deadline."""
    problem = Problem(dense_network(), perturbation="linf(0.02)", source=0, targets=[1])
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    options = {"engine": FirstOrder(), "workers": 0, "device": "cpu", "timeout": 60}
    attacks: list[AttackOptions] = []
    monkeypatch.setattr(
        "vhagar.search.rounds.attack_here", lambda _, options, *__: attacks.append(options)
    )
    assert verify(problem, **options).status is Status.EXHAUSTED
    assert len(attacks) == 1
    monkeypatch.setattr(SearchInRounds, "_can_import_torch", lambda *_: False)
    # First attacks go on until the time is up.
    assert verify(problem, **options | {"timeout": 3}).status is Status.TIMEOUT
    assert len(attacks) == 1


def test_spectral_bounds_do_not_wait_for_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine they were skipped with the steps, and the bound was five times as large."""
    network = convolutional_network()
    problem = Problem(network, perturbation="linf(0.05)", source=0, targets=1)
    options = {"engine": FirstOrder(attack=False), "workers": 0, "device": "cpu"}
    monkeypatch.setattr(SearchInRounds, "_bound_by_slopes", lambda *_: None)
    monkeypatch.setattr(first_order, "_CPU_PLANS", first_order._CPU_PLANS[:2])
    spectral = verify(problem, **options)
    assert spectral.kind is BoundKind.SPECTRAL
    monkeypatch.undo()
    monkeypatch.setattr(SearchInRounds, "_bound_by_slopes", lambda *_: None)
    monkeypatch.setattr(SearchInRounds, "_can_import_torch", lambda *_: False)
    monkeypatch.setattr(SearchInRounds, "_device", lambda _: pytest.fail("torch was imported"))
    assert verify(problem, **options).upper <= spectral.upper


def test_work_that_outlasts_the_deadline_is_followed_by_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its nodes are still with it: whoever took others then lost track of whose they were."""
    monkeypatch.setattr(SearchInRounds, "_can_import_torch", lambda *_: False)
    monkeypatch.setattr(SearchInRounds, "_bound_by_slopes", lambda *_: None)
    bound, calls = RootBounder.bound, [0]

    def slow(bounder: RootBounder, *given: Any) -> Any:
        calls[0] += bounder._method is BoundMethod.QUICK
        if calls[0] == 2:  # the ceiling's second turn
            time.sleep(1.7)  # longer than what is left, and the grace after it
        return bound(bounder, *given)

    monkeypatch.setattr(RootBounder, "bound", slow)
    problem = Problem(dense_network(), perturbation="linf(0.9)", source=0, targets=[1])
    verify(problem, engine=FirstOrder(attack=False), workers=0, timeout=0.8)
    assert calls[0] <= 2
