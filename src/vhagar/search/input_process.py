"""The branching on inputs as the search sees it: in its own process, beside its workers.

There is next to nothing to start, so that it begins at once. It reports bounds with what proves
them, and pairs that sampling has found.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vhagar.array_types import Array
from vhagar.attack.sampling import Sampler
from vhagar.problem import Problem, Target
from vhagar.relaxation.input_boxes import ForwardBounds
from vhagar.relaxation.proof import ProofKind
from vhagar.result.certificate import with_json
from vhagar.result.run import Run
from vhagar.runtime.threads import one_blas_thread
from vhagar.search.input_search import InputSearch
from vhagar.search.primal_heuristic import WitnessFound
from vhagar.search.proofs.log import ProofEvents, Proven, RegionBlocks, RegionName

# Rounds of sampling before boxes are halved, and then steps for each further round.
_FIRST_ROUNDS, _ROUND_EVERY = 8, 4
# Estimated seconds of one step.
# Measured: 5.4 ms on acasxu_1_9.
_STEP_SECONDS = 5e-3
# Seconds between two reports, or a share of all that have passed: each contains the whole tree.
_REPORT_EVERY, _REPORT_SHARE = 0.3, 0.05


@dataclass(frozen=True, eq=False)
class InputsReport:
    """Bounds of targets, what proves them where a certificate is asked for, and pairs."""

    uppers: dict[Target, float]
    boxes: int
    logged: ProofEvents | None = None
    found: list[WitnessFound] = field(default_factory=list)


class InputSearches:
    """The searches of all targets and pieces; the one with the largest bound goes on."""

    def __init__(self, problem: Problem, seed: int, record: bool) -> None:
        self._record = record
        forward = ForwardBounds(problem.network)
        indices = range(len(problem.pieces)) if problem.perturbation is not None else range(1)
        self._searches = [
            InputSearch(problem, forward, target, piece_index)
            for target in problem.search_targets
            for piece_index in indices
        ]
        self._samplers = {
            (target, piece_index): Sampler(problem, target, piece_index, seed)
            for target in problem.targets
            for piece_index in indices
        }
        self._found: list[WitnessFound] = []
        self._steps, self._told = 0, 0
        self._proved: dict[tuple[Target, int], float] = {}

    @property
    def is_done(self) -> bool:
        return all(search.is_done for search in self._searches)

    def _sample(self, key: tuple[int, int], given: Array | None = None) -> None:
        sampler = self._samplers[key]
        if sampler.round(given) and sampler.best is not None:
            best = sampler.best
            self._found.append(WitnessFound(*key, best.x, best.parameters, best.confidence))

    def step(self, lower: float = 0.0) -> None:
        """Sample at first, then halve boxes of the target with the largest bound."""
        self._steps += 1
        if self._steps <= _FIRST_ROUNDS:
            for key in self._samplers:
                self._sample(key)
            return
        going = [search for search in self._searches if not search.is_done]
        if not going:
            return
        search = max(going, key=lambda one: one.upper)
        search.step(lower)
        if search.target is not None and self._steps % _ROUND_EVERY == 0:
            self._sample((search.target, search.piece_index), search.centres)

    def report(self) -> InputsReport:
        """Return each target's bound, and what is new since the last report."""
        uppers: dict[Target, float] = {}
        for search in self._searches:
            uppers[search.target] = max(uppers.get(search.target, 0.0), search.upper)
        boxes = sum(search.boxes for search in self._searches)
        found, self._found = self._found, []
        new, self._told = boxes - self._told, boxes
        return InputsReport(uppers, new, self._log() if self._record else None, found)

    def _log(self) -> ProofEvents:
        """The trees that prove better bounds than they did."""
        logged = ProofEvents()
        for search in self._searches:
            key = search.target, search.piece_index
            if not search.upper < self._proved.get(key, math.inf):
                continue
            self._proved[key] = search.upper
            about, code = search.block()
            piece = None if search.target is None else search.piece_index
            block = with_json({**about, "piece": piece, "span": None}, code)
            name = RegionName(search.piece_index, (), hashlib.sha256(block).digest(), b"BOXS")
            logged.regions[name] = RegionBlocks((block,))
            logged.events.append(Proven(key, name, ProofKind.BOXES, b"", search.upper))
        return logged


class InputProcess:
    """The searches by inputs as the main search sees them: it has them go on now and then."""

    def __init__(self, run: Run, note: Callable[[InputsReport], None]) -> None:
        """`note` hears of every report before its bounds count."""
        self._run, self._note = run, note
        self.uppers: dict[Target, float] = {}
        self._record = run.options.certificate is not None
        self._searches: InputSearches | None = None
        self._begun = self._told = 0.0
        # Estimated seconds of all steps that were asked for by number.
        self.spent = 0.0

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self._searches is not None and self._searches.is_done

    def step(self, steps: int = 1) -> None:
        """Take some steps and report, always in the same way."""
        with one_blas_thread():
            for _ in range(steps):
                self._go_on()
        self.spent += _STEP_SECONDS * steps
        self.report()

    def work(self, seconds: float) -> None:
        """Halve boxes for about `seconds`."""
        begun = time.monotonic()
        with one_blas_thread():
            self._go_on()
            while time.monotonic() - begun < seconds and not self.is_done:
                self._go_on()
        since = time.monotonic() - self._told
        if not self._record or since >= max(_REPORT_EVERY, _REPORT_SHARE * (begun - self._begun)):
            self.report()

    def _go_on(self) -> None:
        if self._searches is None:
            self._begun = time.monotonic()
            seed = self._run.options.seed
            self._searches = InputSearches(self._run.problem, seed, self._record)
        self._searches.step(self._run.interval.lower)

    def report(self) -> None:
        """Take over the bounds and witnesses found since the last report."""
        if self._searches is None:
            return
        self._told = time.monotonic()
        report = self._searches.report()
        self._note(report)
        self._run.count_nodes(report.boxes)
        for target, upper in report.uppers.items():
            self.uppers[target] = min(upper, self.uppers.get(target, math.inf))
        for found in report.found:
            self._run.interval.offer_witness(
                found.target, found.x, found.piece_index, found.parameters
            )
