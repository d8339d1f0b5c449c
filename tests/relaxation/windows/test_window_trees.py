"""Boxes, and trees of boxes that are halved, against the formula of the certificate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vhagar.relaxation.stages import Stage
from vhagar.relaxation.windows import halving as halving_module
from vhagar.relaxation.windows.boxes import Boxes, at_points, corners
from vhagar.relaxation.windows.halving import LEAF, Functions, Halved, Halving, begun_at_most
from vhagar.relaxation.windows.kinds import Kind, Windows

from .formula import Formula
from .nets import Rng

Array = np.ndarray


def made(
    rng: Rng, windows: int = 3, units: int = 3, pixels: int = 2, end: float = 1.0
) -> tuple[Windows, Kind]:
    """Windows of one kind, with ranges in eighths that often end where the clip begins."""
    ends = np.sort(rng.integers(0, 9, (2, pixels + 1)), axis=0) / 8
    ends[1] = np.maximum(ends[1], ends[0] + 0.125)
    kind = Kind(
        np.arange(windows),
        np.arange(windows * pixels).reshape(windows, pixels),
        np.arange(windows * units).reshape(windows, units),
        rng.normal(size=(units, pixels)),
        rng.normal(size=units) / 2,
        ends[0, :-1],
        ends[1, :-1],
    )
    return Windows((kind,), windows, ends[0, -1], ends[1, -1], end, 1.0, Stage(())), kind


def functions_of(rng: Rng, kind: Kind) -> Functions:
    count, units = kind.units.shape
    return Functions(rng.normal(size=(count, units)), rng.normal(size=(count, 2 * kind.width)))


def formula_of(windows: Windows, kind: Kind, functions: Functions) -> Formula:
    on_pixels, on_images = np.split(functions.multipliers, 2, axis=1)
    return Formula(kind.weight, kind.bias, windows.end, functions.lead, on_pixels, on_images)


def ends_of(windows: Windows, kind: Kind) -> tuple[list[float], list[float]]:
    return [*kind.low.tolist(), windows.least], [*kind.high.tolist(), windows.most]


@pytest.mark.parametrize("end", [0.75, 1.0, math.inf])
def test_boxes_have_the_bounds_of_the_formula(end: float) -> None:
    rng = np.random.default_rng(1)
    for pixels in (1, 2, 3):
        windows, kind = made(rng, pixels=pixels, end=end)
        functions = functions_of(rng, kind)
        formula = formula_of(windows, kind, functions)
        sides = np.sort(rng.integers(0, 9, (2, 12, pixels + 1)), axis=0) / 8
        boxes = Boxes(*sides)
        assert len(boxes) == 12
        asked: list[int] = []
        for found in corners(windows, kind, boxes):
            asked += found.which.tolist()
            for k, number in enumerate(found.which.tolist()):
                low, high = (side[number].tolist() for side in sides)
                most = (functions.at_corners @ found.terms[k].T).max(axis=1)
                expected = [formula.in_box(window, low, high) for window in range(3)]
                assert most == pytest.approx(expected, rel=1e-12, abs=1e-12)
                points = formula.corners(low, high)
                values = [
                    np.array([kind.weight @ np.array(c).T[side] + kind.bias for c in points])
                    for side in (0, 1)
                ]
                crosses = [(own.min(axis=0) < 0) & (own.max(axis=0) > 0) for own in values]
                assert found.open[k].tolist() == (crosses[0] | crosses[1]).tolist()
        assert sorted(asked) == list(range(12))


def test_neurons_that_end_at_0_are_not_open() -> None:
    """Nor is a neuron that is never positive: its line is 0, and not the neuron itself."""
    windows, kind = made(np.random.default_rng(1), units=2, pixels=1, end=math.inf)
    kind = replace(kind, weight=np.array([[1.0], [1.0]]), bias=np.array([0.0, -1.0]))
    (found,) = corners(windows, kind, Boxes(np.zeros((1, 2)), np.array([[0.5, 0.5]])))
    assert found.open.tolist() == [[False, False]]
    assert found.terms[0, :, 0].tolist() == [0.0, 0.0, -0.5, -0.5]
    assert found.terms[0, :, 1].tolist() == [0.0] * 4


def test_windows_at_points() -> None:
    rng = np.random.default_rng(2)
    for end in (0.75, math.inf):
        windows, kind = made(rng, end=end)
        functions = functions_of(rng, kind)
        x, e = rng.random((20, 2)), rng.random(20)
        found = functions.at_points @ at_points(windows, kind, x, e).T
        x_p = np.minimum(x + e[:, None], end)
        s, t = (np.maximum(side @ kind.weight.T + kind.bias, 0) for side in (x, x_p))
        on_pixels, on_images = np.split(functions.multipliers, 2, axis=1)
        expected = functions.lead @ (s - t).T - on_pixels @ x.T - on_images @ x_p.T
        np.testing.assert_allclose(found, expected, atol=1e-12)


def reached_by(windows: Windows, kind: Kind, functions: Functions, rng: Rng) -> Array:
    """The largest values at many points, ends of ranges among them."""
    low, high = map(np.array, ends_of(windows, kind))
    part = rng.random((4000, len(low)))
    part = np.where(rng.random(part.shape) < 0.4, part.round(), part)
    points = low + part * (high - low)
    terms = at_points(windows, kind, points[:, :-1], points[:, -1])
    return np.asarray((functions.at_points @ terms.T).max(axis=1))


def grown(
    seed: int, slack: float, part: float, most: int = 3000, end: float = 1.0
) -> tuple[Formula, Halved, Windows, Kind]:
    """With limits that are part of the way from what windows reach to what one box proves."""
    rng = np.random.default_rng(seed)
    windows, kind = made(rng, end=end)
    functions = functions_of(rng, kind)
    formula = formula_of(windows, kind, functions)
    ends = ends_of(windows, kind)
    whole = np.array([formula.in_box(window, *ends) for window in range(3)])
    reached = reached_by(windows, kind, functions, rng)
    assert (reached <= whole + 1e-12).all()
    limits = reached + part * (whole - reached) + 1e-9
    tree = Halving(windows, kind, functions, slack).grow(limits, most)
    assert (tree.limits == limits).all()
    return formula, tree, windows, kind


@pytest.mark.parametrize("batch", [256, 3])
@pytest.mark.parametrize("end", [0.75, math.inf])
def test_trees_prove_what_they_say(end: float, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly that where no limit is raised, and else no less."""
    monkeypatch.setattr(halving_module, "_BATCH", batch)
    for seed in range(5):
        for slack, part in ((-math.inf, 0.6), (0.1, -0.5)):
            formula, tree, windows, kind = grown(seed, slack, part, end=end)
            found = formula.by_tree(*ends_of(windows, kind), tree.code, tree.limits)
            if slack < 0:
                assert tree.proven == pytest.approx(found, rel=1e-12, abs=1e-12)
                assert (tree.proven <= tree.limits).all()
            assert (np.array(found) <= tree.proven + 1e-12).all()
            inner = [code for code in tree.code if code != LEAF]
            assert len(tree.code) == 2 * len(inner) + 1


def test_trees_end_where_windows_are_within_their_limits() -> None:
    for seed in range(8):
        formula, tree, windows, kind = grown(seed, -math.inf, 1.0)
        assert tree.code == bytes([255])
        ends = ends_of(windows, kind)
        assert tree.proven == pytest.approx([formula.in_box(k, *ends) for k in range(3)])


def test_a_limit_that_is_just_kept_is_kept() -> None:
    windows, kind = made(np.random.default_rng(3))
    functions = functions_of(np.random.default_rng(4), kind)

    def grow(limits: Array) -> Halved:
        return Halving(windows, kind, functions, -math.inf).grow(limits, 3)

    whole = grow(np.full(3, math.inf)).proven
    assert len(grow(whole).code) == 1
    for window in range(3):
        limits = whole.copy()
        limits[window] = np.nextafter(limits[window], -math.inf)
        assert len(grow(limits).code) > 1


def test_a_box_without_a_middle_is_a_leaf() -> None:
    windows, kind = made(np.random.default_rng(3))
    windows, kind = replace(windows, most=windows.least), replace(kind, high=kind.low)
    functions = functions_of(np.random.default_rng(4), kind)
    tree = Halving(windows, kind, functions, -math.inf).grow(np.full(3, -1e9), 100)
    assert tree.code == bytes([255])
    formula, ends = formula_of(windows, kind, functions), ends_of(windows, kind)
    assert tree.proven == pytest.approx([formula.in_box(window, *ends) for window in range(3)])


def test_boxes_that_are_bounded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the numbers at all of their corners, at most three for each pixel and end of the shift."""
    windows, kind = made(np.random.default_rng(3), windows=5)
    functions = functions_of(np.random.default_rng(4), kind)
    each = 2 * 3**2 * (2 * 3 + 2 * 2)
    for most, numbers, expected in (
        (256, 3 * each, 3),
        (256, 4 * each - 1, 3),
        (256, each - 1, 1),
        (2, 3 * each, 2),
        (0, 3 * each, 1),
    ):
        monkeypatch.setattr(halving_module, "_BATCH", most)
        monkeypatch.setattr(halving_module, "_MOST_NUMBERS", numbers)
        assert Halving(windows, kind, functions, 0.1)._batch == expected


def test_limits_below_the_truth_are_raised() -> None:
    """Not much above what windows reach; and far fewer boxes are needed than without that."""
    sizes = []
    for slack in (-math.inf, 0.05, 0.5):
        rng = np.random.default_rng(3)
        windows, kind = made(rng)
        functions = functions_of(rng, kind)
        tree = Halving(windows, kind, functions, slack).grow(np.full(3, -1e9), 3000)
        sizes.append(len(tree.code))
        reached = reached_by(windows, kind, functions, rng)
        assert (reached <= tree.proven + 1e-12).all()
        if slack > 0:
            assert (tree.proven <= reached + slack + 1e-3).all()
    assert sizes[0] > 3000 > 10 * sizes[1] > 100 * sizes[2]


def test_raised_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a slack above the values at the centres, with the strongest shift; never lowered."""
    rng = np.random.default_rng(4)
    windows, kind = made(rng)
    functions = functions_of(rng, kind)
    halving = Halving(windows, kind, functions, 0.25)
    low, high = np.sort(rng.random((2, 7, 3)), axis=0)
    boxes = [
        halving_module._Open(a, b, np.arange(3), np.zeros(3))
        for a, b in zip(low, high, strict=True)
    ]
    terms = at_points(windows, kind, (low + high)[:, :2] / 2, high[:, 2])
    reached = (functions.at_points @ terms.T).max(axis=1)
    for batch in (256, 2):
        monkeypatch.setattr(halving_module, "_BATCH", batch)
        halving._limits = np.array([-9.0, -9.0, 9.0])
        halving._raise_limits(boxes)
        expected = [*(reached[:2] + 0.25), 9.0]
        assert halving._limits == pytest.approx(expected)
    for k, box in enumerate(boxes):
        halving._limits = np.full(3, -9.0)
        halving._raise_limits([box])
        assert halving._limits == pytest.approx(functions.at_points @ terms[k] + 0.25)


def test_the_most_boxes() -> None:
    """Boxes that were begun are finished, of a whole batch."""
    sizes = [len(grown(5, -math.inf, -9.0, most)[1].code) for most in (0, 1, 2, 20)]
    assert sizes[0] == 3
    assert sizes[:3] == [3, 7, 7]
    assert 21 < sizes[3] < 100
    windows, kind = made(np.random.default_rng(5))
    functions = functions_of(np.random.default_rng(6), kind)
    for answers in ([True], [False, True], [False, False, True]):
        left = iter(answers)
        halving = Halving(windows, kind, functions, -math.inf)
        tree = halving.grow(np.full(3, -1e9), 10**9, left.__next__)
        assert len(tree.code) == 2 ** (len(answers) + 1) - 1
        assert next(left, None) is None
        assert np.isfinite(tree.proven).all()


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_trees_have_so_many_boxes_in_the_end(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch in which a tree has enough is finished, and its open boxes are leaves."""
    monkeypatch.setattr(halving_module, "_BATCH", batch)
    assert begun_at_most(2 * (7 + batch) + 1) == begun_at_most(2 * (7 + batch) + 2) == 7
    windows, kind = made(np.random.default_rng(5))
    functions = functions_of(np.random.default_rng(6), kind)
    for boxes in (1, 2, 2 * batch, 2 * batch + 1, 40, 41, 42, 43, 44, 101):
        halving = Halving(windows, kind, functions, -math.inf)
        tree = halving.grow(np.full(3, -1e9), begun_at_most(boxes))
        assert boxes - 2 * batch - 1 < len(tree.code) <= boxes


def test_small_trees_have_their_boxes_too() -> None:
    """A batch is larger than the trees of many windows, but no level of theirs is."""
    windows, kind = made(np.random.default_rng(5))
    functions = functions_of(np.random.default_rng(6), kind)
    for boxes in (1, 2, 3, 6, 7, 30, 31, 510, 515, 1022, 1023, 1024):
        halving = Halving(windows, kind, functions, -math.inf)
        tree = halving.grow(np.full(3, -1e9), begun_at_most(boxes))
        # Where whole levels fit, all boxes are used.
        least = boxes if boxes in (3, 7, 31, 1023) else boxes // 2
        assert least <= len(tree.code) <= boxes


@pytest.mark.parametrize(
    ("low", "high", "entry", "at"),
    [
        ([0.0, 0.0], [1.0, 0.25], 0, 0.75),  # where the clip begins
        ([0.0, 0.0], [0.75, 0.25], 0, 0.375),  # at its end, it does not count
        ([0.75, 0.0], [1.0, 0.25], 0, 0.875),
        ([0.0, 0.0], [0.5, 0.25], 0, 0.25),
        ([0.0, 0.0], [1.0, 0.75], 1, 0.375),  # nor for the shift
        ([0.5, 0.0], [0.5, 0.0], 0, None),
        ([0.5, 0.0], [np.nextafter(0.5, 1), 0.0], 0, None),
        ([np.nextafter(0.5, 0), 0.0], [0.5, 0.0], 0, None),
    ],
)
def test_where_boxes_are_halved(
    low: list[float], high: list[float], entry: int, at: float | None
) -> None:
    box = halving_module._Open(np.array(low), np.array(high), np.arange(2), np.zeros(2))
    assert box.middle(entry, 1.0) == at
    if at is not None:
        windows, upper = np.arange(1), np.ones(1)
        lower, higher = box.halves(entry, 1.0, windows, upper)
        assert lower.low.tolist() == low
        assert higher.high.tolist() == high
        assert lower.high.tolist() == [*high[:entry], at, *high[entry + 1 :]]
        assert higher.low.tolist() == [*low[:entry], at, *low[entry + 1 :]]
        assert all(own.windows is windows and own.upper is upper for own in (lower, higher))


def test_the_entry_that_is_halved() -> None:
    """That along which open neurons change the most, or all where none is open."""
    weight = np.array([[3.0, -1.0], [0.0, 5.0], [0.0, -4.0]])
    windows, kind = made(np.random.default_rng(1))
    kind = replace(kind, weight=weight)
    functions = functions_of(np.random.default_rng(1), kind)
    halving = Halving(windows, kind, functions, 0.0)
    tenth = Halving(windows, replace(kind, weight=weight / 10), functions, 0.0)

    def widest(is_open: list[bool], widths: list[float]) -> int:
        low = np.array([0.25, 0.5, 0.0])
        box = halving_module._Open(low, low + widths, np.arange(3), np.zeros(3))
        found = halving._widest(box, np.array(is_open))
        assert found == tenth._widest(box, np.array(is_open))
        return found

    assert widest([True, False, False], [1.0, 1.0, 1.0]) == 0  # 3, 1, 2
    assert widest([True, False, False], [0.5, 1.0, 1.0]) == 2
    assert widest([True, False, False], [0.5, 1.6, 0.7]) == 1
    assert widest([True, True, True], [1.0, 1.0, 1.0]) == 2  # 3, 10, 11
    assert widest([True, True, True], [1.0, 1.0, 0.8]) == 1
    assert widest([True, True, True], [1.0, 0.25, 0.3]) == 2
    assert widest([True, True, True], [1.0, 0.25, 0.25]) == 0
    assert widest([False, True, False], [1.0, 0.9, 1.0]) == 2
    assert widest([False, False, False], [1.0, 2.0, 1.5]) == 1
    assert widest([True, False, False], [1.0, 2.9, 0.0]) == 0
    # What counts of entries that no open neuron sees.
    assert widest([False, True, False], [2.0, 0.0, 0.0]) == 0
    assert widest([False, True, False], [2.0, 1e-3, 0.0]) == 0
    assert widest([False, True, False], [2.0, 3e-3, 0.0]) == 1
