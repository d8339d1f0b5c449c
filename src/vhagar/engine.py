"""What every engine is: something that feeds a run until a deadline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.reduction import REDUCTIONS, AbstractReduction
from vhagar.result import Run


class AbstractEngine(ABC):
    """Searches one problem. All that it finds goes through the run, which judges it."""

    # Whether it writes the certificate that the options may ask for.
    writes_certificates: ClassVar[bool] = False

    def reductions(self, problem: Problem, options: Options) -> tuple[AbstractReduction, ...]:
        """What is done to the problem, in this order, before the engine searches it."""
        return REDUCTIONS

    def certifying(self, run: Run) -> AbstractContextManager[Any]:
        """Inside, what `run` proves is recorded; at the end, also on Ctrl-C, the certificate is
        written."""
        return nullcontext()

    @abstractmethod
    def search(self, run: Run, deadline: float) -> bool:
        """Search until closed, exhausted, or `time.monotonic()` passes the deadline.

        Returns whether the time ran out.
        """
