"""Splits of the search space by an entry of the input that is a whole number.

One part has `x_k <= at`, the other `x_k >= at + 1`. The steps of a region's path are numbers: 0 and
1 are the halves of a piece's span, all others are splits by entries. Steps of siblings differ in
their last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.domain.parts import part_of_domain

# An LP's entry this close to a whole number counts as one.
_WHOLE = 1e-6
# Steps are stored as 64-bit numbers, and values are exact as float64: larger ones are not split.
_LARGEST_STEP, _LARGEST_VALUE = 2**62, 2**51


@dataclass(frozen=True)
class EntrySplit:
    """An entry is at most `at`, or at least `at + 1`."""

    entry: int
    at: int

    def step(self, domain: Domain, above: bool) -> int:
        """The step of a path to one of the two parts."""
        number = (self.at - math.floor(domain.lower)) * domain.size + self.entry
        return 2 + 2 * number + above


def split_of(step: int, domain: Domain) -> tuple[EntrySplit, bool]:
    """The split that a step belongs to, and whether it leads to the part above."""
    number, above = divmod(step - 2, 2)
    offset, entry = divmod(number, domain.size)
    return EntrySplit(entry, offset + math.floor(domain.lower)), bool(above)


def is_entry_step(step: int) -> bool:
    """Whether a step is a split by an entry, not a half of a piece's span."""
    return step >= 2


def halvings(path: Iterable[int]) -> int:
    """How often a path halves the piece's span."""
    return sum(not is_entry_step(step) for step in path)


def entry_ranges(path: Iterable[int], domain: Domain) -> dict[int, tuple[float, float]]:
    """The ranges of the entries by which a path splits, in ascending order of the entries."""
    found: dict[int, tuple[float, float]] = {}
    for step in filter(is_entry_step, path):
        split, above = split_of(step, domain)
        k = split.entry
        low, high = found.get(k, (float(domain.low[k]), float(domain.high[k])))
        found[k] = (max(low, split.at + 1.0), high) if above else (low, min(high, float(split.at)))
    return dict(sorted(found.items()))


def part_of(piece: AbstractPiece, path: Iterable[int]) -> AbstractPiece | None:
    """The part of a piece that a path leads to; None if its domain has no input."""
    path, domain = tuple(path), piece.domain
    for step in path:
        if not is_entry_step(step):
            piece = piece.split()[step]
    ranges = entry_ranges(path, domain)
    if not ranges:
        return piece
    part = part_of_domain(domain, ranges)
    return None if part is None else piece.within(part)


class EntryBrancher:
    """Chooses the entry to split by, from an LP's input; none unless it `splits`."""

    def __init__(self, network: Network, domain: Domain, splits: bool = True) -> None:
        self._whole = domain.groups.whole if splits else domain.groups.whole[:0]
        self._effects = _effects(network, domain) if len(self._whole) else np.zeros(0)

    def choose(
        self, domain: Domain, x: Array, binary: bool = False, settled: bool = True
    ) -> EntrySplit | None:
        """The split of the fractional entry that matters most; None if all are whole.

        `binary` looks only at entries that have two values left. `domain` is that of the region.
        Entries that are whole count, too, unless they are `settled`.
        """
        if not len(self._whole):
            return None
        low, high, value = (part[self._whole] for part in (domain.low, domain.high, x))
        distance = abs(value - np.rint(value)) + (0.0 if settled else 2 * _WHOLE)
        score = np.where((distance > _WHOLE) & (low < high), distance * self._effects, -1.0)
        score = np.where((high - low > 1) & binary, -1.0, score)
        steps = (value - domain.lower) * domain.size
        score = np.where((steps < _LARGEST_STEP / 8) & (abs(value) < _LARGEST_VALUE), score, -1.0)
        best = int(score.argmax())
        if score[best] < 0:
            return None
        at = min(max(math.floor(value[best]), int(low[best])), int(high[best]) - 1)
        return EntrySplit(int(self._whole[best]), at)


def _effects(network: Network, domain: Domain) -> Array:
    """How much the first neurons change with each entry that is a whole number."""
    whole, middle = domain.groups.whole, domain.low + (domain.high - domain.low) / 2
    points = np.tile(middle, (len(whole) + 1, 1))
    points[np.arange(len(whole)) + 1, whole] += 1.0
    entering, scores = network.preactivations(points)
    first = entering[0] if entering else scores
    return np.asarray(abs(first[1:] - first[0]).sum(axis=1))
