"""Answers a local question with any engine, one piece and one target after the other.

First whether the input can be pushed there at all: the class to be pushed into gets a head start
just above what rounding can do, and the engine proves that it is not confident even so, or finds
parameters, which the witness check of the question about all inputs then judges. What time is left
goes to the margins, with a head start with which some version is ahead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.local.fixed import FixedImages, behind, fixed_images, score_rounding
from vhagar.local.problem import LocalProblem, LocalResult, Verdict
from vhagar.options import Options
from vhagar.pipeline import verify
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, confidence_bounds, network_bounds
from vhagar.result import Result, Status, Witness
from vhagar.result.witness import Rejection, WitnessCheck
from vhagar.search import engine_for

Array = NDArray[np.float64]

# Of the largest score: the head start with which the first question is asked.
_HEAD_START = 1e-7
# Of the largest score: smaller margins need not be known as precisely as larger ones.
_SMALL_MARGIN = 1e-3


def verify_local(
    problem: LocalProblem, *, timeout: float | None = None, options: Options | None = None
) -> LocalResult:
    """Is every perturbed version of the image still of its class, and how large is the margin?

    Valid whenever it ends: when all is known, when `timeout` seconds have passed, or on Ctrl-C.
    """
    options = options or Options(processes=False, workers=1)
    engine_for(options)
    # The search among inputs that the attack is has nothing to start from here.
    options = replace(options, attack=False, certificate=None, dataset=None)
    started = time.monotonic()
    deadline = math.inf if timeout is None else started + timeout
    search = _Search(problem, options, deadline)
    search.run()
    return LocalResult(
        search.verdict,
        search.lower,
        search.upper,
        search.witness,
        time.monotonic() - started,
        options.engine,
        search.interrupted,
        tuple(dict.fromkeys(search.notes)),
    )


@dataclass(eq=False)
class _Case:
    """One piece and one target. `lower <= the largest confidence in the target <= upper`."""

    piece: int
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
    options: Options
    deadline: float
    witness: Witness | None = None
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._check = WitnessCheck(self.problem.everywhere)
        self.cases = list(self._cases())

    def _cases(self) -> Iterator[_Case]:
        everywhere = self.problem.everywhere
        network = everywhere.given_network  # the images are clipped before it
        for number, piece in enumerate(everywhere.pieces):
            images = fixed_images(piece, self.problem.image)
            rounding = score_rounding(network, images)
            for target in everywhere.targets:
                yield _Case(number, target, images, 2 * float(rounding.max()))

    @property
    def lower(self) -> float:
        """The smallest margin is at least this."""
        return -max(case.upper for case in self.cases)

    @property
    def upper(self) -> float:
        return -max(case.lower for case in self.cases)

    @property
    def verdict(self) -> Verdict:
        if self.witness is not None:
            return Verdict.BROKEN
        return Verdict.ROBUST if self.lower > 0 else Verdict.UNKNOWN

    def run(self) -> None:
        try:
            for case in self.cases:
                self._look(case)
            # The likeliest first: what is broken is broken by one of them.
            self.cases.sort(key=lambda case: -case.upper)
            self._ask([case for case in self.cases if case.upper >= 0], small=True)
            if not self.interrupted:
                self.cases.sort(key=lambda case: -case.upper)
                self._ask(list(self.cases), small=False)
        except KeyboardInterrupt:
            self.interrupted = True

    def _look(self, case: _Case) -> None:
        """What interval arithmetic and one evaluation in the middle say."""
        images = case.images
        self._offer(case, np.full(images.parameters, 0.5))
        ones, room = np.ones(images.parameters), 4 * images.rounding
        low = images.centre + images.directions.minimum(0) @ ones - room
        high = images.centre + images.directions.maximum(0) @ ones + room
        if images.clip:
            low, high = (
                np.clip(end, images.domain.lower, images.domain.upper) for end in (low, high)
            )
        case.offer_upper(self._confidence(Bounds(low, high), case.target)[1])

    def _confidence(self, box: Bounds, label: int) -> tuple[float, float]:
        """Bounds on the confidence in a class over a box of images."""
        network = self.problem.everywhere.network
        hidden = box if len(network.layers) == 1 else network_bounds(network, box)[-2]
        low, high = (float(side.min()) for side in confidence_bounds(network, hidden, label))
        return low, high

    def _offer(self, case: _Case, u: Array) -> None:
        """Evaluate a version, and have it judged if it seems to belong to the target."""
        everywhere, x = self.problem.everywhere, self.problem.image[None]
        piece = everywhere.pieces[case.piece]
        choice = np.zeros(len(piece.parameter_bounds[0]))
        if case.images.parameters:
            choice = piece.project(case.images.choice(u))
        elif len(choice):
            choice = piece.parameter_bounds[0]  # nothing to choose
        image = Bounds(*(side[0] for side in piece.enclosure(x, choice[None])))
        least, most = self._confidence(image, case.target)
        case.offer_lower(least)
        if most < 0 or (self.witness is not None and _margin(self.witness) >= most):
            return
        judged = self._check(case.target, self.problem.image, piece, choice)
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
            share = None if math.isinf(left) else left / (len(cases) - place)
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
        network = behind(self.problem.everywhere.given_network, case.images, case.target, shift)
        question = Problem(network, None, case.target)
        result = verify(question, timeout=timeout, options=self.options)
        # One rounding for the difference, and what the images' own rounding can do.
        room = case.rounding + 2.0**-50 * (abs(result.upper) + shift)
        case.offer_upper(result.upper - shift + room)
        if result.witness is not None:
            self._offer(case, result.witness.x.reshape(-1))
        self.notes += result.notes
        return result


def _margin(witness: Witness) -> float:
    return witness.margin if witness.margin is not None else -math.inf
