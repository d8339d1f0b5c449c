"""Sampling on networks whose local bounds are known by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import InvalidInput, Network, Problem, Result, Status, verify
from vhagar.attack.local_attack import LocalAttack
from vhagar.baseline import DatasetEngine, RandomEngine, hoeffding_half_width
from vhagar.baseline.random_sampling import draw
from vhagar.network import Affine
from vhagar.perturbation import Domain
from vhagar.perturbation.domain.linear_rows import linear_rows
from vhagar.runtime.deadline import Deadline, OutOfTime


def test_the_half_width_by_hand() -> None:
    # 2 exp(-2 n h^2 / width^2) = 0.05  gives  h = width * sqrt(ln 40 / (2 n)).
    assert hoeffding_half_width(200, 2.0) == pytest.approx(0.192064, abs=1e-6)
    assert hoeffding_half_width(70_000, 45.0) == pytest.approx(0.230991, abs=1e-6)
    h = hoeffding_half_width(50, 3.0, level=0.01)
    assert 2 * math.exp(-2 * 50 * h**2 / 9.0) == pytest.approx(0.01)
    with pytest.raises(InvalidInput, match="at least one sample"):
        hoeffding_half_width(0, 1.0)


def test_a_mean_is_as_far_away_as_the_inequality_allows_and_no_further_too_often() -> None:
    rng = np.random.default_rng(1)
    means = rng.random((2000, 100)).mean(axis=1)
    assert (abs(means - 0.5) > hoeffding_half_width(100, 1.0)).mean() <= 0.05


# Confidence x1 - x2 - 1/4, where x1 > x2.
INPUTS = np.array([[1.0, 0.0], [0.75, 0.26], [0.8, 0.4], [1.0, 0.6], [0.5, 0.1]])


def test_there_is_no_bound_without_the_time_for_all_attacks(hidden: Network) -> None:
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    with pytest.raises(OutOfTime):
        LocalAttack(problem, deadline=Deadline.after(0.0)).attacks(INPUTS)
    result = verify(problem, timeout=0.0, engine=RandomEngine(samples=10))
    assert result.status is Status.TIMEOUT
    assert result.estimate is None


def dataset_search(problem: Problem, path: Path | None, timeout: float | None = None) -> Result:
    options = {"dataset": path}
    return verify(problem, timeout=timeout, **options, engine=DatasetEngine())


def test_the_most_confident_input_that_can_be_turned(problem: Problem, tmp_path: Path) -> None:
    # In parts, as datasets often are; the last one is of class 1.
    x_test = np.array([[0.8, 0.4], [0.1, 0.1]])
    np.savez(tmp_path / "data.npz", x_train=INPUTS, x_test=x_test, y_test=np.array([1, 2]))
    result = dataset_search(problem, tmp_path / "data.npz")
    assert result.lower == pytest.approx(0.24)
    assert result.witness is not None
    np.testing.assert_allclose(result.witness.x.ravel(), [0.75, 0.26], atol=1e-6)
    assert result.upper == pytest.approx(0.75)
    assert result.status is Status.EXHAUSTED
    assert result.notes == ("6 of 7 inputs of the dataset are classified 0",)


def test_an_attack_that_the_check_refuses_does_not_count(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vhagar.attack.local_attack import Found

    np.savez(tmp_path / "data.npz", INPUTS)

    def boasting(self: LocalAttack, x: np.ndarray, quick: bool = False) -> list[Found]:
        return [Found(row, 1, 0, np.array([-0.125, 0.125])) for row in range(len(x))]

    monkeypatch.setattr(LocalAttack, "attacks", boasting)
    assert dataset_search(problem, tmp_path / "data.npz").lower == pytest.approx(0.24)


def test_a_dataset_without_a_chance(problem: Problem, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", np.array([[1.0, 0.0], [0.0, 1.0]]))
    result = dataset_search(problem, tmp_path / "data.npz")
    assert (result.lower, result.witness) == (0.0, None)
    assert dataset_search(problem, tmp_path / "data.npz", timeout=0.0).status is Status.TIMEOUT


def test_what_cannot_be_sampled(problem: Problem, hidden: Network, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", INPUTS)
    with pytest.raises(InvalidInput, match="give it with --dataset"):
        dataset_search(problem, None)
    with pytest.raises(InvalidInput, match="problem with a perturbation"):
        dataset_search(Problem(hidden, perturbation=None, source=0), tmp_path / "data.npz")
    with pytest.raises(InvalidInput, match="problem with a perturbation"):
        random_search(Problem(hidden, perturbation=None, source=0))


def random_search(problem: Problem, timeout: float | None = None, **settings: Any) -> Result:
    options = {"seed": 5}
    return verify(problem, timeout=timeout, **options, engine=RandomEngine(**settings))


def test_the_mean_over_random_inputs(problem: Problem) -> None:
    result = random_search(problem, samples=3000)
    x = draw(problem.domain, 3000, 0.25, np.random.default_rng(5))
    sure = x[:, 0] - x[:, 1] - 0.25
    local = np.where(sure < 0.25, sure, 0.0)[sure > 0]
    assert result.estimate is not None
    assert result.estimate.samples == len(local)
    assert result.estimate.mean == pytest.approx(local.mean(), abs=1e-6)
    # Interval arithmetic knows the largest confidence of this network: 3/4.
    assert result.estimate.half_width == pytest.approx(
        0.75 * math.sqrt(math.log(40) / 2 / len(local))
    )
    assert result.estimate.level == 0.05
    assert result.lower == pytest.approx(local.max(), abs=1e-6)  # its input is rounded
    assert result.lower <= 0.25
    assert result.upper == pytest.approx(0.75)


def test_a_ceiling_that_is_known_makes_it_narrower(problem: Problem) -> None:
    wide, narrow = (random_search(problem, samples=500, ceiling=c).estimate for c in (0.8, 0.4))
    assert wide is not None
    assert narrow is not None
    assert narrow.half_width == pytest.approx(wide.half_width / 2)
    assert narrow.mean == wide.mean


def test_no_input_of_the_class_and_no_time(problem: Problem) -> None:
    # Around the middle of the range nothing is so far apart that class 0 wins.
    result = random_search(problem, samples=50, spread=0.01)
    assert result.estimate is None
    assert any("there is no mean" in note for note in result.notes)
    late = random_search(problem, samples=5000, timeout=0.0)
    assert late.status is Status.TIMEOUT
    assert late.estimate is None


def test_ctrl_c_keeps_the_mean_so_far(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = LocalAttack.attacks, 0

    def impatient(self: LocalAttack, x: np.ndarray, quick: bool = False) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return original(self, x)

    monkeypatch.setattr(LocalAttack, "attacks", impatient)
    result = random_search(problem, samples=5000)
    assert result.status is Status.INTERRUPTED
    monkeypatch.undo()
    assert result.estimate == random_search(problem, samples=1024).estimate  # one chunk


def test_the_draws() -> None:
    x = draw(Domain((2,), -1.0, 3.0), 20_000, 0.25, np.random.default_rng(0))
    assert x.min() == -1.0
    assert x.max() == 3.0
    np.testing.assert_allclose(x.mean(axis=0), 1.0, atol=0.03)
    inside = (x > -1.0) & (x < 3.0)
    assert 0.94 < inside.mean() < 0.97  # two standard deviations either way


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0}, "at least one sample"),
        ({"spread": 0.0}, "spread"),
        ({"spread": math.nan}, "spread"),
        ({"ceiling": -1.0}, "ceiling"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RandomEngine(**settings)


def test_the_mean_is_that_of_inputs_of_the_domain() -> None:
    """The only whole numbers with 3 a + 5 b = 8 are 1 and 1, whose confidence is 1.5."""
    layer = Affine(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 0.5]), (2,), (2,))
    row = linear_rows({0: 3.0, 1: 5.0}, 2, equal=8.0)
    domain = Domain((2,), 0, [10, 10], range=(0, 10), integer=[0, 1], rows=row)
    problem = Problem(Network((layer,), (2,)), perturbation="linf(8)", source=0, domain=domain)
    result = verify(problem, engine=RandomEngine(samples=200))
    assert result.estimate is not None
    assert result.estimate.mean == pytest.approx(1.5)
    assert "random inputs are in the domain and classified 0" in result.notes[0]


def test_attacks_that_leave_a_domain_of_perturbed_inputs_do_not_count(hidden: Network) -> None:
    box = np.array([0.75, 0.0]), np.array([1.0, 0.25])
    for inside in (False, True):
        domain = Domain((1, 1, 2), *box, range=(0, 1), perturbed_inside=inside)
        problem = Problem(hidden, perturbation="linf(0.5)", source=0, targets=1, domain=domain)
        result = verify(problem, engine=RandomEngine(samples=50))
        assert result.estimate is not None
        assert (result.estimate.mean == 0) == inside
