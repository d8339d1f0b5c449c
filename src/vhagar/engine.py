"""What every engine is: something that feeds a tracker until a deadline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from vhagar.result import Tracker


class AbstractEngine(ABC):
    """Searches one problem. All that it finds goes through the tracker, which judges it."""

    # Whether it writes the certificate that the options may ask for.
    writes_certificates: ClassVar[bool] = False

    def certifying(self, tracker: Tracker) -> AbstractContextManager[Any]:
        """Inside, what `run` proves is recorded; at the end, also on Ctrl-C, the certificate is
        written."""
        return nullcontext()

    @abstractmethod
    def run(self, tracker: Tracker, deadline: float) -> bool:
        """Search until closed, exhausted, or `time.monotonic()` passes the deadline.

        Returns whether the time ran out.
        """
