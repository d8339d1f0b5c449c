"""Search trees: checks that children cover their parent, and combines the bounds of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.formula import Decisions, Ranges
from vhagar_check.layers import Floats, Network
from vhagar_check.moved import identity
from vhagar_check.one_image import split_box
from vhagar_check.pieces import Domain, Piece, Span

RECORD = np.dtype(
    [
        ("parent", "<u4"),
        ("kind", "u1"),
        ("copy", "u1"),
        ("positive", "u1"),
        ("zero", "u1"),
        ("layer", "<i4"),
        ("neuron", "<u4"),
        ("at", "<f8"),
    ]
)
_DECISION, _SPLIT, _SLOPE, _ENTRY = 0, 1, 2, 3
_PIXELS = -1
# Whole numbers up to here have a float64 between them and the next but one.
_LARGEST = 2.0**52
# Each proof costs a walk up to its root. Real trees are not deeper; forged ones would take forever.
_DEEPEST = 4096


@dataclass(frozen=True)
class Root:
    """A whole piece and a target; with neither, the maximal confidence.

    With `slopes` the tree is split by slopes, and bounds only the difference of the copies. With
    `boxes` it is a single root, and a tree of input boxes proves its bound.
    """

    target: int | None
    piece: int | None
    slopes: bool = False
    boxes: bool = False


class Tree:
    """All trees of a certificate: their roots come first, then pairs of children."""

    def __init__(
        self, roots: list[Root], records: NDArray[Any], network: Network, pieces: list[Piece]
    ) -> None:
        self.roots = roots
        self.count = len(roots) + len(records)
        self._records = records
        self._pieces = pieces
        self._check_pairs()
        self._check_steps(network)
        if any(roots[k].boxes for k in records["parent"].tolist() if k < len(roots)):
            raise Rejected("a tree that boxes prove has children")

    def _check_pairs(self) -> None:
        """Check that every node has no children, or exactly the two sides of one step."""
        records, roots = self._records, len(self.roots)
        if len(records) % 2:
            raise Rejected("a node of the tree has a single child")
        first, second = records[0::2], records[1::2]
        same = all(
            (first[name] == second[name]).all()
            for name in ("parent", "kind", "copy", "layer", "neuron", "at")
        )
        sides = (first["positive"] == 0).all() and (second["positive"] == 1).all()
        if not same or not sides:
            raise Rejected("two children in the tree are not the two sides of one step")
        numbers = roots + np.arange(0, len(records), 2)
        if (first["parent"] >= numbers).any():
            raise Rejected("a node of the tree comes before its parent")
        if len(np.unique(first["parent"])) != len(first):
            raise Rejected("a node of the tree has more than two children")
        self._check_depth()

    def _check_depth(self) -> None:
        depths = [0] * self.count
        for k, parent in enumerate(self._records["parent"].tolist(), start=len(self.roots)):
            depths[k] = depths[parent] + 1
        if max(depths, default=0) > _DEEPEST:
            raise Rejected(f"the tree is deeper than {_DEEPEST} steps")

    def _check_steps(self, network: Network) -> None:
        records = self._records
        if ((records["kind"] > _ENTRY) | (records["copy"] > 1)).any():
            raise Rejected("a step of the tree is of an unknown kind")
        self._check_entries(records[records["kind"] == _ENTRY])
        decisions = records[(records["kind"] == _DECISION) | (records["kind"] == _SLOPE)]
        sizes = np.array([*network.relu_sizes_and_classes[:-1], self._pieces[0].domain.size])
        layers = decisions["layer"]
        if ((layers < _PIXELS) | (layers >= len(sizes) - 1)).any():
            raise Rejected("a step of the tree decides about a layer that there is not")
        if (decisions["layer"][decisions["kind"] == _SLOPE] == _PIXELS).any():
            raise Rejected("a step of the tree decides about the slope of a pixel")
        if (decisions["neuron"] >= sizes[layers]).any():
            raise Rejected("a step of the tree decides about a neuron that there is not")
        for k, linear in enumerate(network.linear):
            if linear is not None and linear[decisions["neuron"][layers == k]].any():
                raise Rejected("a step of the tree decides about a linear unit, which has no sign")

    def _check_entries(self, splits: NDArray[Any]) -> None:
        """Check that only whole numbers are split, so that nothing lies between the two sides."""
        conditions = self._pieces[0].domain.conditions
        whole = [] if conditions is None else sorted(conditions.whole)
        if not np.isin(splits["neuron"], whole).all():
            raise Rejected("the tree splits an entry that need not be a whole number")
        at = splits["at"]
        if not (np.isfinite(at) & (at == np.rint(at)) & (abs(at) < _LARGEST)).all():
            raise Rejected("the tree splits an entry at a value that is not a whole number")

    def case(self, node: int) -> tuple[int, Span | None, Decisions]:
        """The tree a node belongs to, its part of the parameter's range, and its decisions."""
        steps = []
        while node >= len(self.roots):
            record = self._records[node - len(self.roots)]
            steps.append(record)
            node = int(record["parent"])
        piece_number = self.roots[node].piece
        piece = (
            identity(self._pieces[0].domain) if piece_number is None else self._pieces[piece_number]
        )
        span, decisions = piece.span, Decisions()
        for record in reversed(steps):
            upper = bool(record["positive"])
            if (record["kind"] == _SLOPE) != self.roots[node].slopes:
                raise Rejected("slopes and other steps of the tree are mixed")
            if record["kind"] == _SLOPE:
                place = int(record["layer"]), int(record["neuron"])
                decisions.slopes.setdefault(place, upper)
                continue
            if record["kind"] == _SPLIT:
                span = _part(span, record, upper)
                continue
            if record["kind"] == _ENTRY:
                _narrow(decisions.entries, piece.domain, record, upper)
                continue
            # If a sign is decided again, the first decision stays, which covers no less.
            sign = 1 if upper else -1
            if record["layer"] == _PIXELS:
                decisions.sides.setdefault(int(record["neuron"]), sign)
            else:
                place = int(record["layer"]), int(record["neuron"])
                decisions.signs.setdefault(place, {}).setdefault(int(record["copy"]), sign)
        return node, span, decisions

    def combine(self, values: Floats) -> Floats:
        """The bound of every node: its own, or the larger of its children's if that is less."""
        found = values.tolist()
        parents = self._records["parent"].tolist()
        roots = len(self.roots)
        for k in range(len(parents) - 2, -1, -2):
            below = max(found[roots + k], found[roots + k + 1])
            found[parents[k]] = min(found[parents[k]], below)
        return np.array(found)


def _narrow(entries: Ranges, domain: Domain, record: Any, upper: bool) -> None:
    """Narrow the range of an entry that is a whole number to one side of a split."""
    k, at = int(record["neuron"]), float(record["at"])
    low, high = entries.get(k) or (float(domain.inputs[0][k]), float(domain.inputs[1][k]))
    entries[k] = (max(low, at + 1), high) if upper else (low, min(high, at))


def _part(span: Any, record: Any, upper: bool) -> Any:
    """The part of a span on one side of a split; for one image, the split of one parameter."""
    at = float(record["at"])
    if span is not None and isinstance(span[0], tuple):
        return split_box(span, int(record["neuron"]), at, upper)
    if span is None or not span[0] < at < span[1]:
        raise Rejected("a piece is split where it has no parameter or outside its range")
    return (at, span[1]) if upper else (span[0], at)
