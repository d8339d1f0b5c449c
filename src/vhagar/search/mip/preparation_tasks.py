"""Tasks of the preparation that all targets share, run in worker processes or in this one."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vhagar.dependency import ConcreteBounds, DependencyOptions, Relations, find_dependencies
from vhagar.errors import SolverUnavailable
from vhagar.problem import Problem
from vhagar.relaxation import Bounds
from vhagar.relaxation.hexagon import Hexagons
from vhagar.runtime.pool import AbstractPool, Channel, Finished
from vhagar.runtime.task_workers import TaskWorkers
from vhagar.search.mip.encoding import known_ranges
from vhagar.search.mip.hexagons import hexagons_of
from vhagar.search.mip.messages import SolverMissing
from vhagar.search.mip.neuron_bounds import LayerModel
from vhagar.search.mip.options import MipOptions
from vhagar.solver.backends import backend_named

ShouldStop = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class BoundNeuron:
    """Bound one output of a linear layer, for inputs in a box, by LP and MIP."""

    copy: int
    position: int
    neuron: int
    box: Bounds
    layers: Sequence[Bounds]  # up to that position
    seconds: float


@dataclass(frozen=True, eq=False)
class RelatePiece:
    """Find the relations between the copies for a piece, and its hexagons if needed."""

    piece_index: int
    bounds: ConcreteBounds
    seconds: float


@dataclass(frozen=True, eq=False)
class Related:
    """The answer to `RelatePiece`."""

    relations: tuple[Relations, ...] | None
    hexagons: list[Hexagons] | None


PreparationTask = BoundNeuron | RelatePiece

# With fewer seconds for a piece, no solver is used and nothing is refined.
_WORTH_ASKING = 0.5
# Seconds that a worker's answer may be late.
_PATIENCE = 2.0


class BoundsWorker:
    """Performs tasks; keeps the model of the layer that it last bounded."""

    def __init__(self, problem: Problem, options: MipOptions) -> None:
        self._problem = problem
        self._options = options
        self._backend = backend_named(options.solver)
        self._model: tuple[tuple[int, int], LayerModel] | None = None

    def work(self, task: PreparationTask, should_stop: ShouldStop = lambda: False) -> Any:
        """Perform a task; returns a pair of bounds, or `Related`."""
        if isinstance(task, BoundNeuron):
            model = self._model_of(task)
            return model.bounds(task.neuron, task.seconds, self._options.seed, should_stop)
        return self._relate(task, should_stop)

    def _model_of(self, task: BoundNeuron) -> LayerModel:
        key = task.copy, task.position
        if self._model is None or self._model[0] != key:
            network = self._problem.network
            model = LayerModel(self._backend, network, task.box, task.layers, task.position)
            self._model = key, model
        return self._model[1]

    def _relate(self, task: RelatePiece, should_stop: ShouldStop) -> Related:
        network, piece = self._problem.network, self._problem.pieces[task.piece_index]
        patient = task.seconds >= _WORTH_ASKING
        ranges = known_ranges(network, piece, task.bounds)
        relations = hexagons = None
        if "dependencies" not in self._options.without:
            relations = find_dependencies(
                network,
                piece,
                (ranges.first[1:], ranges.second[1:]),
                DependencyOptions(optimise=patient, seed=self._options.seed),
                deadline=time.monotonic() + task.seconds,
                clock=lambda: math.inf if should_stop() else time.monotonic(),
            ).layers
        if self._options.formulation == "lambda":
            hexagons = hexagons_of(network, piece, ranges, relations, refined=patient)
        return Related(relations, hexagons)


class AbstractRunner(ABC):
    """Runs tasks, `size` at a time."""

    size: int

    @abstractmethod
    def answers(
        self, tasks: Sequence[PreparationTask], deadline: float
    ) -> Iterator[tuple[PreparationTask, Any]]:
        """Each task that is done by the deadline, with its answer, in any order."""


class InProcessRunner(AbstractRunner):
    """Runs tasks in this process, one after the other."""

    size = 1

    def __init__(self, worker: BoundsWorker, should_stop: ShouldStop) -> None:
        self._worker = worker
        self._should_stop = should_stop

    def answers(
        self, tasks: Sequence[PreparationTask], deadline: float
    ) -> Iterator[tuple[PreparationTask, Any]]:
        for task in tasks:
            left = deadline - time.monotonic()
            if self._should_stop() or (left <= 0 and isinstance(task, BoundNeuron)):
                return
            limited = replace(task, seconds=max(min(task.seconds, left), 0.0))
            yield limited, self._worker.work(limited, self._should_stop)


class PoolRunner(AbstractRunner):
    """Runs tasks in workers of a pool.

    `on_other` is called with the messages of other workers, and with None if there is no message.
    """

    def __init__(
        self,
        problem: Problem,
        options: MipOptions,
        size: int,
        pool: AbstractPool,
        on_other: Callable[[tuple[Any, Any] | None], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self.size = size
        self._pool = pool
        self._workers: TaskWorkers[PreparationTask] = TaskWorkers(
            pool, (_serve, (problem, options))
        )
        self._on_other = on_other
        self._on_failure = on_failure

    def stop(self) -> None:
        self._workers.stop()

    def answers(
        self, tasks: Sequence[PreparationTask], deadline: float
    ) -> Iterator[tuple[PreparationTask, Any]]:
        waiting, workers = list(tasks)[::-1], self._workers
        # Tasks have their own time limits; a task that was started in time may finish.
        patience = deadline + _PATIENCE
        while self.size and time.monotonic() < patience:
            if time.monotonic() >= deadline:
                waiting = []
            while waiting and len(workers.busy) < self.size:
                task = waiting.pop()
                workers.submit(task, task)
            if not workers.busy:
                return
            received = self._pool.next_message(patience)
            if received is None or received[0] not in workers:
                self._on_other(received)
                continue
            message, answered = received[1], workers.handle(*received)
            if isinstance(message, SolverMissing):
                raise SolverUnavailable(message.reason)
            if isinstance(message, Finished):
                self.size -= 1  # the same would probably happen to its successor
                self._on_failure(f"a part of the preparation failed: {message.error}")
            elif answered is not None:
                yield answered, message
        # Workers that are still busy are stuck.
        workers.cancel_all()


def _serve(argument: tuple[Problem, MipOptions], channel: Channel) -> None:
    """Answer tasks in a worker until the parent ends it."""
    try:
        worker = BoundsWorker(*argument)
        while True:
            channel.send(worker.work(channel.receive()))
    except SolverUnavailable as missing:
        channel.send(SolverMissing(str(missing)))
