"""What a spectral proof states: the box of the change, and the slopes that it may take as known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vhagar_check import spectral as module
from vhagar_check.errors import Rejected
from vhagar_check.layers import HALF_ULP, TINY, Dense, Network
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import linf_ball
from vhagar_check.regions import Form
from vhagar_check.spectral import (
    FREE,
    ON,
    STILL,
    Change,
    SpectralRegion,
    _change,
    _check_status,
    change_box,
)

from .asking import with_json

DOMAIN = Domain((1, 2, 2), 0.0, 1.0)
BALL = linf_ball(DOMAIN, 0.25, np.array([True, False, True, False]))


@pytest.mark.parametrize("middle", [None, np.array([0.5, 0.0, -1.0, 2.0])])
def test_coordinates_of_a_change(middle: np.ndarray | None) -> None:
    change = Change(np.array([0, 2]), np.array([2.0, 3.0]), middle, np.zeros(4))
    matrix = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]])
    if middle is not None:
        matrix = np.concatenate([matrix, middle[None]])
    assert change.count == len(matrix)
    rng = np.random.default_rng(1)
    rows, coefficients = rng.normal(size=(3, len(matrix))), rng.normal(size=(3, 4))
    np.testing.assert_allclose(change.push(rows), rows @ matrix)
    np.testing.assert_allclose(change.pull(coefficients), coefficients @ matrix.T)
    absolute = change.absolute()
    np.testing.assert_allclose(absolute.push(rows), rows @ abs(matrix))
    assert absolute.radius is change.radius


def test_the_box_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pixels at a time; what only falls has a change of one sign."""
    for most in (2**22, 8, 4, 1):
        monkeypatch.setattr(module, "_BATCH_ENTRIES", most)
        low, high = change_box(BALL, np.array([0, 2]))
        np.testing.assert_allclose(low, [-0.25, 0.0, -0.25, 0.0], atol=1e-12)
        np.testing.assert_allclose(high, [0.25, 0.0, 0.25, 0.0], atol=1e-12)
        assert (low[[0, 2]] <= -0.25).all()
        assert (high[[0, 2]] >= 0.25).all()
    (occlusion,) = pieces("occlusion(1,1,1)", DOMAIN, True)
    low, high = change_box(occlusion, np.arange(4))
    assert low.tolist() == [0.0] * 4, "black pixels fall, so that x - x_p is at least 0"
    np.testing.assert_allclose(high, [1.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert high[1:].tolist() == [0.0] * 3
    (lighter,) = pieces("brightness([0.125,0.25])", DOMAIN, False)
    low, high = change_box(lighter, np.arange(4))
    np.testing.assert_allclose(low, [-0.25] * 4)
    np.testing.assert_allclose(high, [-0.125] * 4)


@pytest.mark.parametrize("middle", [False, True])
@pytest.mark.parametrize("text", ["brightness([0.125,0.25])", "brightness([-0.25,-0.125])"])
def test_the_middle_of_a_change(text: str, middle: bool) -> None:
    (lighter,) = pieces(text, DOMAIN, False)
    low, high = change_box(lighter, np.arange(4))
    found = _change(lighter, [0, 1, 2, 3], middle)
    centre = (low + high) / 2 if middle else np.zeros(4)
    radius = np.maximum(high - centre, centre - low) * (1 + 4 * HALF_ULP) + TINY
    assert found.radius.tolist() == radius.tolist()
    assert found.size.tolist() == np.maximum(abs(low), abs(high)).tolist()
    if middle:
        assert found.middle is not None
        assert found.middle.tolist() == centre.tolist()
    else:
        assert found.middle is None
    still = linf_ball(DOMAIN, 0.25, np.zeros(4, dtype=np.bool_))
    assert _change(still, [], False).count == 0
    kept = _change(still, [1], False)
    assert kept.radius[0] >= TINY


@pytest.mark.parametrize(
    ("pixels", "middle", "words"),
    [
        ((0, 2), False, "does not list"),
        ("02", False, "does not list"),
        ([0, 2.0], False, "does not list"),
        ([False, 2], False, "does not list"),
        ([2, 0], False, "in order"),
        ([0, 0, 2], False, "in order"),
        ([-1, 0, 2], False, "in order"),
        ([0, 2, 4], False, "in order"),
        ([0, 2], 1, "in order"),
        ([0, 2], None, "in order"),
        ([0], False, "leaves out"),
        ([], False, "leaves out"),
        ([1, 2, 3], True, "leaves out"),
    ],
)
def test_pixels_that_are_not_listed(pixels: Any, middle: Any, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        _change(BALL, pixels, middle)


@pytest.mark.parametrize("text", ["brightness([0.125,0.25])", "brightness([-0.25,-0.125])"])
def test_pixels_that_only_rise_or_fall_change(text: str) -> None:
    (piece,) = pieces(text, DOMAIN, False)
    with pytest.raises(Rejected, match="leaves out"):
        _change(piece, [0, 1, 2], False)
    seen = Network(
        ((Dense(np.eye(4)[:1], np.full(1, -0.5)),), (Dense(np.eye(1), np.zeros(1)),)), (4,)
    )
    with pytest.raises(Rejected, match="need not be"):
        _check_status(seen, piece, [np.array([STILL], dtype=np.uint8)])


@pytest.mark.parametrize(("sign", "state"), [(1.0, ON), (-1.0, STILL)])
def test_signs_are_those_of_both_copies(sign: float, state: int) -> None:
    """A pixel is never negative, but its image may be, if it is not clipped."""
    weight, bias = sign * np.eye(4)[:1], np.full(1, sign * 2.0**-10)
    seen = Network(((Dense(weight, bias),), (Dense(np.eye(1), np.zeros(1)),)), (4,))
    for text, fine in (("brightness([-0.25,-0.125])", False), ("brightness([0.125,0.25])", True)):
        (piece,) = pieces(text, DOMAIN, False)
        if fine:
            _check_status(seen, piece, [np.array([state], dtype=np.uint8)])
        else:
            with pytest.raises(Rejected, match="need not be"):
                _check_status(seen, piece, [np.array([state], dtype=np.uint8)])


@pytest.mark.parametrize(("ends", "state"), [((0.0, 1.0), ON), ((-1.0, 0.0), STILL)])
def test_a_range_that_ends_at_0_has_a_sign(ends: tuple[float, float], state: int) -> None:
    """Pixels enter the first units as they are."""
    piece = linf_ball(Domain((2,), *ends), 0.25, np.ones(2, dtype=np.bool_))
    units = Network(((), (Dense(np.eye(2), np.zeros(2)),)), (2,))
    _check_status(units, piece, [np.full(2, state, dtype=np.uint8)])
    with pytest.raises(Rejected, match="need not be"):
        _check_status(units, piece, [np.full(2, ON + STILL - state, dtype=np.uint8)])


def test_a_linear_unit_is_never_still() -> None:
    mask = np.array([False, False, True, False])
    linear = Network(network().stages, (1, 2, 2), (mask, None))
    for state, fine in ((ON, True), (FREE, True), (STILL, False)):
        given = [np.array([FREE, ON, state, STILL]), np.array([FREE, FREE])]
        if fine:
            _check_status(linear, BALL, given)
        else:
            with pytest.raises(Rejected, match="need not be"):
                _check_status(linear, BALL, given)


def test_all_pixels_may_be_listed() -> None:
    assert _change(BALL, [0, 2], False).pixels.tolist() == [0, 2]
    assert _change(BALL, [0, 1, 2, 3], True).count == 5


def network(linear: bool = False) -> Network:
    """Unit 0 is free, 1 is on, 2 is off, 3 sees no pixel that changes. Behind, 0 sees unit 0, 1
    sees units 2 and 3, and both are free by their ranges."""
    first = np.array([[1.0, 1, -1, 0], [1, 1, 1, 1], [-1, -1, -1, -1], [0, 1, 0, -1]])
    second = np.array([[1.0, 0, 0, 0], [0, 0, 1, 1]])
    stages = (
        (Dense(first, np.array([-0.5, 1.0, -1.0, 0.0])),),
        (Dense(second, np.array([-0.25, -0.25])),),
        (Dense(np.eye(2), np.zeros(2)),),
    )
    masks = (np.array([True, False, False, False]), None) if linear else ()
    return Network(stages, (1, 2, 2), masks)


FINE = [FREE, ON, STILL, STILL, FREE, STILL]


@pytest.mark.parametrize(
    ("status", "linear", "words"),
    [
        (FINE, False, None),
        ([FREE] * 6, False, None),
        ([FREE, ON, STILL, ON, FREE, STILL], False, None),
        ([FREE, ON, STILL, FREE, FREE, ON], False, None),
        ([ON, ON, STILL, STILL, FREE, STILL], True, None),
        ([ON, ON, STILL, STILL, FREE, STILL], False, "need not be"),
        ([STILL, ON, STILL, STILL, FREE, STILL], False, "need not be"),
        ([STILL, ON, STILL, STILL, FREE, STILL], True, "need not be"),
        ([FREE, STILL, STILL, STILL, FREE, STILL], False, "need not be"),
        ([FREE, ON, ON, STILL, FREE, STILL], False, "need not be"),
        ([FREE, ON, FREE, STILL, FREE, STILL], False, "need not be"),
        ([FREE, ON, STILL, STILL, ON, STILL], False, "need not be"),
        ([FREE, ON, STILL, STILL, STILL, STILL], False, "need not be"),
        ([3, ON, STILL, STILL, FREE, STILL], False, "unknown status"),
        ([FREE, ON, STILL, STILL, FREE, 9], False, "unknown status"),
    ],
)
def test_slopes_that_are_known(status: list[int], linear: bool, words: str | None) -> None:
    given = [np.array(status[:4], dtype=np.uint8), np.array(status[4:], dtype=np.uint8)]
    if words is None:
        _check_status(network(linear), BALL, given)
    else:
        with pytest.raises(Rejected, match=words):
            _check_status(network(linear), BALL, given)


def block(status: list[int] = FINE, more: bytes = b"", **given: Any) -> bytes:
    about = {"piece": 0, "span": None, "layers": [4, 2], "pixels": [0, 2], "middle": False}
    free = [sum(s == FREE for s in part) for part in (status[:4], status[4:])]
    squares = given.pop("squares", [1.0, 2.0, 3.0])
    scalings = given.pop("scalings", np.arange(1.0, sum(free) + 5))
    data = bytes(status) + np.array(squares, "<f8").tobytes()
    return with_json({**about, **given}, data + np.array(scalings, "<f4").tobytes() + more)


def form(text: str | None = None) -> Form:
    own = network()
    return Form(own, [BALL] if text is None else pieces(text, DOMAIN, True), own, DOMAIN)


def test_a_block_is_read() -> None:
    found = SpectralRegion.read(form(), block())
    assert found.piece is BALL
    assert found.piece_number == 0
    assert found.squares.tolist() == [1.0, 2.0, 3.0]
    assert [part.tolist() for part in found.layers] == [[1.0], [2.0]]
    assert [part.tolist() for part in found.inputs] == [[3.0, 4.0], [5.0, 6.0]]
    assert [part.tolist() for part in found.status] == [FINE[:4], FINE[4:]]
    scaled = SpectralRegion.read(form(), block(squares=[0.0] * 3))
    assert not scaled.squares.any()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (block(piece=None), "about no piece"),
        (block(piece=1), "a piece that the perturbation does not have"),
        (block(extra=1), "not understood"),
        (block(layers=[4, 3]), "other layers"),
        (block(span=[0.0, 1.0]), "no parameter"),
        (block(more=b"\0"), "too many numbers"),
        (block(scalings=[1.0] * 5), "too few numbers"),
        (block(squares=[1.0, -1e-300, 1.0]), "norm that is no number"),
        (block(squares=[1.0, np.nan, 1.0]), "norm that is no number"),
        (block(squares=[np.inf, 1.0, 1.0]), "norm that is no number"),
        (block(scalings=[1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), "not a positive number"),
        (block(scalings=[1.0, 1.0, 1.0, 1.0, 1.0, -1.0]), "not a positive number"),
        (block(scalings=[np.nan, 1.0, 1.0, 1.0, 1.0, 1.0]), "not a positive number"),
        (block(scalings=[1.0, 1.0, np.inf, 1.0, 1.0, 1.0]), "not a positive number"),
        (block([ON, *FINE[1:]]), "need not be"),
    ],
)
def test_what_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        SpectralRegion.read(form(), raw)


def test_a_part_of_a_range() -> None:
    ranged = form("brightness([0.125,0.5])")
    free = [FREE] * 6
    given = {"pixels": [0, 1, 2, 3], "scalings": np.ones(6 + 8)}
    found = SpectralRegion.read(ranged, block(free, span=[0.125, 0.25], **given))
    assert found.piece.span == (0.125, 0.25)
    with pytest.raises(Rejected, match="which part of a range"):
        SpectralRegion.read(ranged, block(free, **given))
