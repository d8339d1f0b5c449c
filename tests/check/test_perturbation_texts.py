"""Texts of perturbations: what each means, entry by entry, and where each limit is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from vhagar_check import perturbations as module
from vhagar_check.affine import BoxAffine, ShiftedLinfBall
from vhagar_check.errors import Rejected
from vhagar_check.maps import Recorded
from vhagar_check.moved import Moved, TurnedBetween
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import Pixelwise

IMAGE = Domain((2, 3, 4), -0.5, 1.0)
HASH = "0123456789abcdef" * 4


def refused(text: str, words: str, clip: bool = True, domain: Domain = IMAGE) -> None:
    with pytest.raises(Rejected, match=words):
        pieces(text, domain, clip)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("brightness([0.2,0.1])", "empty or infinite"),
        ("brightness([0,1e999])", "empty or infinite"),
        ("brightness([-1e999,0])", "empty or infinite"),
        ("occlusion(1,[3,2],1)", "empty or infinite"),
        ("occlusion([3,2],1,1)", "empty or infinite"),
        ("linf(0)", "no positive number"),
        ("linf([0.1,0.2])", "no positive number"),
        ("linf([-0.1,0.2])", "no positive number"),
        ("linf(1.6)", "more than the input range"),
        ("patch(1.6,1,1,1)", "more than the input range"),
        ("brightness(1.6)", "more than the input range"),
        ("brightness(-1.6)", "more than the input range"),
        ("contrast(0)", "beyond any use"),
        ("contrast(1e7)", "beyond any use"),
        ("contrast([1e-7,1])", "beyond any use"),
        ("rotation(360.5)", "full turn"),
        ("rotation([-360.5,0])", "full turn"),
        ("rotation([0,361])", "full turn"),
        ("occlusion(1.5,1,1)", "whole number"),
        ("occlusion(1,1,[1,1.5])", "whole number"),
        ("occlusion(0,1,1)", "leaves the image"),
        ("occlusion(1,0,1)", "leaves the image"),
        ("occlusion(1,1,0)", "leaves the image"),
        ("occlusion(3,1,2)", "leaves the image"),
        ("occlusion(1,4,2)", "leaves the image"),
        ("occlusion(4,1,1)", "leaves the image"),
        ("occlusion(1,5,1)", "leaves the image"),
        ("patch(0.5,1,1,0)", "no width"),
        ("patch(0.5,1,1,[1,4])", "leaves the image"),
        ("translation(4,0)", "more than the image"),
        ("translation(-4,0)", "more than the image"),
        ("translation(0,5)", "more than the image"),
        ("translation(0,-5)", "more than the image"),
        ("translation(0,1)+contrast(2)", "cannot be composed"),
        ("translation(0,1)+brightness(0.1,0.2)", "cannot be composed"),
        ("translation(0,1)+linf(2)", "more than the input range"),
        ("brightness(0.1)+linf(0.1)", "only what moves pixels"),
        ("occlusion(1,1)", "not a perturbation that this checker knows"),
        ("shear(1)", "not a perturbation that this checker knows"),
        ("linf(\u0660.5)", "cannot read"),
        ("linf(0.1,)", "cannot read"),
        ("linf(0.1", "not a perturbation"),
    ],
)
def test_what_is_no_perturbation(text: str, words: str) -> None:
    refused(text, words)


@pytest.mark.parametrize(
    "text",
    [
        "linf(1.5)",
        "patch(1.5,3,4,1)",
        "brightness([-1.5,1.5])",
        "contrast([1e-6,1e6])",
        "rotation(360)",
        "rotation(-360)",
        "translation([-3,3],[-4,4])",
        "occlusion(1,1,3)",
        "occlusion(3,4,1)",
        "occlusion(1,2,3)",
    ],
)
def test_limits_themselves_are_fine(text: str) -> None:
    assert pieces(text, IMAGE, True)


def test_squares() -> None:
    """Rows, columns and widths count from 1; all channels are covered."""
    for text, rows, columns in (
        ("occlusion(2,3,2)", (1, 3), (2, 4)),
        ("occlusion(1,2,3)", (0, 3), (1, 4)),
        ("occlusion(3,4,1)", (2, 3), (3, 4)),
    ):
        (piece,) = pieces(text, IMAGE, True)
        assert isinstance(piece, Moved)
        expected = np.arange(24).reshape(2, 3, 4)
        expected[:, slice(*rows), slice(*columns)] = -1
        assert piece.source.tolist() == expected.reshape(-1).tolist()
        (patch,) = pieces(text.replace("occlusion(", "patch(0.5,"), IMAGE, True)
        assert isinstance(patch, Pixelwise)
        assert patch.mask.tolist() == (expected.reshape(-1) < 0).tolist()
    (widest,) = pieces("patch(0.5,1,1,[1,2])", IMAGE, True)
    assert isinstance(widest, Pixelwise)
    assert widest.mask.sum() == 8
    assert len(pieces("patch(0.5,[1,2],[1,3],[1,2])", IMAGE, True)) == 6
    assert len(pieces("occlusion([1,2],[1,3],[1,2])", IMAGE, True)) == 12


@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 0), (-2, 3), (3, -4), (-3, 4), (2, 1)])
def test_translations(down: int, right: int) -> None:
    (piece,) = pieces(f"translation({down},{right})", IMAGE, True)
    assert isinstance(piece, Moved)
    numbers, found = np.arange(24).reshape(2, 3, 4), piece.source.reshape(2, 3, 4)
    for channel, row, column in np.ndindex(2, 3, 4):
        i, j = row - down, column - right
        inside = 0 <= i < 3 and 0 <= j < 4
        assert found[channel, row, column] == (numbers[channel, i, j] if inside else -1)


def test_ranges_are_cut_where_the_sign_changes() -> None:
    spans = [
        ("brightness([-0.5,0.25])", [(-0.5, 0.0), (0.0, 0.25)]),
        ("brightness([0,0.25])", [(0.0, 0.25)]),
        ("brightness([-0.5,0])", [(-0.5, 0.0)]),
        ("contrast([0.5,2])", [(0.5, 1.0), (1.0, 2.0)]),
        ("contrast([1,2])", [(1.0, 2.0)]),
        ("contrast([0.5,1])", [(0.5, 1.0)]),
    ]
    for text, expected in spans:
        assert [piece.span for piece in pieces(text, IMAGE, True)] == expected


@pytest.mark.parametrize(
    ("low", "high"),
    [(-360, 360), (-95, 95), (-275, -262), (262, 275), (80, 100), (0, 90), (-10, -5), (90, 180)],
)
def test_ranges_of_angles_are_cut_at_quarter_turns(low: float, high: float) -> None:
    """Small parts that follow one another from end to end, none across a quarter turn."""
    found = pieces(f"rotation([{low},{high}])", IMAGE, True)
    assert all(isinstance(piece, TurnedBetween) for piece in found)
    spans = [piece.span for piece in found if piece.span is not None]
    assert spans[0][0] == low
    assert spans[-1][1] == high
    assert [span[1] for span in spans[:-1]] == [span[0] for span in spans[1:]]
    step = max(math.degrees(1 / 10), (high - low) / 180)
    for a, b in spans:
        assert 0 < b - a <= step * (1 + 1e-9)
        assert not any(a < 90 * k < b for k in range(-4, 5))
    assert len(spans) <= (high - low) / step + 9


def test_long_ranges_of_angles_have_larger_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the image is."""
    monkeypatch.setattr(module, "radius", lambda _: 1e4)
    monkeypatch.setattr(module, "TurnedBetween", lambda _, span: span)
    for low, high in ((290, 350), (-350, -290), (-30, 30)):
        found = pieces(f"rotation([{low},{high}])", IMAGE, True)
        assert 180 <= len(found) <= 182


def test_limited_changes_start_from_nothing() -> None:
    for text in ("linf(0.25)", "linf([0,0.25])", "patch(0.25,1,1,3)", "patch([0,0.25],1,1,3)"):
        (piece,) = pieces(text, IMAGE, True)
        assert isinstance(piece, Pixelwise)
        assert piece.limit == 0.25


def test_compositions() -> None:
    (ball,) = pieces("translation(0,1)+linf(0.25)", IMAGE, False)
    assert isinstance(ball, ShiftedLinfBall)
    (turned,) = pieces("rotation(30)+linf(0.25)", IMAGE, True)
    assert isinstance(turned, BoxAffine)
    assert turned.lower.tolist() == [-0.25] * 24
    assert turned.upper.tolist() == [0.25] * 24
    assert turned.directions.counts.tolist() == [1] * 24
    (lighter,) = pieces("rotation(30)+brightness([-0.25,0.5])", IMAGE, False)
    assert isinstance(lighter, BoxAffine)
    assert (lighter.lower.tolist(), lighter.upper.tolist()) == ([-0.25], [0.5])
    (moved,) = pieces("occlusion(1,1,2)+brightness([-0.25,0.5])", IMAGE, False)
    assert isinstance(moved, BoxAffine)
    black = np.zeros((2, 3, 4), dtype=bool)
    black[:, :2, :2] = True
    assert moved.offset.tolist() == np.where(black.reshape(-1), -0.5, 0.0).tolist()
    assert moved.error == 0.0
    assert turned.error == 2.0**-50  # of weights that are rounded to float64
    refused("rotation(30)+linf(0.25)", "clipped to it", clip=False)
    refused("rotation([0,30])+linf(0.25)", "only what moves pixels")
    # Some of the pieces turn, some only move: angles of a quarter turn move.
    assert all(isinstance(p, BoxAffine) for p in pieces("rotation(31)+linf(0.5)", IMAGE, True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("features([1],[0.5]) ", "not a perturbation that this checker knows"),
        ("features([a],[0.5])", "not a perturbation that this checker knows"),
        ("features([1,,2],[0.5,1,1])", "cannot read"),
        ("features([1],[0.5e])", "cannot read"),
        ("features([1,2],[0.5,--1])", "cannot read"),
        ("features([2,1],[0.5,0.5])", "ascending"),
        ("features([1,1],[0.5,0.5])", "ascending"),
        ("features([1,2],[0.5])", "one radius each"),
        ("features([1],[0.5,0.5])", "one radius each"),
        ("features([24],[0.5])", "none of the input"),
        ("features([0,25],[0.5,0.5])", "none of the input"),
        ("features([1],[0])", "no positive number"),
        ("features([1],[-0.5])", "no positive number"),
        ("features([1,2],[0.5,-0.5])", "no positive number"),
        ("features([1],[1.6])", "more than the input range"),
        ("features([1,2],[1.6,0.5])", "more than the input range"),
    ],
)
def test_what_is_no_perturbation_of_features(text: str, words: str) -> None:
    refused(text, words)


def test_features() -> None:
    (piece,) = pieces("features([1,4,23],[0.5,1.5,.25e-1])", IMAGE, False)
    assert isinstance(piece, BoxAffine)
    assert piece.upper.tolist() == [0.5, 1.5, 0.025]
    assert piece.lower.tolist() == [-0.5, -1.5, -0.025]
    assert piece.directions.row.tolist() == [1, 4, 23]
    assert piece.directions.column.tolist() == [0, 1, 2]
    assert piece.directions.weight.tolist() == [1.0] * 3
    assert piece.offset.tolist() == [0.0] * 24
    (last,) = pieces("features([23],[1.5])", IMAGE, False)
    assert isinstance(last, BoxAffine)


def test_texts_have_a_longest_length() -> None:
    long = "linf(0.1" + "0" * (1000 - 9) + ")"
    assert len(long) == 1000
    assert pieces(long, IMAGE, True)
    refused(long.replace("0.1", "0.10", 1), "too long")


def test_lists_of_features_have_a_longest_length() -> None:
    text = "features([1],[0.5" + "0" * (100_000 - 19) + "])"
    assert len(text) == 100_000
    assert pieces(text, IMAGE, True)
    refused(text.replace("0.5", "0.50", 1), "too long")


def test_too_many_pieces_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PIXELS", 124 * 6)
    assert len(pieces("occlusion([1,2],[2,4],1)", IMAGE, True)) == 6
    refused("occlusion([1,2],[1,4],1)", "too many pieces")
    refused("translation([-1,1],[-1,1])", "too many pieces")
    assert len(pieces("translation([1,3],[-3,-2])", IMAGE, True)) == 6
    refused("translation([-3,3],0)", "too many pieces")


def recorded(sha256: str = HASH) -> Recorded:
    made: Any = pieces("occlusion(1,1,2)+brightness([0,0.5])", IMAGE, False)
    return Recorded("own", sha256, made)


def test_recorded_maps_are_named_by_their_hash() -> None:
    maps = recorded()
    assert pieces(f"affine({HASH})", IMAGE, True, maps) == maps.pieces
    for text, given, words in (
        (f"affine({HASH})", None, "or none"),
        ("linf(0.1)", maps, "does not name"),
        (f"affine({HASH})", recorded("f" * 64), "not those"),
        (f"affine({HASH.upper()})", maps, "does not name"),
    ):
        with pytest.raises(Rejected, match=words):
            pieces(text, IMAGE, True, given)
    (nothing,) = pieces(None, IMAGE, True)
    assert isinstance(nothing, Moved)
    assert nothing.source.tolist() == list(range(24))
