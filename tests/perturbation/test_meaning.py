"""What each perturbation does, on images small enough to draw by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation import (
    AbstractPiece,
    Brightness,
    Contrast,
    Domain,
    Linf,
    Occlusion,
    Patch,
    Perturbation,
    Rotation,
    Translation,
)

from ..pairs import related_by

IMAGE = np.array(
    [
        [0.1, 0.2, 0.3],
        [0.4, 0.5, 0.6],
        [0.7, 0.8, 0.9],
    ]
)
GREY = Domain((1, 3, 3))
NONE = np.zeros((1, 0))


def only(perturbation: Perturbation, domain: Domain = GREY, clip: bool = True) -> AbstractPiece:
    (piece,) = perturbation.pieces(domain, clip)
    return piece


def image_under(piece: AbstractPiece, parameters: object = NONE, x: object = IMAGE) -> np.ndarray:
    flat = np.asarray(x, dtype=np.float64).reshape(1, -1)
    return piece.apply(flat, np.asarray(parameters, dtype=np.float64).reshape(1, -1))[0]


def labels(perturbation: Perturbation) -> list[str]:
    return [piece.label for piece in perturbation.pieces(GREY)]


DRAWN = [
    (Occlusion(1, 1, 1), [[0, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]),
    (Occlusion(1, 2, 2), [[0.1, 0, 0], [0.4, 0, 0], [0.7, 0.8, 0.9]]),
    (Occlusion(3, 1, 1), [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0, 0.8, 0.9]]),
    (Occlusion(1, 1, 3), [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
    (Translation(1, 0), [[0, 0, 0], [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]),
    (Translation(0, 2), [[0, 0, 0.1], [0, 0, 0.4], [0, 0, 0.7]]),
    (Translation(-1, 1), [[0, 0.4, 0.5], [0, 0.7, 0.8], [0, 0, 0]]),
    (Translation(0, 0), IMAGE),
    (Translation(3, 0), [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
    (Translation(0, -3), [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
    (Rotation(0), IMAGE),
    (Rotation(90), [[0.7, 0.4, 0.1], [0.8, 0.5, 0.2], [0.9, 0.6, 0.3]]),
    (Rotation(-90), [[0.3, 0.6, 0.9], [0.2, 0.5, 0.8], [0.1, 0.4, 0.7]]),
    (Rotation(180), [[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.3, 0.2, 0.1]]),
]


@pytest.mark.parametrize(("perturbation", "drawn"), DRAWN, ids=[str(one) for one, _ in DRAWN])
def test_pixels_move_as_drawn(perturbation: Perturbation, drawn: object) -> None:
    assert image_under(only(perturbation)).tolist() == np.reshape(drawn, -1).tolist()


@pytest.mark.parametrize(("perturbation", "drawn"), DRAWN, ids=[str(one) for one, _ in DRAWN])
def test_channels_move_together_and_black_is_the_lower_end(
    perturbation: Perturbation, drawn: object
) -> None:
    colour = Domain((2, 3, 3), -1.0, 1.0)
    found = image_under(only(perturbation, colour), x=[IMAGE, -IMAGE]).reshape(2, 3, 3)
    black = np.asarray(drawn) == 0
    assert found[0].tolist() == np.where(black, -1.0, drawn).tolist()
    assert found[1].tolist() == np.where(black, -1.0, np.negative(drawn)).tolist()


def test_a_range_of_rotations_turns_by_one_of_its_angles() -> None:
    turned = [image_under(piece, [[90.0]]) for piece in Rotation((88, 91)).pieces(GREY)]
    for found in turned:  # both end there
        assert found.tolist() == image_under(only(Rotation(90))).tolist()
    piece = only(Rotation((28, 31)))
    assert image_under(piece, [[30.0]]).tolist() == image_under(only(Rotation(30))).tolist()
    assert image_under(piece, [[99.0]]).tolist() == image_under(only(Rotation(31))).tolist()


def test_brightness_is_clipped_by_hand() -> None:
    up, down = Brightness((-0.5, 0.25)).pieces(GREY)[::-1]
    expected = [0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 1, 1]
    assert image_under(up, 0.25) == pytest.approx(expected)
    assert image_under(down, -0.5) == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4])
    assert image_under(up, 0.25)[-1] == 1.0
    assert image_under(down, -0.5)[0] == 0.0
    unclipped = Brightness((-0.5, 0.25)).pieces(GREY, clip=False)
    assert image_under(unclipped[1], 0.25)[-1] == pytest.approx(1.15)
    assert image_under(unclipped[0], -0.5)[0] == pytest.approx(-0.4)


def test_contrast_is_clipped_by_hand() -> None:
    down, up = Contrast((0.5, 2)).pieces(GREY)
    assert image_under(up, 2) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1])
    assert image_under(down, 0.5) == pytest.approx(IMAGE.reshape(-1) / 2)
    unclipped = Contrast(2).pieces(GREY, clip=False)[0]
    assert image_under(unclipped, 2) == pytest.approx(IMAGE.reshape(-1) * 2)


def test_contrast_keeps_black_where_it_is() -> None:
    shifted = only(Contrast(2), Domain((1, 1, 3), -1.0, 1.0))
    assert image_under(shifted, 2, x=[-1, -0.5, 0.5]).tolist() == [-1, 0, 1]


def test_linf_and_patch_stay_within_their_limits() -> None:
    linf = only(Linf(0.25))
    assert image_under(linf, np.full(9, 0.2))[:2] == pytest.approx([0.3, 0.4])
    assert image_under(linf, np.full(9, 5.0)) == pytest.approx(np.minimum(IMAGE + 0.25, 1).ravel())
    patch = only(Patch(0.25, 2, 1, 2))
    change = image_under(patch, [0.25, -0.25, 0.125, 0.25]) - IMAGE.reshape(-1)
    assert change == pytest.approx([0, 0, 0, 0.25, -0.25, 0, 0.125, 0.2, 0])


def test_parameters_outside_their_box_are_projected() -> None:
    assert image_under(only(Brightness((0.1, 0.2))), 7.0) == pytest.approx(
        np.minimum(IMAGE + 0.2, 1).reshape(-1)
    )
    assert only(Linf(0.1)).project(np.full(9, -3.0)).tolist() == [-0.1] * 9


def test_brightness_splits_at_zero_and_contrast_at_one() -> None:
    table = [
        (Brightness((-0.5, 0.25)), [(-0.5, 0.0), (0.0, 0.25)]),
        (Brightness((0, 0.25)), [(0.0, 0.25)]),
        (Brightness((-0.5, -0.25)), [(-0.5, -0.25)]),
        (Contrast((0.5, 3)), [(0.5, 1.0), (1.0, 3.0)]),
        (Contrast((1, 3)), [(1.0, 3.0)]),
        (Contrast((0.5, 1)), [(0.5, 1.0)]),
    ]
    for perturbation, spans in table:
        assert [piece.span for piece in perturbation.pieces(GREY)] == spans


def test_occlusion_has_a_piece_for_every_combination() -> None:
    found = labels(Occlusion((1, 2), (1, 2), (1, 2)))
    assert set(found) == {f"occlusion({i},{j},{w})" for i in (1, 2) for j in (1, 2) for w in (1, 2)}
    assert len(found) == 8


def test_translation_has_a_piece_for_every_move() -> None:
    found = labels(Translation((-1, 1), (0, 2)))
    assert set(found) == {f"translation({i},{j})" for i in (-1, 0, 1) for j in (0, 1, 2)}
    assert len(found) == 9


def test_patch_needs_only_the_widest_square_of_each_corner() -> None:
    pieces = Patch((0, 0.1), (1, 2), 1, (1, 2)).pieces(GREY)
    assert [piece.describe(np.zeros(4))["width"] for piece in pieces] == [2, 2]
    assert [piece.describe(np.zeros(4))["row"] for piece in pieces] == [1, 2]
    x = IMAGE.reshape(1, -1)
    for narrow in Patch((0, 0.1), (1, 2), 1, 1).pieces(GREY):
        x_p = narrow.apply(x, np.array([[0.1]]))
        assert any(related_by(piece, x, x_p) for piece in pieces)


def test_pieces_say_what_was_done() -> None:
    table = [
        (Brightness((0, 0.5)), [0.25], {"brightness": 0.25}),
        (Contrast((1, 2)), [1.5], {"contrast": 1.5}),
        (Linf(0.5), [0.0, -0.25, 0.125] * 3, {"largest change": 0.25}),
        (Occlusion(1, 2, 1), [], {"row": 1, "column": 2, "width": 1}),
        (Translation(1, -2), [], {"tx": 1, "ty": -2}),
        (Rotation(30), [], {"angle": 30}),
        (Rotation((30, 33)), [31.5], {"angle": 31.5}),
    ]
    for perturbation, parameters, facts in table:
        assert only(perturbation).describe(np.array(parameters)) == facts
