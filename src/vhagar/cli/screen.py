"""Displays for a run: live in a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from vhagar.problem import Problem
from vhagar.result import Progress, Result


class AbstractWatch(ABC):
    """Displays one search; it is passed to the search as `on_progress`."""

    @abstractmethod
    def __call__(self, progress: Progress) -> None:
        """Take in a progress report."""

    @abstractmethod
    def finish(self, result: Result) -> None:
        """Display the result."""


class AbstractScreen(ABC):
    """Displays one search after another, and then the answer."""

    @abstractmethod
    def watch(
        self, problem: Problem, timeout: float | None
    ) -> AbstractContextManager[AbstractWatch]:
        """Display a search while the context lasts."""

    @abstractmethod
    def conclude(self, rows: Sequence[tuple[str, str]], sentence: str) -> None:
        """Print labelled lines and finally the answer."""


def is_terminal() -> bool:
    """Whether the standard output can show a live display."""
    # Not rich's opinion: FORCE_COLOR would send it control codes through a pipe.
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
