"""The interface of every engine: it offers witnesses and bounds to a run until a deadline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.reduction import REDUCTIONS, AbstractReduction
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.devices import check_device


class AbstractEngine(ABC):
    """Searches one problem. All that it finds goes through the run, which judges it.

    An engine is data: its fields are its own options, and one object may serve many runs.
    """

    # Which of the options beyond gap and seed make a difference to it.
    uses: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def name(self) -> str:
        """What the engine is called on the command line and in results."""

    def check(self, options: Options) -> None:
        """Complain about what the engine cannot do, and about options without effect."""
        for option, given in (
            ("certificate", options.certificate is not None),
            ("checkpoint", options.checkpoint is not None),
            ("dataset", options.dataset is not None),
            ("device", options.device != Options.device),
            ("executor", options.executor != Options.executor),
            ("workers", options.workers not in (None, 0)),
        ):
            if given and option not in self.uses:
                raise InvalidInput(
                    f"the engine {self.name!r} makes no use of the option {option!r}: leave it "
                    "out, or use the engine 'bab'"
                )
        check_device(options.device)

    def reductions(self, problem: Problem, options: Options) -> tuple[AbstractReduction, ...]:
        """What is done to the problem, in this order, before the engine searches it."""
        return REDUCTIONS

    def certifying(self, run: Run) -> AbstractContextManager[Any]:
        """Record what `run` proves inside; at the end, also on Ctrl-C, write the certificate.

        Engines without proofs do nothing; `search/proofs/recording.py` serves the others.
        """
        return nullcontext()

    def resume(self, run: Run) -> None:
        """If the run resumes a checkpoint, offer it the checkpoint's witnesses and bounds."""
        return

    @abstractmethod
    def search(self, run: Run, deadline: Deadline) -> bool:
        """Search until closed, exhausted, or the deadline; returns whether the time ran out.

        Every phase polls the deadline, and no solver is called without a limit.
        """
