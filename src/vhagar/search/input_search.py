"""Branch and bound on the input: for networks whose inputs have few entries.

A node is a box of inputs `x`. It is bounded by linear functions over the box, and over the box that
its images `x_p` lie in (`relaxation/input_boxes.py`), many boxes at a time; the widest one, by what
an entry can matter, is halved. The proof of all of it is the tree: which entry was halved where.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.attack.sampling import FEW_ENTRIES
from vhagar.problem import Problem
from vhagar.relaxation.input_boxes import Boxes, ForwardBounds, largest_over_pairs, ranges
from vhagar.relaxation.interval import HALF_ULP

# Boxes that are halved at once, and in all.
# Measured: acasxu_1_9 in 6 s, 64 at once 22,000 boxes, 256 at once 20,000.
_AT_ONCE, MOST_BOXES = 64, 2_000_000
# The images of boxes are bounded, too, while that closes this share of the boxes; otherwise only in
# one batch of this many, to see whether it would.
_WORTHWHILE, _NOW_AND_THEN = 0.05, 8
# In a tree's code, in place of the number of an entry.
LEAF = 255


def splits_inputs(problem: Problem) -> bool:
    """Whether the input has so few entries that its box can be halved, for all of its pieces."""
    moves = problem.perturbation is None or all(piece.ball is not None for piece in problem.pieces)
    return moves and problem.domain.size <= FEW_ENTRIES


@dataclass(frozen=True, eq=False)
class Leads:
    """The leads that a target is about: of the source over others, and of the target, if any."""

    source: Array
    target: Array | None
    pair: tuple[int, int]  # the rows of source over target, and of target over source

    @classmethod
    def of(cls, problem: Problem, target: int | None) -> Leads:
        classes, source = problem.network.classes, problem.source
        others = [k for k in range(classes) if k != source]
        if target is None:
            return cls(_leads(source, others, classes), None, (0, 0))
        rivals = [k for k in range(classes) if k != target]
        pair = others.index(target), rivals.index(source)
        return cls(_leads(source, others, classes), _leads(target, rivals, classes), pair)


def _leads(label: int, others: list[int], classes: int) -> Array:
    found = -np.eye(classes)[others]
    found[:, label] = 1.0
    return found


class InputSearch:
    """The search of one piece for one target, box by box.

    `upper` holds at every moment, and `code` is the tree that proves it.
    """

    def __init__(
        self, problem: Problem, forward: ForwardBounds, target: int | None, piece_index: int
    ) -> None:
        self.target, self.piece_index = target, piece_index
        self._forward, self._leads = forward, Leads.of(problem, target)
        self._domain = problem.domain
        size = self._domain.size
        self._limit = np.zeros(size)
        ball = problem.pieces[piece_index].ball if target is not None else None
        if ball is not None:
            self._limit[ball.mask] = ball.limit
        self._lower = self._domain.low[None].copy()
        self._upper = self._domain.high[None].copy()
        self._count = 1
        self._halved = np.full(1, LEAF, dtype=np.uint8)
        self._left = np.zeros(1, dtype=np.int64)  # the first of the two halves; they are adjacent
        # The largest bounds of boxes that are closed, and of those that are being halved: should
        # that be interrupted, they are nowhere else.
        self._closed = self._halving = 0.0
        self._batches, self._looked, self._gained = 0, 0, 0
        self.centres = np.zeros((0, size))  # of the boxes that came last
        (value,) = self._values(Boxes(self._lower, self._upper))
        self._heap: list[tuple[float, int]] = [(-float(value), 0)]

    @property
    def upper(self) -> float:
        """A bound on the target: the largest of all boxes that are not halved."""
        return max(-self._heap[0][0] if self._heap else 0.0, self._closed, self._halving)

    @property
    def boxes(self) -> int:
        return self._count

    @property
    def is_done(self) -> bool:
        return not self._heap or self._count >= MOST_BOXES

    def step(self, lower: float) -> None:
        """Halve the boxes with the largest bounds; those at most `lower` are closed."""
        known, parents = self._taken()
        self._halve(known, parents, lower)
        self._halving = 0.0

    def _halve(self, known: Array, parents: Index, lower: float) -> None:
        low, high = self._lower[parents], self._upper[parents]
        entry = (self._forward.sensitivity * (high - low)).argmax(axis=1)
        rows = np.arange(len(parents))
        at = (low[rows, entry] + high[rows, entry]) / 2
        inside = (low[rows, entry] < at) & (at < high[rows, entry])
        for value in known[~inside]:  # there is no number in between
            self._closed = max(self._closed, float(value))
        parents, known, low, high = parents[inside], known[inside], low[inside], high[inside]
        entry, at, rows = entry[inside], at[inside], np.arange(int(inside.sum()))
        if not len(parents):
            return
        lows, highs = np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0)
        highs[2 * rows, entry], lows[2 * rows + 1, entry] = at, at
        boxes = Boxes(lows, highs)
        values = np.minimum(self._values(boxes), np.repeat(known, 2))
        self.centres = boxes.centre
        self._add(boxes, parents, entry)
        for number, value in enumerate(values.tolist(), start=self._count - len(values)):
            if value > lower:
                heapq.heappush(self._heap, (-value, number))
            else:
                self._closed = max(self._closed, value)

    def _taken(self) -> tuple[Array, Index]:
        self._halving = max(-self._heap[0][0], 0.0) if self._heap else 0.0
        best = [heapq.heappop(self._heap) for _ in range(min(_AT_ONCE, len(self._heap)))]
        return np.array([-value for value, _ in best]), np.array([n for _, n in best], dtype=int)

    def _add(self, boxes: Boxes, parents: Index, entries: Index) -> None:
        count = self._count + len(boxes)
        while len(self._lower) < count:
            self._lower, self._upper, self._halved, self._left = (
                np.concatenate([known, known])
                for known in (self._lower, self._upper, self._halved, self._left)
            )
        new = slice(self._count, count)
        self._lower[new], self._upper[new] = boxes.lower, boxes.upper
        self._halved[new], self._left[new] = LEAF, 0
        self._halved[parents] = entries
        self._left[parents] = np.arange(self._count, count, 2)
        self._count = count

    def _values(self, boxes: Boxes) -> Array:
        """A bound for each box, at least 0; infinity where nothing is known."""
        above = self._forward.upper(boxes, self._leads.source)
        found = ranges(above)[1].min(axis=0)
        if self._leads.target is not None and self._looks_at_images():
            by_images = self._with_images(boxes, above)
            self._looked += len(boxes)
            self._gained += int((by_images < found).sum())
            found = np.minimum(found, by_images)
        return np.where(np.isnan(found), np.inf, np.maximum(found, 0.0))

    def _looks_at_images(self) -> bool:
        self._batches += 1
        if self._batches % 256 == 0:  # what was long ago says little
            self._looked, self._gained = self._looked // 2, self._gained // 2
        worthwhile = self._gained >= _WORTHWHILE * self._looked
        return worthwhile or self._batches % _NOW_AND_THEN == 0

    def _with_images(self, boxes: Boxes, above: Array) -> Array:
        """What the second copy says: whether the target can win, and how far the lead can fall."""
        assert self._leads.target is not None
        images = images_of(boxes, self._limit, self._domain.lower, self._domain.upper)
        behind = self._forward.upper(images, self._leads.target)
        ours, theirs = self._leads.pair
        shift = largest_over_pairs(above[ours], behind[theirs], boxes, images, self._limit)
        never = (ranges(behind)[1] < 0).any(axis=0)
        return np.where(never, 0.0, np.where(np.isnan(shift), np.inf, shift))

    def code(self) -> bytes:
        """The tree: of each box before its halves, the entry that is halved, or a leaf."""
        found, waiting = bytearray(), [0]
        halved, left = self._halved, self._left
        while waiting:
            box = waiting.pop()
            found.append(halved[box])
            if halved[box] != LEAF:
                first = int(left[box])
                waiting += (first + 1, first)
        return bytes(found)

    def block(self) -> tuple[dict[str, Any], bytes]:
        """What a certificate says of the search."""
        return {"target": self.target}, self.code()


def images_of(boxes: Boxes, limit: Array, least: float, most: float) -> Boxes:
    """Boxes that hold all images of boxes, whose entries move by up to `limit` inside the range."""
    room = 4 * HALF_ULP * (abs(boxes.lower) + abs(boxes.upper) + limit)
    room = np.where(limit > 0, room, 0.0)
    low = np.maximum(boxes.lower - limit - room, least)
    return Boxes(low, np.minimum(boxes.upper + limit + room, most))
