"""Windows over trees of boxes, against the formula of `docs/certificate.md`, corner by corner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vhagar_check import Rejected
from vhagar_check import window_boxes as module
from vhagar_check.window_boxes import LEAF, Alike, largest

from ..relaxation.windows.formula import Ends, Formula

Array = np.ndarray


def formula_of(alike: Alike) -> Formula:
    return Formula(
        alike.weight, alike.bias, alike.end, alike.lead, alike.on_pixels, alike.on_images
    )


def by_tree(alike: Alike, tree: bytes, limits: Array) -> list[float]:
    return formula_of(alike).by_tree(alike.low.tolist(), alike.high.tolist(), tree, limits)


def drawn(rng: np.random.Generator, pixels: int = 2, windows: int = 3, units: int = 3) -> Alike:
    """Ranges in eighths, so that they often end where the clip begins."""
    ends = np.sort(rng.integers(0, 9, (2, pixels + 1)), axis=0) / 8
    ends[1] = np.maximum(ends[1], ends[0] + 0.125)
    lead, on = rng.normal(size=(windows, units)), rng.normal(size=(2, windows, pixels))
    weight, bias = rng.normal(size=(units, pixels)), rng.normal(size=units) / 2
    return Alike(weight, bias, *ends, rng.choice([0.75, 1.0, math.inf]), lead, *on)


def a_tree(rng: np.random.Generator, entries: int, halvings: int) -> bytes:
    codes, level = [], 1
    while level:
        here = min(level, halvings)
        some = [*rng.integers(0, entries, here).tolist(), *[LEAF] * (level - here)]
        rng.shuffle(some)
        codes += some
        halvings, level = halvings - here, 2 * here
    return bytes(codes)


@pytest.mark.parametrize("batch", [256, 2])
def test_trees_prove_what_the_formula_says(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With windows that leave the tree at any level; and however many boxes are bounded at once."""
    monkeypatch.setattr(module, "_BATCH", batch)
    rng = np.random.default_rng(1)
    for _ in range(40):
        alike = drawn(rng, pixels=int(rng.integers(1, 4)))
        tree = a_tree(rng, len(alike.low), int(rng.integers(0, 6)))
        limits = np.array(by_tree(alike, bytes([LEAF]), np.zeros(3))) * rng.choice([0.5, 0.9], 3)
        expected = by_tree(alike, tree, limits)
        assert largest(alike, tree, limits) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("most", "numbers", "sizes"),
    [(256, 2**22, [8]), (3, 2**22, [3, 3, 2]), (256, 3, [3, 3, 2]), (256, 0.5, [1] * 8)],
)
def test_boxes_that_are_bounded_at_once(
    most: int, numbers: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the numbers at all of their corners, at most three for each pixel and end of the shift."""
    alike = drawn(np.random.default_rng(7))
    corners, columns = 2 * 3**2, 2 * 3 + 2 * 2
    asked: list[int] = []
    terms = module._terms

    def noted(alike: Alike, boxes: list[Any]) -> list[Array]:
        asked.append(len(boxes))
        return terms(alike, boxes)

    monkeypatch.setattr(module, "_terms", noted)
    monkeypatch.setattr(module, "_BATCH", most)
    assert module._MOST_KEPT == 2**26  # as `docs/certificate.md` has it
    for more in (0, corners * columns - 1):
        asked.clear()
        monkeypatch.setattr(module, "_MOST_NUMBERS", int(numbers * corners * columns) + more)
        largest(alike, bytes([0] * 7 + [LEAF] * 8), np.full(3, -1e9))
        assert asked[-len(sizes) :] == sizes


def test_a_limit_that_is_just_kept_is_kept() -> None:
    alike = drawn(np.random.default_rng(2), windows=1)
    whole, tree = largest(alike, bytes([LEAF]), np.zeros(1)), bytes([2, 0, 0, *[LEAF] * 4])
    assert largest(alike, tree, whole) == whole
    assert largest(alike, tree, np.nextafter(whole, -math.inf)) < whole


def on_one_pixel(low: Ends, high: Ends, end: float = 1.0) -> Alike:
    """The function `2 x - x_p`, of a window whose neuron sees nothing of importance."""
    one = np.ones((1, 1))
    return Alike(one, one[0], np.array(low), np.array(high), end, 0 * one, -2 * one, one)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ([0.0, 0.25], [0.5, 0.5], 0.25),  # (0.5, 0.75): never clipped
        ([0.75, 0.25], [0.875, 0.5], 0.75),  # (0.875, 1): always
        ([0.0, 0.25], [0.625, 0.5], 0.5),  # (0.75, 1): widened to where all are
        ([0.625, 0.25], [0.875, 0.5], 0.75),  # (0.875, 1)
        ([0.5, 0.5], [0.5, 0.5], 0.0),  # both at once
    ],
)
def test_where_the_clip_begins(low: Ends, high: Ends, expected: float) -> None:
    assert largest(on_one_pixel(low, high), bytes([LEAF]), np.zeros(1)) == [expected]


@pytest.mark.parametrize(
    ("low", "high", "code", "ends"),
    [
        ([0.0, 0.0], [1.0, 0.25], 0, (0.75, 0.25)),  # where the clip begins
        ([0.0, 0.0], [0.75, 0.25], 0, (0.375, 0.25)),  # at its end, it does not count
        ([0.75, 0.0], [1.0, 0.25], 0, (0.875, 0.25)),
        ([0.0, 0.0], [0.5, 0.25], 0, (0.25, 0.25)),
        ([0.0, 0.0], [1.0, 0.75], 1, (1.0, 0.375)),  # nor for the shift
    ],
)
def test_where_boxes_are_halved(
    low: Ends, high: Ends, code: int, ends: tuple[float, float]
) -> None:
    box = module._Box(np.array(low), np.array(high), np.arange(1), np.zeros(1))
    lower, upper = module._halves(1.0, box, code, box.windows, box.known)
    assert tuple(lower.high) == ends
    assert upper.low[code] == ends[code]
    assert upper.low[1 - code] == low[1 - code]
    assert lower.low.tolist() == low
    assert upper.high.tolist() == high


def below(changes: dict[str, Any]) -> list[float]:
    alike = replace(drawn(np.random.default_rng(3), windows=1), **changes)
    with np.errstate(all="ignore"):
        return largest(alike, bytes([0, LEAF, LEAF]), np.full(1, -1e300)).tolist()


def test_numbers_that_are_too_large_prove_nothing() -> None:
    """Infinity less infinity is not a number, and a bound in neither half."""
    assert math.isfinite(below({})[0])
    for huge in (math.nan, math.inf):
        weight = np.full((3, 2), huge)
        weight[:, 1] *= -1
        assert below({"weight": weight}) == [math.inf]
        assert below({"bias": np.full(3, huge)}) == [math.inf]
        assert below({"lead": np.full((1, 3), huge)}) == [math.inf]
        assert below({"on_images": np.full((1, 2), -huge)}) == [math.inf]


def test_a_box_that_proves_nothing_leaves_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = drawn(np.random.default_rng(4), windows=1)
    known = largest(alike, bytes([LEAF]), np.zeros(1))
    terms = module._terms

    def fails(alike: Alike, boxes: list[Any]) -> list[Array]:
        found = terms(alike, boxes)
        return found if len(boxes) == 1 else [np.full_like(own, math.nan) for own in found]

    monkeypatch.setattr(module, "_terms", fails)
    assert largest(alike, bytes([0, LEAF, LEAF]), np.full(1, -1e300)) == known


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ([], "cut off"),
        ([0], "cut off"),
        ([0, LEAF], "cut off"),
        ([LEAF, LEAF], "goes on"),
        ([0, LEAF, LEAF, LEAF], "goes on"),
        ([2, LEAF, LEAF], "an entry that there is not"),
        ([254, LEAF, LEAF], "an entry that there is not"),
    ],
)
def test_what_is_no_tree_is_refused(tree: list[int], why: str) -> None:
    alike = on_one_pixel([0.0, 0.0], [1.0, 0.5])
    with pytest.raises(Rejected, match=why):
        largest(alike, bytes(tree), np.full(1, -1e9))


@pytest.mark.parametrize("low", [0.5, np.nextafter(0.5, 1), np.nextafter(0.5, 0)])
def test_a_range_without_a_middle_is_not_halved(low: float) -> None:
    """One number, or two that follow each other: their middle is rounded to either."""
    high = max(low, 0.5)
    alike = on_one_pixel([min(low, 0.5), 0.0], [high, 0.0], math.inf)
    for code in (0, 1):
        with pytest.raises(Rejected, match="no middle"):
            largest(alike, bytes([code, LEAF, LEAF]), np.full(1, -1e9))


def test_lines_below_the_relu() -> None:
    """Through 0, and never steeper than the ReLU, however small or large the values are."""
    rng = np.random.default_rng(6)
    sizes = rng.choice([0.0, 1e-310, 1e-270, 1.0, 1e300], (300, 1, 3))
    values = sizes * (rng.normal(size=(300, 2, 3)) + rng.choice([-4, 0, 4], (300, 1, 3)))
    lines = module._below(values)
    assert (lines <= np.maximum(values, 0)).all()
    assert (lines >= np.minimum(values, 0)).all()
    low, high = values.min(axis=1), values.max(axis=1)
    normal = high - low > 1e-200
    for number, unit in zip(*np.nonzero(normal), strict=True):
        own, line = values[number, :, unit].tolist(), lines[number, :, unit].tolist()
        assert line == pytest.approx([Formula.line(own, value) for value in own], rel=1e-12)
