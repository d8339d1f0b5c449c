"""Where floats round: the last bit is on the safe side, checked with fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.perturbation import Brightness, Contrast, Domain, Linf

RANGES = [(0.0, 1.0), (-1.0, 1.0), (-0.7, 0.4), (0.3, 0.9), (0.0, 255.0)]


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("clip", [True, False], ids=["clipped", "unclipped"])
def test_image_bounds_hold_at_the_corners(ends: tuple[float, float], clip: bool) -> None:
    """The images of the darkest and the brightest pixel, under both ends of random ranges."""
    rng = np.random.default_rng(6)
    domain = Domain((1, 1, 1), *ends)
    black, white = (Fraction(end) for end in ends)
    for _ in range(100):
        shifts = np.sort(rng.uniform(-domain.width, domain.width, 2))
        for piece in Brightness(tuple(shifts)).pieces(domain, clip):
            low, high = (Fraction(float(bound[0])) for bound in piece.image_bounds())
            darkest, brightest = (
                end + Fraction(shift) for end, shift in zip((black, white), piece.span, strict=True)
            )
            assert low <= (max(darkest, black) if clip else darkest)
            assert high >= (min(brightest, white) if clip else brightest)
        factors = np.sort(np.exp(rng.normal(size=2)))
        for piece in Contrast(tuple(factors)).pieces(domain, clip):
            low, high = (Fraction(float(bound[0])) for bound in piece.image_bounds())
            brightest = black + Fraction(piece.span[1]) * (white - black)
            assert low <= black
            assert high >= (min(brightest, white) if clip else brightest)


@pytest.mark.parametrize("ends", RANGES)
def test_membership_in_a_band_is_exact(ends: tuple[float, float]) -> None:
    """Pairs within an ulp of the limit: inside if and only if fractions say so."""
    rng = np.random.default_rng(8)
    domain = Domain((1, 1, 1), *ends)
    verdicts = set()
    for limit in rng.uniform(0.1, 0.9, 40) * domain.width:
        (piece,) = Linf(limit).pieces(domain)
        x = rng.uniform(domain.lower, domain.upper, (20, 1))
        for side in (-limit, limit):
            for aim in (-np.inf, 0, np.inf):
                x_p = x + side
                x_p = x_p if aim == 0 else np.nextafter(x_p, aim)
                expected = [
                    domain.lower <= after <= domain.upper
                    and abs(Fraction(float(after)) - Fraction(float(before))) <= Fraction(limit)
                    for before, after in zip(x[:, 0], x_p[:, 0], strict=True)
                ]
                assert piece.contains(x, x_p, np.zeros_like(x)).tolist() == expected
                verdicts |= set(expected)
    assert verdicts == {False, True}


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (100.0, 101.0)])
@pytest.mark.parametrize("narrowed", [False, True], ids=["range", "domain"])
def test_support_at_the_kink_of_a_large_contrast(ends: tuple[float, float], narrowed: bool) -> None:
    """Where clipping begins, the image is white: a large factor would multiply any rounding."""
    rng = np.random.default_rng(5)
    low, high = ends
    black, white = Fraction(low), Fraction(high)
    box = np.full((1, 1, 1), low), np.full((1, 1, 1), high - 0.25 * (high - low))
    domain = Domain((1, 1, 1), *box, range=ends) if narrowed else Domain((1, 1, 1), *ends)
    a, b = np.array([[-1e-4]]), np.array([[1.0]])
    for factor in np.exp(rng.uniform(np.log(1e3), np.log(1e6), 40)):
        (piece,) = Contrast(factor).pieces(domain)
        kink = black + (white - black) / Fraction(factor)
        exact = Fraction(a[0, 0]) * kink + white
        assert Fraction(float(piece.support(a, b).value[0])) >= exact
