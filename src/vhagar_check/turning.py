"""The weights of a rotation, from a sine and a cosine with errors below 1e-30.

In a clockwise rotation about the centre of the pixel grid, every pixel looks up its value at a
point of the image by bilinear interpolation, and is black if that point lies outside. A coordinate
within `1e-9` of a grid line lies on it, by definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.layers import Floats

_SNAP = Fraction(1, 10**9)
_DOUBT = Fraction(1, 10**20)
_TERMS = 40
# Weights are rounded to multiples of this; it is far below what a float could tell.
_GRAIN = 2**90


@cache
def _pi() -> Fraction:
    """Compute pi by Machin's formula, with an error far below `_DOUBT`."""

    def arctangent_of_one_over(n: int) -> Fraction:
        return sum(
            (Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1)) for k in range(_TERMS)),
            Fraction(0),
        )

    return 4 * (4 * arctangent_of_one_over(5) - arctangent_of_one_over(239))


@lru_cache(1024)
def cosine_and_sine(degrees: float) -> tuple[Fraction, Fraction]:
    """Cosine and sine with errors below 1e-30; exact at quarter turns."""
    quarter, rest = divmod(Fraction(degrees), 90)
    angle = (rest * _pi() / 180).limit_denominator(10**40)
    cosine = sine = Fraction(0)
    term = Fraction(1)
    for k in range(_TERMS):
        if k % 2 == 0:
            cosine += term if k % 4 == 0 else -term
        else:
            sine += term if k % 4 == 1 else -term
        term = (term * angle / (k + 1)).limit_denominator(10**40)
    for _ in range(int(quarter) % 4):
        cosine, sine = -sine, cosine
    return cosine, sine


def turn_weights(image: tuple[int, int, int], degrees: float) -> Floats:
    """The matrix `(size, size)` of a rotation; a pixel that becomes black has an empty row."""
    channels, height, width = image
    plane = np.zeros((height * width, height * width))
    for pixel, source, weight in precise_weights((height, width), degrees):
        plane[pixel, source] = float(weight)
    return np.asarray(np.kron(np.eye(channels), plane), dtype=np.float64)


def precise_weights(plane: tuple[int, int], degrees: float) -> Iterator[tuple[int, int, Fraction]]:
    """Every pixel that does not become black with each of up to four sources, and their weights.

    Both coordinates together err by less than `(rows + columns) 1e-30`, so a weight with its own
    rounding does by less than `(rows + columns) 2**-91`.
    """
    height, width = plane
    cosine, sine = cosine_and_sine(degrees)
    for row in range(height):
        for column in range(width):
            i, j = row - Fraction(height - 1, 2), column - Fraction(width - 1, 2)
            down = _snapped(i * cosine - j * sine + Fraction(height - 1, 2))
            right = _snapped(i * sine + j * cosine + Fraction(width - 1, 2))
            if not (0 <= down <= height - 1 and 0 <= right <= width - 1):
                continue
            for y, wy in _neighbours(down):
                for x, wx in _neighbours(right):
                    weight = Fraction(round(wy * wx * _GRAIN), _GRAIN)
                    yield row * width + column, y * width + x, weight


def _snapped(coordinate: Fraction) -> Fraction:
    nearest = Fraction(round(coordinate))
    distance = abs(coordinate - nearest)
    if abs(distance - _SNAP) < _DOUBT:
        raise Rejected("a pixel's source is too close to call: this angle cannot be checked")
    return nearest if distance < _SNAP else coordinate


def _neighbours(coordinate: Fraction) -> list[tuple[int, Fraction]]:
    """The grid lines around a coordinate that have positive weights, with these weights."""
    line = math.floor(coordinate)
    rest = coordinate - line
    return [(line, 1 - rest), (line + 1, rest)] if rest else [(line, Fraction(1))]
