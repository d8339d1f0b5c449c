"""Requirements that a build makes of a result: `upper<=5`, `coverage>=0.6`, `closed` and others.

A requirement is met or violated only with proof; otherwise it is undecided, which more time or a
better bound may change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from vhagar.errors import InvalidInput
from vhagar.problem import listed
from vhagar.result.numbers import down, exact, up
from vhagar.result.values import AbstractResult, BoundKind, CoverageCounts, Status

# What can be required of each kind of result.
OF_RESULTS = ("upper", "coverage", "closed")
OF_LOCAL = ("robust",)
OF_SPECIFICATIONS = ("unsat",)
OF_COMPARISONS = ("coverage", "not-worse")
_FORMS = {"upper": '"upper<=5"', "coverage": '"coverage>=0.6"'}
_NUMBER = r"[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\."
_COMPARISONS = {"upper": "<=", "coverage": ">="}


class Judgement(Enum):
    """Whether a requirement holds; the value is the word for it."""

    MET = "met"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Facts:
    """The facts that decide a requirement; `upper` is infinite if nothing is proven."""

    lower: float = 0.0
    upper: float = math.inf
    closed: bool = False
    counts: CoverageCounts | None = None

    @classmethod
    def of(cls, result: AbstractResult) -> Facts:
        """Take the facts from a result."""
        return cls(
            result.lower,
            math.inf if result.kind is BoundKind.MARABOU else result.upper,
            result.status in (Status.CLOSED, Status.ROBUST),
            None if result.coverage is None else result.coverage.classified,
        )


@dataclass(frozen=True)
class Judged:
    """A requirement on a `subject`, and the judgement with its evidence in `words`."""

    subject: str
    requirement: str
    judgement: Judgement
    words: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Requirement:
    """One requirement: a limit on `upper` or `coverage`, or one without a limit such as `closed`.

    `upper<=5` says that no input with a confidence above 5 is attackable, `coverage>=0.6` that at
    least 60 % of the data set's inputs in the source class are robust.
    """

    quantity: str
    limit: float = 0.0

    def __post_init__(self) -> None:
        if self.quantity == "coverage" and not 0 <= self.limit <= 1:
            raise InvalidInput(f"{str(self)!r}: coverage is a share from 0 to 1, such as 0.6")
        if not 0 <= self.limit < math.inf:
            raise InvalidInput(f"{str(self)!r}: the limit must be a number, and not negative")

    def __str__(self) -> str:
        comparison = _COMPARISONS.get(self.quantity)
        limit = "" if comparison is None else f"{comparison}{exact(self.limit)}"
        return f"{self.quantity}{limit}"

    def judge(self, facts: Facts) -> Judgement:
        """Decide whether facts prove the requirement, refute it, or neither."""
        if self.quantity == "closed":
            return judgement(facts.closed, False)
        if self.quantity == "upper":
            return judgement(facts.upper <= self.limit, facts.lower > self.limit)
        counts = facts.counts
        if counts is None or not counts.inputs:
            return Judgement.UNDECIDED
        most = counts.inputs - counts.attackable
        needed = Fraction(repr(self.limit)) * counts.inputs  # 0.07 as it is written
        return judgement(counts.robust >= needed, most < needed)

    def words(self, facts: Facts) -> str:
        """State the judgement and its evidence in one sentence."""
        found, counts = f"at least {down(facts.lower)}", facts.counts
        if self.quantity == "coverage":
            found = (
                "there is no data set"
                if counts is None
                else f"{counts.robust} of {counts.inputs} are proven robust, "
                f"{counts.attackable} attacked with success"
            )
        elif math.isfinite(facts.upper):
            found = f"between {down(facts.lower)} and {up(facts.upper)}"
        return f"{self}: {self.judge(facts).value} ({found})"

    def judged(self, subject: str, facts: Facts, seconds: float = 0.0) -> Judged:
        """The judgement with its subject, to be listed with others."""
        return Judged(subject, str(self), self.judge(facts), self.words(facts), seconds)


def parse_requirement(text: str, quantities: Sequence[str] = OF_RESULTS) -> Requirement:
    """Read one requirement about one of the quantities."""
    plain = text.replace(" ", "")
    if plain in quantities and plain not in _COMPARISONS:
        return Requirement(plain)
    form = re.fullmatch(rf"(upper<=|coverage>=)({_NUMBER})", plain)
    limit = math.nan if form is None else float(form[2])
    quantity = "" if form is None else form[1][:-2]
    if quantity not in quantities or not math.isfinite(limit) or limit < 0:
        forms = [_FORMS.get(each, f'"{each}"') for each in quantities]
        raise InvalidInput(f"{text!r} is not a requirement here; write {listed(forms, 'or')}")
    return Requirement(quantity, limit)


def judgement(proven: bool, refuted: bool) -> Judgement:
    """Met if it is proven, violated if it is refuted, and undecided otherwise."""
    if proven:
        return Judgement.MET
    return Judgement.VIOLATED if refuted else Judgement.UNDECIDED
