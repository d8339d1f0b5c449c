"""Coverage, counted by hand: confidence x1 - x2 - 1/4, where x1 > x2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

import vhagar
from vhagar import InvalidInput, Network, Problem, Result
from vhagar.attack import local_attack
from vhagar.attack.local_attack import Found, LocalAttack
from vhagar.coverage import SeenData, _chunks, covered
from vhagar.perturbation import Domain, Zonotope
from vhagar.result import BoundKind, CoverageCounts, Status, Witness, WitnessCheck
from vhagar.result.exact import exact_scores
from vhagar.result.figure import figure_data

# Confidences 0.75, 0.25, 0.125 and 0.5, and two of the other class.
INPUTS = np.array([[1.0, 0.0], [0.75, 0.25], [0.875, 0.5], [0.75, 0.0], [0.5, 0.5], [0.0, 1.0]])
LABELS = np.array([0, 0, 1, 0, 1, 1])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=INPUTS.reshape(-1, 1, 1, 2), y=LABELS)
    return tmp_path / "data.npz"


@pytest.fixture
def answered(hidden: Network, data: Path) -> Result:
    """Below 1/4 everything can be attacked by linf(0.125)."""
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    return vhagar.verify(problem, workers=0, dataset=data, timeout=30)


def _sure(problem: Problem, inputs: np.ndarray) -> np.ndarray:
    """A proven lower bound on every input's confidence in the source class."""
    return SeenData(problem.network, problem.domain, inputs, None).sure(problem.source)


def test_the_counts_by_hand(answered: Result) -> None:
    found = answered.coverage
    assert found is not None
    assert answered.status is Status.CLOSED
    assert found.inputs == 6
    # 0.75 and 0.5 are above the bound; 0.125 is below; 0.25 is the bound itself, at most a tie.
    assert found.classified.inputs == 4
    assert found.classified.robust == 2
    assert found.classified.attackable >= 1
    assert found.classified.attackable + found.classified.unknown == 2
    assert found.correct is not None
    assert (found.correct.inputs, found.correct.robust) == (3, 2)
    assert found.largest == pytest.approx(0.75)
    assert found.largest <= 0.75


def test_the_inputs_that_are_counted(answered: Result) -> None:
    found = answered.coverage
    assert found is not None
    assert found.rows is not None
    assert found.rows.robust == (0, 3)
    assert 2 in found.rows.attackable
    assert sorted(found.rows.attackable + found.rows.unknown) == [1, 2]
    assert found.rows.outside == ()


def test_nobody_is_robust_without_a_proof(answered: Result, data: Path) -> None:
    unknown = replace(answered, upper=np.inf)
    assert vhagar.coverage(unknown, data).classified.robust == 0
    believed = replace(answered, kind=BoundKind.MARABOU)
    assert vhagar.coverage(believed, data).classified.robust == 0


def test_a_confidence_that_equals_the_bound_is_not_above_it(answered: Result, data: Path) -> None:
    at = vhagar.coverage(replace(answered, upper=0.5), data)
    below = vhagar.coverage(replace(answered, upper=0.5 - 1e-9), data)
    assert (at.classified.robust, below.classified.robust) == (1, 2)


def test_no_time_no_attack(answered: Result, data: Path) -> None:
    found = vhagar.coverage(answered, data, timeout=0.0)
    assert found.classified == CoverageCounts(4, 2, 0)


def test_the_time_to_get_ready_is_not_taken_from_the_attacks(
    answered: Result, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To load PyTorch takes seconds, and the attacks on a few inputs hardly any time."""
    now = [0.0]

    class SlowToBegin(LocalAttack):
        def __init__(self, problem: Problem, device: str) -> None:
            super().__init__(problem, device)
            now[0] += 100.0

    module = import_module("vhagar.coverage")  # the package has a function of that name
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(local_attack, "LocalAttack", SlowToBegin)
    seen = SeenData.read(data, answered.problem.network, answered.problem.domain)
    found = covered(answered.problem, answered.upper, seen, deadline=1.0)
    assert found.classified == answered.coverage.classified
    assert found.classified.attackable > 0


def test_the_time_to_read_the_data_is_not_taken_from_the_attacks(
    answered: Result, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("vhagar.coverage")
    read = module.read_test_set

    def slowly(path: Path, domain: Domain) -> object:
        sleep(0.3)
        return read(path, domain)

    monkeypatch.setattr(module, "read_test_set", slowly)
    assert vhagar.coverage(answered, data, timeout=0.2).classified.attackable > 0


def test_whoever_interrupts_is_not_kept_waiting(
    answered: Result, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object, x: np.ndarray, quick: bool) -> list[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalAttack, "attacks", interrupted)
    assert vhagar.coverage(answered, data).classified == CoverageCounts(4, 2, 0)


def test_an_attack_counts_only_once_it_is_checked(
    answered: Result, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boasting(self: object, x: np.ndarray, quick: bool) -> list[Found]:
        return [Found(row, 1, 0, np.zeros(2)) for row in range(len(x))]

    monkeypatch.setattr(LocalAttack, "attacks", boasting)
    assert vhagar.coverage(answered, data).classified.attackable == 0


def test_without_labels_nobody_is_correct(answered: Result, tmp_path: Path) -> None:
    np.savez(tmp_path / "bare.npz", INPUTS.reshape(-1, 1, 1, 2))
    assert vhagar.coverage(answered, tmp_path / "bare.npz").correct is None


def test_of_two_parts_the_test_set_counts(answered: Result, tmp_path: Path) -> None:
    x = INPUTS.reshape(-1, 1, 1, 2)
    parts = {"x_train": x[:4], "y_train": LABELS[:4], "x_test": x[3:], "y_test": LABELS[3:]}
    np.savez(tmp_path / "both.npz", **parts)
    found = vhagar.coverage(answered, tmp_path / "both.npz")
    assert found.inputs == 3
    assert found.classified == CoverageCounts(1, 1, 0) == found.correct


def test_the_question_must_be_about_a_perturbation(hidden: Network, data: Path) -> None:
    largest = vhagar.max_confidence(hidden, source=0, workers=0, timeout=10)
    with pytest.raises(InvalidInput, match="about a perturbation"):
        vhagar.coverage(largest, data)


def test_coverage_survives_saving(answered: Result, tmp_path: Path) -> None:
    answered.save(tmp_path / "result.zip")
    assert Result.load(tmp_path / "result.zip").coverage == answered.coverage


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_confidences_are_never_overstated(
    random_networks: Callable[[int, float], list[Network]], scale: float
) -> None:
    rng = np.random.default_rng(0)
    for network in random_networks(10, scale):
        problem = Problem(network, perturbation="linf(0.1)", source=1)
        inputs = rng.random((20, network.input_size))
        for x, low in zip(inputs, _sure(problem, inputs), strict=True):
            scores = exact_scores(network, x)
            assert scores is not None
            rest = max(score for label, score in enumerate(scores) if label != 1)
            assert low <= scores[1] - rest


@pytest.mark.slow
def test_robust_inputs_withstand_the_attack(
    random_networks: Callable[[int, float], list[Network]], tmp_path: Path
) -> None:
    """Soundness end to end: nobody who is counted as robust can be attacked."""
    rng = np.random.default_rng(3)
    x = rng.random((200, 1, 2, 2))
    np.savez(tmp_path / "x.npz", x=x)
    covered = 0
    for network in random_networks(4, 1.0):
        problem = Problem(network, perturbation="linf(0.05)", source=0)
        result = vhagar.verify(problem, workers=0, timeout=20, dataset=tmp_path / "x.npz")
        assert result.coverage is not None
        covered += result.coverage.classified.robust
        flat = x.reshape(200, 4).astype(np.float32).astype(np.float64)
        sure = flat[_sure(problem, flat) > result.upper]
        check = WitnessCheck(problem)
        for image in sure:
            for corner in rng.choice([-0.05, 0.05], size=(20, 4)):
                for target in problem.targets:
                    assert not isinstance(check(target, image, 0, corner), Witness)
    assert covered > 0


@pytest.fixture
def random_networks() -> Callable[[int, float], list[Network]]:
    """Small random classifiers of images of four pixels."""
    from vhagar.network import Affine, Relu

    def make(count: int, scale: float) -> list[Network]:
        rng = np.random.default_rng(7)
        return [
            Network(
                (
                    Affine(scale * rng.normal(size=(5, 4)), rng.normal(size=5), (1, 2, 2), (5,)),
                    Relu((5,)),
                    Affine(rng.normal(size=(3, 5)), rng.normal(size=3), (5,), (3,)),
                ),
                (1, 2, 2),
            )
            for _ in range(count)
        ]

    return make


def test_everybody_is_attacked_once_a_few_at_first() -> None:
    for count in (0, 1, 8, 9, 300, 1000):
        chunks = list(_chunks(np.arange(count)))
        assert [row for chunk in chunks for row in chunk] == list(range(count))
        assert all(len(chunk) <= 128 for chunk in chunks)
        assert not chunks or len(chunks[0]) <= 8


def test_the_nearest_input_stands_beside_the_witness(answered: Result, tmp_path: Path) -> None:
    found, witness = answered.nearest, answered.witness
    assert found is not None
    assert witness is not None
    gaps = np.sqrt(((INPUTS - witness.x.reshape(-1)) ** 2).mean(axis=1))
    assert found.row == gaps.argmin()
    assert found.distance == pytest.approx(gaps.min())
    assert found.label == LABELS[found.row]
    assert f"input {found.row} of the data set, labelled {found.label}" in answered.summary()
    answered.save(tmp_path / "saved.vhagar")
    again = Result.load(tmp_path / "saved.vhagar").nearest
    assert again is not None
    assert (again.row, again.label, again.distance) == (found.row, found.label, found.distance)
    assert (again.x == found.x).all()
    panel = figure_data(answered).nearest
    assert panel is not None
    assert panel.title.startswith(f"nearest of the data: {found.label}")


def test_inputs_of_other_classes_are_not_looked_for_in_a_zonotope(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a linear program, of which one test solves few: own inputs would be left open."""
    problem, x = on_the_border(hidden)
    monkeypatch.setattr(vhagar.perturbation.domain.zonotope, "_MOST_PROGRAMS", 1)
    other = np.array([[0.5, 0.25]])
    assert problem.domain.contains(other).all()
    found = covered(
        problem,
        0.0,
        SeenData(problem.network, problem.domain, np.concatenate([other, x]), None),
        0.0,
    )
    assert (found.classified.inputs, found.outside) == (1, 0)


def on_the_border(hidden: Network) -> tuple[Problem, np.ndarray]:
    """An input on the border of a zonotope: least squares do not show it inside."""
    zonotope = Zonotope([0.75, 0.25], [[1.0, 1.0]], [0.5], [0.0625, 0.25])
    domain = Domain((1, 1, 2), zonotope=zonotope)
    x = np.array([[0.75, 0.0]])
    assert domain.contains(x).all()
    return Problem(hidden, perturbation="linf(0.375)", source=0, targets=1, domain=domain), x


def test_a_witness_of_the_data_set_stays_where_it_is(hidden: Network) -> None:
    problem, x = on_the_border(hidden)
    found = WitnessCheck(problem, moves=False)(1, x, 0, np.array([-0.375, 0.375]))
    assert isinstance(found, Witness)
    assert (found.x.reshape(-1) == x[0]).all()


def test_an_attack_on_another_input_does_not_count(
    hidden: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, x = on_the_border(hidden)
    np.savez(tmp_path / "one.npz", x=x.reshape(1, 1, 1, 2))
    result = vhagar.verify(problem, workers=0, timeout=30)
    assert vhagar.coverage(result, tmp_path / "one.npz").classified.attackable == 1
    judge = WitnessCheck.__call__

    def elsewhere(self: WitnessCheck, target: int, x: np.ndarray, *rest: object) -> object:
        return judge(self, target, x - np.array([0.0625, 0.0]), *rest)

    monkeypatch.setattr(WitnessCheck, "__call__", elsewhere)
    assert vhagar.coverage(result, tmp_path / "one.npz").classified.attackable == 0
