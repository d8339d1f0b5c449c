"""What the search and the process for wide frontiers say to each other, and about which nodes."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.problem import Problem
from vhagar.search.bab.node import Node, Region


class Suitable:
    """Which regions may be explored in batches: those decided by the signs of neurons alone."""

    def __init__(self, problem: Problem) -> None:
        self._roots = [piece.convex and piece.pixel_corners() is None for piece in problem.pieces]

    def __contains__(self, region: object) -> bool:
        if not isinstance(region, Region):
            return False
        return self._roots[region.root] and not region.path and region.target is not None


@dataclass(frozen=True, eq=False)
class WideTask:
    """Nodes to explore, the best confidence known and the largest possible."""

    nodes: list[Node]
    lower: float
    ceiling: float


@dataclass(frozen=True)
class WideReady:
    """The process has found its device."""

    device: str
