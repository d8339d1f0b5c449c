"""What a build demands of a result: `upper<=5`, `coverage>=0.6` or `closed`.

A requirement is met or violated only with proof; otherwise it is undecided, which more time or a
better bound may change.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum

from vhagar.errors import InvalidInput
from vhagar.result.numbers import down, up
from vhagar.result.values import AbstractResult, BoundKind, Status

_FORMS = '"upper<=5", "coverage>=0.6" or "closed"'
_COMPARISONS = {"upper": "<=", "coverage": ">="}


class Judgement(Enum):
    """Whether a requirement holds; the value is the word for it."""

    MET = "met"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Requirement:
    """One demand: `quantity` is `upper`, `coverage` or `closed`, the last one without a limit.

    `upper<=5` says that no input with a confidence above 5 is attackable, `coverage>=0.6` that at
    least 60 % of the data set's inputs in the source class are robust.
    """

    quantity: str
    limit: float = 0.0

    def __str__(self) -> str:
        comparison = _COMPARISONS.get(self.quantity)
        return self.quantity if comparison is None else f"{self.quantity}{comparison}{self.limit!r}"

    def judge(self, result: AbstractResult) -> Judgement:
        """Whether a result proves the demand, refutes it, or neither."""
        if self.quantity == "closed":
            closed = result.status in (Status.CLOSED, Status.ROBUST)
            return Judgement.MET if closed else Judgement.UNDECIDED
        if self.quantity == "upper":
            proven = result.kind is not BoundKind.MARABOU and result.upper <= self.limit
            return _judgement(proven, result.lower > self.limit)
        counts = None if result.coverage is None else result.coverage.classified
        if counts is None or not counts.inputs:
            return Judgement.UNDECIDED
        most = counts.inputs - counts.attackable
        return _judgement(
            counts.robust >= self.limit * counts.inputs, most < self.limit * counts.inputs
        )

    def words(self, result: AbstractResult) -> str:
        """The judgement and what it rests on, in one sentence."""
        judgement = self.judge(result).value
        if self.quantity == "coverage" and result.coverage is not None:
            counts = result.coverage.classified
            found = f"{counts.robust} of {counts.inputs} are robust, {counts.attackable} attackable"
        elif math.isfinite(result.upper):
            found = f"between {down(result.lower)} and {up(result.upper)}"
        else:
            found = f"at least {down(result.lower)}"
        return f"{self}: {judgement} ({found})"


def parse_requirement(text: str) -> Requirement:
    """Read one requirement."""
    plain = text.replace(" ", "")
    if plain == "closed":
        return Requirement("closed")
    form = re.fullmatch(r"(upper<=|coverage>=)(.+)", plain)
    try:
        limit = math.nan if form is None else float(form[2])
    except ValueError:
        limit = math.nan
    if form is None or not math.isfinite(limit) or limit < 0:
        raise InvalidInput(f"{text!r} is no requirement; write {_FORMS}")
    quantity = form[1][:-2]
    if quantity == "coverage" and limit > 1:
        raise InvalidInput(f"{text!r}: coverage is a share from 0 to 1, such as 0.6")
    return Requirement(quantity, limit)


def _judgement(proven: bool, refuted: bool) -> Judgement:
    if proven:
        return Judgement.MET
    return Judgement.VIOLATED if refuted else Judgement.UNDECIDED
