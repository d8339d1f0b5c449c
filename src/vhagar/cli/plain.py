"""Plain progress lines for pipes and log files, without control codes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from vhagar.cli.screen import AbstractScreen, AbstractWatch
from vhagar.cli.standard_output import discard_output
from vhagar.problem import Problem
from vhagar.result import Progress, Result
from vhagar.result.numbers import interval, seconds
from vhagar.result.words import interval_words, outcome

# Seconds between lines: at least so many when the interval changes, and at most so many otherwise.
_CHANGE_INTERVAL = 1.0
HEARTBEAT_INTERVAL = 30.0

# What a data set and a requirement ask for: part of the answer.
_ASKED = ("coverage", "required")


class PlainScreen(AbstractScreen):
    """Prints to the standard output; a closed pipe counts as Ctrl-C."""

    def __init__(self, every_change: bool = False) -> None:
        self.reader_gone = False
        self.pause = 0.0 if every_change else _CHANGE_INTERVAL

    @contextmanager
    def watch(self, problem: Problem, timeout: float | None) -> Iterator[AbstractWatch]:
        watch = self._opened(problem, timeout)
        try:
            yield watch
        except KeyboardInterrupt:
            watch.interrupted()
            raise

    def _opened(self, problem: Problem, timeout: float | None) -> PlainWatch:
        limit = "" if timeout is None else f", at most {seconds(timeout)} of search"
        self.line(f"{problem}{limit}")
        return PlainWatch(self, problem)

    def conclude(self, rows: Sequence[tuple[str, str]], sentence: str) -> None:
        for label, text in rows:
            self.line(f"{label + ':':10}{text}")
        self.line(sentence)

    def line(self, text: str) -> None:
        if self.reader_gone:
            return
        try:
            print(text, flush=True)
        except BrokenPipeError:
            self.reader_gone = True
            discard_output()


class QuietScreen(PlainScreen):
    """Prints only what was asked for, or the interval of a search that is interrupted."""

    def _opened(self, problem: Problem, timeout: float | None) -> PlainWatch:
        return _QuietWatch(self, problem)

    def conclude(self, rows: Sequence[tuple[str, str]], sentence: str) -> None:
        super().conclude([row for row in rows if row[0] in _ASKED], sentence)


class PlainWatch(AbstractWatch):
    """Prints changes at most once a second, but a target's first witness immediately."""

    def __init__(self, screen: PlainScreen, problem: Problem) -> None:
        self._screen = screen
        self._problem = problem
        self._last: Progress | None = None
        self._printed: Progress | None = None
        self._printed_at = -math.inf
        self._attacked: set[int] = set()

    def __call__(self, progress: Progress) -> None:
        self._last = progress
        attacked = {target for target, known in progress.targets.items() if known.lower > 0}
        fresh = sorted(attacked - self._attacked)
        self._attacked |= attacked
        wait = self._screen.pause if self._changed(progress) else HEARTBEAT_INTERVAL
        now = time.monotonic()
        if fresh or now - self._printed_at >= wait:
            self._printed, self._printed_at = progress, now
            names = map(self._problem.domain.class_name, fresh)
            news = "".join(f", first witness for target {target}" for target in names)
            self._screen.line(_progress_line(progress) + news)
        if self._screen.reader_gone:
            raise KeyboardInterrupt

    def _changed(self, progress: Progress) -> bool:
        seen, now = self._printed, progress
        ends = now.lower, now.upper, now.phase
        return seen is None or (seen.lower, seen.upper, seen.phase) != ends

    def finish(self, result: Result) -> None:
        if len(result.targets) > 1:
            for target, known in result.targets.items():
                low, high = interval(known.lower, known.upper)
                name = self._problem.domain.class_name(target)
                self._screen.line(f"{f'target {name}: ':10}[{low}, {high}]")
        self._screen.line(f"{'interval:':10}{interval_words(result.lower, result.upper)}")
        self._screen.line(f"{'status:':10}{outcome(result)}")

    def interrupted(self) -> None:
        """Print the last interval of a search that was interrupted before it could finish."""
        if self._last is not None:
            words = interval_words(self._last.lower, self._last.upper)
            self._screen.line(f"{'interval:':10}{words}")


class _QuietWatch(PlainWatch):
    """Remembers where the search stands, without a word."""

    def __call__(self, progress: Progress) -> None:
        self._last = progress

    def finish(self, result: Result) -> None:
        pass


def _progress_line(progress: Progress) -> str:
    words = interval_words(progress.lower, progress.upper)
    return f"{seconds(progress.seconds):>10}  {progress.phase:8}  {words}"
