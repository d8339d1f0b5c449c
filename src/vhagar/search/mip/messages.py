"""What the search for one goal tells about it."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.search.mip.polish import Candidate


@dataclass(frozen=True, eq=False)
class UpperFound:
    """A bound, tolerances added, on the goal as a whole: all of its pieces."""

    value: float


@dataclass(frozen=True, eq=False)
class CandidateFound:
    """A candidate that passed the check in the process that found it."""

    root: int | None  # index of the problem's piece
    candidate: Candidate


@dataclass(frozen=True, eq=False)
class NodesSearched:
    """So many more nodes of a tree were looked at."""

    count: int


@dataclass(frozen=True, eq=False)
class SolverMissing:
    """The solver cannot be used at all, and why."""

    reason: str


Message = UpperFound | CandidateFound | NodesSearched | SolverMissing
