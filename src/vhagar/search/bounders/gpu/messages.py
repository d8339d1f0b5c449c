"""Messages between the search and the process that bounds nodes in batches."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.problem import Problem
from vhagar.search.node import Node, Region
from vhagar.search.node_solver import Explored


class Suitable:
    """Which regions may be explored in batches: those decided by the signs of neurons alone."""

    def __init__(self, problem: Problem) -> None:
        some = problem.network.hidden_neurons > 0
        self._roots = [
            some and piece.convex and piece.pixel_corners() is None for piece in problem.pieces
        ]

    def __contains__(self, region: object) -> bool:
        if not isinstance(region, Region):
            return False
        return self._roots[region.piece_index] and not region.path and region.target is not None


@dataclass(frozen=True, eq=False)
class GpuTask:
    """More nodes to explore, the best confidence known and the largest possible, and how many of
    the best nodes are wanted back for linear programs."""

    nodes: list[Node]
    lower: float
    ceiling: float
    wanted: int = 0


@dataclass(frozen=True)
class GpuReady:
    """The process has found its device."""

    device: str


@dataclass(frozen=True, eq=False)
class GpuReport:
    """What became of all nodes given so far.

    The nodes of `explored.open` come back; `held` has each target's largest bound among the nodes
    that stay.
    """

    explored: Explored
    held: dict[int | None, float]
