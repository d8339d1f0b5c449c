"""The example perturbations do what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar.perturbation import AbstractPiece, Domain
from vhagar.perturbation.loading import named

FILE = Path(__file__).parents[2] / "examples" / "perturbations.py"
COLOUR = Domain((3, 28, 28), -1.0, 1.0)


def pieces(name: str, domain: Domain = COLOUR) -> tuple[AbstractPiece, ...]:
    return named(f"{FILE}:{name}").pieces(domain)


def image(piece: AbstractPiece, x: np.ndarray, *parameters: float) -> np.ndarray:
    return piece.apply(x.reshape(1, -1), np.array([parameters])).reshape(COLOUR.image)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, COLOUR.image)


def test_a_colour_cast_moves_each_channel_by_itself(x: np.ndarray) -> None:
    (piece,) = pieces("colour_cast")
    assert piece.parameter_bounds[1].tolist() == [0.1] * 3
    shift = np.array([0.1, -0.05, 0.0])
    assert image(piece, x, *shift) == pytest.approx(x + shift[:, None, None])
    below, above = piece.to_clip()
    assert below.all()
    assert above.all()


def test_a_watermark_is_blended_into_a_corner(x: np.ndarray) -> None:
    (piece,) = pieces("watermark")
    assert piece.to_clip() is None
    marked = image(piece, x, 1.0)
    mark = np.eye(7, dtype=bool) | np.eye(7, dtype=bool)[::-1]
    expected = x.copy()
    expected[:, 21:, 21:] = np.where(mark, 0.75 * x[:, 21:, 21:] + 0.25, x[:, 21:, 21:])
    assert marked == pytest.approx(expected)


def test_dead_rows_are_stuck(x: np.ndarray) -> None:
    found = pieces("dead_rows")
    assert [piece.label for piece in found] == [f"dead rows from {k}" for k in (10, 14, 18)]
    stuck = image(found[1], x, -1.0, 0.5)
    expected = x.copy()
    expected[:, 13], expected[:, 14] = -1.0, 0.5
    assert (stuck == expected).all()
    assert found[1].describe(np.array([-1.0, 0.5])) == {"row 14": -1.0, "row 15": 0.5}
    assert all(piece.to_clip() is None for piece in found)
