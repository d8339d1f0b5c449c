"""Answers a local question with any engine, one piece and one target after the other.

The range of a single parameter is split first, with interval arithmetic on the parts. Then the
engine is asked. First whether the input can be pushed there at all: the class to be pushed into
gets a head start just above what rounding can do, and the engine proves that it is not confident
even so, or finds parameters, which the witness check of the question about all inputs then judges.
What time is left goes to the margins, with a head start with which some version is ahead.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalResult, LocalVerdict
from vhagar.options import Options
from vhagar.perturbation import AbstractPiece
from vhagar.reduction.clipping import clip_of
from vhagar.reduction.fixed_image import FixedImage, FixedImages, fixed_images, score_rounding
from vhagar.relaxation import Bounds, confidence_bounds, network_bounds
from vhagar.result import Result, Status, Witness
from vhagar.result.witness import Rejection, WitnessCheck
from vhagar.search import AbstractEngine
from vhagar.search.branch_and_bound import Bab, FirstOrder
from vhagar.verify import run_engine

Array = NDArray[np.float64]

# Shift of the first question, relative to the largest score.
_HEAD_START = 1e-7
# Parts into which the range of a single parameter is split before neurons are.
_MOST_PARTS = 128
# Margins below this, relative to the largest score, need not be known precisely.
_SMALL_MARGIN = 1e-3


def verify_local(
    problem: LocalProblem,
    *,
    engine: AbstractEngine | None = None,
    timeout: float | None = None,
    relative_gap: float = Options.relative_gap,
    seed: int = Options.seed,
) -> LocalResult:
    """Is every perturbed version of the image still of its class, and how large is the margin?

    Valid whenever it ends: when all is known, when `timeout` seconds have passed, or on Ctrl-C.
    Margins count as known when their bounds are within `relative_gap` of each other.
    """
    engine = engine or Bab()
    if isinstance(engine, Bab | FirstOrder):
        # The search among inputs that the attack is has nothing to start from here.
        engine = replace(engine, attack=False)
    options = Options(relative_gap=relative_gap, workers=0, seed=seed)
    started = time.monotonic()
    deadline = math.inf if timeout is None else started + timeout
    search = _Search(problem, engine, options, deadline)
    search.run()
    return LocalResult(
        problem,
        search.verdict,
        search.lower,
        search.upper,
        search.witness,
        time.monotonic() - started,
        engine.name,
        search.interrupted,
        tuple(dict.fromkeys(search.notes)),
    )


@dataclass(eq=False)
class _Case:
    """A part of a piece and a target: `lower <= the largest confidence in the target <= upper`."""

    piece: int
    part: AbstractPiece
    target: int
    images: FixedImages
    rounding: float
    lower: float = -math.inf
    upper: float = math.inf

    def offer_upper(self, value: float) -> None:
        self.upper = min(self.upper, value)

    def offer_lower(self, value: float) -> None:
        self.lower = max(self.lower, value)


@dataclass(eq=False)
class _Search:
    problem: LocalProblem
    engine: AbstractEngine
    options: Options
    deadline: float
    witness: Witness | None = None
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._check = WitnessCheck(self.problem.everywhere)
        self._clip = clip_of(self.problem.everywhere)
        pieces = enumerate(self.problem.everywhere.pieces)
        self.cases = [case for number, piece in pieces for case in self._cases(number, piece)]

    def _cases(self, number: int, part: AbstractPiece) -> list[_Case]:
        """One for each target, about a part of a piece."""
        images = fixed_images(part, self.problem.image)
        rounding = score_rounding(self.problem.everywhere.network, images)
        room = 2 * float(rounding.max())
        targets = self.problem.everywhere.targets
        return [_Case(number, part, target, images, room) for target in targets]

    @property
    def lower(self) -> float:
        """The smallest margin is at least this."""
        return -max(case.upper for case in self.cases)

    @property
    def upper(self) -> float:
        return -max(case.lower for case in self.cases)

    @property
    def verdict(self) -> LocalVerdict:
        if self.witness is not None:
            return LocalVerdict.BROKEN
        return LocalVerdict.ROBUST if self.lower > 0 else LocalVerdict.UNKNOWN

    def run(self) -> None:
        try:
            for number in range(len(self.problem.everywhere.pieces)):
                self._begin(number)
            # The likeliest first: what is broken is broken by one of them.
            self.cases.sort(key=lambda case: -case.upper)
            self._ask([case for case in self.cases if case.upper >= 0], small=True)
            if not self.interrupted:
                self.cases.sort(key=lambda case: -case.upper)
                self._ask(list(self.cases), small=False)
        except KeyboardInterrupt:
            self.interrupted = True

    def _begin(self, number: int) -> None:
        """Look at a piece; one with a single parameter is split until that decides, if it can."""
        waiting = [[case for case in self.cases if case.piece == number]]
        self._look(waiting[0])
        while len(waiting) < _MOST_PARTS and self.witness is None:
            waiting.sort(key=lambda cases: max(case.upper for case in cases))
            worst = waiting[-1]
            part = worst[0].part
            halves = part.split()
            done = max(case.upper for case in worst) < 0 or time.monotonic() > self.deadline
            if done or not halves:
                return
            fresh = [self._cases(number, half) for half in halves]
            for cases in fresh:
                self._look(cases)
            waiting[-1:] = fresh
            gone = set(map(id, worst))
            kept = [case for case in self.cases if id(case) not in gone]
            self.cases = kept + [case for cases in fresh for case in cases]

    def _look(self, cases: list[_Case]) -> None:
        """What interval arithmetic and one evaluation in the middle say of a part's cases."""
        images = cases[0].images
        self._offer(cases, images.choice(np.full(images.parameters, 0.5)))
        ones, room = np.ones(images.parameters), 4 * images.rounding
        low = images.centre + images.directions.minimum(0) @ ones - room
        high = images.centre + images.directions.maximum(0) @ ones + room
        if images.clip:
            ends = images.domain.lower, images.domain.upper
            low, high = np.clip(low, *ends), np.clip(high, *ends)
        box = Bounds(self._clip(low), self._clip(high))
        for case, (_, most) in zip(cases, self._confidences(box, cases), strict=True):
            case.offer_upper(most)

    def _confidences(self, box: Bounds, cases: list[_Case]) -> list[tuple[float, float]]:
        """Bounds on the confidence in each case's target over a box of images."""
        network = self.problem.everywhere.network
        hidden = box if len(network.layers) == 1 else network_bounds(network, box)[-2]
        both = (confidence_bounds(network, hidden, case.target) for case in cases)
        return [(float(low.min()), float(high.min())) for low, high in both]

    def _offer(self, cases: list[_Case], choice: Array) -> None:
        """Evaluate a version, and have it judged where it seems to belong to a target."""
        x, number = self.problem.image[None], cases[0].piece
        piece = self.problem.everywhere.pieces[number]
        image = Bounds(*(self._clip(side[0]) for side in piece.enclosure(x, choice[None])))
        for case, (least, most) in zip(cases, self._confidences(image, cases), strict=True):
            case.offer_lower(least)
            if most < 0 or (self.witness is not None and _margin(self.witness) >= most):
                continue
            judged = self._check(case.target, self.problem.image, number, choice)
            if isinstance(judged, Rejection):
                self.notes.append(f"a version seemed to belong to {case.target}: {judged.reason}")
            else:
                self.witness = judged
                case.offer_lower(_margin(judged))

    def _ask(self, cases: list[_Case], small: bool) -> None:
        for place, case in enumerate(cases):
            left = self.deadline - time.monotonic()
            if left <= 0:
                return
            if self._is_settled(case, small):
                continue
            # Less than a little is lost on preparations.
            share = None if math.isinf(left) else max(left / (len(cases) - place), min(left, 3.0))
            result = self._searched(case, self._head_start(case, small), share)
            if result.status is Status.INTERRUPTED:
                self.interrupted = True
                return

    def _is_settled(self, case: _Case, small: bool) -> bool:
        """Whether this case can no longer change the answer, or has nothing to search."""
        if not case.images.parameters or case.upper <= max(each.lower for each in self.cases):
            return True
        close = case.upper - case.lower <= self.options.relative_gap * abs(case.upper)
        return close or (small and (self.witness is not None or case.upper < 0))

    def _head_start(self, case: _Case, small: bool) -> float:
        network = self.problem.everywhere.network
        scores = float(abs(network.forward(self.problem.image[None])).max())
        if small:
            return 2 * case.rounding + _HEAD_START * scores
        # A version of confidence `case.lower` is known. With this, the best one is ahead by about
        # the size of the margin itself, to which the search's gap is then relative.
        size = max(abs(case.lower), _SMALL_MARGIN * scores) + 2 * case.rounding
        return max(size - case.lower, 0.0)

    def _searched(self, case: _Case, shift: float, timeout: float | None) -> Result:
        fixed = FixedImage(case.piece, case.images, case.target, shift, case.rounding)
        reduced = fixed.apply(self.problem.everywhere)
        result = run_engine(reduced.problem, self.engine, self.options, timeout=timeout)
        case.offer_upper(reduced.restore.upper(result.upper))
        if result.witness is not None:
            u = result.witness.x.reshape(-1)
            _, _, choice = reduced.restore.witness(0, u, np.zeros(0))
            self._offer([case], choice)
        self.notes += result.notes
        return result


def _margin(witness: Witness) -> float:
    return witness.margin if witness.margin is not None else -math.inf
