"""What every bounder is: it bounds nodes, says what the bounds rest on, and branches what is left.

Linear programs, batches on a GPU and first-order steps are bounders of one search. Whatever they
do inside, a bound counts because of its proof: the twin dual formula of its multipliers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.relaxation.proof import BlockProof, Proof
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node, Region


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound on a node's `delta`.

    `proof` is what it rests on; None where a bound that was known before is no worse.
    """

    upper: float
    proof: Proof | BlockProof | None = None


class Outcome(Enum):
    """What becomes of a node that its bound does not close."""

    CHILDREN = "two smaller nodes replace it"
    AGAIN = "it is to be bounded again, with more effort"
    CLOSED = "nothing is left to do: it is closed with its bound"
    LEFT = "it is left, open, to another bounder"


@dataclass(frozen=True, eq=False)
class Branched:
    """What becomes of a node.

    `children` are the negative and the positive one, or those below and above a parameter `at`;
    with an `entry`, its values at most `at` and those at least `at + 1`. `bounds` are the
    children's, where they are known already. If the outcome is AGAIN, the node itself is the only
    child.
    """

    outcome: Outcome
    children: tuple[Node, ...] = ()
    bounds: tuple[Bound, ...] = ()
    at: float | None = None
    entry: int | None = None


@dataclass(frozen=True, eq=False)
class CutsFound:
    """Cuts of a region, which all who bound its nodes can use."""

    region: Region
    cuts: list[ConeCut]


class AbstractBounder(ABC):
    """One way to bound nodes."""

    @property
    def work(self) -> float:
        """Seconds of work so far, estimated in the same way every time; 0 where nobody asks."""
        return 0.0

    def at_once(self, open_nodes: int) -> int:
        """How many nodes to bound together when `open_nodes` are open."""
        return 1

    def take_cuts(self, found: CutsFound) -> None:
        """Take over cuts that were found elsewhere, if they are of use here."""
        del found  # bounds other than LPs' have no use for them

    @abstractmethod
    def bound(self, nodes: list[Node], incumbent: Incumbent) -> list[Bound]:
        """A bound for each node, never larger than the one it comes with.

        Where a bound settles a node, no more work is needed.
        """

    @abstractmethod
    def branch(self, bounded: list[tuple[Node, Bound]], incumbent: Incumbent) -> list[Branched]:
        """What becomes of nodes, each with the bound that `bound` has found for it."""
