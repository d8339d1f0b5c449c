"""Which angle turns one image into another? For pairs of which nothing else is known."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vhagar.perturbation.domain import Domain
from vhagar.perturbation.interpolation import offsets, snap, sources
from vhagar.perturbation.rotation_weights import arc_between

Array = NDArray[np.float64]

# Pixels by which the outermost pixel moves between two starting angles.
_STEP = 0.25
# Most starting angles.
_MOST_STARTS = 1000
# Best starting angles that are refined, and the rounds of refinement.
_REFINED, _ROUNDS = 3, 30
# Most intervals of angles that are examined.
_MOST_PARTS = 200
# A pair this close, on average over its pixels and beside the largest, is explained.
_NEGLIGIBLE = 2.0**-52


def best_angle(domain: Domain, span: tuple[float, float], x: Array, x_p: Array) -> float:
    """The angle in the span that turns `x` into `x_p`, or nearly so."""
    starts = _starts(domain, span)
    distances = [_distance(domain, angle, x, x_p) for angle in starts]
    order = np.argsort(distances, kind="stable")[:_REFINED]
    negligible = _NEGLIGIBLE * domain.magnitude * domain.size
    best = (distances[order[0]], float(starts[order[0]]))
    for start in starts[order]:
        if best[0] <= negligible:
            break
        best = min(best, _refined(domain, span, float(start), x, x_p))
    return best[1]


def explaining_angle(
    domain: Domain, span: tuple[float, float], x: Array, x_p: Array, slack: float
) -> float | None:
    """An angle in the span that turns `x` into `x_p` up to `slack`, if one is found.

    Where gradients lead nowhere, as in a flat image with only its black border to go by, the span
    is halved until what is left is an answer; parts that cannot hold one are left out.
    """
    best = best_angle(domain, span, x, x_p)
    if _largest_error(domain, best, x, x_p) <= slack:
        return best
    parts = [span]
    for _ in range(_MOST_PARTS):
        if not parts:
            break
        low, high = parts.pop()
        middle = low + (high - low) / 2
        if _largest_error(domain, middle, x, x_p) <= slack:
            return middle
        if low < middle < high and _possible(domain, (low, high), x, x_p, slack):
            parts += [(low, middle), (middle, high)]
    return None


def _possible(
    domain: Domain, span: tuple[float, float], x: Array, x_p: Array, slack: float
) -> bool:
    """Whether the bounds on the weights leave room for an angle in between."""
    arc = arc_between(domain.image[1:], *span)
    u, v = ((image - domain.lower).reshape(domain.image[0], -1).T for image in (x, x_p))
    first, last = arc.first @ u, arc.last @ u
    least = np.minimum(first, last) + arc.low @ u - slack
    most = np.where(arc.capped[:, None], np.inf, np.maximum(first, last) + arc.high @ u + slack)
    return bool(((least <= v) & (v <= most)).all())


def radius(domain: Domain) -> float:
    """How far the outermost pixel is from the centre."""
    return float(np.hypot(*offsets(*domain.image[1:])).max())


def _starts(domain: Domain, span: tuple[float, float]) -> Array:
    """Angles all over the span, and in it those that turn the grid into itself."""
    low, high = span
    count = math.ceil(radius(domain) * math.radians(high - low) / _STEP) + 2
    quarters = np.arange(math.ceil(low / 90), math.floor(high / 90) + 1) * 90.0
    return np.unique([*np.linspace(low, high, min(count, _MOST_STARTS)), *quarters])


def _refined(
    domain: Domain, span: tuple[float, float], angle: float, x: Array, x_p: Array
) -> tuple[float, float]:
    """Gauss-Newton from an angle; returns the best distance on the way, and its angle."""
    best = (math.inf, angle)
    for _ in range(_ROUNDS):
        image, slope, inside = _turned(domain, angle, x)
        error = np.where(inside, image, domain.lower) - x_p
        best = min(best, (float(abs(error).sum()), angle))
        # Pixels that are black in only one of the two say nothing about a small change.
        known = inside & (x_p != domain.lower)
        curvature = float((slope[known] ** 2).sum())
        if curvature == 0.0:
            break
        step = float((slope * error)[known].sum()) / curvature
        following = min(max(angle - step, span[0]), span[1])
        if following == angle:
            break
        angle = following
    return best


def _largest_error(domain: Domain, angle: float, x: Array, x_p: Array) -> float:
    image, _, inside = _turned(domain, angle, x)
    return float(abs(np.where(inside, image, domain.lower) - x_p).max())


def _distance(domain: Domain, angle: float, x: Array, x_p: Array) -> float:
    image, _, inside = _turned(domain, angle, x)
    return float(abs(np.where(inside, image, domain.lower) - x_p).sum())


def _turned(domain: Domain, angle: float, x: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """The turned image, its change per degree, and where it is not black; each `(size,)`."""
    channels, height, width = domain.image
    row, column = (snap(part) for part in sources(height, width, angle))
    inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
    top = np.clip(np.floor(row), 0, max(height - 2, 0)).astype(np.int64)
    left = np.clip(np.floor(column), 0, max(width - 2, 0)).astype(np.int64)
    down, right = row - top, column - left
    bottom, beside = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    planes = x.reshape(channels, height, width)
    a, b = planes[:, top, left], planes[:, top, beside]
    c, d = planes[:, bottom, left], planes[:, bottom, beside]
    image = (1 - down) * ((1 - right) * a + right * b) + down * ((1 - right) * c + right * d)
    by_row = (1 - right) * (c - a) + right * (d - b)
    by_column = (1 - down) * (b - a) + down * (d - c)
    # The source turns about the centre.
    slope = (row - (height - 1) / 2) * by_column - (column - (width - 1) / 2) * by_row
    flat = np.tile(inside, channels)
    return image.reshape(-1), math.radians(1.0) * slope.reshape(-1), flat
