"""Supports of coefficients and inputs so small or large that products underflow.

Both sides, the verifier's and the checker's, must be at least the support in exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from vhagar.perturbation import Domain as TheirDomain
from vhagar.perturbation import parse
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.maps import AffineMap
from vhagar_check.affine import BoxAffine
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.hexagon import Corners, Hexagons, exact_offset
from vhagar_check.layers import Scale, gamma
from vhagar_check.moved import Turned
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.sparse import Sparse

SHAPE = (1, 3, 3)
SIZE = 9
RANGES = [(0.0, 1.0), (0.0, 1e300), (-1e-300, 1e-300), (-3e-309, 2e-309)]
EVERYWHERE = (
    "linf(1e-310)",
    "occlusion(1,1,2)",
    "translation(1,0)",
    "brightness([1e-310,1e-309])",
    "contrast([0.5,0.75])",
    "contrast([3,7])",
    "rotation(30)",
    "translation(1,0)+linf(1e-310)",
)
WIDE = ("linf(0.05)", "patch(0.1,1,1,2)", "occlusion(1,1,2)+brightness([0,0.1])")
CASES = [(text, ends) for text in EVERYWHERE for ends in RANGES]
CASES += [(text, ends) for text in WIDE for ends in RANGES[:2]]


def _coefficients(seed: int, cases: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    exponents = rng.uniform(-323, rng.choice([-300, 0, 200], (2, cases, 1)), (2, cases, SIZE))
    values = rng.choice([-1.0, 0.0, 1.0], (2, cases, SIZE)) * 10.0**exponents
    return values[0], values[1]


def _exact(piece: Piece, a: np.ndarray, b: np.ndarray) -> Fraction:
    found = piece.exact_support(Exact.of(a), Exact.of(b))
    if found is None:
        assert isinstance(piece, Turned)
        rows, columns = np.nonzero(piece.weights)
        weights = Sparse((SIZE, SIZE), rows, columns, piece.weights[rows, columns])
        nothing = Sparse.of(np.zeros((SIZE, 0)))
        dark = np.where(piece.weights.any(axis=1), 0.0, piece.domain.low)
        none = np.zeros(0)
        same = BoxAffine(piece.domain, weights, nothing, dark, none, none)
        found = same.exact_support(Exact.of(a), Exact.of(b))
    assert found is not None
    return found


@pytest.mark.parametrize(("text", "ends"), CASES)
def test_no_support_is_rounded_down(text: str, ends: tuple[float, float]) -> None:
    ours = pieces(text, Domain(SHAPE, *ends), True)
    theirs = parse(text).pieces(TheirDomain(SHAPE, *ends), True)
    a, b = _coefficients(11)
    with np.errstate(all="ignore"):
        for our, their in zip(ours, theirs, strict=True):
            found = np.stack([our.support(a, b), their.support(a, b).value])
            for k in range(len(a)):
                exact = _exact(our, a[k], b[k])
                for value in found[:, k]:
                    assert not np.isfinite(value) or exact <= Fraction(float(value)), k


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("seed", range(6))
def test_no_support_of_a_map_is_rounded_down(seed: int, ends: tuple[float, float]) -> None:
    """Weights that underflow with their coefficients, times pixels that are large."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(SIZE, SIZE)) * 10.0 ** rng.uniform(-300, 0, (SIZE, SIZE))
    moves = rng.normal(size=(SIZE, 2)) * 10.0 ** rng.uniform(-300, 0, (SIZE, 2))
    offset = rng.normal(size=SIZE) * 10.0 ** rng.uniform(-300, 0, SIZE)
    lower, upper = np.array([-1e8, 0.0]), np.array([1e8, 1e-300])
    ours = BoxAffine(
        Domain(SHAPE, *ends), Sparse.of(matrix), Sparse.of(moves), offset, lower, upper
    )
    rows = [sparse.csr_array(part) for part in (matrix, moves)]
    their_map = AffineMap(*rows, offset, lower, upper, ("e", "f"), "map")
    theirs = AffinePiece(TheirDomain(SHAPE, *ends), "map", their_map)
    a, b = _coefficients(100 + seed)
    a[::2] = 0.0
    with np.errstate(all="ignore"):
        found = np.stack([ours.support(a, b), theirs.support(a, b).value])
    for k in range(len(a)):
        exact = _exact(ours, a[k], b[k])
        for value in found[:, k]:
            assert not np.isfinite(value) or exact <= Fraction(float(value)), k


def test_a_range_of_angles_pays_for_underflow() -> None:
    """A single pixel with the smallest coefficient there is, in a huge input range."""
    ends = 0.0, 1e300
    (ours,) = pieces("rotation([29,30])", Domain(SHAPE, *ends), True)
    (theirs,) = parse("rotation([29,30])").pieces(TheirDomain(SHAPE, *ends), True)
    (turned,) = pieces("rotation(29.5)", Domain(SHAPE, *ends), True)
    a, b = np.zeros((SIZE, SIZE)), 2.0**-1074 * np.eye(SIZE)
    for k in range(SIZE):
        exact = _exact(turned, a[k], b[k])
        assert exact <= Fraction(float(ours.support(a, b)[k]))
        assert exact <= Fraction(float(theirs.support(a, b).value[k]))


def test_corners_too_small_for_a_relative_error() -> None:
    """Subnormal hexagons with a ratio: what a corner loses is multiplied by a coefficient."""
    rng = np.random.default_rng(4)
    sides = np.sort(rng.integers(-40, 40, (3, 2, 200)), axis=1) * 2.0**-1074
    h = Hexagons(*sides[0], *sides[1], *sides[2], 1.1832159566199232)
    corners = Corners.of(h)
    a, b, p, q = rng.normal(size=(4, 1, 200)) * 1e200
    offsets = corners.offset(a, b, p, q)[0]
    size = (abs(a) + abs(b) + abs(p) + abs(q))[0] * corners.magnitude
    for n in range(200):
        numbers = tuple(Fraction(float(part[0, n])) for part in (a, b, p, q))
        exact = exact_offset(h, n, {}, numbers)
        if exact is not None:
            assert exact <= Fraction(float(offsets[n])) + Fraction(float(gamma(48) * size[n]))


def test_a_scaling_that_is_not_known_well_enough_is_refused() -> None:
    one = np.ones(2)
    Scale(np.full(2, 1e-310), one, one)
    with pytest.raises(Rejected, match="range of float64"):
        Scale(np.full(2, 1e-300), np.full(2, 3e10), one)
