"""Nodes as arrays of plain numbers, and back; what is read is checked against the problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.network.layers import Relu
from vhagar.problem import Problem
from vhagar.relaxation.lp.decisions import PIXELS, Decision
from vhagar.search.entry_splits import is_entry_step, split_of
from vhagar.search.node import SLOPE, Node, Region

if TYPE_CHECKING:
    from vhagar.relaxation.quadratic import Multipliers

_HEAD = [
    ("target", "<i4"),
    ("root", "<u4"),
    ("rounds", "<u4"),
    ("path", "<u4"),
    ("decisions", "<u4"),
    ("start", "<i4"),
    ("number", "<i8"),
    ("upper", "<f8"),
    ("gain", "<f8"),
]
_DECISION = [("layer", "<i4"), ("neuron", "<u4"), ("copy", "u1"), ("positive", "u1")]
# What nodes consist of in a file: one entry per node, per split, per decision, and so on.
PARTS = {
    "heads": np.dtype(_HEAD),
    "paths": np.dtype("<i8"),
    "decisions": np.dtype(_DECISION),
    "starts": np.dtype([("slopes", "<u4"), ("box", "<u4")]),
    "multipliers": np.dtype("<f8"),
}
# In place of a class, where nothing is attacked; in place of a start, where there is none.
_NONE = -1

Columns = dict[str, NDArray[Any]]


def pack(nodes: Iterable[Node], at_once: int = 10_000) -> Columns:
    """The nodes without what only a worker knows: the bases of their LPs.

    So many of them are taken at once, because most may still be on disk.
    """
    left = iter(nodes)
    found = [_pack([])]
    while some := list(islice(left, at_once)):
        columns, before = _pack(some), sum(len(each["starts"]) for each in found)
        starts = columns["heads"]["start"]
        starts[starts != _NONE] += before
        found.append(columns)
    return {name: np.concatenate([each[name] for each in found]) for name in PARTS}


def _pack(nodes: list[Node]) -> Columns:
    heads, paths, decisions = [], list[int](), []
    starts: dict[int, tuple[int, Multipliers]] = {}  # siblings share theirs
    for node in nodes:
        start = _NONE
        if node.start is not None:
            start = starts.setdefault(id(node.start), (len(starts), node.start))[0]
        region, made = node.region, node.decisions
        target = _NONE if region.target is None else region.target
        sizes = (len(region.path), len(made), start)
        numbers = (node.number, node.upper, node.predicted_gain)
        heads.append((target, region.piece_index, node.rounds, *sizes, *numbers))
        paths += region.path
        decisions += [(*decision.place, decision.positive) for decision in made]
    kept = [start for _, start in starts.values()]
    numbers_of = [part for start in kept for part in (start.slopes, start.box)]
    return {
        "heads": np.array(heads, PARTS["heads"]),
        "paths": np.array(paths, PARTS["paths"]),
        "decisions": np.array(decisions, PARTS["decisions"]),
        "starts": np.array([(len(s.slopes), len(s.box)) for s in kept], PARTS["starts"]),
        "multipliers": np.concatenate([np.zeros(0), *numbers_of]).astype("<f8"),
    }


@dataclass(frozen=True, eq=False)
class NodeReader:
    """Reads the nodes of one search of a problem; `slopes` says that it branches on slopes."""

    problem: Problem
    slopes: bool = False

    def unpack(self, columns: Columns) -> list[Node]:
        """The nodes; an error of the input where they are none of this problem's."""
        heads, paths = columns["heads"], columns["paths"].tolist()
        require(int(heads["path"].sum(dtype=np.int64)) == len(paths), "splits are missing")
        require(heads["decisions"].sum() == len(columns["decisions"]), "decisions are missing")
        require(
            not (np.isnan(heads["upper"]).any() or np.isnan(heads["gain"]).any()), "not a number"
        )
        decisions, starts = self._decisions(columns), _starts(columns)
        nodes, at_path, at_decision = list[Node](), 0, 0
        known = cache(self._region)
        for target, piece_index, rounds, path, count, start, number, upper, gain in heads.tolist():
            require(_NONE <= start < len(starts), "a start is missing")
            region = known(target, piece_index, tuple(paths[at_path : at_path + path]))
            own = tuple(decisions[at_decision : at_decision + count])
            require((number > 0) == bool(own or region.path), "a node has a wrong number")
            require(gain == 0 or bool(own), "a gain is predicted of no decision")
            multipliers = None if start == _NONE else starts[start]
            found = Node(region, upper, number, own, None, None, gain, rounds, multipliers)
            nodes.append(found)
            at_path, at_decision = at_path + path, at_decision + count
        return nodes

    def _region(self, target: int, piece_index: int, path: tuple[int, ...]) -> Region:
        asked = None if target == _NONE else target
        require(asked in self.problem.search_targets, f"there is no target {target}")
        require(piece_index < len(self.problem.pieces), f"there is no piece {piece_index}")
        piece, domain = self.problem.pieces[piece_index], self.problem.domain
        for step in path:
            if is_entry_step(step):
                whole = split_of(step, domain)[0].entry in domain.groups.whole
                require(whole, "an entry is split that is no whole number")
                continue
            parts = piece.split()
            require(step in (0, 1) and len(parts) == 2, "a piece is split that cannot be")
            piece = parts[step]
        return Region(asked, piece_index, path)

    def _decisions(self, columns: Columns) -> list[Decision]:
        found, widths = columns["decisions"], self._widths()
        require(bool((found["positive"] <= 1).all()), "a sign is neither positive nor negative")
        copies = found["copy"] == SLOPE if self.slopes else found["copy"] <= 1
        require(bool(copies.all()), "a decision is about no copy of the network")
        layers = found["layer"]
        require(
            bool(((layers >= PIXELS) & (layers < len(widths) - 1)).all()), "there is no such layer"
        )
        # The last entry is that of the layer of pixels, which is layer -1.
        inside = found["neuron"] < np.array(widths)[layers]
        require(bool(inside.all()), "a decision is about no neuron of the network")
        make = cache(Decision)  # one object for all nodes that share a decision
        return [make(*place, bool(positive)) for *place, positive in found.tolist()]

    def _widths(self) -> list[int]:
        layers = self.problem.network.layers
        relus = [layer.in_size for layer in layers if isinstance(layer, Relu)]
        return [*relus, self.problem.domain.size]


def _starts(columns: Columns) -> list[Multipliers]:
    from vhagar.relaxation.quadratic import Multipliers

    numbers: Array = columns["multipliers"].astype(np.float64)
    require(bool((np.isfinite(numbers) & (numbers >= 0)).all()), "multipliers are negative")
    sizes = columns["starts"]
    require(
        sum(map(int, sizes["slopes"])) + sum(map(int, sizes["box"])) == len(numbers),
        "multipliers are missing",
    )
    found, at = list[Multipliers](), 0
    for slopes, box in sizes.tolist():
        end = at + slopes
        found.append(Multipliers(numbers[at:end], numbers[end : end + box]))
        at = end + box
    return found


def require(holds: bool, otherwise: str) -> None:
    """Refuse a checkpoint for which a condition does not hold."""
    if not holds:
        raise InvalidInput(otherwise)
