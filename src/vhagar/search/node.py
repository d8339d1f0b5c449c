"""Nodes of the search tree: what was decided, and a bound. They hold no copy of any model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vhagar.problem import Problem, Target
from vhagar.relaxation.layerwise import Tightening
from vhagar.relaxation.lp.decisions import Decision

if TYPE_CHECKING:
    from vhagar.relaxation.quadratic import Multipliers

# In place of a copy: the decision is about the slope of a pair, 0 or 1.
SLOPE = 2


@dataclass(frozen=True)
class Region:
    """A target, a piece of the perturbation, and the path of splits that led to a part of it.

    Steps of the path are halves of the piece's span or splits by an entry (`entry_splits`).

    Without a target nothing is attacked: the maximal confidence is looked for. In a subtree whose
    bounds were tightened, `tightening` has them.
    """

    target: int | None
    piece_index: int
    path: tuple[int, ...] = ()
    tightening: Tightening | None = None

    @property
    def whole(self) -> Region:
        """The region without its tightening: its bounds hold for all of its pairs."""
        return self if self.tightening is None else replace(self, tightening=None)


@dataclass(frozen=True, eq=False)
class Node:
    """A part of the search space with an upper bound on its `delta`.

    `basis` and `challenge` are keys of stored bases: that of its own or its parent's LP, and that
    of its parent's challenge. They are only hints, because a worker may not have them any more.
    `predicted_gain` is by how much its last decision was expected to lower the bound, as long as
    that has not been observed. `rounds` is how often it has been bounded and is to be bounded
    again; `start` are its parent's multipliers, in a search that branches on slopes.
    """

    region: Region
    upper: float
    number: int
    decisions: tuple[Decision, ...] = ()
    basis: int | None = None
    challenge: int | None = None
    predicted_gain: float = 0.0
    rounds: int = 0
    start: Multipliers | None = None

    def __post_init__(self) -> None:
        if math.isnan(self.upper):  # what is no number proves nothing
            object.__setattr__(self, "upper", math.inf)

    def __lt__(self, other: Node) -> bool:
        """The node with the largest bound first; among equals the younger, which is deeper."""
        return (-self.upper, -self.number) < (-other.upper, -other.number)

    @property
    def maker(self) -> int:
        """The worker that made the node."""
        return maker_of(self.number)


def root_nodes(
    problem: Problem, targets: Iterable[Target], upper: Callable[[Target], float]
) -> list[Node]:
    """The roots of a search; their numbers repeat from target to target."""
    return [
        Node(Region(target, k), upper(target), -k)
        for target in targets
        for k in range(len(problem.pieces))
    ]


def maker_of(number: int) -> int:
    """The worker that made the node of that number; -1 for the search itself."""
    return (number >> _NUMBERS) - 1


# Each worker numbers its nodes from a start of its own, so that numbers never collide.
_NUMBERS = 40


def first_number(worker: int) -> int:
    """Where a worker's numbers begin."""
    return (worker + 1) << _NUMBERS


class Numbers:
    """Numbers for new nodes, one after the other."""

    def __init__(self, first: int = 0) -> None:
        self._last = first

    def __call__(self) -> int:
        self._last += 1
        return self._last


@dataclass(eq=False)
class Closed:
    """Each target's largest bound of a closed node.

    `nodes` are these nodes with their bounds, where a checkpoint asks for them.
    """

    uppers: dict[int | None, float] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def add(self, target: int | None, upper: float) -> None:
        upper = math.inf if math.isnan(upper) else upper
        self.uppers[target] = max(self.uppers.get(target, 0.0), upper, 0.0)

    def keep(self, node: Node, upper: float) -> None:
        """Record a closed node, without what its children would need."""
        self.nodes.append(Node(node.region.whole, upper, node.number, node.decisions))

    def merge(self, other: Closed) -> None:
        for target, upper in other.uppers.items():
            self.add(target, upper)
