"""Linf: every pixel changes by up to `e`, independently of the others."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.perturbation.ranges import GivenRange, as_range, interval_text, number, require_within


def limit_of(given: GivenRange, what: str) -> float:
    """The limit `e`, given as `e` or as `[0,e]`."""
    low, high = as_range(given, what)
    single = isinstance(given, Real)
    if high <= 0.0 or low != (high if single else 0.0):
        shown = number(high) if single else interval_text((low, high))
        raise InvalidInput(f"{what} must be a positive number e or an interval [0,e], not {shown}")
    return high


@dataclass(frozen=True)
class Linf(Perturbation):
    """`linf(e)` or `linf([0,e])`: `abs(x_p - x) <= e` for every pixel, within the input range."""

    limit: float

    name = "linf"

    def __init__(self, limit: GivenRange) -> None:
        object.__setattr__(self, "limit", limit_of(limit, "the limit of linf"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[LinfBallPiece, ...]:
        require_within((self.limit, self.limit), 0.0, domain.width, "the limit of linf")
        mask = np.ones(domain.size, dtype=np.bool_)
        return (LinfBallPiece(domain, str(self), self.limit, mask, np.arange(domain.size)),)

    def arguments(self) -> tuple[str, ...]:
        return (number(self.limit),)
