"""Decide whether one perturbation contains another: every image of one is an image of the other.

Then the larger one's upper bounds hold for the smaller one, and the smaller one's witnesses are
witnesses for the larger one. "No" means "not known": the rules are exact, in rational arithmetic,
and where rounding could make a difference they say no.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.brightness import Brightness
from vhagar.perturbation.contrast import Contrast
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.linf import Linf
from vhagar.perturbation.occlusion import Occlusion
from vhagar.perturbation.patch import Patch
from vhagar.perturbation.ranges import integers
from vhagar.perturbation.rotation import Rotation
from vhagar.perturbation.translation import Translation

Span = tuple[float, float]
Square = tuple[int, int, int]


def subsumes(
    larger: Perturbation | None, smaller: Perturbation | None, domain: Domain, clip: bool
) -> bool:
    """Whether `larger` allows every image that `smaller` allows.

    None stands for the maximal confidence of any input, which no perturbation's bound exceeds.
    """
    if larger is None or larger == smaller:
        return True
    if smaller is None:
        return False
    rule = _RULES.get((type(larger), type(smaller)))
    return rule is not None and rule(larger, smaller, domain, clip)


def _linf_linf(larger: Linf, smaller: Linf, domain: Domain, clip: bool) -> bool:
    return smaller.limit <= larger.limit


def _linf_patch(larger: Linf, smaller: Patch, domain: Domain, clip: bool) -> bool:
    return smaller.limit <= larger.limit


def _linf_occlusion(larger: Linf, smaller: Occlusion, domain: Domain, clip: bool) -> bool:
    return larger.limit >= _width(domain)


def _linf_brightness(larger: Linf, smaller: Brightness, domain: Domain, clip: bool) -> bool:
    """True only with the clip, because an unclipped image may leave the input range."""
    return clip and max(map(abs, smaller.span)) <= larger.limit


def _linf_contrast(larger: Linf, smaller: Contrast, domain: Domain, clip: bool) -> bool:
    low, high = (Fraction(end) for end in smaller.span)
    if high > 1 and not clip:
        return False
    # The brightest pixel darkens most; the pixel that just reaches white brightens most.
    darker, brighter = max(1 - low, Fraction(0)), max(1 - 1 / high, Fraction(0))
    return larger.limit >= max(darker, brighter) * _width(domain)


def _patch_patch(larger: Patch, smaller: Patch, domain: Domain, clip: bool) -> bool:
    return smaller.limit <= larger.limit and _covered(_patches(smaller), _patches(larger))


def _patch_occlusion(larger: Patch, smaller: Occlusion, domain: Domain, clip: bool) -> bool:
    """A patch that may change a pixel by the whole range can make it black."""
    return larger.limit >= _width(domain) and _covered(_occlusions(smaller), _patches(larger))


def _occlusion_occlusion(larger: Occlusion, smaller: Occlusion, domain: Domain, clip: bool) -> bool:
    """Compares square by square, because a larger square is not the same as a smaller one."""
    pairs = (
        (larger.row, smaller.row),
        (larger.column, smaller.column),
        (larger.width, smaller.width),
    )
    return all(_contains(outer, inner) for outer, inner in pairs)


def _span_span(
    larger: Brightness | Contrast, smaller: Brightness | Contrast, domain: Domain, clip: bool
) -> bool:
    return _contains(larger.span, smaller.span)


def _translation_translation(
    larger: Translation, smaller: Translation, domain: Domain, clip: bool
) -> bool:
    return _contains(larger.rows, smaller.rows) and _contains(larger.columns, smaller.columns)


def _rotation_rotation(larger: Rotation, smaller: Rotation, domain: Domain, clip: bool) -> bool:
    """True only for ranges: a single angle's matrix is rounded, so it may lie outside a range."""
    low, high = smaller.angle
    return low < high and _contains(larger.angle, smaller.angle)


def _contains(outer: Span, inner: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _width(domain: Domain) -> Fraction:
    return Fraction(domain.upper) - Fraction(domain.lower)


def _patches(patch: Patch) -> list[Square]:
    """The widest square at each corner, which contains all narrower ones."""
    return [(i, j, patch.width[1]) for i, j in product(integers(patch.row), integers(patch.column))]


def _occlusions(occlusion: Occlusion) -> list[Square]:
    spans = (occlusion.row, occlusion.column, occlusion.width)
    return [(i, j, w) for i, j, w in product(*(integers(span) for span in spans))]


def _covered(smaller: list[Square], larger: list[Square]) -> bool:
    """Whether each of the smaller squares lies in one of the larger."""
    return all(
        any(i <= a and a + c <= i + w and j <= b and b + c <= j + w for i, j, w in larger)
        for a, b, c in smaller
    )


# By the types (larger, smaller). A perturbation without a rule is only contained in itself.
Rule = Callable[[Any, Any, Domain, bool], bool]
_RULES: dict[tuple[type[Perturbation], type[Perturbation]], Rule] = {
    (Linf, Linf): _linf_linf,
    (Linf, Patch): _linf_patch,
    (Linf, Occlusion): _linf_occlusion,
    (Linf, Brightness): _linf_brightness,
    (Linf, Contrast): _linf_contrast,
    (Patch, Patch): _patch_patch,
    (Patch, Occlusion): _patch_occlusion,
    (Occlusion, Occlusion): _occlusion_occlusion,
    (Brightness, Brightness): _span_span,
    (Contrast, Contrast): _span_span,
    (Translation, Translation): _translation_translation,
    (Rotation, Rotation): _rotation_rotation,
}
