"""More problems for the exact oracle: user-defined maps, and one perturbation after another.

They have numbers of their own, so that the other cases keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.perturbation import (
    AffineMap,
    AffinePerturbation,
    Brightness,
    Domain,
    Linf,
    Perturbation,
    UserPerturbation,
    compose,
    parse,
)

from .cases import _FLAT, _IMAGES, SCALES, Case, Rng, Span
from .networks import FLAVOURS, Shape

ROUND = 8 * len(FLAVOURS) * len(SCALES)


@dataclass(frozen=True)
class AffineCase(Case):
    """One problem about an affine map, by its number."""

    seed = 8

    @property
    def kind(self) -> str:
        return list(AFFINE_KINDS)[self.number % len(AFFINE_KINDS)]

    @property
    def flavour(self) -> str:
        return list(FLAVOURS)[self.number // len(AFFINE_KINDS) % len(FLAVOURS)]

    @property
    def of_ranges(self) -> bool:
        return False

    @property
    def _shapes(self) -> tuple[Shape, ...]:
        return _IMAGES + _FLAT if self.kind in _OF_ANYTHING else _IMAGES

    def _perturbation(self, rng: Rng, shape: Shape, span: Span) -> Perturbation | str:
        return AFFINE_KINDS[self.kind](rng, shape, span)

    def _clip(self, rng: Rng) -> bool:
        # What linf may be on top of is clipped anyway.
        return super()._clip(rng) or "then top" in self.kind


class Union(AffinePerturbation):
    """Several maps."""

    name = "union"

    def __init__(self, *members: UserPerturbation) -> None:
        self._members = members

    def maps(self, domain: Domain) -> list[AffineMap]:
        return [each for member in self._members for each in member.maps(domain)]


def _eighths(rng: Rng, *size: int) -> np.ndarray:
    return np.round(8 * rng.normal(size=size)) / 8


def anything(rng: Rng, shape: Shape, span: Span) -> UserPerturbation:
    """Some pixels become any mixture, with up to three parameters; most of it leaves the range."""
    size, width = int(np.prod(shape)), span[1] - span[0]
    pixels = np.flatnonzero(rng.random(size) < 0.7)
    count = int(rng.integers(0, 4))
    sparse = rng.random((len(pixels), size)) < 0.4
    low = width * _eighths(rng, count) / 4
    return UserPerturbation(
        matrix=_eighths(rng, len(pixels), size) * sparse,
        directions=_eighths(rng, len(pixels), count) if count else None,
        offset=width * _eighths(rng, len(pixels)) / 4,
        ranges=list(zip(low, low + width * abs(_eighths(rng, count)) / 4, strict=True)),
        pixels=pixels,
        name="anything",
    )


def union(rng: Rng, shape: Shape, span: Span) -> Union:
    return Union(anything(rng, shape, span), anything(rng, shape, span))


def tint(rng: Rng, shape: Shape, span: Span) -> UserPerturbation:
    """Two halves of the pixels, each brightened or darkened by an amount of its own."""
    size, width = int(np.prod(shape)), span[1] - span[0]
    halves = np.stack([np.arange(size) % 2 == k for k in (0, 1)], axis=1).astype(float)
    ends = [(0.0, 0.3 * width), (-0.2 * width, 0.1 * width)]
    return UserPerturbation(directions=halves, ranges=ends, names=("even", "odd"), name="tint")


def blend(rng: Rng, shape: Shape, span: Span) -> UserPerturbation:
    """Three quarters of each pixel and a quarter of a colour: never leaves the range."""
    size = int(np.prod(shape))
    return UserPerturbation(
        matrix=0.75, directions=np.full((size, 1), 0.25), ranges=[span], name="blend"
    )


def inside_then_top(rng: Rng, shape: Shape, span: Span) -> Perturbation:
    width = span[1] - span[0]
    tops = [Brightness((-0.1 * width, 0.2 * width)), Linf(0.1 * width)]
    return compose(blend(rng, shape, span), tops[int(rng.integers(2))])


def _brightness(rng: Rng, width: float) -> str:
    low, high = rng.choice([(0, 0.2), (-0.3, 0.1), (0.25, 0.25)])
    return f"brightness([{width * low},{width * high}])"


def occlusion_then_linf(rng: Rng, shape: Shape, span: Span) -> str:
    row, column = (int(rng.integers(1, extent + 1)) for extent in shape[1:])
    return f"occlusion({row},{column},1)+linf({(span[1] - span[0]) * rng.choice([0.1, 0.5, 1.0])})"


def translation_then_brightness(rng: Rng, shape: Shape, span: Span) -> str:
    move = ",".join(str(int(rng.integers(0, extent))) for extent in shape[1:])
    return f"translation({move})+{_brightness(rng, span[1] - span[0])}"


def rotation_then_top(rng: Rng, shape: Shape, span: Span) -> Perturbation:
    width = span[1] - span[0]
    top = _brightness(rng, width) if rng.random() < 0.5 else f"linf({0.2 * width})"
    return parse(f"rotation({rng.choice([30, 90, 180])})+{top}")


AFFINE_KINDS: dict[str, Callable[[Rng, Shape, Span], Perturbation | str]] = {
    "anything": anything,
    "tint": tint,
    "blend": blend,
    "union": union,
    "inside, then top": inside_then_top,
    "occlusion, then linf": occlusion_then_linf,
    "translation, then brightness": translation_then_brightness,
    "rotation, then top": rotation_then_top,
}
_OF_ANYTHING = ("anything", "tint", "blend", "union")
