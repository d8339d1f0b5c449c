"""Rotations pixel by pixel: sines, points that lie on grid lines by definition, and doubts."""

from __future__ import annotations

from fractions import Fraction

import pytest

from vhagar_check.errors import Rejected
from vhagar_check.turning import _pi, _snapped, cosine_and_sine, precise_weights

NANO, DOUBT = Fraction(1, 10**9), Fraction(1, 10**20)


@pytest.mark.parametrize("line", [0, 1, 7, -3])
@pytest.mark.parametrize("sign", [1, -1])
def test_points_near_a_grid_line_lie_on_it(line: int, sign: int) -> None:
    for near in (Fraction(0), NANO / 2, NANO - DOUBT, NANO * Fraction(9999, 10000)):
        assert _snapped(line + sign * near) == line
    for far in (NANO + DOUBT, NANO * Fraction(10001, 10000), 2 * NANO, Fraction(1, 3)):
        assert _snapped(line + sign * far) == line + sign * far


@pytest.mark.parametrize("line", [0, 1, 7, -3])
@pytest.mark.parametrize("beside", [0, DOUBT / 2, -DOUBT / 2, DOUBT * Fraction(99, 100)])
def test_what_is_too_close_to_call_is_refused(line: int, beside: Fraction) -> None:
    for sign in (1, -1):
        with pytest.raises(Rejected, match="too close to call"):
            _snapped(line + sign * (NANO + beside))


@pytest.mark.parametrize("turn", range(-4, 5))
def test_sines_are_far_more_precise_than_the_doubt(turn: int) -> None:
    tiny = Fraction(1, 10**30)
    cosine, sine = cosine_and_sine(90.0 * turn)
    expected = ((1, 0), (0, 1), (-1, 0), (0, -1))[turn % 4]
    assert (cosine, sine) == expected
    cosine, sine = cosine_and_sine(90.0 * turn + 30)
    for _ in range(-turn % 4):
        cosine, sine = -sine, cosine
    assert abs(sine - Fraction(1, 2)) < tiny
    assert abs(cosine**2 - Fraction(3, 4)) < tiny
    for degrees in (0.1, 17.25, 44.9, 89.999):
        cosine, sine = cosine_and_sine(90.0 * turn + degrees)
        assert abs(cosine**2 + sine**2 - 1) < tiny


def test_the_digits_of_pi() -> None:
    known = Fraction("3.14159265358979323846264338327950288419716939937510")
    assert abs(_pi.__wrapped__() - known) < Fraction(1, 10**49)


def test_weights_are_whole_multiples_of_their_grain() -> None:
    weights = [weight for _, _, weight in precise_weights((3, 3), 30.0)]
    assert max(weight.denominator for weight in weights) == 2**90
    assert all(2**90 % weight.denominator == 0 for weight in weights)
