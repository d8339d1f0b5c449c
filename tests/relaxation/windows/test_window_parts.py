"""Windows, boxes, trees and multipliers, part by part, against the formula of the certificate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.windows import bound as bound_module
from vhagar.relaxation.windows import halving as halving_module
from vhagar.relaxation.windows import kinds as kinds_module
from vhagar.relaxation.windows import multipliers as multipliers_module
from vhagar.relaxation.windows.bound import WindowBounder
from vhagar.relaxation.windows.boxes import Boxes, at_points, corners
from vhagar.relaxation.windows.halving import LEAF, Functions, Halved, Halving
from vhagar.relaxation.windows.kinds import Kind, Windows, windows_of
from vhagar.relaxation.windows.multipliers import Multipliers, multipliers

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
        assert tree.code == bytes([LEAF])
        ends = ends_of(windows, kind)
        assert tree.proven == pytest.approx([formula.in_box(k, *ends) for k in range(3)])


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
    halving = Halving(windows, kind, functions_of(np.random.default_rng(1), kind), 0.0)

    def widest(is_open: list[bool], widths: list[float]) -> int:
        low = np.array([0.25, 0.5, 0.0])
        box = halving_module._Open(low, low + widths, np.arange(3), np.zeros(3))
        return halving._widest(box, np.array(is_open))

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


SEEN = np.array([[0, 2, 0, -3], [1, 0, 0, 0], [0, 2, 0, -3], [0, 0, 0, 0], [0, 0, 1.0, 0]])


def network_with(weight: Array, bias: Array | None = None, classes: int = 3) -> Network:
    units, pixels = weight.shape
    bias = np.zeros(units) if bias is None else bias
    last = np.random.default_rng(3).normal(size=(classes, units))
    return Network(
        (
            Affine(weight, bias, (pixels,), (units,)),
            Relu((units,)),
            Affine(last, np.arange(float(classes)), (units,), (classes,)),
        ),
        (pixels,),
    )


def piece_of(text: str, pixels: int, clip: bool = True, domain: Domain | None = None) -> Any:
    (piece,) = parse(text).pieces(domain or Domain((pixels,)), clip)
    return piece


def test_windows_of_a_network() -> None:
    """By the pixels that they see; equal ones, ranges included, are of one kind."""
    bias = np.array([1.0, 2.0, 3.0, 4.0, 2.0])
    windows = windows_of(network_with(SEEN, bias), piece_of("brightness([0.125,0.25])", 4))
    assert windows is not None
    assert windows.count == 3
    two, one = windows.kinds
    assert (two.numbers.tolist(), two.pixels.tolist(), two.units.tolist()) == (
        [0],
        [[1, 3]],
        [[0, 2]],
    )
    assert (two.width, two.weight.tolist(), two.bias.tolist()) == (2, [[2, -3], [2, -3]], [1, 3])
    assert (one.numbers.tolist(), one.pixels.tolist(), one.units.tolist()) == (
        [1, 2],
        [[0], [2]],
        [[1], [4]],
    )
    assert (windows.least, windows.most, windows.end, windows.sign) == (0.125, 0.25, 1.0, 1.0)
    assert (one.low.tolist(), one.high.tolist()) == ([0.0], [1.0])
    pixels, neurons = windows.sizes(two)
    assert pixels.tolist() == [1.25, 1.25]
    assert neurons.tolist() == [5 * 1.25 + 1, 5 * 1.25 + 3]


def test_windows_of_images_that_darken() -> None:
    ends = np.array([0.0, 0.25, 0.5, 0.0]), np.array([0.5, 1.0, 1.0, 0.25])
    piece = piece_of("brightness([-0.5,-0.125])", 4, True, Domain((4,), *ends))
    windows = windows_of(network_with(SEEN), piece)
    assert windows is not None
    assert (windows.least, windows.most, windows.end, windows.sign) == (0.125, 0.5, 0.0, -1.0)
    assert [kind.low.tolist() for kind in windows.kinds] == [[-1.0, -0.25], [-0.5], [-1.0]]
    assert [kind.high.tolist() for kind in windows.kinds] == [[-0.25, 0.0], [0.0], [-0.5]]
    assert windows.kinds[0].weight.tolist() == [[-2, 3], [-2, 3]]
    pixels, _ = windows.sizes(windows.kinds[0])
    assert pixels.tolist() == [1.5, 0.75]


def test_sizes_where_images_are_not_clipped() -> None:
    windows = windows_of(network_with(SEEN), piece_of("brightness([0,0.75])", 4, False))
    assert windows is not None
    assert windows.end == math.inf
    assert windows.sizes(windows.kinds[0])[0].tolist() == [1.75, 1.75]


def test_weights_that_are_stored_but_zero_are_not_seen() -> None:
    matrix = kinds_module.sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 3.0]), np.array([1, 1, 2, 0]), np.array([0, 3, 4])), shape=(2, 3)
    )
    found = kinds_module._grouped(matrix, np.zeros(2), np.zeros(3), np.ones(3))
    assert [kind.pixels.tolist() for kind in found] == [[[1]], [[0]]]
    assert [kind.weight.tolist() for kind in found] == [[[3.0]], [[3.0]]]


def test_the_most_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    piece, network = piece_of("brightness([0,0.25])", 4), network_with(SEEN)
    for name, most in (("_MOST_WINDOWS", 3), ("_MOST_KINDS", 2), ("_MOST_TERMS", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(kinds_module, name, most)
            assert windows_of(network, piece) is not None
            patch.setattr(kinds_module, name, most - 1)
            assert windows_of(network, piece) is None
    assert windows_of(network_with(0 * SEEN), piece) is None
    assert windows_of(network_with(np.ones((2, 4))), piece) is not None
    wider = piece_of("brightness([0,0.25])", 5)
    assert windows_of(network_with(np.ones((2, 5))), wider) is None


class Recorded:
    """In the place of `Halving`: proves what it is told, and notes what it is asked."""

    made: ClassVar[list[Recorded]] = []

    def __init__(self, windows: Windows, kind: Kind, functions: Functions, slack: float) -> None:
        self.kind, self.functions, self.slack = kind, functions, slack
        self.made.append(self)

    def grow(self, limits: Array, most: int, should_stop: Callable[[], bool]) -> Halved:
        self.limits, self.most, self.should_stop = limits, most, should_stop
        return Halved(bytes([0, LEAF, LEAF]), limits, limits - 0.5)


@pytest.mark.parametrize("text", ["brightness([0.125,0.25])", "brightness([-0.25,-0.125])"])
def test_a_bound_is_the_sum_of_its_parts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an allowance for rounding that is large enough to be seen."""
    monkeypatch.setattr(bound_module, "Halving", Recorded)
    monkeypatch.setattr(bound_module, "_ROUNDING", 2.0**-5)
    bias = np.array([1.0, 2.0, 3.0, 4.0, 2.0])
    network, piece = network_with(SEEN, bias), piece_of(text, 4)
    bounder = WindowBounder(network, piece, 2)
    windows = bounder._windows
    assert windows is not None
    rng = np.random.default_rng(1)
    of = tuple(rng.normal(size=(len(k.numbers), 2 * k.width)) for k in windows.kinds)
    values = tuple(3 + rng.random(len(kind.numbers)) for kind in windows.kinds)

    def never() -> bool:
        return False

    for alone in (1.0, 1000.0):
        Recorded.made.clear()
        bounder._multipliers[1] = Multipliers(of, values, alone)
        proof = bounder.bound(1, 0.25, never)
        assert proof is not None
        assert (proof.target, proof.windows) == (1, windows)
        reached = sum(float(own.sum()) for own in values)
        slack = 0.25 * max(reached, 0.1 * alone) / 3
        last = network.layers[2]
        assert isinstance(last, Affine)
        lead = last.weight[2] - last.weight[1]
        size = abs(last.weight[2]) + abs(last.weight[1])
        total, weight, left = 0.0, 0.0, np.zeros((2, 1, 4))
        for made_one, kind, own, reach in zip(
            Recorded.made, windows.kinds, of, values, strict=True
        ):
            assert made_one.kind is kind
            assert made_one.slack == pytest.approx(slack)
            assert made_one.should_stop is never
            assert made_one.most == math.ceil(2**16 * len(kind.numbers) / 3)
            assert (made_one.functions.multipliers == own).all()
            np.testing.assert_allclose(made_one.functions.lead, lead[kind.units])
            np.testing.assert_allclose(made_one.limits, reach + slack)
            pixels, neurons = windows.sizes(kind)
            for units, seen, row, value in zip(
                kind.units, kind.pixels, own, reach + slack - 0.5, strict=True
            ):
                total += value
                weight += 4 * size[units] @ neurons + abs(value)
                weight += 4 * abs(row) @ np.concatenate([pixels, pixels])
                for side in (0, 1):
                    left[side, 0, seen] += windows.sign * np.split(row, 2)[side]
        rest = float(piece.support(left[0], left[1]).value[0])
        expected = total + rest + 2.0**-5 * (weight + abs(rest))
        assert proof.upper == pytest.approx(expected, rel=1e-13)
        assert [tree.code for tree in proof.trees] == [bytes([0, LEAF, LEAF])] * len(of)


def test_a_bound_is_never_negative_and_always_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    for value, expected in ((-1e9, 0.0), (math.inf, None), (math.nan, None)):

        def told(*_: Any, value: float = value) -> Halved:
            return Halved(bytes([LEAF]), np.zeros(1), np.full(1, value))

        monkeypatch.setattr(Halving, "grow", told)
        proof = bounder.bound(1, 0.25)
        assert (proof and proof.upper) == expected


def test_the_allowances_of_a_bound() -> None:
    assert 2.0**-45 <= bound_module._ROUNDING <= 2.0**-35
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    windows = bounder._windows
    assert windows is not None
    none = [np.zeros((len(kind.numbers), 2 * kind.width)) for kind in windows.kinds]
    trees = [Halved(b"", np.zeros(0), np.zeros(len(own))) for own in none]
    found = bounder._total(windows, Multipliers(tuple(none), (), 0.0), trees, np.zeros(5))
    assert 2.0**-901 < found < 2.0**-890


def test_a_block_says_what_was_proved() -> None:
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    windows = bounder._windows
    assert windows is not None
    # In another order than the kinds'.
    numbers = {0: [1], 1: [2, 0]}
    own = replace(
        windows,
        kinds=tuple(
            replace(kind, numbers=np.array(numbers[k])) for k, kind in enumerate(windows.kinds)
        ),
    )
    of = np.arange(4.0).reshape(1, 4), np.arange(4.0, 8.0).reshape(2, 2)
    trees = (
        Halved(bytes([LEAF]), np.array([0.5]), np.zeros(1)),
        Halved(bytes([0, LEAF, LEAF]), np.array([0.25, 0.75]), np.zeros(2)),
    )
    proof = bound_module.WindowProof(1.0, 1, own, Multipliers(of, (), 0.0), trees)
    about, data = proof.block()
    assert about == {"target": 1, "windows": 3, "boxes": [1, 3]}
    expected = [
        np.array([1, 0, 1], "<u2").tobytes(),
        np.array([0.75, 0.5, 0.25], "<f8").tobytes(),
        np.array([6, 7, 0, 1, 2, 3, 4, 5], "<f4").tobytes(),
        bytes([LEAF, 0, LEAF, LEAF]),
    ]
    assert data == b"".join(expected)


def shared(seed: int = 2) -> tuple[Windows, Array]:
    """Windows of two and of one pixel, some of which share pixels."""
    rng = np.random.default_rng(seed)
    seen = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    windows = windows_of(
        network_with(seen * rng.normal(size=seen.shape), rng.normal(size=5) / 2),
        piece_of("brightness([0,0.3])", 4),
    )
    assert windows is not None
    return windows, rng.normal(size=5)


def sampled(windows: Windows, kind: Kind, lead: Array, own: Array) -> tuple[Array, Array]:
    """Values at all combinations of the sample points of pixels, with the strongest shift."""
    axes = []
    for low, high in zip(kind.low, kind.high, strict=True):
        places = {low + k * (high - low) / 4 for k in range(5)}
        turn = windows.end - windows.most
        axes.append(sorted(places | ({turn} if low < turn < high else set())))
    x = np.array(list(itertools.product(*axes)))
    terms = at_points(windows, kind, x, np.full(len(x), windows.most))
    return np.concatenate([lead[kind.units], -own], axis=1) @ terms.T, terms


def test_multipliers_say_what_windows_reach() -> None:
    windows, lead = shared()
    found = multipliers(windows, lead)
    left = np.zeros((2, 4))
    alone = 0.0
    for kind, own, values in zip(windows.kinds, found.of, found.values, strict=True):
        assert (own == own.astype(np.float32)).all()
        at, _ = sampled(windows, kind, lead, own)
        np.testing.assert_allclose(values, at.max(axis=1), rtol=1e-5, atol=1e-5)
        alone += abs(sampled(windows, kind, lead, 0 * own)[0]).max(axis=1).sum()
        for side in (0, 1):
            np.add.at(left[side], kind.pixels, np.split(own, 2, axis=1)[side])
    assert found.alone == pytest.approx(alone, rel=1e-5)
    assert abs(left).max() < 1e-4  # what is shared is taken from some and given to others


@pytest.mark.parametrize("seed", range(4))
def test_multipliers_are_nearly_the_best(seed: int) -> None:
    """As good as those of a linear program over the sample points."""
    from scipy.optimize import linprog

    windows, lead = shared(seed)
    found = multipliers(windows, lead)
    reached = sum(float(own.sum()) for own in found.values)
    sizes = [len(kind.numbers) * 2 * kind.width for kind in windows.kinds]
    count = sum(sizes)
    # Columns: the multipliers, then a value for each window.
    rows, limits, sums = [], [], np.zeros((8, count + windows.count))
    begin = 0
    for kind, own in zip(windows.kinds, found.of, strict=True):
        at, terms = sampled(windows, kind, lead, 0 * own)
        width = 2 * kind.width
        for k, number in enumerate(kind.numbers.tolist()):
            first = begin + k * width
            for value, term in zip(at[k], terms[:, -width:], strict=True):
                row = np.zeros(count + windows.count)
                row[first : first + width] = -term
                row[count + number] = -1.0
                rows.append(row)
                limits.append(-value)
            for side in (0, 1):
                for j, pixel in enumerate(kind.pixels[k]):
                    sums[4 * side + pixel, first + side * kind.width + j] = 1.0
        begin += len(kind.numbers) * width
    cost = np.append(np.zeros(count), np.ones(windows.count))
    best = linprog(cost, rows, limits, sums, np.zeros(8), bounds=(None, None))
    assert best.fun - 1e-4 <= reached <= best.fun + 0.02 * found.alone


def test_multipliers_without_time_or_leads_are_none() -> None:
    windows, lead = shared(4)
    for found in (multipliers(windows, lead, lambda: True), multipliers(windows, 0 * lead)):
        assert not any(own.any() for own in found.of)
    asked = iter([False] * 20 + [True])
    early = multipliers(windows, lead, lambda: next(asked))
    assert next(asked, None) is None
    assert any(own.any() for own in early.of)
    assert sum(map(np.sum, multipliers(windows, lead).values)) < sum(map(np.sum, early.values))


def test_multipliers_of_shared_pixels_are_balanced() -> None:
    pixels = [np.array([[0, 1], [1, 3]]), np.array([[3]])]
    own = multipliers_module._Shared(pixels)
    before = [np.zeros((2, 4), np.float32), np.zeros((1, 2), np.float32)]
    step = np.arange(10.0) ** 2
    rows, single = own.moved(before, step)
    # In the order of the pixels 0, 1, 1, 3, 3 and of their images.
    assert rows[0].tolist() == [0.0, -(1 - 16) / 2, 0.0, -(9 - 36) / 2]
    assert rows[1].tolist() == [-(16 - 1) / 2, -(25 - 64) / 2, -(36 - 9) / 2, -(49 - 81) / 2]
    assert single.tolist() == [[-(64 - 25) / 2, -(81 - 49) / 2]]
    assert rows.dtype == single.dtype == np.float32
