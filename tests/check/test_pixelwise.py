"""Pieces that change every pixel separately, against what they say, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from vhagar_check.conditions import Conditions, Row
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import Pixelwise, brightness_piece, contrast_piece, linf_ball

F = Fraction
ENDS = (-1.0, 2.0)
BOX = np.array([-0.9375, 0.5, -1.0]), np.array([1.5, 0.75, 2.0])
SPANS = (
    ("brightness", (0.25, 0.5)),
    ("brightness", (-0.75, -0.5)),
    ("brightness", (0.0, 0.25)),
    ("brightness", (-0.25, 0.0)),
    ("contrast", (0.5, 0.75)),
    ("contrast", (0.5, 1.0)),
    ("contrast", (1.25, 2.0)),
    ("contrast", (1.0, 1.5)),
)
CLIPPED = [each for each in SPANS if each[0] == "brightness" or each[1][1] > 1]
MAKERS = {"brightness": brightness_piece, "contrast": contrast_piece}


def image(name: str, e: Fraction, x: Fraction, clip: bool, ends: tuple[float, float]) -> Fraction:
    """What the perturbation's definition makes of a pixel."""
    low, high = map(F, ends)
    moved = x + e if name == "brightness" else low + e * (x - low)
    return max(low, min(high, moved)) if clip else moved


def kinks(piece: Pixelwise, e: Fraction) -> list[Fraction]:
    """Where the image of a pixel meets the end of the range toward which it moves."""
    low, high = map(F, (piece.domain.low, piece.domain.high))
    if piece.name == "contrast":
        return [low + (high - low) / e]
    assert piece.span is not None
    return [high - e if piece.span[0] >= 0 else low - e]


def points(span: tuple[float, float]) -> list[Fraction]:
    return [F(span[0]) + F(k, 4) * (F(span[1]) - F(span[0])) for k in range(5)]


def largest(
    piece: Pixelwise, a: np.ndarray, b: np.ndarray, sides: dict[int, int] | None = None
) -> Fraction:
    """The largest `a.x + b.x_p` for some parameters of the span, over the box."""
    assert piece.span is not None
    ends, box = (piece.domain.low, piece.domain.high), piece.domain.inputs
    best = F(-(10**6))  # less than any pair has, if the sides leave none
    for e in points(piece.span):
        total = F(0)
        for k, (u, v) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            low, high = F(float(box[0][k])), F(float(box[1][k]))
            turn = kinks(piece, e)
            xs = [low, high, *(x for x in turn if low <= x <= high)]
            if sides and k in sides:
                clips = [
                    x for x in xs if image(piece.name, e, x, True, ends) != _plain(piece, e, x)
                ]
                edge = [x for x in turn if low <= x <= high]
                xs = edge + [x for x in xs if (x in clips) == (sides[k] > 0)]
            if not xs:
                break
            total += max(F(u) * x + F(v) * image(piece.name, e, x, piece.clip, ends) for x in xs)
        else:
            best = max(best, total)
    return best


def _plain(piece: Pixelwise, e: Fraction, x: Fraction) -> Fraction:
    return image(piece.name, e, x, False, (piece.domain.low, piece.domain.high))


def made(name: str, span: tuple[float, float], clip: bool, narrowed: bool = True) -> Pixelwise:
    domain = Domain((3,), *ENDS, BOX if narrowed else None)
    return MAKERS[name](domain, span, clip)


@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("name", "span"), SPANS)
def test_the_support_is_no_less_than_any_pair(
    name: str, span: tuple[float, float], clip: bool, narrowed: bool
) -> None:
    """And hardly more, where a pixel alone decides the parameter."""
    piece, rng = made(name, span, clip, narrowed), np.random.default_rng(1)
    for turn in range(30):
        a, b = np.round(rng.normal(size=(2, 3)), 3)
        if turn < 12:
            a[np.arange(3) != turn % 3] = b[np.arange(3) != turn % 3] = 0.0
        found = F(float(piece.support(a[None], b[None])[0]))
        true = largest(piece, a, b)
        assert found >= true
        exactly = not clip or (name == "contrast" and span[1] <= 1)
        if exactly or (turn < 12 and narrowed):
            assert found <= true + F(1, 10**12)
        exact = piece.exact_within(Exact.of(a), Exact.of(b))
        assert exact is not None
        assert exact >= true
        if name == "brightness" and not clip:
            assert exact <= true + F(1, 10**12)


@pytest.mark.parametrize(("name", "span"), CLIPPED)
def test_decided_pixels_over_a_box(name: str, span: tuple[float, float]) -> None:
    piece, rng = made(name, span, True), np.random.default_rng(2)
    for turn in range(24):
        a, b = np.round(rng.normal(size=(2, 3)), 3)
        sides = {k: int(rng.choice([-1, 1])) for k in (0, 2) if turn % 3 != k}
        found = F(float(piece.decided(a[None], b[None], sides)[0]))
        assert found >= largest(piece, a, b, sides)
        assert found <= F(float(piece.support(a[None], b[None])[0]))
        each = [_pixel(piece, k, F(a[k]), F(b[k]), sides.get(k, 0)) for k in range(3)]
        whole = F(float(piece.support(a[None], b[None])[0]))
        assert found <= min(sum(each, F(0)), whole) + F(1, 10**12)
        assert piece.decided(a[None], b[None], {})[0] == piece.support(a[None], b[None])[0]


def _pixel(piece: Pixelwise, k: int, a: Fraction, b: Fraction, side: int) -> Fraction:
    """The least of the bounds on a pixel's contribution that the rules allow."""
    low, high = (F(float(end[k])) for end in piece.domain.inputs)
    corners = [corner for corner, part in piece.clip_corners if part * side >= 0]
    found = [max(a * x + b * y for x, y in corners)]
    slope = F(1) if piece.name == "brightness" else F(0)
    own = a + slope * b
    found.append(max(own * low, own * high) + max(b * (y - slope * x) for x, y in corners))
    assert piece.span is not None
    ends = piece.domain.low, piece.domain.high
    pairs = []
    for e in map(F, piece.span):
        inside = [x for x in kinks(piece, e) if low <= x <= high]
        for x in (low, high, *inside):
            pairs.append(a * x + b * image(piece.name, e, x, True, ends))
    return min(*found, max(pairs))


@pytest.mark.parametrize(
    ("span", "start", "end"), [((0.25, 0.5), F(-1), F(2)), ((-0.5, -0.25), F(2), F(-1))]
)
def test_the_corners_of_clipped_brightness(
    span: tuple[float, float], start: Fraction, end: Fraction
) -> None:
    piece = made("brightness", span, True)
    assert dict(piece.clip_corners) == {
        **{(end - F(e), end): 0 for e in span},
        **{(start, start + F(e)): -1 for e in span},
        (end, end): 1,
    }


def test_decided_pixels_without_a_box() -> None:
    for name, span in (("brightness", (0.25, 0.5)), ("contrast", (1.25, 2.0))):
        piece, rng = made(name, span, True, narrowed=False), np.random.default_rng(3)
        for _ in range(30):
            a, b = np.round(rng.normal(size=(2, 3)), 3)
            sides = {0: 1, 1: -1}
            found = F(float(piece.decided(a[None], b[None], sides)[0]))
            assert found >= largest(piece, a, b, sides)
            corners = [
                [corner for corner, part in piece.clip_corners if part * sides.get(k, 0) >= 0]
                for k in range(3)
            ]
            each = sum(
                (
                    max(F(u) * x + F(v) * y for x, y in own)
                    for u, v, own in zip(a.tolist(), b.tolist(), corners, strict=True)
                ),
                F(0),
            )
            whole = F(float(piece.support(a[None], b[None])[0]))
            assert found <= min(each, whole) + F(1, 10**12)


ROW = Row(np.array([0, 2]), np.array([1.0, 1.0]), -np.inf, 0.0)
CONDITIONS = Conditions((ROW,), (), (), (), None, False)


def _vertices(box: tuple[np.ndarray, np.ndarray]) -> list[list[Fraction]]:
    """The corners of the box below the row, and those that the row cuts."""
    ends = [[F(float(low)), F(float(high))] for low, high in zip(*box, strict=True)]
    found = [list(corner) for corner in product(*ends)]
    for middle, end in product(ends[1], ends[0]):
        found.append([end, middle, -end])
    for middle, end in product(ends[1], ends[2]):
        found.append([-end, middle, end])
    low, high = ([pair[k] for pair in ends] for k in (0, 1))
    return [
        x
        for x in found
        if x[0] + x[2] <= 0 and all(p <= v <= q for p, v, q in zip(low, x, high, strict=True))
    ]


@pytest.mark.parametrize(
    ("name", "span", "clip"),
    [
        ("brightness", (0.25, 0.5), False),
        ("brightness", (-0.5, -0.25), False),
        ("contrast", (0.5, 0.75), False),
        ("contrast", (0.5, 0.75), True),
        ("contrast", (1.25, 2.0), False),
        ("contrast", (0.5, 0.5), True),
        ("contrast", (0.5, 1.0), True),
    ],
)
def test_rows_count_where_nothing_is_clipped(
    name: str, span: tuple[float, float], clip: bool
) -> None:
    """For an unclipped image the bound over one row is exact: the maximum at a vertex."""
    piece = MAKERS[name](Domain((3,), *ENDS, BOX, CONDITIONS), span, clip)
    rng = np.random.default_rng(4)
    for _ in range(40):
        a, b = np.round(rng.normal(size=(2, 3)), 3)
        true = max(
            sum(
                F(u) * v + F(w) * image(name, F(e), v, False, ENDS)
                for u, w, v in zip(a.tolist(), b.tolist(), x, strict=True)
            )
            for x in _vertices(BOX)
            for e in span
        )
        found = F(float(piece.support(a[None], b[None])[0]))
        assert true <= found <= true + F(1, 10**10)


@pytest.mark.parametrize(("name", "span"), CLIPPED)
def test_rows_count_where_images_are_clipped(name: str, span: tuple[float, float]) -> None:
    """Also where it is decided which pixels are."""
    with_row = MAKERS[name](Domain((3,), *ENDS, BOX, CONDITIONS), span, True)
    without, rng, gained = made(name, span, True), np.random.default_rng(5), [0, 0]
    points_of_row = [x for x in rng.uniform(*BOX, (40, 3)) if x[0] + x[2] <= 0]
    for _ in range(20):
        a, b = np.round(rng.normal(size=(2, 1, 3)), 3)
        found, known = with_row.support(a, b)[0], without.support(a, b)[0]
        assert found <= known
        gained[0] += found < known - 0.01
        for x, e in product(points_of_row[:6], points(span)[::2]):
            exact = [F(v) for v in x.tolist()]
            moved = [image(name, e, v, True, ENDS) for v in exact]
            whole = zip(a[0].tolist(), b[0].tolist(), exact, moved, strict=True)
            value = sum((F(u) * v + F(w) * y for u, w, v, y in whole), F(0))
            pairs = zip(exact, moved, strict=True)
            sides = {k: -1 if _plain(without, e, v) == y else 1 for k, (v, y) in enumerate(pairs)}
            decided = with_row.decided(a, b, sides)[0]
            assert value <= F(float(decided)) <= F(float(found))
            gained[1] += decided < min(found, without.decided(a, b, sides)[0]) - 0.01
    assert gained[0] > 3
    assert gained[1] > 3 or span[0] in (0.0, 1.0)  # where the change may be none at all


@pytest.mark.parametrize(("name", "span"), CLIPPED)
def test_rows_take_their_part_first_where_images_are_clipped(
    name: str, span: tuple[float, float]
) -> None:
    """Of `a + b`; the corners over the range or over the box bound the rest."""
    piece = MAKERS[name](Domain((3,), *ENDS, BOX, CONDITIONS), span, True)
    without, rng = made(name, span, True), np.random.default_rng(6)
    assert piece.box_corners is not None
    for _ in range(20):
        a, b = rng.normal(size=(2, 1, 3))
        s = CONDITIONS.pulled(BOX, a + b)
        rest = min(piece.largest(a - s, b)[0], piece.box_corners.largest(a - s, b)[0])
        own = min(CONDITIONS.support(BOX, s)[0], np.maximum(s * BOX[0], s * BOX[1]).sum())
        expected = min(without.support(a, b)[0], own + rest)
        assert piece.support(a, b)[0] == pytest.approx(expected, abs=1e-12)


def test_the_ball_over_a_box() -> None:
    """Pixels of the mask move by up to the limit; the others keep their value."""
    mask = np.array([True, False, True])
    limit = 0.25
    for narrowed in (False, True):
        domain = Domain((3,), *ENDS, BOX if narrowed else None)
        piece, rng = linf_ball(domain, limit, mask), np.random.default_rng(6)
        for turn in range(36):
            a, b = np.round(rng.normal(size=(2, 3)), 3)
            if turn % 3 < 2:
                others = np.arange(3) != turn % 3
                a[others] = b[others] = 0.0
            true = F(0)
            for k, (u, v) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
                low, high = (F(float(end[k])) for end in domain.inputs)
                step = F(limit) if mask[k] else F(0)
                xs = [low, high, F(ENDS[0]) + step, F(ENDS[1]) - step]
                true += max(
                    F(u) * x + F(v) * max(F(ENDS[0]), min(F(ENDS[1]), x + sign * step))
                    for x in xs
                    if low <= x <= high
                    for sign in (-1, 1)
                )
            found = F(float(piece.support(a[None], b[None])[0]))
            assert found >= true
            if not narrowed or turn % 3 < 2:
                assert found <= true + F(1, 10**12)
            exact = piece.exact_within(Exact.of(a), Exact.of(b))
            assert exact is not None
            assert true <= exact <= found


def test_what_is_known_of_each_piece() -> None:
    domain = Domain((2,), 0.0, 1.0)
    mask = np.array([True, False])
    ball = linf_ball(domain, 0.25, mask)
    assert (ball.rises.tolist(), ball.falls.tolist()) == ([True, False], [True, False])
    assert [end.tolist() for end in ball.image] == [[0.0, 0.0], [1.0, 1.0]]
    assert ball.stays
    for name, span, clip, rises, falls, stays in (
        ("brightness", (0.25, 0.5), False, True, False, False),
        ("brightness", (0.25, 0.5), True, True, False, True),
        ("brightness", (-0.5, -0.25), False, False, True, False),
        ("brightness", (-0.5, 0.0), True, False, True, True),
        ("brightness", (0.0, 0.5), True, True, False, True),
        ("brightness", (0.0, 0.0), False, False, False, False),
        ("contrast", (0.5, 0.75), False, False, True, False),
        ("contrast", (0.5, 1.0), True, False, True, True),
        ("contrast", (1.0, 2.0), False, True, False, False),
        ("contrast", (1.25, 2.0), True, True, False, True),
    ):
        piece = MAKERS[name](domain, span, clip)
        assert piece.rises.tolist() == [rises, rises], (name, span)
        assert piece.falls.tolist() == [falls, falls], (name, span)
        assert piece.stays == stays
        low, high = (float(end[0]) for end in piece.image)
        images = [image(name, F(e), F(x), clip, (0.0, 1.0)) for e in span for x in (0, 1)]
        assert F(low) <= min(images)
        assert F(high) >= max(images)
        assert low >= float(min(images)) - 1e-15
        assert high <= float(max(images)) + 1e-15
        if clip:
            assert low >= 0.0
            assert high <= 1.0
        assert bool(piece.clip_corners) == (clip and (name == "brightness" or span[1] > 1))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("name", "span"), SPANS)
def test_images_of_witnesses(name: str, span: tuple[float, float], clip: bool) -> None:
    piece = made(name, span, clip, narrowed=False)
    x = [F(-1), F(1, 3), F(2)]
    for e in (*span, sum(span) / 2):
        assert piece.exact_image(x, [e]) == [image(name, F(e), v, clip, ENDS) for v in x]
    reached = [image(name, F(e), F(v), clip, ENDS) for v in ENDS for e in span]
    for end, bound in zip((min(reached), max(reached)), piece.image, strict=True):
        assert abs(end - F(float(bound[0]))) <= F(1, 10**15)
    for wrong in ([], [span[0] - 0.01], [span[1] + 0.01], [span[0], span[1]]):
        with pytest.raises(Rejected, match="outside its range"):
            piece.exact_image(x, wrong)
    for part in ((span[0], span[0]), (span[0] - 0.1, span[1]), (span[0], span[1] + 0.1)):
        with pytest.raises(Rejected, match="outside its range"):
            piece.with_span(part)
    assert piece.with_span(span).span == span


def test_images_in_a_ball() -> None:
    mask = np.array([True, False, True])
    ball = linf_ball(Domain((3,), *ENDS), 0.1, mask)
    x = [F(1, 4), F(1, 2), F(31, 16)]
    assert ball.exact_image(x, [0.0625, -0.0625]) == [F(5, 16), F(1, 2), F(15, 8)]
    # Beyond the limit or the range, the pixel stops there, at a float on the near side.
    first, second, third = ball.exact_image(x, [1.0, 1.0])
    assert (second, third) == (F(1, 2), F(2))
    assert 0 < F(1, 4) + F(0.1) - first < F(1, 10**16)
    first, _, third = ball.exact_image(x, [-1.0, -1.0])
    assert 0 <= first - (F(1, 4) - F(0.1)) < F(1, 10**16)
    assert 0 <= third - (F(31, 16) - F(0.1)) < F(1, 10**15)
    for wrong in ([], [0.0], [0.0] * 3):
        with pytest.raises(Rejected, match="number of parameters"):
            ball.exact_image(x, wrong)
    with pytest.raises(Rejected, match="no parameter"):
        ball.with_span((0.0, 0.05))


@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.parametrize(("name", "span"), SPANS)
def test_sides_say_nothing_where_nothing_is_clipped(
    name: str, span: tuple[float, float], narrowed: bool
) -> None:
    piece = made(name, span, False, narrowed)
    a, b = np.random.default_rng(7).normal(size=(2, 5, 3))
    assert piece.decided(a, b, {0: 1, 1: -1}).tolist() == piece.support(a, b).tolist()


@pytest.mark.parametrize(("a_size", "b_size"), [(1e-3, 1.0), (1e-3, 1e3), (1e3, 1e-3)])
def test_rounding_is_counted_at_steep_edges(a_size: float, b_size: float) -> None:
    """The edge of a contrast of 64, times an input, is rounded in units of 64."""
    rng = np.random.default_rng(8)
    for _ in range(8):
        low, high = np.sort(-1 + rng.uniform(0, 2 / 64, 2))
        box = np.array([low]), np.array([high])
        piece = contrast_piece(Domain((1,), -1.0, 1.0, box), (60.0, 64.0), True)
        a = a_size * rng.uniform(1, 2, (400, 1))
        b = b_size * rng.uniform(1, 2, (400, 1))
        found = piece.decided(a, b, {0: -1})
        image = 64 * (F(float(high)) + 1) - 1
        assert image <= 1
        for u, v, value in zip(a[:, 0].tolist(), b[:, 0].tolist(), found.tolist(), strict=True):
            assert F(value) >= F(u) * F(float(high)) + F(v) * image


def test_a_pixel_moves_by_the_whole_limit() -> None:
    ball = linf_ball(Domain((1,), 0.0, 1.0), 0.25, np.array([True]))
    for change in (0.25, -0.25, 9.0, -9.0):
        sign = 1 if change > 0 else -1
        assert ball.exact_image([F(1, 2)], [change]) == [F(1, 2) + sign * F(1, 4)]


def test_corners_over_a_box_are_those_of_pieces_with_a_span() -> None:
    plain = Domain((1,), 0.0, 1.0)
    narrow = Domain((1,), 0.0, 1.0, (np.array([0.25]), np.array([0.5])))
    for domain in (plain, narrow):
        ball = linf_ball(domain, 0.25, np.array([True]))
        assert ball.free
        assert ball.box_corners is None
        for piece in (
            brightness_piece(domain, (0.0, 0.25), True),
            contrast_piece(domain, (1.25, 2.0), True),
        ):
            assert not piece.free
            assert (piece.box_corners is None) == (domain is plain)
