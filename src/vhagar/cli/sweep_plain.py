"""A sweep as plain lines for pipes and log files, one per finished problem."""

from __future__ import annotations

import time

from vhagar.cli.plain import HEARTBEAT_INTERVAL, PlainScreen
from vhagar.result.numbers import seconds
from vhagar.sweep.question import Question
from vhagar.sweep.watch import (
    AbstractSweepWatch,
    Pace,
    SweepState,
    ending_words,
    interval_text,
    words,
)


class PlainSweepWatch(AbstractSweepWatch):
    """Prints to the standard output; a closed pipe counts as Ctrl-C."""

    def __init__(self, every_improvement: bool = False) -> None:
        self._screen = PlainScreen()
        self._every_improvement = every_improvement
        self._begun = self._printed = time.monotonic()
        self._pace = Pace()
        self._state = SweepState({}, {}, {})

    def begin(self, state: SweepState, timeout: float | None) -> None:
        self._state = state
        limit = "" if timeout is None else f", {seconds(timeout)} each"
        before = f", {state.done} of them already done" if state.done else ""
        self._line(f"{state.total} problems{limit}{before}")
        self._pace.left(state)

    def update(self, state: SweepState) -> None:
        self._state = state
        if time.monotonic() - self._printed >= HEARTBEAT_INTERVAL:
            self._line(f"{self._progress()}  {len(state.running)} running")

    def improved(self, number: int, question: Question, lower: float, upper: float | None) -> None:
        if self._every_improvement:
            self._line(f"problem {number}: [{lower!r}, {upper!r}]")

    def finished(
        self, number: int, question: Question, lower: float, upper: float | None, ending: str
    ) -> None:
        name = words(question, self._state.names)
        self._line(f"{self._progress()}  {name}: {interval_text(lower, upper)}, {ending}")
        if self._every_improvement:
            self._line(f"problem {number}: [{lower!r}, {upper!r}] {ending}")

    def note(self, text: str) -> None:
        self._line(f"note: {text}")

    def end(self, state: SweepState) -> None:
        spent = seconds(time.monotonic() - self._begun)
        self._line(f"{state.done} of {state.total} problems after {spent}: {ending_words(state)}")

    def _progress(self) -> str:
        state = self._state
        left = self._pace.left(state)
        rest = "" if left is None else f", {seconds(left)} left"
        spent = seconds(time.monotonic() - self._begun)
        return f"{spent:>10}  {state.done}/{state.total}{rest}"

    def _line(self, text: str) -> None:
        self._printed = time.monotonic()
        self._screen.line(text)
        if self._screen.reader_gone:
            raise KeyboardInterrupt
