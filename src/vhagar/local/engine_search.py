"""Asks an engine about the margins, for each part of a piece and each target in turn.

The range of a single parameter is split first, with interval arithmetic on the parts. Then the
engine decides whether the input can be pushed into the target at all. The target's score gets a
head start just above what rounding can do; the engine proves that no version is classified as the
target even so, or finds parameters, which the witness check of the global problem then judges. The
remaining time goes to the margins, with a head start that puts the target ahead in some version.
"""

from __future__ import annotations

import math

import numpy as np

from vhagar.local.decide import Clock
from vhagar.local.known import Known, LocalProgress, OnProgress, PieceCase
from vhagar.options import Options
from vhagar.reduction.fixed_image import FixedImage, fixed_images, score_rounding
from vhagar.result import Progress, Result, Status
from vhagar.search import AbstractEngine
from vhagar.verify import run_engine

# Head start in the first question, relative to the largest score.
_HEAD_START = 1e-7
# Most parts into which the range of a single parameter is split before the engine is asked.
_MOST_PARTS = 128
# Margins below this share of the largest score need not be known precisely.
_SMALL_MARGIN = 1e-3


class EngineSearch:
    """Asks an engine about the cases; with `margins`, how large the margins are as well."""

    def __init__(
        self,
        known: Known,
        engine: AbstractEngine,
        options: Options,
        clock: Clock,
        margins: bool,
        on_progress: OnProgress,
    ) -> None:
        self._known, self._engine, self._options = known, engine, options
        self._clock, self._margins, self._on_progress = clock, margins, on_progress

    def run(self) -> None:
        known = self._known
        for number in range(len(known.problem.everywhere.pieces)):
            self._begin(number)
        # The likeliest first: if the image is not robust, one of them shows it.
        known.cases.sort(key=lambda case: -case.upper)
        self._ask([case for case in known.cases if case.upper >= 0], small=True)
        if self._margins and not known.interrupted:
            known.cases.sort(key=lambda case: -case.upper)
            self._ask(list(known.cases), small=False)

    def _begin(self, number: int) -> None:
        """Bound a piece; split one with a single parameter until it is decided or in many parts."""
        known = self._known
        waiting = [[case for case in known.cases if case.piece == number]]
        known.look(waiting[0])
        while len(waiting) < _MOST_PARTS and known.witness is None:
            waiting.sort(key=lambda cases: max(case.upper for case in cases))
            worst = waiting[-1]
            halves = worst[0].part.split()
            done = max(case.upper for case in worst) < 0 or self._clock.is_over()
            if done or not halves:
                return
            fresh = [known.begin(number, half) for half in halves]
            for cases in fresh:
                known.look(cases)
            waiting[-1:] = fresh
            known.replace(worst, [case for cases in fresh for case in cases])

    def _ask(self, cases: list[PieceCase], small: bool) -> None:
        for place, case in enumerate(cases):
            left = self._clock.left
            if left <= 0:
                return
            if self._is_settled(case, small):
                continue
            # A case gets at least 3 seconds: less would be lost on preparations.
            share = None if math.isinf(left) else max(left / (len(cases) - place), min(left, 3.0))
            result = self._searched(case, small, share)
            if result is not None and result.status is Status.INTERRUPTED:
                self._known.interrupted = True
                return

    def _tell(self, progress: Progress) -> None:
        """Say what is known about the margin; the engine's own interval is about another one."""
        known = self._known
        self._on_progress(LocalProgress(self._clock.seconds, known.lower, known.upper, 0, None))

    def _is_settled(self, case: PieceCase, small: bool) -> bool:
        """Whether this case can no longer change the answer."""
        known = self._known
        if case.upper <= max(each.lower for each in known.cases):
            return True
        close = case.upper - case.lower <= self._options.relative_gap * abs(case.upper)
        return close or (small and (known.witness is not None or case.upper < 0))

    def _head_start(self, case: PieceCase, rounding: float, small: bool) -> float:
        problem = self._known.problem
        scores = float(abs(problem.everywhere.network.forward(problem.image[None])).max())
        if small:
            return 2 * rounding + _HEAD_START * scores
        # A version with confidence `case.lower` in the target is known. With this head start, the
        # best version is ahead by about the margin, to which the search's gap is then relative.
        size = max(abs(case.lower), _SMALL_MARGIN * scores) + 2 * rounding
        return max(size - case.lower, 0.0)

    def _searched(self, case: PieceCase, small: bool, timeout: float | None) -> Result | None:
        """The engine's answer; None if the part has no parameters, hence nothing to search."""
        problem = self._known.problem
        images = fixed_images(case.part, problem.image)
        if not images.parameters:
            return None
        rounding = 2 * float(score_rounding(problem.everywhere.network, images).max())
        shift = self._head_start(case, rounding, small)
        fixed = FixedImage(case.piece, images, case.target, shift, rounding)
        reduced = fixed.apply(problem.everywhere)
        result = run_engine(
            reduced.problem, self._engine, self._options, timeout=timeout, on_progress=self._tell
        )
        case.offer_upper(reduced.restore.upper(result.upper))
        if result.witness is not None:
            u = result.witness.x.reshape(-1)
            _, _, choice = reduced.restore.witness(0, u, np.zeros(0))
            self._known.offer([case], choice)
        self._known.notes += result.notes
        return result
