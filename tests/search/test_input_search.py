"""The search by boxes of inputs: its bounds hold, it closes, and a certificate proves it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from vhagar import Network, Problem, Result, Status, verify
from vhagar.network import Affine, Relu, onnx_bytes, read_onnx
from vhagar.relaxation.input_boxes import ForwardBounds
from vhagar.result import BoundKind, Run
from vhagar.runtime.deadline import Deadline
from vhagar.search import input_search
from vhagar.search.branch_and_bound import Bab
from vhagar.search.input_search import LEAF, InputSearch, splits_inputs
from vhagar.search.search import Search
from vhagar_check import check

from ..marks import mostly_slow
from ..oracle.cases import Case
from ..oracle.exact import exact_optimum
from ..oracle.test_engines import require_sound
from .engines import CertifiedEngine

TEXTS = ["linf(0.1)", "patch([0,0.3],1,1,1)", "translation(0,0)+linf(0.1)", None]
# Others are not split. The kind says so before a problem is made.
NUMBERS = [n for n in range(384) if Case(n).kind in ("linf", "patch")][::5]


@dataclass(frozen=True)
class OnlyBoxes(CertifiedEngine):
    """The first `steps` steps of the search by inputs, and nothing else."""

    steps: int

    name = "boxes"

    def search(self, run: Run, deadline: Deadline) -> bool:
        search = Search(run, attack=False, inputs=True)
        inputs = search._frontiers.boxes
        assert inputs is not None
        for _ in range(self.steps):
            inputs.step()
            search._frontiers.announce()
        return False


def network(seed: int, widths: tuple[int, ...] = (3, 8, 6, 3)) -> Network:
    rng = np.random.default_rng(seed)
    layers: list[Affine | Relu] = []
    for into, out in pairwise(widths):
        weight = (rng.normal(size=(out, into)) * np.sqrt(2 / into)).astype(np.float32)
        bias = (0.2 * rng.normal(size=out)).astype(np.float32)
        layers += [
            Affine(weight.astype(float), bias.astype(float), (into,), (out,)),
            Relu((out,)),
        ]
    return Network(tuple(layers[:-1]), (widths[0],))


@pytest.mark.parametrize("steps", [1, 12, 40])
@pytest.mark.parametrize("number", mostly_slow(NUMBERS, 6))
def test_the_bound_holds(number: int, steps: int) -> None:
    problem = Case(number).problem()
    assert splits_inputs(problem)
    result = verify(problem, engine=OnlyBoxes(steps), workers=0)
    require_sound(problem, exact_optimum(problem), result)


@pytest.mark.parametrize("number", mostly_slow(range(0, 96, 3), 6))
def test_the_largest_confidence_is_bounded_too(number: int) -> None:
    problem = Case(number, branched=number % 2 == 1).problem().without_perturbation()
    result = verify(problem, engine=OnlyBoxes(30), workers=0)
    truth = exact_optimum(problem)[None]
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)


def changing(seed: int) -> Problem:
    """A problem of three inputs that has an answer above 0."""
    made = network(seed)
    scores = made.forward(np.random.default_rng(seed).uniform(size=(500, 3)))
    winners = np.unique(scores.argmax(axis=1))
    if len(winners) < 2:
        return changing(seed + 100)
    return Problem(made, perturbation="linf(0.1)", source=int(winners[0]), targets=int(winners[1]))


def test_it_closes_by_itself() -> None:
    problem = changing(1)
    alone = verify(problem, engine=OnlyBoxes(400), workers=0)
    whole = verify(problem, engine=Bab(attack=False, inputs=False), workers=0)
    assert whole.status is Status.CLOSED
    assert whole.lower <= alone.upper <= 1.05 * whole.upper
    assert alone.lower >= 0.8 * whole.lower > 0


def certified(folder: Path, problem: Problem, steps: int) -> tuple[Result, Path, Path]:
    model, proof = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(onnx_bytes(problem.network))
    text = None if problem.perturbation is None else str(problem.perturbation)
    again = Problem(
        read_onnx(model),
        perturbation=text,
        source=problem.source,
        targets=problem.targets or None,
        input_range=(problem.domain.lower, problem.domain.upper),
    )
    result = verify(again, engine=OnlyBoxes(steps), workers=0, certificate=proof)
    assert result.certificate == proof
    return result, proof, model


@pytest.mark.parametrize("steps", [1, 9, 80])
@pytest.mark.parametrize("text", TEXTS)
def test_a_certificate_proves_it(text: str | None, steps: int, tmp_path: Path) -> None:
    made = network(4)
    if text is not None and text != "linf(0.1)":
        first = made.layers[0]
        assert isinstance(first, Affine)
        image = Affine(first.weight, first.bias, (1, 1, 3), first.out_shape)
        made = Network((image, *made.layers[1:]), (1, 1, 3))
    problem = Problem(made, perturbation=text, source=0, input_range=(-0.5, 1.0))
    result, proof, model = certified(tmp_path, problem, steps)
    verdict = check(proof, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


def test_asking_for_a_certificate_changes_nothing(tmp_path: Path) -> None:
    problem = changing(2)
    result, _, _ = certified(tmp_path, problem, 60)
    plain = verify(result.problem, engine=OnlyBoxes(60), workers=0)
    assert result.lower == plain.lower
    assert plain.upper <= result.upper <= plain.upper + 1e-7  # which leaves the checker room


def test_a_tree_is_coded_box_before_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = changing(3)
    monkeypatch.setattr(input_search, "_AT_ONCE", 1)
    search = InputSearch(problem, ForwardBounds(problem.network), problem.targets[0], 0)
    assert search.code() == bytes([LEAF])
    before = search.upper
    search.step(0.0)
    code = search.code()
    assert code[0] < 3
    assert code[1:] == bytes([LEAF, LEAF])
    for _ in range(20):
        search.step(0.0)
        assert search.upper <= before
        before = search.upper
    assert search.boxes == len(search.code()) == 43


def test_boxes_at_or_below_the_lower_bound_are_closed() -> None:
    problem = changing(5)
    search = InputSearch(problem, ForwardBounds(problem.network), problem.targets[0], 0)
    first = search.upper
    search.step(2 * first)
    assert search.is_done
    assert 0 < search.upper <= first


def test_a_box_without_a_middle_keeps_its_bound() -> None:
    """Where float64 has nothing between the ends, the box is closed as it is."""
    low = 1.0
    high = float(np.nextafter(low, 2.0))
    problem = Problem(
        network(6), perturbation="linf(1e-17)", source=0, targets=1, input_range=(low, high)
    )
    search = InputSearch(problem, ForwardBounds(problem.network), 1, 0)
    first = search.upper
    for _ in range(4):
        search.step(-1.0)
    assert search.upper == first
    assert search.code() == bytes([LEAF])


def test_an_interrupted_step_loses_no_box(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = changing(5)
    search = InputSearch(problem, ForwardBounds(problem.network), problem.targets[0], 0)
    for _ in range(5):
        search.step(0.0)
    before = search.upper

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_values", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.step(0.0)
    assert search.upper == before


@pytest.mark.parametrize(
    ("text", "entries", "expected"),
    [
        ("linf(0.1)", 3, True),
        ("linf(0.1)", 11, False),
        ("brightness([0,0.1])", 3, False),
        (None, 3, True),
        (None, 11, False),
    ],
)
def test_which_problems_are_split(text: str | None, entries: int, expected: bool) -> None:
    problem = Problem(network(7, (entries, 5, 3)), perturbation=text, source=0)
    assert splits_inputs(problem) is expected


@pytest.mark.subprocess
def test_beside_workers_the_interval_holds_the_same_optimum() -> None:
    problem = changing(8)
    result = verify(problem, workers=2, timeout=60)
    alone = verify(problem, workers=0, engine=Bab(attack=False, inputs=False))
    assert Fraction(alone.lower) <= Fraction(result.upper)
    assert result.lower <= alone.upper
    assert result.status is Status.CLOSED


@dataclass(frozen=True)
class _WhoIsAhead(CertifiedEngine):
    """Notes whether boxes are ahead: at first, after some steps, after a better bound, and where
    there are none."""

    noted: list[bool]

    name = "who"

    def search(self, run: Run, deadline: Deadline) -> bool:
        frontiers = Search(run, attack=False, inputs=True)._frontiers
        self.noted.append(frontiers.bounded_by_boxes)
        for _ in range(12):
            frontiers.step_inputs()
        self.noted.append(frontiers.bounded_by_boxes)
        (target,) = run.problem.targets
        run.interval.offer_upper(target, 0.999 * run.interval.upper, BoundKind.TWIN)
        self.noted.append(frontiers.bounded_by_boxes)
        self.noted.append(Search(run, attack=False)._frontiers.bounded_by_boxes)
        return False


def test_boxes_are_ahead_until_something_else_is_known_better() -> None:
    """As long as they are, they have a core of their own: one worker has nothing to do."""
    noted: list[bool] = []
    verify(changing(1), engine=_WhoIsAhead(noted), workers=0)
    assert noted == [False, True, False, False]


@dataclass(frozen=True)
class _Shares(CertifiedEngine):
    """Notes what boxes have had beside 1 second of other work, and again where a better bound is
    known than theirs."""

    noted: list[float]

    name = "shares"

    def search(self, run: Run, deadline: Deadline) -> bool:
        frontiers = Search(run, attack=False, inputs=True)._frontiers
        boxes = frontiers.boxes
        assert boxes is not None
        frontiers.step_inputs(lambda: True)
        self.noted.append(boxes.spent)
        frontiers._ceiling_time.on_others = 1.0
        frontiers.step_inputs()
        self.noted.append(boxes.spent)
        (target,) = run.problem.targets
        run.interval.offer_upper(target, 0.999 * run.interval.upper, BoundKind.TWIN)
        frontiers._ceiling_time.on_others = 1.2
        frontiers.step_inputs()
        self.noted.append(boxes.spent)
        return False


def test_in_one_process_boxes_that_bound_the_answer_have_as_much_time_as_all_else() -> None:
    noted: list[float] = []
    verify(changing(8), engine=_Shares(noted), workers=0)
    late, ahead, behind = noted
    assert late == 0.0
    assert 1.0 <= ahead < 1.2
    assert ahead < behind < ahead + 0.2  # a quarter: it has had that, and goes on by a few steps
