"""Brightness: every pixel changes by the same amount."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import GivenRange, Range, as_range, interval_text, require_within
from vhagar.perturbation.scalar import ScalarPiece


@dataclass(frozen=True)
class Brightness(Perturbation):
    """`brightness([lo,hi])`: adds one e in [lo,hi] to every pixel."""

    span: Range

    name = "brightness"

    def __init__(self, span: GivenRange) -> None:
        object.__setattr__(self, "span", as_range(span, "the range of brightness"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[ScalarPiece, ...]:
        width = domain.width
        require_within(self.span, -width, width, "the range of brightness")
        low, high = self.span
        # Split at 0, so that a piece only brightens or only darkens.
        spans = [(low, 0.0), (0.0, high)] if low < 0 < high else [(low, high)]
        label = str(self)
        return tuple(ScalarPiece(domain, label, span, clip, product=False) for span in spans)

    def arguments(self) -> tuple[str, ...]:
        return (interval_text(self.span),)
