"""What is known about a local question: bounds on the targets' confidences, and a witness."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from vhagar.array_types import Array
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalVerdict, margin_words
from vhagar.local.versions import FixedMap, fixed_map
from vhagar.perturbation import AbstractPiece
from vhagar.reduction.clipping import clip_of
from vhagar.relaxation import Bounds, confidence_bounds, network_bounds
from vhagar.result import Witness
from vhagar.result.numbers import seconds
from vhagar.result.witness import Rejection, WitnessCheck


@dataclass(frozen=True)
class LocalProgress:
    """The progress of a search: seconds since its start, the margin's interval, and its nodes.

    An engine that answers what is left does not say how many nodes it has open.
    """

    seconds: float
    lower: float
    upper: float
    nodes: int
    open_nodes: int | None

    def words(self) -> tuple[str, str]:
        """The time, and where the search stands, with the margin rounded outward."""
        margin = margin_words(self.lower, self.upper)
        nodes = "" if self.open_nodes is None else f", {self.open_nodes} open nodes"
        return f"{seconds(self.seconds):>8}", f" margin {margin}{nodes}"


@dataclass(eq=False)
class PieceCase:
    """A part of a piece and a target: `lower <= the largest confidence in the target <= upper`."""

    piece: int
    part: AbstractPiece
    target: int
    lower: float = -math.inf
    upper: float = math.inf

    def offer_upper(self, value: float) -> None:
        self.upper = min(self.upper, value)

    def offer_lower(self, value: float) -> None:
        self.lower = max(self.lower, value)


@dataclass(eq=False)
class Known:
    """The cases of a question, which together cover all versions and targets."""

    problem: LocalProblem
    witness: Witness | None = None
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._check = WitnessCheck(self.problem.everywhere)
        self._clip = clip_of(self.problem.everywhere)
        pieces = enumerate(self.problem.everywhere.pieces)
        self.cases = [case for number, piece in pieces for case in self.begin(number, piece)]

    def begin(self, number: int, part: AbstractPiece) -> list[PieceCase]:
        """Cases about a part of a piece, one for each target."""
        return [PieceCase(number, part, target) for target in self.problem.everywhere.targets]

    def replace(self, old: list[PieceCase], new: list[PieceCase]) -> None:
        """Replace the cases of a piece by cases of its parts."""
        gone = set(map(id, old))
        self.cases = [case for case in self.cases if id(case) not in gone] + new

    def fixed(self, part: AbstractPiece) -> FixedMap:
        """The map that gives the versions of the image under a part of a piece."""
        return fixed_map(part, self.problem.image, self._clip)

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

    @property
    def is_decided(self) -> bool:
        return self.verdict is not LocalVerdict.UNKNOWN

    def look(self, cases: list[PieceCase], fixed: FixedMap | None = None) -> None:
        """Bound a part's cases by interval arithmetic and by an evaluation in the middle."""
        fixed = fixed or self.fixed(cases[0].part)
        self.offer(cases, fixed.choice((fixed.lower + fixed.upper) / 2, cases[0].part))
        box = Bounds(*fixed.versions().bounds())
        for case, (_, most) in zip(cases, self._confidences(box, cases), strict=True):
            case.offer_upper(most)

    def offer(self, cases: list[PieceCase], choice: Array) -> None:
        """Evaluate a version, and check it as a witness if it may be classified as a target."""
        x, number = self.problem.image[None], cases[0].piece
        piece = self.problem.everywhere.pieces[number]
        image = Bounds(*(self._clip(side[0]) for side in piece.enclosure(x, choice[None])))
        for case, (least, most) in zip(cases, self._confidences(image, cases), strict=True):
            case.offer_lower(least)
            if most < 0 or (self.witness is not None and margin_of(self.witness) >= most):
                continue
            judged = self._check(case.target, self.problem.image, number, choice)
            if isinstance(judged, Rejection):
                self.notes.append(f"a version seemed to belong to {case.target}: {judged.reason}")
            else:
                self.witness = judged
                case.offer_lower(margin_of(judged))

    def _confidences(self, box: Bounds, cases: list[PieceCase]) -> list[tuple[float, float]]:
        """Bounds on the confidence in each case's target over a box of images."""
        network = self.problem.everywhere.network
        hidden = box if len(network.layers) == 1 else network_bounds(network, box)[-2]
        both = (confidence_bounds(network, hidden, case.target) for case in cases)
        return [(float(low.min()), float(high.min())) for low, high in both]


# Called with the progress of a search from time to time.
OnProgress = Callable[[LocalProgress], None]


def margin_of(witness: Witness) -> float:
    """By how much the target wins; minus infinity if the witness has no margin."""
    return witness.margin if witness.margin is not None else -math.inf
