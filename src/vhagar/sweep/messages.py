"""The messages between a sweep and its workers: tasks, and reports on their progress."""

from __future__ import annotations

from dataclasses import dataclass, field

from vhagar.engine import AbstractEngine
from vhagar.network import Network
from vhagar.options import Options
from vhagar.result import WarmStart
from vhagar.sweep.question import Question
from vhagar.sweep.snapshot import Ending, Snapshot


@dataclass(frozen=True, eq=False)
class ProblemTask:
    """A problem to work on, with everything that a worker on any machine needs."""

    number: int
    question: Question
    network: Network
    engine: AbstractEngine
    options: Options
    timeout: float | None
    warm_start: WarmStart = field(default_factory=WarmStart)


@dataclass(frozen=True, eq=False)
class Improved:
    """A problem's interval has improved."""

    number: int
    snapshot: Snapshot


@dataclass(frozen=True, eq=False)
class Completed:
    """A problem's run has ended without an error."""

    number: int
    snapshot: Snapshot
    ending: Ending


@dataclass(frozen=True)
class Failed:
    """A problem's run failed with an error that would occur again."""

    number: int
    reason: str


@dataclass(frozen=True)
class Lost:
    """A problem's worker is gone, which need not be the problem's fault."""

    number: int
    reason: str


Message = Improved | Completed | Failed | Lost
