"""Who works on problems: one small interface, and the words that are said over it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

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


class AbstractExecutor(ABC):
    """Works on a few tasks at a time.

    Every task that was submitted ends with exactly one `Completed`, `Failed` or `Lost`, unless it
    is cancelled: then nothing is heard of it any more.
    """

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many tasks it works on at a time."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Start on a task. There must be a free slot."""

    @abstractmethod
    def next_message(self, seconds: float) -> Message | None:
        """What a worker says; None where nothing is said in so many seconds."""

    @abstractmethod
    def cancel(self, number: int) -> None:
        """Stop a task, now, whatever its worker is doing."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything and leave no process behind."""
