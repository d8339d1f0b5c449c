"""Proofs by boxes of inputs: a tree of halvings, whose leaves are bounded one by one.

The tree cannot leave out any input: it says which entry is halved, and the middle is computed here.
Bad choices prove a weak bound, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vhagar_check.container import require_keys, split_json
from vhagar_check.errors import Rejected
from vhagar_check.layers import HALF_ULP, Floats, Network
from vhagar_check.linear_bounds import Boxes, LinearBounds, extremes, largest_of_pairs
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import Pixelwise
from vhagar_check.regions import Form

LEAF = 255
_KEYS = frozenset(("piece", "span", "target"))
# Boxes that are bounded at once.
_BATCH = 256

Ends = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class _Box:
    """A box and its parent, of which it is a half."""

    low: Ends
    high: Ends
    parent: _Box | None


@dataclass(frozen=True, eq=False)
class BoxRegion:
    """The content of a BOXS block: a tree of boxes for a piece and a target, or for neither."""

    piece_number: int | None
    target: int | None
    network: Network
    domain: Domain
    limit: Floats  # how far each entry may move
    code: bytes

    @classmethod
    def read(cls, form: Form, raw: bytes) -> BoxRegion:
        about, code = split_json(raw)
        require_keys(about, _KEYS, "proof by boxes")
        number, target = about["piece"], about["target"]
        network, piece = form.of(number)
        if about["span"] is not None or (number is None) != (target is None):
            raise Rejected("a proof by boxes is about a part of a piece, or about half a question")
        domain = form.domain
        limit = np.zeros(domain.size)
        if number is not None:
            if not isinstance(piece, Pixelwise) or piece.name != "linf" or piece.domain != domain:
                raise Rejected("a proof by boxes is about a perturbation other than linf or patch")
            limit[piece.mask] = piece.limit
        if domain.size >= LEAF:
            raise Rejected("a proof by boxes is about inputs with too many entries")
        return cls(number, target, network, domain, limit, code)

    def leaves(self) -> Iterator[_Box]:
        """Yield the boxes that are not halved; together they cover all inputs of the domain."""
        low, high = (tuple(ends.tolist()) for ends in self.domain.inputs)
        waiting = [_Box(low, high, None)]
        for entry in self.code:
            if not waiting:
                raise Rejected("a tree of boxes goes on behind its end")
            box = waiting.pop()
            if entry == LEAF:
                yield box
                continue
            if entry >= self.domain.size:
                raise Rejected("a tree of boxes halves an entry that there is not")
            at = (box.low[entry] + box.high[entry]) / 2
            if not box.low[entry] < at < box.high[entry]:
                raise Rejected("a tree of boxes halves what has no middle")
            below, above = _with(box.high, entry, at), _with(box.low, entry, at)
            waiting += [_Box(above, box.high, box), _Box(box.low, below, box)]
        if waiting:
            raise Rejected("a tree of boxes is cut off")


def _with(ends: Ends, entry: int, value: float) -> Ends:
    return (*ends[:entry], value, *ends[entry + 1 :])


class BoxProver:
    """Bounds the confidence in the source over all leaves of a tree."""

    def __init__(self, region: BoxRegion, source: int, claim: float) -> None:
        self.region = region
        self._claim = claim
        self._bounds = LinearBounds(region.network)
        classes = region.network.classes
        others = [k for k in range(classes) if k != source]
        self._leads = _leads(source, others, classes)
        if region.target is not None:
            rivals = [k for k in range(classes) if k != region.target]
            self._target_leads = _leads(region.target, rivals, classes)
            self._pair = others.index(region.target), rivals.index(source)

    def upper(self) -> float:
        """The largest bound of a leaf; an ancestor's bound counts if it is better."""
        worst, batch = 0.0, list[_Box]()
        for box in self.region.leaves():
            batch.append(box)
            if len(batch) == _BATCH:
                worst, batch = max(worst, self._largest(batch)), []
        return max(worst, self._largest(batch)) if batch else worst

    def _largest(self, leaves: list[_Box]) -> float:
        values, boxes = self._values(leaves), list(leaves)
        missed = [k for k, value in enumerate(values) if not value <= self._claim]
        while missed:
            with_parent = [k for k in missed if boxes[k].parent is not None]
            if not with_parent:
                break
            parents: list[_Box] = []
            for k in with_parent:
                parent = boxes[k].parent
                assert parent is not None
                boxes[k] = parent
                parents.append(parent)
            values[with_parent] = np.minimum(values[with_parent], self._values(parents))
            missed = [k for k in with_parent if not values[k] <= self._claim]
        return float(values.max())

    def _values(self, given: list[_Box]) -> Floats:
        """Bound each box; infinity if nothing is proved."""
        boxes = Boxes(np.array([box.low for box in given]), np.array([box.high for box in given]))
        above = self._bounds.above(boxes, self._leads)
        values = _known(extremes(above)[1].min(axis=1))
        missed = ~(values <= self._claim)
        if self.region.target is not None and missed.any():
            some = Boxes(boxes.low[missed], boxes.high[missed])
            values[missed] = np.minimum(values[missed], self._by_images(some, above[missed]))
        return np.maximum(values, 0.0)

    def _by_images(self, boxes: Boxes, above: Floats) -> Floats:
        """Bound each box by its images; minus infinity if the target cannot win."""
        images = self._images(boxes)
        behind = self._bounds.above(images, self._target_leads)
        ours, theirs = self._pair
        first, second = above[:, :, ours], behind[:, :, theirs]
        shift = largest_of_pairs(first, second, boxes, images, self.region.limit)
        never = (extremes(behind)[1] < 0).any(axis=1)
        return np.where(never, -np.inf, _known(shift))

    def _images(self, boxes: Boxes) -> Boxes:
        limit, domain = self.region.limit, self.region.domain
        room = np.where(limit > 0, 8 * HALF_ULP * (abs(boxes.low) + abs(boxes.high) + limit), 0.0)
        low = np.maximum(boxes.low - limit - room, domain.low)
        return Boxes(low, np.minimum(boxes.high + limit + room, domain.high))


def _known(values: Floats) -> Floats:
    return np.where(np.isnan(values), np.inf, values)


def _leads(label: int, others: list[int], classes: int) -> Floats:
    found = -np.eye(classes)[others]
    found[:, label] = 1.0
    return found
