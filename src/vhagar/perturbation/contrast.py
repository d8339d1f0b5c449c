"""Contrast: every pixel's distance from black is multiplied by the same factor."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.errors import InvalidInput
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import GivenRange, Range, as_range, interval_text, require_within
from vhagar.perturbation.scalar import ScalarPiece

# The largest factor, and the inverse of the smallest: beyond practical use, but nothing overflows.
_LARGEST = 1e6


@dataclass(frozen=True)
class Contrast(Perturbation):
    """`contrast([lo,hi])`: multiplies every pixel by one e in [lo,hi], 0 < lo."""

    span: Range

    name = "contrast"

    def __init__(self, span: GivenRange) -> None:
        low, high = as_range(span, "the range of contrast")
        if low <= 0:
            raise InvalidInput(
                f"the range of contrast must be above 0, not {interval_text((low, high))}"
            )
        require_within((low, high), 1 / _LARGEST, _LARGEST, "the range of contrast")
        object.__setattr__(self, "span", (low, high))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[ScalarPiece, ...]:
        low, high = self.span
        # Split at 1, so that a piece only brightens or only darkens.
        spans = [(low, 1.0), (1.0, high)] if low < 1 < high else [(low, high)]
        label = str(self)
        return tuple(ScalarPiece(domain, label, span, clip, product=True) for span in spans)

    def arguments(self) -> tuple[str, ...]:
        return (interval_text(self.span),)
