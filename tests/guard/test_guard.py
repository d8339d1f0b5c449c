"""A guard calls robust what is proven to be, and nothing else, however it is evaluated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import BoundKind, Guard, InvalidInput, Result
from vhagar.guard.base import Protection
from vhagar.relaxation.rounding import FLOAT32, FLOAT64, float32_above
from vhagar.result import Interval, Witness, WitnessCheck
from vhagar.result.exact import exact_scores

from .conftest import PERTURBATIONS
from .forms import FORMS, Run


@pytest.fixture(scope="module")
def guard(results: list[Result]) -> Guard:
    return vhagar.guard(results)


@pytest.fixture(params=FORMS)
def run(request: pytest.FixtureRequest, guard: Guard, tmp_path: Path) -> Run:
    """The guard in plain Python, in onnxruntime, and as a PyTorch module."""
    found: Run = request.param(guard, tmp_path)
    return found


def test_whoever_is_called_robust_is_above_the_bound(
    run: Run, guard: Guard, inputs: np.ndarray
) -> None:
    scores, label, confidence, robust = run(inputs)
    assert scores.shape == (300, 3)
    assert robust.shape == (300, 2)
    assert robust.any(axis=0).all()
    assert not robust.all(axis=0).any()
    for x, its_class, flags in zip(inputs, label, robust, strict=True):
        exact = exact_scores(guard.network, x.reshape(-1).astype(np.float64))
        assert exact is not None
        margin = exact[its_class] - max(score for k, score in enumerate(exact) if k != its_class)
        for each, is_robust in zip(guard.protections, flags, strict=True):
            # Certain where it says so, and nearly everything that is above the bound.
            assert not is_robust or margin > each.uppers[its_class]
            assert is_robust or margin < each.uppers[its_class] + 1e-3
    np.testing.assert_allclose(confidence, np.sort(scores)[:, 2] - np.sort(scores)[:, 1], rtol=1e-5)


def test_whoever_is_called_robust_withstands_attacks(
    run: Run, results: list[Result], inputs: np.ndarray
) -> None:
    _, label, _, robust = run(inputs)
    rng = np.random.default_rng(5)
    problems = {
        (str(result.problem.perturbation), result.problem.source): result.problem
        for result in results
    }
    for column, text in enumerate(PERTURBATIONS):
        for row in np.flatnonzero(robust[:, column])[:40]:
            problem = problems[text, int(label[row])]
            low, high = problem.pieces[0].parameter_bounds
            check = WitnessCheck(problem)
            for _ in range(5):
                choice = np.where(rng.random(low.shape) < 0.5, low, high)
                x = inputs[row].reshape(-1).astype(np.float64)
                for target in problem.targets:
                    assert not isinstance(check(target, x, 0, choice), Witness)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, 1.0 + 1e-6, -1e-30, np.float32(3e38)])
def test_an_input_outside_the_range_is_not_robust(
    run: Run, inputs: np.ndarray, strange: float
) -> None:
    batch = np.repeat(inputs[run(inputs)[3].all(axis=1)][:1], 5, axis=0)
    assert run(batch)[3].all()
    for pixel in range(4):
        batch.reshape(5, 4)[pixel, pixel] = strange
    assert run(batch)[3].tolist() == [[False, False]] * 4 + [[True, True]]


@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (1, 2, 2), (2, 2), (4,), (1, 4), (2, 2, 1)])
def test_an_input_may_be_flat_and_alone(guard: Guard, shape: tuple[int, ...]) -> None:
    import torch

    x = np.linspace(0.0, 1.0, 4).reshape(shape)
    assert guard(x).scores.tolist() == guard(x.reshape(1, 4)).scores.tolist()
    assert guard.module()(torch.from_numpy(x))[3].shape == (1, 2)


@pytest.mark.parametrize("shape", [(1, 3, 2, 2), (3, 4, 4), (8,), (2,), ()])
def test_an_array_of_another_shape_is_not_taken_for_several_inputs(
    guard: Guard, shape: tuple[int, ...]
) -> None:
    import torch

    with pytest.raises(InvalidInput, match="is no batch of inputs"):
        guard(np.zeros(shape))
    with pytest.raises(InvalidInput, match="is no batch of inputs"):
        guard.module()(torch.zeros(shape))


def test_both_ends_of_the_range_belong_to_it(run: Run, guard: Guard) -> None:
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).T.reshape(-1, 1, 2, 2).astype(np.float32)
    exact = [exact_scores(guard.network, x.reshape(-1).astype(np.float64)) for x in corners]
    margins = [float(max(each) - sorted(each)[-2]) for each in exact if each is not None]
    _, label, _, robust = run(corners)
    bounds = np.array([guard.protections[0].uppers[each] for each in label])
    assert (robust[:, 0] == (np.array(margins) > bounds + 1e-4)).all()
    assert robust[:, 0].any()


def test_a_tie_is_not_robust(results: list[Result], model: Path, tmp_path: Path) -> None:
    """Under a perturbation that can do nothing all bounds are 0, and a tie is no more than that."""
    network = vhagar.read_onnx(model)
    last = network.layers[-1].mapped(np.zeros_like)
    flat = replace(network, layers=(*network.layers[:-1], last), model=None)
    for each in FORMS:
        nothing = [replace(bound, uppers=(0.0, 0.0)) for bound in vhagar.guard(results[:3]).bounds]
        made = Guard(flat, tuple(nothing))
        assert not each(made, tmp_path)(np.zeros((3, 1, 2, 2), dtype=np.float32))[3].any()


def test_a_class_that_was_not_asked_about_needs_no_list() -> None:
    missing = ((1, 2, 3, 4), (2, 3), (), (), ())
    asked = Protection("linf(0.1)", "linf(0.1)", True, (np.inf, np.inf, 1.0, 1.0, 1.0), missing)
    assert asked.words[0].endswith("because nothing is proven about any target")
    assert asked.words[1].endswith("because nothing is proven about classes 2, 3 as a target")


def test_a_class_with_a_target_that_was_not_asked_is_never_robust(
    results: list[Result], inputs: np.ndarray, tmp_path: Path
) -> None:
    partial = replace(results[0], targets={1: results[0].targets[1]})
    made = vhagar.guard(partial, results[1])
    assert made.protections[0].missing == ((2,), (), (0, 1))
    words = "\n".join(made.words)
    assert "class 0: never called robust, because nothing is proven about class 2 as a t" in words
    assert "class 2: never called robust, because nothing is proven about classes 0, 1 as" in words
    for each in FORMS:
        _, label, _, robust = each(made, tmp_path)(inputs)
        assert set(label[robust[:, 0]]) == {1}


def test_targets_asked_one_by_one_make_a_class(results: list[Result]) -> None:
    parts = [replace(results[0], targets={k: results[0].targets[k]}) for k in (1, 2)]
    both = vhagar.guard(*parts).protections[0]
    assert both.uppers[0] == max(results[0].targets[k].upper for k in (1, 2)) == results[0].upper
    assert both.missing[0] == ()


def test_of_two_bounds_the_better_one_counts(results: list[Result]) -> None:
    worse = replace(
        results[0], targets={k: replace(v, upper=99.0) for k, v in results[0].targets.items()}
    )
    for order in ([results[0], worse], [worse, results[0]]):
        assert vhagar.guard(order).protections[0].uppers[0] == results[0].upper


@pytest.mark.parametrize("kind", [BoundKind.SOLVER, BoundKind.MARABOU])
def test_only_proofs_count(results: list[Result], kind: BoundKind) -> None:
    believed = {k: Interval(v.lower, v.upper, kind) for k, v in results[0].targets.items()}
    with pytest.raises(InvalidInput, match="no proven bound"):
        vhagar.guard(replace(results[0], targets=believed))


def test_a_guard_that_would_call_nothing_robust_is_refused(results: list[Result]) -> None:
    partial = replace(results[0], targets={1: results[0].targets[1]})
    with pytest.raises(InvalidInput, match="every other class as its target"):
        vhagar.guard(partial)


def test_a_guard_is_about_one_network_and_one_range(results: list[Result]) -> None:
    from .conftest import small_network

    other = replace(
        results[0],
        problem=vhagar.Problem(small_network(8), perturbation="linf(0.05)", source=0),
    )
    with pytest.raises(InvalidInput, match="about one network"):
        vhagar.guard(results[0], other)
    bounds = vhagar.guard(results[0]).bounds
    wider = replace(bounds[0], input_range=(0.0, 2.0))
    with pytest.raises(InvalidInput, match="different input ranges"):
        Guard(results[0].problem.network, (*bounds, wider))


def test_thresholds_leave_room_for_rounding(guard: Guard) -> None:
    uppers = np.array([each.uppers for each in guard.protections]).T
    for precision in (FLOAT32, FLOAT64):
        least = uppers + guard.rounding(precision)[:, None]
        assert (guard.thresholds(precision) > least).all()
        assert (guard.thresholds(precision) < least * (1 + 8 * precision.half_ulp)).all()
    assert (float32_above(guard.thresholds(FLOAT32)) >= guard.thresholds(FLOAT32)).all()


def test_numbers_are_rounded_up_to_float32() -> None:
    values = np.array([0.1, 1.0, 1e-60, 1e300, -0.1, np.inf, 0.0])
    found = float32_above(values)
    assert found.dtype == np.float32
    assert (found >= values).all()
    assert (np.nextafter(found, np.float32(-np.inf)) < values)[:5].all()
