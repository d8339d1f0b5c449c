"""Bounds on supports over a box of inputs, against fractions and against many points."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.box_supports import (
    ball_share,
    box_support,
    brightness_corners,
    contrast_corners,
    decided_part,
    edge_slopes,
    exact_box_support,
    joined,
)

F = Fraction
BOX = np.array([-1.0, 0.25, 2.0]), np.array([0.5, 0.25, 3.0])


def fractions(values: np.ndarray) -> list[Fraction]:
    return [F(value) for value in values.tolist()]


def test_the_support_of_a_box() -> None:
    s = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0], [2.0, -4.0, -1.0]])
    expected = [10.0, -5.5, 0.0, -2.0]
    assert box_support(BOX, s).tolist() == expected
    assert [exact_box_support(BOX, fractions(row)) for row in s] == expected


@pytest.mark.parametrize("part", ["share", "left"])
def test_rounding_is_counted_where_a_bound_cancels(part: str) -> None:
    """The bound itself is close to 0, but its terms are not."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        x, s = rng.uniform(0.5, 1, 9), rng.normal(size=(1, 9))
        s[0, -1] = -(s[0, :-1] @ x[:-1]) / x[-1]
        s, magnitude = (1e-3 * s, 2.0**20) if part == "left" else (s, 1.0)
        a = rng.normal(size=(1, 9)) if part == "left" else s
        box = (x, x) if part == "share" else (np.zeros(9), np.zeros(9))
        left = a - s
        lost = [
            abs(F(float(p)) - F(float(q)) - F(float(r)))
            for p, q, r in zip(a[0], s[0], left[0], strict=True)
        ]
        found = joined(box, np.zeros(1), s, left, magnitude)[0]
        own = exact_box_support(box, fractions(s[0]))
        assert F(float(found)) >= own + sum(lost, F(0)) * F(magnitude)
        assert found < 1e-13 * magnitude


@pytest.mark.parametrize("large", ["share", "rest", "left", "own"])
def test_a_bound_from_a_share_is_rounded_up(large: str) -> None:
    """What is left after the share is rounded, and so are the sums."""
    rng = np.random.default_rng(3)
    magnitude = 3.0
    for _ in range(80):
        a, s = rng.normal(size=(2, 1, 6))
        a, s = (1e-9 * a, s) if large == "share" else (a, 1e-9 * s) if large == "left" else (a, s)
        low = rng.uniform(-1, 0, 6)
        box = (low, low + rng.uniform(0, 1, 6))
        left = a - s
        # The rest is the support of what is left over [-magnitude, magnitude], rounded up.
        rest = float(sum(abs(v) for v in fractions(left[0])) * F(magnitude))
        rest = np.nextafter(rest, np.inf) * (1e6 if large == "rest" else 1.0)
        known = np.array([1e6 if large == "own" else np.inf])
        found = joined(box, np.array([rest]), s, left, magnitude, known)[0]
        own = exact_box_support(box, fractions(s[0]))
        lost = [
            abs(F(float(p)) - F(float(q)) - F(float(r)))
            for p, q, r in zip(a[0], s[0], left[0], strict=True)
        ]
        assert F(float(found)) >= own + F(float(rest)) + sum(lost, F(0)) * F(magnitude)
        assert found <= float(own) + rest + 1e-12 * (1 + rest)


def test_the_smaller_bound_on_a_share_counts() -> None:
    s, rest, left = np.ones((2, 3)), np.zeros(2), np.zeros((2, 3))
    known = np.array([1.0, np.nan])
    found = joined(BOX, rest, s, left, 1.0, known)
    np.testing.assert_allclose(found, [1.0, 3.75], rtol=1e-12)
    assert (found > [1.0, 3.75]).all()
    nothing = joined((np.zeros(1), np.zeros(1)), np.zeros(1), *np.zeros((2, 1, 1)), 1.0)
    assert 0 < nothing[0] < 1e-200


def test_the_slopes_of_edges() -> None:
    square = ((F(0), F(0)), (F(1), F(0)), (F(1), F(1)), (F(0), F(1)))
    assert edge_slopes(square) == [0.0]
    triangle = ((F(0), F(0)), (F(1), F(2)), (F(2), F(2)))
    assert edge_slopes(triangle) == [2.0, 1.0, 0.0]
    inner = (*triangle, (F(1), F(3, 2)))
    assert edge_slopes(inner) == [2.0, 1.0, 0.0]
    falling = ((F(0), F(1)), (F(1), F(0)))
    assert edge_slopes(falling) == []
    steep = ((F(0), F(0)), (F(1), F(64)))
    assert edge_slopes(steep) == [64.0]
    assert edge_slopes(((F(0), F(0)), (F(1), F(65)))) == []
    assert edge_slopes(((F(0), F(0)), (F(1, 2), F(40)))) == []
    assert edge_slopes(((F(0), F(0)), (F(2), F(100)))) == [50.0]
    assert edge_slopes(((F(0), F(0)), (F(0), F(1)))) == []


BALL = ((F(-1), F(-1)), (F(1), F(1)), (F(-1, 2), F(-1)), (F(-1), F(-1, 2)), (F(1), F(1, 2)),
        (F(1, 2), F(1)))  # fmt: skip


def test_the_share_of_a_ball_gives_the_exact_bound() -> None:
    """Pairs within 1/2 of each other in [-1, 1], with x in a part of it."""
    rng = np.random.default_rng(5)
    for low, high in ((-1.0, 1.0), (-0.25, 0.5), (0.5, 0.5), (-1.0, -0.75)):
        box = np.array([low]), np.array([high])
        a, b = rng.normal(size=(2, 60, 1))
        share = ball_share(box, BALL, a, b)
        left = a - share
        rest = np.max([left * float(x) + b * float(y) for x, y in BALL], axis=0)
        found = (np.maximum(share * low, share * high) + rest)[:, 0]
        x = np.linspace(low, high, 201)
        ends = np.maximum(x - 0.5, -1.0), np.minimum(x + 0.5, 1.0)
        best = np.max([a * x + b * end for end in ends], axis=(0, 2))
        assert (found >= best - 1e-12).all()
        assert (found <= best + 1e-9).mean() > 0.95  # the kinks of the set may lie between


def test_a_decided_pixel_lies_in_its_box_and_in_its_hull() -> None:
    rng = np.random.default_rng(6)
    corners = [(F(0), F(0)), (F(1, 2), F(1)), (F(1), F(1))]
    slopes = edge_slopes(tuple(corners))
    weights = rng.dirichlet(np.ones(3), 4000)
    points = weights @ np.array([[float(x), float(y)] for x, y in corners])
    for low, high in ((0.0, 1.0), (0.25, 0.5), (0.6, 0.7)):
        box = np.array([low]), np.array([high])
        inside = points[(points[:, 0] >= low) & (points[:, 0] <= high)]
        a, b = rng.normal(size=(2, 80, 1))
        found = decided_part(box, corners, slopes, a, b)[:, 0]
        best = (a * inside[:, 0] + b * inside[:, 1]).max(axis=1)
        assert (found >= best - 1e-12).all()
        ends = np.unique([low, high, *(x for x in (0.5, 1.0) if low <= x <= high)])
        above, below = np.minimum(2 * ends, 1.0), ends
        exact = np.maximum(a * ends + b * above, a * ends + b * below).max(axis=1)
        np.testing.assert_allclose(found, exact, atol=1e-12)
        alone = np.maximum.reduce([a * float(x) + b * float(y) for x, y in corners])[:, 0]
        assert (found <= alone).all()
        if high < 1:
            assert (found < alone - 1e-3).any()
    # Above the lower edge, whose slope is 1, nothing else helps.
    found = decided_part(
        (np.array([0.5]), np.array([0.75])), corners, slopes, *np.array([[[1.0]], [[-1.0]]])
    )
    assert found[0, 0] == pytest.approx(0.0)


def image(x: np.ndarray, e: float, kind: str, clip: bool) -> np.ndarray:
    moved = x + e if kind == "brightness" else -1.0 + e * (x + 1.0)
    return np.clip(moved, -1.0, 2.0) if clip else moved


SPANS = {"brightness": [(0.0, 0.5), (0.25, 1.5), (-1.0, -0.25), (0.5, 0.5)],
         "contrast": [(1.0, 1.5), (1.25, 4.0), (0.5, 0.75)]}  # fmt: skip


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(
    ("kind", "span"), [(kind, span) for kind, spans in SPANS.items() for span in spans]
)
def test_corners_hold_all_points_and_no_more(
    kind: str, span: tuple[float, float], clip: bool
) -> None:
    """Pixels in [-1, 2], each in a box of its own: some cross the clip, some never do."""
    rng = np.random.default_rng(9)
    low = np.array([-1.0, -1.0, 0.0, 1.5, 0.75, -0.5])
    high = np.array([2.0, -0.75, 1.0, 2.0, 0.75, 1.75])
    clips = clip and not (kind == "contrast" and span[1] <= 1)
    if kind == "brightness":
        ends = (F(-1), F(2)) if clip else None
        corners = brightness_corners((low, high), span, ends)
    else:
        corners = contrast_corners((low, high), span, -1.0, 2.0, clips)
    xs = np.linspace(low, high, 241)
    a, b = rng.normal(size=(2, 60, 6))
    parameters = np.linspace(*span, 33)
    each = np.array(
        [
            (a[:, None] * xs + b[:, None] * image(xs, float(e), kind, clip)).max(axis=1)
            for e in parameters
        ]
    )
    found = corners.largest(a, b)
    assert (found >= each.sum(axis=2).max(axis=0) - 1e-12).all()
    both = corners.each(a, b)
    for at, own in ((0, both[0]), (-1, both[1])):
        assert (own >= each[at] - 1e-12).all()
        assert (own <= each[at] + 0.05).all()  # the kink lies between two points
    assert (found <= np.max(both, axis=0).sum(axis=1) + 1e-12).all()
    apart = corners.apart_above | corners.apart_below
    if not clips:
        assert not apart.any()
        assert (found <= each.sum(axis=2).max(axis=0) + 0.05).all()
    elif kind == "contrast":
        assert corners.apart_above.all()
        assert corners.apart_below.all()
    elif span[0] >= 0:
        assert not corners.apart_below.any()
    else:
        assert not corners.apart_above.any()


@pytest.mark.parametrize("span", [(0.0, 0.5), (0.25, 0.75), (-0.5, 0.0), (-0.75, -0.5)])
def test_which_pixels_the_clip_crosses(span: tuple[float, float]) -> None:
    """Those with an end between the clip's beginnings at both ends of the span, or at one."""
    rising = span[0] >= 0
    turns = sorted((1.0 if rising else 0.0) - e for e in span)
    points = sorted({0.0, 0.1, 0.3, 0.55, 0.6, 0.9, 1.0, *(t for t in turns if 0 <= t <= 1)})
    pairs = list(itertools.combinations_with_replacement(points, 2))
    low, high = (np.array(ends) for ends in zip(*pairs, strict=True))
    corners = brightness_corners((low, high), span, (F(0), F(1)))
    marked, other = corners.apart_above, corners.apart_below
    marked, other = (marked, other) if rising else (other, marked)
    expected = [any(turns[0] <= end <= turns[1] for end in ends) for ends in pairs]
    assert marked.tolist() == expected
    assert not other.any()


def test_concave_contributions_are_maximised_alone() -> None:
    """Two pixels that want different amounts: their sum is largest between the ends."""
    low, high = np.zeros(2), np.array([0.2, 0.8])
    corners = brightness_corners((low, high), (0.1, 0.9), (F(0), F(1)))
    a = np.array([[-2.0, 0.0]])
    for b in itertools.product((-1.0, 1.0), repeat=2):
        values = [
            sum(
                max(a[0, k] * x + b[k] * min(x + e, 1.0) for x in np.linspace(low[k], high[k], 101))
                for k in range(2)
            )
            for e in np.linspace(0.1, 0.9, 81)
        ]
        assert corners.largest(a, np.array([b]))[0] >= max(values) - 1e-12
