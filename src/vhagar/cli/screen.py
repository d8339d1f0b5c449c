"""Where a run is shown: a live display in a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from vhagar.problem import Problem
from vhagar.result import Progress, Result


class AbstractWatch(ABC):
    """Shows one search. It is the search's `on_progress`."""

    @abstractmethod
    def __call__(self, progress: Progress) -> None:
        """Take note of where things stand."""

    @abstractmethod
    def finish(self, result: Result) -> None:
        """Show how it ended."""


class AbstractScreen(ABC):
    """Shows searches, one after the other, and then the answer."""

    @abstractmethod
    def watch(
        self, problem: Problem, timeout: float | None
    ) -> AbstractContextManager[AbstractWatch]:
        """Show a search for as long as the context lasts."""

    @abstractmethod
    def conclude(self, rows: Sequence[tuple[str, str]], sentence: str) -> None:
        """Print labelled lines and, last of all, the answer."""


def is_terminal() -> bool:
    """Whether the standard output can show a live display."""
    # Not rich's opinion: FORCE_COLOR would send it control codes through a pipe.
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
