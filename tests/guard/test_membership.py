"""Which inputs a guard takes for members of a domain, in each of its forms: none but members."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import Domain, Guard, InvalidInput, Problem, Zonotope, linear_rows

from .conftest import SHAPE, domain_of, small_network
from .forms import FORMS, Form


def certain(domain: Domain, bound: float = -1.0) -> Guard:
    """A guard that calls every input of a domain robust: its bounds are below all confidences.

    What it says is whether inputs lie in the domain.
    """
    network = small_network()
    results = [
        vhagar.verify(Problem(network, perturbation="linf(0.01)", source=k), timeout=5, workers=0)
        for k in range(3)
    ]
    bounds = vhagar.guard(results).bounds
    return Guard(network, tuple(replace(b, domain=domain, uppers=(bound, bound)) for b in bounds))


@pytest.fixture(scope="module")
def proven() -> Guard:
    return certain(domain_of(upper=0.5))


def verdicts(form: Form, guard: Guard, domain: Domain, folder: Path, rows: Any) -> list[bool]:
    made = Guard(guard.network, tuple(replace(b, domain=domain) for b in guard.bounds))
    run = form(made, folder)
    x = np.asarray(rows)
    return [bool(flag) for flag in run(x.reshape(-1, *SHAPE))[3][:, 0]]


def beside(value: float, direction: float) -> np.float32:
    return np.nextafter(np.float32(value), np.float32(direction))


# Conditions, then inputs of float32 numbers just inside, and just outside.
CASES: dict[str, tuple[dict[str, Any], list[list[Any]], list[list[Any]]]] = {
    "box": (
        {"lower": [0.25, 0.0, 0.1, 0.0], "upper": [0.75, 0.5, 1.0, 0.3]},
        [[0.25, 0.5, 0.1, beside(0.3, 0)], [0.75, 0.0, 1.0, beside(0.3, 0)]],
        [
            [beside(0.25, 0), 0.5, 0.5, 0.2],
            [0.5, beside(0.5, 1), 0.5, 0.2],
            [0.5, 0.5, beside(0.1, 0), 0.2],
            [0.5, 0.5, 0.5, 0.3],  # float32's is above float64's
            [np.nan, 0.2, 0.5, 0.2],
            [0.5, 0.2, np.inf, 0.2],
        ],
    ),
    "fixed": (
        {"fixed": {2: 0.5}},
        [[0.1, 0.2, 0.5, 1.0]],
        [[0.1, 0.2, beside(0.5, 0), 1.0], [0.1, 0.2, beside(0.5, 1), 1.0], [0.1, 0.2, np.nan, 1.0]],
    ),
    "integer": (
        {"range": (0.0, 5.0), "upper": 5.0, "integer": [0, 3]},
        [[0.0, 0.3, 0.7, 5.0], [3.0, 4.9, 1.5, 2.0]],
        [
            [0.5, 0.3, 0.7, 5.0],
            [beside(3, 0), 0.3, 0.7, 5.0],
            [beside(3, 9), 0.3, 0.7, 5.0],
            [3.0, 0.3, 0.7, np.nan],
            [1e-30, 0.3, 0.7, 5.0],
        ],
    ),
    "one-hot": (
        {"one_hot": [[0, 1, 2]]},
        [[1, 0, 0, 0.3], [0, 1, 0, 0.5], [0, 0, 1, 1.0], [-0.0, 0, 1, 1.0]],
        [[1, 1, 0, 0.3], [0, 0, 0, 0.3], [0.5, 0.5, 0, 0.3], [beside(1, 0), 0, 0, 0.3]],
    ),
    "ordered": (
        {"ordered": [[0, 2, 3]]},
        [[0.1, 0.9, 0.2, 0.3], [0.5, 0.0, 0.5, 0.5]],
        [[beside(0.5, 1), 0.0, 0.5, 0.5], [0.1, 0.9, 0.4, beside(0.4, 0)], [np.nan, 0.1, 0.5, 0.6]],
    ),
    "row": (
        {"rows": linear_rows([1.0, 2.0, -0.5, 0.0], 4, at_least=0.5, at_most=1.5)},
        [[0.5, 0.5, 0.0, 1.0], [1.0, 0.0, 1.0, 0.5], [0.5, 0.25, 0.25, 0.0]],  # ties: 1.5 and 0.5
        [[beside(0.5, 1), 0.5, 0.0, 1.0], [1.0, 0.0, beside(1.0, 2), 0.5], [0.0, 0.0, 0.0, 0.0]],
    ),
    "equality": (
        {"rows": linear_rows({0: 1.0, 1: 1.0, 2: 1.0}, 4, equal=1.0)},
        [
            [0.25, 0.25, 0.5, 0.1],
            [0.0, 0.0, 1.0, 0.2],
            [0.5, 0.25 - 2.0**-25, 0.25 + 2.0**-25, 0.3],
        ],
        [
            [beside(0.25, 0), 0.25, 0.5, 0.1],
            # Rounded to float64, or even to float32, these sums are 1.
            [1.0, 2.0**-80, 0.0, 0.1],
            [beside(1.0, 0), 2.0**-24, 2.0**-80, 0.1],
        ],
    ),
    "rounded row": (
        {"rows": linear_rows([0.1, 0.2, 0.3, 0.7], 4, at_most=0.65)},
        [[0.5, 0.5, 0.5, 0.5], [0.499, 0.5, 0.5, 0.5]],
        [[0.51, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, beside(0.5, 1)]],
    ),
    "zonotope": (
        {
            "zonotope": Zonotope(
                [0.5, 0.5, 0.5, 0.25],
                [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]],
                [0.25, 0.125],
                [0.01, 0.01, 0.01, 0.125],
            )
        },
        [[0.5, 0.5, 0.5, 0.25], [0.7, 0.8, 0.6, 0.125], [0.25, 0.25, 0.5, 0.375]],
        [
            [0.5, 0.75, 0.5, 0.25],
            [0.7, 0.8, 0.6, beside(0.125, 0)],
            [0.25, 0.25, 0.5, beside(0.375, 1)],
            [0.235, 0.25, 0.5, 0.25],
        ],
    ),
    "perturbed inside": (
        {"perturbed_inside": True},
        [[0.0, 0.0, 1.0, 1.0]],
        [[beside(0.0, -1), 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, beside(1.0, 2)]],
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", CASES)
def test_inputs_just_inside_and_just_outside(
    kind: str, form: Form, proven: Guard, tmp_path: Path
) -> None:
    conditions, inside, outside = CASES[kind]
    domain = domain_of(**conditions)
    guard = proven
    if domain.upper != 1.0:
        guard = Guard(
            proven.network,
            tuple(replace(b, input_range=(domain.lower, domain.upper)) for b in proven.bounds),
        )
    rows = np.array([*inside, *outside], dtype=np.float32)
    found = verdicts(form, guard, domain, tmp_path, rows)
    expected = [True] * len(inside) + [False] * len(outside)
    if kind == "rounded row":  # rounding may hide that a tie holds
        found[0] = True
    assert found == expected


@pytest.mark.parametrize("form", FORMS)
def test_no_input_is_called_inside_that_is_not(form: Form, proven: Guard, tmp_path: Path) -> None:
    """Random conditions, and inputs at their ends; what is inside is decided by rationals."""
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(12):
        weights = rng.choice([1.0, -1.0, 0.5, 0.1, 3.7, 1e-8, 0.0], size=4)
        x = rng.choice([0.0, 1.0, 0.1, 0.3, 1e-20, 0.7], size=4).astype(np.float32)
        value = float(weights @ x.astype(np.float64))
        ends = {"at_least": value} if rng.random() < 0.5 else {"at_most": value}
        domain = domain_of(rows=linear_rows(weights, 4, **ends))
        near = np.repeat(x[None], 40, axis=0)
        near[1:] = np.nextafter(near[1:], rng.choice([0, 1], size=(39, 4)).astype(np.float32))
        near = np.clip(near, 0, 1)
        for row, flag in zip(near, verdicts(form, proven, domain, tmp_path, near), strict=True):
            terms = zip(weights.tolist(), row.tolist(), strict=True)
            exact = sum((Fraction(w) * Fraction(v) for w, v in terms), Fraction(0))
            holds = exact >= Fraction(value) if "at_least" in ends else exact <= Fraction(value)
            assert holds or not flag
            inside += flag
    assert inside > 100


@pytest.mark.parametrize("form", FORMS)
def test_rounding_puts_no_input_inside(form: Form, proven: Guard, tmp_path: Path) -> None:
    """Terms cancel each other, so that a sum is less than what its rounding amounts to."""
    rng = np.random.default_rng(6)
    misled, x = 0, np.ones((1, 4), dtype=np.float32)
    for _ in range(40):
        weights = rng.normal(size=4)
        weights[3] = -weights[:3].sum()
        exact = sum(map(Fraction, weights.tolist()), Fraction(0))
        end = float(exact)
        end = end if Fraction(end) > exact else float(np.nextafter(end, np.inf))
        misled += float(x[0] @ weights) > np.nextafter(end, np.inf)
        domain = domain_of(rows=linear_rows(weights, 4, at_least=end))
        assert verdicts(form, proven, domain, tmp_path, x) == [False]
    assert misled > 5


def test_forms_agree_on_float32_inputs_of_a_fitted_zonotope(proven: Guard, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    axes = np.linalg.qr(rng.normal(size=(4, 2)))[0].T
    zonotope = Zonotope(np.full(4, 0.5), axes, [0.3, 0.2], np.full(4, 0.05))
    domain = domain_of(zonotope=zonotope)
    z = rng.uniform(-1, 1, size=(200, 2)) * [0.4, 0.3]
    x = zonotope.at(z) + rng.uniform(-0.08, 0.08, size=(200, 4))
    x = np.clip(x, 0, 1).astype(np.float32)
    plain, by_onnx, by_torch = (verdicts(f, proven, domain, tmp_path, x) for f in FORMS)
    assert plain == by_torch
    # Least squares alone finds most of the coordinates that a linear program finds.
    assert all(flag or not own for flag, own in zip(plain, by_onnx, strict=True))
    assert 40 < sum(by_onnx) <= sum(plain) < 160


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"fixed": {1: 0.1}}, "none lies in the domain some: entry 0,0,1 is from 0.1 to 0.1"),
        (
            {"rows": linear_rows([0.1, 0.2, 0.3, 0.7], 4, equal=0.3)},
            "row 1 of the domain some leaves less room than rounding needs",
        ),
        (
            {"zonotope": Zonotope(np.full(4, 0.5), np.ones((1, 4)), 0.2, 1e-17)},
            "has a residual that is smaller than rounding at entry 0,0,0",
        ),
    ],
)
def test_what_an_onnx_file_cannot_decide_is_refused_with_a_way_out(
    conditions: dict[str, Any], message: str, proven: Guard, tmp_path: Path
) -> None:
    domain = domain_of(**conditions)
    made = Guard(proven.network, tuple(replace(b, domain=domain) for b in proven.bounds))
    with pytest.raises(InvalidInput, match=message) as refusal:
        made.save(tmp_path / "guard.onnx")
    assert "verify again" in str(refusal.value)
    assert made(np.full((1, 4), 0.1)).robust.shape == (1, 1)  # in Python it works
