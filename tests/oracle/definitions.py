"""What each perturbation means, written down once more from its definition, in exact terms.

`images` gives one entry for each transformation that must be looked at by itself (a position of a
square, a move): the perturbed pixels as exact values over the pixels. Nothing of the verifier's own
pieces is used, save the interpolation weights of rotations, which are part of the definition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from vhagar.perturbation import (
    AffineMap,
    AffinePerturbation,
    Brightness,
    Composition,
    Contrast,
    Domain,
    Features,
    Linf,
    Occlusion,
    Patch,
    Perturbation,
    Rotation,
    Translation,
    affine_map,
)

from .rational import RationalModel, Value

Pixels = list[Value]
# Builds the perturbed pixels in a model.
Image = Callable[[RationalModel, Pixels], Pixels]


def images(  # noqa: PLR0912 (one branch for each perturbation)
    perturbation: Perturbation, domain: Domain, clip: bool
) -> Iterator[Image]:
    """The transformations of a perturbation with its range.

    Contrast and rotation only at a single factor or angle: see `stretched` and `turned`.
    """
    match perturbation:
        case Linf(limit=limit):
            yield _moved_by_up_to(limit, np.ones(domain.size, dtype=bool), domain)
        case Patch(limit=limit, row=rows, column=columns, width=widths):
            for corner in _squares(rows, columns, widths):
                yield _moved_by_up_to(limit, _square(domain, *corner), domain)
        case Occlusion(row=rows, column=columns, width=widths):
            for corner in _squares(rows, columns, widths):
                yield _blackened(_square(domain, *corner), domain)
        case Translation(rows=downs, columns=rights):
            for down, right in itertools.product(_whole(downs), _whole(rights)):
                yield _shifted(down, right, domain)
        case Features(chosen=entries, radii=radii):
            moves = np.eye(domain.size)[:, list(entries)]
            ranges = [(-radius, radius) for radius in radii]
            yield _mapped(affine_map(domain, directions=moves, ranges=ranges), domain, clip)
        case Rotation(angle=(low, high)) if low == high:
            yield turned(low, domain)
        case Brightness(span=span):
            yield _brightened(span, domain, clip)
        case Contrast(span=(low, high)) if low == high:
            yield stretched((Fraction(low), Fraction(low)), domain, clip)
        case AffinePerturbation():
            for affine in perturbation.maps(domain):
                yield _mapped(affine, domain, clip)
        case Composition(first=first, second=second):
            # Brightness on top is clipped once, at the end; linf stays inside by itself.
            for below in images(first, domain, False):
                for above in images(second, domain, clip):
                    yield _one_after_another(below, above)
        case _:
            raise NotImplementedError(f"write down what {perturbation} means")


def _mapped(affine: AffineMap, domain: Domain, clip: bool) -> Image:
    """Every number of the map as it is."""
    rows = np.hstack([affine.matrix.toarray(), affine.directions.toarray()]).tolist()
    ends = list(zip(affine.lower.tolist(), affine.upper.tolist(), strict=True))

    def image(model: RationalModel, x: Pixels) -> Pixels:
        values = [*x, *(model.variable(Fraction(low), Fraction(high)) for low, high in ends)]
        moved = [
            model.combination([Fraction(weight) for weight in row], values, Fraction(shift))
            for row, shift in zip(rows, affine.offset.tolist(), strict=True)
        ]
        return _clipped(model, moved, domain, clip)

    return image


def _one_after_another(below: Image, above: Image) -> Image:
    def image(model: RationalModel, x: Pixels) -> Pixels:
        return above(model, below(model, x))

    return image


def stretched(factors: tuple[Fraction, Fraction], domain: Domain, clip: bool) -> Image:
    """Contrast. Exact for one factor or for pixels that are known; else a relaxation."""
    black, width = Fraction(domain.lower), Fraction(domain.upper) - Fraction(domain.lower)

    def image(model: RationalModel, x: Pixels) -> Pixels:
        e = model.variable(*factors)
        distances = [model.combination([Fraction(1)], [pixel], -black) for pixel in x]
        products = [_product(model, e, distance, width) for distance in distances]
        found = [model.combination([Fraction(1)], [product], black) for product in products]
        return _clipped(model, found, domain, clip)

    return image


def _product(model: RationalModel, e: Value, u: Value, width: Fraction) -> Value:
    """`e u` for u in [0, width]; any number in the convex hull where neither is known.

    `(e - low)`, `(high - e)`, `u` and `(width - u)` are not negative, hence neither are their
    products, in which `e u` is then a free value.
    """
    low, high = e.low, e.high
    if low == high:
        return model.combination([low], [u])
    if u.low == u.high:
        return model.combination([u.low], [e])
    product = model.variable(Fraction(0), high * width)
    parts, one, none = [product, u, e], Fraction(1), Fraction(0)
    model.require(model.combination([one, -low, none], parts))
    model.require(model.combination([-one, high, none], parts))
    model.require(model.combination([one, -high, -width], parts, high * width))
    model.require(model.combination([-one, low, width], parts, -low * width))
    return product


def _brightened(span: tuple[float, float], domain: Domain, clip: bool) -> Image:
    def image(model: RationalModel, x: Pixels) -> Pixels:
        e = model.variable(Fraction(span[0]), Fraction(span[1]))
        moved = [model.combination([Fraction(1), Fraction(1)], [pixel, e]) for pixel in x]
        return _clipped(model, moved, domain, clip)

    return image


def _clipped(model: RationalModel, pixels: Pixels, domain: Domain, clip: bool) -> Pixels:
    if not clip:
        return pixels
    low, high = Fraction(domain.lower), Fraction(domain.upper)
    return [model.clipped(pixel, low, high) for pixel in pixels]


def _moved_by_up_to(limit: float, mask: np.ndarray, domain: Domain) -> Image:
    def image(model: RationalModel, x: Pixels) -> Pixels:
        found = []
        for pixel, moves in zip(x, mask, strict=True):
            image_pixel = pixel
            if moves:
                image_pixel = model.variable(Fraction(domain.lower), Fraction(domain.upper))
                model.require(model.difference(image_pixel, pixel), -Fraction(limit))
                model.require(model.difference(pixel, image_pixel), -Fraction(limit))
            found.append(image_pixel)
        return found

    return image


def _blackened(mask: np.ndarray, domain: Domain) -> Image:
    def image(model: RationalModel, x: Pixels) -> Pixels:
        black = model.constant(Fraction(domain.lower))
        return [black if hidden else pixel for pixel, hidden in zip(x, mask, strict=True)]

    return image


def _shifted(down: int, right: int, domain: Domain) -> Image:
    channels, height, width = domain.image

    def image(model: RationalModel, x: Pixels) -> Pixels:
        found = []
        for channel, row, column in itertools.product(range(channels), range(height), range(width)):
            i, j = row - down, column - right
            inside = 0 <= i < height and 0 <= j < width
            black = model.constant(Fraction(domain.lower))
            found.append(x[(channel * height + i) * width + j] if inside else black)
        return found

    return image


def turned(angle: float, domain: Domain) -> Image:
    """Each pixel an average of pixels, its weights taken as they are; black without any."""
    (piece,) = Rotation(angle).pieces(domain)
    weights = piece.map.matrix.toarray()

    def image(model: RationalModel, x: Pixels) -> Pixels:
        black = model.constant(Fraction(domain.lower))
        rows = [[Fraction(float(weight)) for weight in row] for row in weights]
        return [model.combination(row, x) if any(row) else black for row in rows]

    return image


def _square(domain: Domain, top: int, left: int, side: int) -> np.ndarray:
    """The pixels, in every channel, of a square with a 1-based corner."""
    _, rows, columns = np.indices(domain.image) + 1
    inside = (top <= rows) & (rows < top + side) & (left <= columns) & (columns < left + side)
    return inside.reshape(-1)


def _squares(*spans: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    return itertools.product(*(_whole(span) for span in spans))


def _whole(span: tuple[int, int]) -> range:
    return range(span[0], span[1] + 1)
