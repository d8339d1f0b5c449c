"""Messages of the search for one target."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.search.mip.polish import WitnessCandidate


@dataclass(frozen=True, eq=False)
class UpperFound:
    """A bound for the target with all its pieces, with the solver's tolerances added."""

    value: float


@dataclass(frozen=True, eq=False)
class CandidateFound:
    """A candidate that passed the check in the process that found it."""

    piece_index: int | None  # index of the problem's piece
    candidate: WitnessCandidate


@dataclass(frozen=True, eq=False)
class NodesSearched:
    """The number of nodes searched since the last such message."""

    count: int


@dataclass(frozen=True, eq=False)
class SolverMissing:
    """The solver cannot be used, for the given reason."""

    reason: str


Message = UpperFound | CandidateFound | NodesSearched | SolverMissing
