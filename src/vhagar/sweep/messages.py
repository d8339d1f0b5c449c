"""What is said between a sweep and its workers: tasks, and how they are going."""

from __future__ import annotations

from dataclasses import dataclass, field

from vhagar.engine import AbstractEngine
from vhagar.network import Network
from vhagar.options import Options
from vhagar.result import Known
from vhagar.sweep.question import Question
from vhagar.sweep.snapshot import Ending, Snapshot


@dataclass(frozen=True, eq=False)
class Task:
    """A problem to work on, with all that a worker anywhere needs for it."""

    number: int
    question: Question
    network: Network
    engine: AbstractEngine
    options: Options
    timeout: float | None
    known: Known = field(default_factory=Known)


@dataclass(frozen=True, eq=False)
class Improved:
    """A problem's interval is better than it was."""

    number: int
    snapshot: Snapshot


@dataclass(frozen=True, eq=False)
class Completed:
    """A problem's run has ended in order."""

    number: int
    snapshot: Snapshot
    ending: Ending


@dataclass(frozen=True)
class Failed:
    """A problem cannot be worked on: trying again would end the same way."""

    number: int
    reason: str


@dataclass(frozen=True)
class Lost:
    """A problem's worker is gone. Nothing is wrong with the problem, as far as one knows."""

    number: int
    reason: str


Message = Improved | Completed | Failed | Lost
