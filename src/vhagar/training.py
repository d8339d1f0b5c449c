"""Robustness during training: bound and coverage on a small budget, epoch by epoch.

A plain loop calls `check`; PyTorch Lightning, MLflow and Weights & Biases have thin adapters. None
of them is needed unless it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vhagar.coverage import search_time, with_coverage
from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.options import Options
from vhagar.perturbation import Perturbation
from vhagar.problem import Problem
from vhagar.result import Result, Suggestion, WarmStart
from vhagar.search.branch_and_bound import Bab
from vhagar.verify import run_engine, with_largest

if TYPE_CHECKING:
    from torch.nn import Module

Metrics = Mapping[str, float]
Log = Callable[[Metrics, int], None]


@dataclass(frozen=True, eq=False)
class Check:
    """One look at a network in training: the step, and the result."""

    step: int
    result: Result

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers to plot: bounds, percentages of the maximal confidence, and coverage."""
        result = self.result
        found = {"robustness/lower": result.lower, "robustness/upper": result.upper}
        if result.percent is not None:
            found["robustness/upper_percent"] = result.percent[1]
        counts = None if result.coverage is None else result.coverage.classified
        if counts is not None and counts.inputs:
            found["robustness/coverage"] = counts.robust / counts.inputs
            found["robustness/attacked"] = counts.attackable / counts.inputs
        return found


class RobustnessMonitor:
    """Verifies a network now and then, for a few seconds, while it is trained.

    The question is that of `Problem`; `seconds` is what one check may take, and `every` how many
    steps lie between two. With a `dataset`, coverage is counted, too. Each check starts from the
    witness of the last one: a network hardly changes in one epoch. `log` is called with the
    numbers and the step; see `log_to_mlflow` and `log_to_wandb`.
    """

    def __init__(
        self,
        *,
        perturbation: str | Perturbation,
        source: int,
        targets: int | Sequence[int] | None = None,
        input_shape: Sequence[int] | None = None,
        input_range: tuple[float, float] = (0.0, 1.0),
        dataset: str | os.PathLike[str] | None = None,
        seconds: float = 10.0,
        every: int = 1,
        log: Log | None = None,
    ) -> None:
        if every < 1:
            raise InvalidInput(f"every must be at least 1, not {every}")
        if not seconds > 0:
            raise InvalidInput(f"seconds must be above 0, not {seconds}")
        self.history: list[Check] = []
        self._asked = (perturbation, source, targets, input_range)
        self._shape = input_shape
        self._options = Options(workers=0, dataset=None if dataset is None else Path(dataset))
        self._seconds, self._every, self._log = seconds, every, log

    def check(self, network: Network | Module | str, step: int) -> Check | None:
        """Verify the network as it is now; None between two checks.

        A module is left in the mode that it is in.
        """
        if step % self._every:
            return None
        perturbation, source, targets, ends = self._asked
        problem = Problem(
            network,
            perturbation=perturbation,
            source=source,
            targets=targets,
            input_range=ends,
            input_shape=self._shape,
        )
        share = search_time(self._options, self._seconds)
        result = run_engine(
            problem, Bab(), self._options, timeout=share, warm_start=WarmStart(self._suggestions())
        )
        left = max(self._seconds - result.seconds, 0.0)
        result = with_largest(with_coverage(result, self._options, left))
        found = Check(step, result)
        self.history.append(found)
        if self._log is not None:
            self._log(found.metrics, step)
        return found

    def _suggestions(self) -> tuple[Suggestion, ...]:
        """The last witness, which is checked against the new weights like any other input."""
        last = self.history[-1].result.witness if self.history else None
        if last is None:
            return ()
        return (Suggestion(last.target, last.x, last.x_p, np.array(last.choice)),)


def lightning_callback(monitor: RobustnessMonitor) -> Any:
    """A callback for PyTorch Lightning that checks the network after each validation.

    The numbers also go to the trainer's own logger.
    """
    try:
        lightning = import_module("lightning.pytorch")
    except ImportError:
        try:
            lightning = import_module("pytorch_lightning")
        except ImportError:
            raise InvalidInput(
                "PyTorch Lightning is not installed: pip install lightning"
            ) from None

    class RobustnessCallback(lightning.Callback):  # type: ignore[name-defined, misc]
        """What `lightning_callback` returns."""

        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            if trainer.sanity_checking:
                return
            found = monitor.check(pl_module, trainer.current_epoch)
            if found is not None:
                pl_module.log_dict(found.metrics)

    return RobustnessCallback()


def log_to_mlflow() -> Log:
    """A `log` for `RobustnessMonitor` that writes to the active run of MLflow."""
    mlflow = _installed("mlflow")
    return lambda metrics, step: mlflow.log_metrics(dict(metrics), step=step)


def log_to_wandb() -> Log:
    """A `log` for `RobustnessMonitor` that writes to the active run of Weights & Biases."""
    wandb = _installed("wandb")
    return lambda metrics, step: wandb.log({**metrics, "epoch": step})


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(f"{name} is not installed: pip install {name}") from None
