"""The support of a piece given decisions about which pixels are clipped."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.piece import AbstractPiece
from vhagar.perturbation.support import PixelCorners, edge_slopes


def decided_support(piece: AbstractPiece, a: Array, b: Array, allowed: Array) -> Array:
    """The value of `support` given decisions about which pixels are clipped.

    `allowed` `(corners, size)` is minus infinity for corners that a decision cuts off, else 0.
    """
    corners, domain = piece.pixel_corners(), piece.domain
    if corners is None:
        return piece.support(a, b).value
    decided = _decided(piece, corners, a, b, allowed)
    if domain.linear:
        with np.errstate(over="ignore", invalid="ignore"):
            # Rows and zonotope take their part of `a` first, as if nothing were clipped.
            s = domain.pulled(a + b)
            own, rest = domain.support(s), _decided(piece, corners, a - s, b, allowed)
            sizes = abs(a - s).sum(axis=1) * domain.magnitude + abs(own) + abs(rest)
            decided = np.fmin(decided, own + rest + 2.0**-51 * sizes)
    # NaN, from an overflow, is no bound.
    return np.asarray(np.fmin(decided, piece.support(a, b).value))


def _decided(
    piece: AbstractPiece, corners: PixelCorners, a: Array, b: Array, allowed: Array
) -> Array:
    """As `decided_support`, over the domain's box."""
    best = np.full(a.shape, -np.inf)
    for x, x_p, mask in zip(corners.x, corners.x_p, allowed, strict=True):
        np.maximum(best, a * x + b * x_p + mask, out=best)
    decided = best.sum(axis=1) + piece.rounding(a, b)
    if not piece.domain.whole:
        with np.errstate(over="ignore", invalid="ignore"):
            inside = _inside(piece.domain, corners, a, b, allowed, best)
            if piece.inside is not None:
                inside = np.fmin(inside, piece.inside.each(a, b))
            inside = inside.sum(axis=1) + 4 * piece.rounding(*_sizes(corners, a, b))
        decided = np.fmin(decided, inside)
    return np.asarray(decided)


def _inside(
    domain: Domain, corners: PixelCorners, a: Array, b: Array, allowed: Array, best: Array
) -> Array:
    """The most that each pixel contributes, `(batch, size)`, if it lies in the domain.

    `best` is the contribution of the best corner that `allowed` leaves; compare `domain_share`.
    """
    found = np.array(best)
    for slope in edge_slopes(corners.x, corners.x_p):
        own = a + slope * b
        rest = np.full(a.shape, -np.inf)
        for x, x_p, mask in zip(corners.x, corners.x_p, allowed, strict=True):
            np.maximum(rest, b * (x_p - slope * x) + mask, out=rest)
        value = np.maximum(own * domain.low, own * domain.high) + rest
        np.fmin(found, value, out=found)
    return found


def _sizes(corners: PixelCorners, a: Array, b: Array) -> tuple[Array, Array]:
    """Bounds on the absolute coefficients in `_inside`."""
    steepest = max(edge_slopes(corners.x, corners.x_p), default=0.0)
    return abs(a) + 2 * steepest * abs(b), abs(b)
