"""The context of one run: the problem, the options, and what the run reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vhagar.array_types import Array
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.reduction import REDUCTIONS, Reduced, reduce_problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.result.interval_keeper import IntervalKeeper
from vhagar.result.result import Result
from vhagar.result.values import Estimate, Moment, Progress, Status
from vhagar.result.witness import Rejection, Witness

# Called after every improvement; returning False stops the run.
OnProgress = Callable[[Progress], object]


class Run:
    """A run of an engine on a problem. `interval` holds the bounds of the problem as given.

    Engines search `problem`, the reduced form of `original`, and translate what they find back by
    `reduced.restore`. Unless `reduced` is given, only what every problem needs is applied. `bounds`
    caches bounds that earlier problems computed.
    """

    def __init__(
        self,
        problem: Problem,
        options: Options,
        on_progress: OnProgress | None = None,
        bounds: BoundsCache | None = None,
        reduced: Reduced | None = None,
        engine: str = "bab",
    ) -> None:
        self.reduced = reduced or reduce_problem(problem, REDUCTIONS)
        self.original, self.problem = problem, self.reduced.problem
        self.options = options
        self.bounds = bounds or BoundsCache()
        self.started = time.monotonic()
        self.phase_name = "start"
        self.device = "cpu"
        self.estimate: Estimate | None = None
        self.engine = engine
        # What the engine records for a certificate (`search.proofs.tree.ProofTree`, which this room
        # must not import), and the file that was written.
        self.proof: object = None
        self.certificate: Path | None = None
        # What the engine read from the checkpoint that the run resumes.
        self.resumed: object = None
        # The error that `on_progress` raised, which stopped the run.
        self.failure: Exception | None = None
        self._on_progress = on_progress
        self._timings: dict[str, float] = {}
        self._notes: list[str] = list(problem.network.notes)
        # How many nodes of search trees were processed.
        self.nodes = 0
        certified = options.certificate is not None
        self.interval = IntervalKeeper(
            problem, options.relative_gap, certified, self.report, self.note
        )

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - self.started

    def offer_witness(
        self,
        target: int | None,
        x: Array,
        piece_index: int | None = None,
        parameters: Array | None = None,
    ) -> Witness | Rejection:
        """Translate a candidate of `problem` into one of `original`, and offer it as a witness."""
        if piece_index is None or parameters is None:
            return self.interval.offer_witness(target, x)
        piece_index, x, parameters = self.reduced.restore.witness(piece_index, x, parameters)
        return self.interval.offer_witness(target, x, piece_index, parameters)

    def report(self) -> None:
        """Call `on_progress`; if it returns False or fails, stop the run as Ctrl-C does."""
        if self._on_progress is None:
            return
        try:
            goes_on = self._on_progress(self._progress()) is not False
        except Exception as error:
            self.failure, goes_on = error, False
        if not goes_on:
            self._on_progress = None
            raise KeyboardInterrupt

    def _progress(self) -> Progress:
        interval = self.interval
        return Progress(
            self.seconds,
            interval.lower,
            interval.upper,
            self.phase_name,
            interval.intervals(),
            interval.initial_upper,
            interval.witnesses,
            interval.kind(interval.deciding),
        )

    def note(self, text: str) -> None:
        """Record something that the user should know about this run."""
        if text not in self._notes:
            self._notes.append(text)

    def count_nodes(self, more: int) -> None:
        """Count `more` processed nodes of a search tree."""
        self.nodes += more

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body under a name; the time of nested phases counts only for themselves."""
        outer, begun, before = self.phase_name, time.monotonic(), sum(self._timings.values())
        self.phase_name = name
        try:
            yield
        finally:
            inner = sum(self._timings.values()) - before
            spent = time.monotonic() - begun - inner
            self._timings[name] = self._timings.get(name, 0.0) + max(spent, 0.0)
            self.phase_name = outer

    def result(self, stopped: Status | None = None) -> Result:
        """The current result; `stopped` says why the search ended if the interval is not closed."""
        interval = self.interval
        if interval.upper == 0.0:
            status = Status.ROBUST
        elif interval.closed:
            status = Status.CLOSED
        else:
            status = stopped or Status.EXHAUSTED
        best = max(interval.witnesses.values(), key=lambda w: w.confidence, default=None)
        return Result(
            problem=self.original,
            lower=interval.lower,
            upper=interval.upper,
            status=status,
            kind=interval.kind(interval.deciding),
            seconds=self.seconds,
            targets=interval.intervals(),
            witness=best,
            history=(*interval.history, Moment(self.seconds, interval.lower, interval.upper)),
            timings=dict(self._timings),
            engine=self.engine,
            device=self.device,
            nodes=self.nodes,
            notes=tuple(self._notes),
            certificate=self.certificate,
            estimate=self.estimate,
        )
