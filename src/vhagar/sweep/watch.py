"""The interface of displays that show a sweep, and an estimate of the time that it still takes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from vhagar.result.numbers import interval
from vhagar.sweep.question import Question

# Question, lower, upper (None if nothing is proven yet), seconds.
Running = tuple[Question, float, float | None, float]


@dataclass(frozen=True)
class SweepState:
    """The state of a sweep: problems by status, running problems, and names of the networks.

    `left` is what remains of the total time, if that is limited.
    """

    counts: Mapping[str, int]
    running: Mapping[int, Running]
    names: Mapping[str, str]
    left: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        """How many problems are not finished, including the running ones."""
        return self.counts.get("open", 0)

    @property
    def done(self) -> int:
        return self.total - self.open


class Pace:
    """Estimates the remaining time of a sweep from the time of the finished problems."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._done: int | None = None

    def left(self, state: SweepState) -> float | None:
        """The remaining seconds; None if there is nothing to estimate from yet."""
        if self._done is None:
            self._done = state.done
        finished, spent = state.done - self._done, time.monotonic() - self._begun
        if not finished:
            return state.left
        # On average, a running problem is half done.
        rest = spent / (finished + len(state.running) / 2) * (state.open - len(state.running) / 2)
        return rest if state.left is None else min(rest, state.left)


class AbstractSweepWatch(ABC):
    """Shows one sweep; everything that it is told is already in the store."""

    @abstractmethod
    def begin(self, state: SweepState, timeout: float | None) -> None:
        """The sweep begins."""

    @abstractmethod
    def update(self, state: SweepState) -> None:
        """The state has changed, or some time has passed; called several times a second."""

    @abstractmethod
    def improved(self, number: int, question: Question, lower: float, upper: float | None) -> None:
        """A problem's interval has improved."""

    @abstractmethod
    def finished(
        self, number: int, question: Question, lower: float, upper: float | None, ending: str
    ) -> None:
        """A problem has ended."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Something that the user should know."""

    @abstractmethod
    def end(self, state: SweepState) -> None:
        """The sweep has ended."""


class Silent(AbstractSweepWatch):
    """Shows nothing."""

    def begin(self, state: SweepState, timeout: float | None) -> None:
        pass

    def update(self, state: SweepState) -> None:
        pass

    def improved(self, number: int, question: Question, lower: float, upper: float | None) -> None:
        pass

    def finished(
        self, number: int, question: Question, lower: float, upper: float | None, ending: str
    ) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self, state: SweepState) -> None:
        pass


def words(question: Question, names: Mapping[str, str]) -> str:
    """Describe a question in a few words: `mnist_conv1, occlusion(14,14,5), 2 to 3`."""
    name = names.get(question.network, question.network[:8])
    source = question.class_name(question.source)
    if question.perturbation is None:
        return f"{name}, confidence in {source}{question.over}"
    return f"{name}, {question.shown}, {source} to {question.toward}{question.over}"


def interval_text(lower: float, upper: float | None) -> str:
    """An interval as it is displayed; the upper end is None if nothing is proven."""
    low, high = interval(lower, float("inf") if upper is None else upper)
    return f"[{low}, {high}]"


def ending_words(state: SweepState) -> str:
    """Summarise how the problems ended: `83 closed, 5 robust, 2 out of time`."""
    names = {
        "closed": "closed",
        "robust": "robust",
        "timeout": "out of time",
        "exhausted": "as tight as the engine gets",
        "failed": "failed",
        "open": "open",
    }
    found = [f"{state.counts[key]} {name}" for key, name in names.items() if state.counts.get(key)]
    return ", ".join(found) or "no problems"
