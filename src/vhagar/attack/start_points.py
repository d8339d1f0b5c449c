"""Where the region search starts: the best rows of an ascent, and some of rarely tried pieces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.ascent import Solutions
from vhagar.attack.batch import Batch


@dataclass(frozen=True, eq=False)
class StartPoint:
    """An input that attacks the target, or nearly does, from which to search."""

    target: int | None
    piece_index: int
    x: Array
    parameters: Array
    confidence: float


def start_points(batch: Batch, target: int | None, solutions: Solutions) -> list[StartPoint]:
    """The rows of a target, the most confident attacks first."""
    found = [
        StartPoint(
            target,
            group.piece_index,
            solutions.x[batch.rows(k)][row],
            solutions.parameters[k][row],
            float(solutions.confidence[batch.rows(k)][row]),
        )
        for k, group in enumerate(batch.groups)
        if group.target == target
        for row in range(batch.rows_per_group)
    ]
    return sorted(found, key=lambda point: -point.confidence)


class Shortlist:
    """Chooses twice `count` points of each round, and remembers which pieces it has chosen."""

    def __init__(self, count: int, pieces: int, rng: np.random.Generator) -> None:
        self._count, self._pieces, self._rng = count, pieces, rng
        self._visits: Counter[tuple[int | None, int]] = Counter()

    def of(self, points: list[StartPoint]) -> list[StartPoint]:
        """The best points, then those of rarely tried pieces, then any others."""
        best, rest = points[: self._count], points[self._count :]
        seen = {point.piece_index for point in best}
        new: dict[int, StartPoint] = {}
        for point in rest:
            if point.piece_index not in seen:
                new.setdefault(point.piece_index, point)  # the best of its piece
        tie_breaks = self._rng.permutation(self._pieces)
        least_tried = sorted(
            new.values(),
            key=lambda point: (
                self._visits[point.target, point.piece_index],
                tie_breaks[point.piece_index],
            ),
        )
        shuffled = [rest[k] for k in self._rng.permutation(len(rest))]
        others = [point for point in shuffled if new.get(point.piece_index) is not point]
        chosen = [*best, *least_tried, *others][: 2 * self._count]
        self._visits.update({(point.target, point.piece_index) for point in chosen})
        return chosen
