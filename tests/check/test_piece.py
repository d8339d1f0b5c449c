"""What all pieces have in common: domains, supports over a box, shares, and their rounding."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import pieces as module
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import TINY, UNDERFLOW, gamma
from vhagar_check.pieces import Domain, Piece, part_of


@dataclass(frozen=True, eq=False)
class Same(Piece):
    """`x_p = x`, over the range. Its image may be said to be larger."""

    domain: Domain
    image: tuple[np.ndarray, np.ndarray] = (np.zeros(1), np.zeros(1))
    span: tuple[float, float] | None = None
    free: bool = False
    shared: str = "a"

    def largest(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        both = a + b
        return np.maximum(both * self.domain.low, both * self.domain.high).sum(axis=1)

    def share(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return {"a": a, "both": a + b, "half": a / 2 + b}[self.shared]

    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        low, high = self.domain.ends
        both = (a + b).fractions()
        return sum((max(v * low, v * high) for v in both), Fraction(0))

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction]:
        return x

    def with_span(self, span: tuple[float, float]) -> Piece:
        return Same(self.domain, self.image, span)


BOX = np.array([0.25, -1.0, 0.0]), np.array([0.5, 2.0, 0.0])
WIDE = Domain((3,), -2.0, 3.0)
NARROW = Domain((3,), -2.0, 3.0, BOX)


def same(domain: Domain, **given: Any) -> Same:
    ends = np.full(domain.size, domain.low), np.full(domain.size, domain.high)
    return Same(domain, **{"image": ends, **given})


def numbers(seed: int, rows: int = 2, size: int = 3) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.random.default_rng(seed).normal(size=(2, rows, size))
    return a, b


@pytest.mark.parametrize(
    ("ends", "image", "largest"),
    [
        ((-3.0, 2.0), ([0.0, -1.0], [1.0, 1.0]), 3.0),
        ((-2.0, 4.0), ([0.0, -1.0], [1.0, 1.0]), 4.0),
        ((0.0, 1.0), ([-5.0, -1.0], [1.0, 1.0]), 5.0),
        ((0.0, 1.0), ([0.0, 0.0], [1.0, 6.0]), 6.0),
    ],
)
def test_the_largest_number_of_a_pair(
    ends: tuple[float, float], image: tuple[list[float], list[float]], largest: float
) -> None:
    piece = Same(Domain((2,), *ends), (np.array(image[0]), np.array(image[1])))
    assert piece.magnitude == largest


@pytest.mark.parametrize("size", [1, 3, 50])
def test_the_rounding_of_a_support(size: int) -> None:
    piece = same(Domain((size,), -4.0, 1.0))
    a, b = numbers(size, 2, size)
    both = (abs(a) + abs(b)).sum(axis=1)
    stated = 1.01 * gamma(2 * size + 64) * both * 4.0
    np.testing.assert_allclose(piece.rounding(a, b), stated, rtol=1e-12)
    zero = np.zeros((1, size))
    large = 2.0**122  # as large as makes what underflows comparable with `TINY`
    huge = same(Domain((size,), 0.0, large))
    lost = UNDERFLOW * (2 * size + 64) * size * large
    np.testing.assert_allclose(huge.rounding(zero, zero), [lost + TINY], rtol=1e-12)
    nothing = same(Domain((size,), 0.0, 0.0))
    lost = UNDERFLOW * 3 * large * size
    found = nothing.rounding(zero + large, zero - 2 * large)
    np.testing.assert_allclose(found, [lost + TINY], rtol=1e-12)


def test_a_support_is_rounded_up() -> None:
    piece = same(WIDE)
    a, b = numbers(1)
    expected = piece.largest(a, b) + piece.rounding(a, b)
    assert piece.support(a, b).tolist() == expected.tolist()
    assert piece.decided(a, b, {0: 1}).tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_over_a_box_the_better_bound_counts(seed: int) -> None:
    a, b = numbers(seed)
    over_range = same(WIDE).support(a, b)
    for shared in ("a", "both", "half"):
        piece = same(NARROW, shared=shared)
        s = piece.share(a, b)
        inside = piece.largest(a - s, b) + np.maximum(s * BOX[0], s * BOX[1]).sum(axis=1)
        expected = np.minimum(over_range, inside)
        found = piece.support(a, b)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert (found >= expected).all()


def test_a_box_bounds_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pixels at a time, and never worse than they were known to be."""
    rng = np.random.default_rng(3)
    low = rng.uniform(-1.5, 1.0, 7)
    high = low + rng.random(7)
    domain = Domain((7,), -2.0, 3.0, (low, high))
    known = np.full(7, -2.0), np.full(7, 3.0)
    known[0][2], known[1][5] = high[2] - 0.1, low[5] + 0.1
    expected = low.copy(), high.copy()
    expected[0][2], expected[1][5] = known[0][2], known[1][5]
    for many in (64, 7, 3, 1):
        monkeypatch.setattr(module, "_IMAGES_AT_ONCE", many)
        found = same(domain, image=known, shared="both").image_box
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        assert (found[0] <= expected[0]).all()
        assert (found[1] >= expected[1]).all()
    whole = same(WIDE)
    assert whole.image_box is whole.image


def test_a_bound_that_is_no_number_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = same(NARROW)
    monkeypatch.setattr(Same, "support", lambda self, a, b: np.full(len(a), np.nan))
    assert [side.tolist() for side in piece.image_box] == [[-2.0] * 3, [3.0] * 3]
    monkeypatch.undo()
    monkeypatch.setattr(Same, "_inside", lambda self, box, a, b: np.full(len(a), np.nan))
    a, b = numbers(2)
    assert piece.support(a, b).tolist() == same(WIDE).support(a, b).tolist()


class Rows:
    """Conditions that say what they were asked."""

    def __init__(self, rows: list[int]) -> None:
        self.linear = bool(rows)
        self.asked: list[np.ndarray] = []

    def pulled(self, box: Any, s: np.ndarray) -> np.ndarray:
        assert box is BOX
        self.asked.append(s)
        return 0.25 * s + 1.0

    def support(self, box: Any, s: np.ndarray) -> np.ndarray:
        assert box is BOX
        return s.sum(axis=1)


@pytest.mark.parametrize("free", [False, True])
def test_shares_are_tried_in_turn(free: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The piece's own; for a free one all of `a + b`; then twice the rows' part comes first."""
    rows = Rows([0])
    piece = same(Domain((3,), -2.0, 3.0, BOX, rows), free=free, shared="half")  # type: ignore[arg-type]
    a, b = numbers(5)
    values = iter([[3.0, 1.0], [2.0, 2.0], [4.0, 0.5], [2.0, 0.5]])
    seen = []

    def joined(
        box: Any, rest: np.ndarray, s: np.ndarray, left: np.ndarray, size: float, known: Any
    ) -> np.ndarray:
        np.testing.assert_array_equal(left, a - s)
        np.testing.assert_array_equal(rest, piece.largest(left, b) + piece.rounding(left, b))
        np.testing.assert_array_equal(known, s.sum(axis=1))
        assert (box, size) == (BOX, 3.0)
        seen.append(s)
        return np.array(next(values))

    monkeypatch.setattr(module, "joined", joined)
    best, chosen = piece._shared(BOX, a, b)
    expected = [a / 2 + b, a + b] if free else [a / 2 + b]
    for _ in range(2):
        pulled = 0.25 * expected[-1] + 1.0
        expected.append(pulled + (a - pulled) / 2 + b)
    assert len(seen) == len(expected)
    for one, other in zip(seen, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(rows.asked, seen[-3:-1])
    assert best.tolist() == [2.0, 0.5]
    assert chosen.tolist() == [seen[1][0].tolist(), seen[2][1].tolist()]


@pytest.mark.parametrize("rows", [None, Rows([])])
def test_without_rows_one_share_is_tried(
    rows: Rows | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain: Any = Domain((3,), -2.0, 3.0, BOX, rows)  # type: ignore[arg-type]
    piece, known = same(domain, free=True), []

    def joined(*given: Any) -> np.ndarray:
        known.append(given[5])
        return np.zeros(2)

    monkeypatch.setattr(module, "joined", joined)
    a, b = numbers(6)
    best, chosen = piece._shared(BOX, a, b)
    assert best.tolist() == [0.0, 0.0]
    assert chosen.tolist() == a.tolist()
    assert len(known) == 1
    assert (known[0] is None) == (rows is None)


def test_a_support_over_a_box_in_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (Exact.of(row[0]) for row in numbers(7))
    wide, narrow = same(WIDE), same(NARROW, shared="both")
    assert wide.exact_within(a, b) == wide.exact_support(a, b)
    low, high = (list(map(Fraction, side.tolist())) for side in BOX)
    both = (a + b).fractions()
    best = sum(max(v * x, v * y) for v, x, y in zip(both, low, high, strict=True))
    found = narrow.exact_within(a, b)
    assert found is not None
    assert best <= found <= best + Fraction(1, 10**12)
    # A share of nothing leaves what the range gives.
    monkeypatch.setattr(Same, "_shared", lambda self, box, a, b: (None, 0 * a))
    assert narrow.exact_within(a, b) == wide.exact_support(a, b)
    # A bad one gives a bound that the range beats; one that is no number is not used at all.
    for share in (1e9, np.nan, np.array([[np.nan, 0.0, 0.0]])):
        monkeypatch.setattr(Same, "_shared", lambda self, box, a, b, s=share: (None, 0 * a + s))
        assert narrow.exact_within(a, b) == wide.exact_support(a, b)


@pytest.mark.parametrize(("known", "expected"), [(None, 7), (Fraction(3), 6), (Fraction(9), 7)])
def test_the_parts_of_a_support_in_fractions(
    known: Fraction | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is 3; of the share `(2, 1, 0)` the box knows 4, which conditions may lower."""
    conditions = SimpleNamespace(exact_support=lambda box, share: known)
    box = np.array([0.0, 1.0, 0.0]), np.array([1.5, 1.0, 9.0])
    for given in (conditions, None):
        domain: Any = Domain((3,), 0.0, 99.0, box, given)  # type: ignore[arg-type]
        piece = same(domain)
        monkeypatch.setattr(
            Same, "_shared", lambda self, box, a, b: (None, np.array([[2.0, 1.0, 0.0]]))
        )
        seen = []

        def support(self: Same, a: Exact, b: Exact, seen: list[Any] = seen) -> Fraction:
            seen.append(a.fractions())
            return Fraction(100) if len(seen) == 1 else Fraction(3)

        monkeypatch.setattr(Same, "exact_support", support)
        a, b = Exact.of(np.array([5.0, 1.0, 4.0])), Exact.of(np.zeros(3))
        assert piece.exact_within(a, b) == (expected if given is not None else 7)
        assert seen == [[5, 1, 4], [3, 0, 4]]


def test_what_is_not_known_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (Exact.of(row[0]) for row in numbers(8))
    piece = same(NARROW)
    answers = iter([Fraction(5), None])
    monkeypatch.setattr(Same, "exact_support", lambda self, a, b: next(answers))
    assert piece.exact_within(a, b) == 5
    answers = iter([None, Fraction(5)])
    assert piece.exact_within(a, b) is None


def test_inputs_of_a_domain() -> None:
    low, high = WIDE.inputs
    assert (low.tolist(), high.tolist()) == ([-2.0] * 3, [3.0] * 3)
    assert NARROW.inputs is BOX
    part = NARROW.part(np.array([2, 0]))
    assert part.shape == (2,)
    assert [side.tolist() for side in part.inputs] == [[0.0, 0.25], [0.0, 0.5]]
    assert WIDE.part(np.array([1])).box is None


@pytest.mark.parametrize(
    ("x", "over_range", "in_box"),
    [
        ([0.25, -1.0, 0.0], True, True),
        ([0.5, 2.0, 0.0], True, True),
        ([0.2, -1.0, 0.0], True, False),
        ([0.25, 2.5, 0.0], True, False),
        ([-2.0, 3.0, 3.0], True, False),
        ([-2.5, 0.0, 0.0], False, False),
        ([0.0, 0.0, 3.5], False, False),
    ],
)
def test_which_inputs_count(x: list[float], over_range: bool, in_box: bool) -> None:
    given = [Fraction(value) for value in x]
    assert WIDE.contains(given) is over_range
    assert NARROW.contains(given) is in_box
    beyond = Domain((3,), 0.0, 1.0, (np.full(3, -9.0), np.full(3, 9.0)))
    assert beyond.contains(given) is all(0 <= value <= 1 for value in x)
    for answer in (True, False):
        conditions: Any = SimpleNamespace(
            contains=lambda x, coordinates, answer=answer: answer and coordinates == "own"
        )
        domain = Domain((3,), -2.0, 3.0, BOX, conditions)
        assert domain.contains(given, "own") is (in_box and answer)


def test_an_input_has_all_entries() -> None:
    with pytest.raises(ValueError, match="zip"):
        WIDE.contains([Fraction(0)] * 2)


@pytest.mark.parametrize("nothing_left", [False, True])
def test_a_part_of_a_domain(nothing_left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Rejected, match="need not be a whole number"):
        NARROW.narrowed({0: (0.0, 1.0)})
    conditions: Any = object()
    seen = []

    def narrow(given: Any, low: np.ndarray, high: np.ndarray) -> bool:
        seen.append((given, low.tolist(), high.tolist()))
        return not nothing_left

    monkeypatch.setattr(module, "narrow_whole", narrow)
    domain = Domain((3,), -2.0, 3.0, BOX, conditions)
    part = domain.narrowed({0: (0.0, 0.375), 1: (0.0, 9.0)})
    ends = [0.25, 0.0, 0.0], [0.375, 2.0, 0.0]
    assert seen == [(conditions, *ends)]
    assert BOX[1][0] == 0.5
    if nothing_left:
        assert part is None
    else:
        assert part is not None
        assert [side.tolist() for side in part.inputs] == list(ends)
        assert part.conditions is conditions


def test_images_have_two_or_three_axes() -> None:
    assert Domain((4, 5), 0.0, 1.0).image == (1, 4, 5)
    assert Domain((2, 4, 5), 0.0, 1.0).image == (2, 4, 5)
    for shape in ((4,), (1, 2, 3, 4)):
        with pytest.raises(Rejected, match="needs an image"):
            _ = Domain(shape, 0.0, 1.0).image


def test_parts_of_pieces() -> None:
    piece = same(WIDE, span=(0.0, 1.0))
    assert part_of(piece, (0.0, 1.0)) is piece
    assert part_of(piece, (0.0, 0.5)).span == (0.0, 0.5)
    assert piece.read_span(["0.25", 1, 7]) == (0.25, 1.0)
    assert piece.within(NARROW).domain is NARROW
    assert piece.linear_change() is None
    with pytest.raises(Rejected, match="known exactly"):
        piece.image_interval(np.zeros(3), [])
    with pytest.raises(Rejected, match="known exactly"):
        piece.near_image([Fraction(0)] * 3, [])

    class Plain(Piece):
        largest = exact_support = exact_image = None  # type: ignore[assignment]

    with pytest.raises(Rejected, match="does not depend on the domain"):
        Plain().within(NARROW)
    with pytest.raises(Rejected, match="without a parameter"):
        Plain().with_span((0.0, 1.0))


def test_coefficients_on_the_pixels_are_added_before_the_support_is_taken() -> None:
    (a, b), c, d = numbers(3), np.array([1.0, -2.0, 0.5]), np.array([-0.25, 3.0, 0.125])
    piece = same(NARROW)
    right = piece.support(a + c, b + d)
    np.testing.assert_array_equal(piece.support_with(a, b, c, d), right)
    for others in ((a, b), (a + c, b), (a, b + d)):
        assert (right != piece.support(*others)).all()
