"""Order relations between a neuron of the first copy and one of the second, as plain data.

The first copy of the network runs on `x`, the second on `x_p`. A relation bounds the gap between
two values of the same layer, `z_p[second] - z[first]`: a gap that is never negative means
`z <= z_p`, one that is never positive `z >= z_p`, and both together `z = z_p`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index, Mask


class Rule(IntEnum):
    """The rule that derived a relation."""

    NONE = 0
    PERTURBATION = 1
    BOUNDS = 2
    PROPAGATION = 3
    OPTIMISATION = 4


@dataclass(frozen=True, eq=False)
class Relations:
    """Relations of one layer's values, each field `(pairs,)`.

    `gap_lower <= z_p[second] - z[first] <= gap_upper`. A side is infinite if nothing is known,
    and exactly 0 if the sign is proved. A solver with tolerances may prove slightly less than a
    sign; that side is then a tiny number on the safe side of 0.
    """

    first: Index
    second: Index
    gap_lower: Array
    gap_upper: Array
    rule: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def can_rise(self) -> Mask:
        """Pairs for which `z_p > z` is not excluded."""
        return np.asarray(self.gap_upper > 0)

    @property
    def can_fall(self) -> Mask:
        """Pairs for which `z_p < z` is not excluded."""
        return np.asarray(self.gap_lower < 0)

    @property
    def known(self) -> Mask:
        """Pairs with a finite side."""
        return np.asarray(np.isfinite(self.gap_lower) | np.isfinite(self.gap_upper))

    @property
    def exact(self) -> Mask:
        """Known pairs whose sign is proved exactly, not only up to tolerances."""
        nearly = np.isfinite(self.gap_lower) & self.can_fall
        nearly |= np.isfinite(self.gap_upper) & self.can_rise
        return np.asarray(self.known & ~nearly)

    @property
    def equal(self) -> Mask:
        """Pairs whose values always agree, exactly."""
        return np.asarray(~self.can_rise & ~self.can_fall)

    def improved(self, gap_lower: Array, gap_upper: Array, rule: Rule) -> Relations:
        """Intersect with the bounds of a rule, which is recorded where it improved them."""
        better = (gap_lower > self.gap_lower) | (gap_upper < self.gap_upper)
        return replace(
            self,
            gap_lower=np.maximum(self.gap_lower, gap_lower),
            gap_upper=np.minimum(self.gap_upper, gap_upper),
            rule=np.where(better, np.int8(rule), self.rule),
        )

    def restricted(self, can_rise: Mask, can_fall: Mask, rule: Rule) -> Relations:
        """Set sides to 0 where a rule excludes rises or falls."""
        lower = np.where(can_fall, -np.inf, 0.0)
        return self.improved(lower, np.where(can_rise, np.inf, 0.0), rule)

    def signs(self) -> Relations:
        """Keep only sides that are exactly signs, without those up to tolerances."""
        lower = np.where(self.can_fall, -np.inf, 0.0)
        return replace(self, gap_lower=lower, gap_upper=np.where(self.can_rise, np.inf, 0.0))

    def kept(self, chosen: Mask) -> Relations:
        """Select some of the pairs."""
        return Relations(*(column[chosen] for column in self.columns))

    @property
    def columns(self) -> list[Any]:
        """The fields, in order."""
        return [getattr(self, field.name) for field in fields(self)]


def unrelated(first: Index, second: Index) -> Relations:
    """Pairs of which nothing is known yet."""
    unknown = np.full(len(first), np.inf)
    return Relations(first, second, -unknown, unknown, np.zeros(len(first), dtype=np.int8))


def same_indices(size: int) -> Relations:
    """Every neuron with its own copy, nothing known yet."""
    every = np.arange(size)
    return unrelated(every, every)


def no_pairs() -> Relations:
    """No pair at all."""
    return same_indices(0)


def joined(parts: Sequence[Relations]) -> Relations:
    """All pairs of several relations of one layer."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return Relations(*(np.concatenate(column) for column in columns))
