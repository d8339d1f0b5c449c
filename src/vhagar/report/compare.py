"""Compare two networks or perturbations pair by pair: which one is proven to be more robust?

Scores have no unit: a network whose last layer is multiplied by ten is as robust as before, and all
its bounds are ten times as large. Networks are therefore compared in percent of their maximal
confidences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.drawing.colours import NAMED, text_on
from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Drawing, Rect, Shape, Text
from vhagar.report.class_labels import CELL, ClassLabels
from vhagar.report.data import Group, StudyData
from vhagar.report.pairs import PairCell, pair_cells
from vhagar.result.numbers import counted, down, up
from vhagar.result.values import Ends, percentages

MOST_COMPARISONS = 15
_TOP = 44.0
_FILL = {
    "first": NAMED["robust"],
    "second": NAMED["attackable"],
    "open": NAMED["unknown"],
    "unasked": "empty",
}
_LETTER = {"first": "A", "second": "B", "open": "=", "unasked": "-"}
_WORDS = {"first": "A", "second": "B", "open": "overlap", "unasked": "not asked"}
# Intervals that are at most this many percentage points apart are called equal.
_SAME = 1.0


@dataclass(frozen=True)
class PairComparison:
    """One pair of classes on both sides; a side is None if the pair was not asked there.

    The comparison is of `first_ends` and `second_ends`: percentages of the maximal confidence, or
    the confidences themselves if both sides are one network. They are None if they are unknown.
    """

    source: int
    target: int
    first: PairCell | None
    second: PairCell | None
    first_ends: Ends | None = None
    second_ends: Ends | None = None

    @property
    def more_robust(self) -> str:
        """`first` or `second`, the side that is proven more robust by its smaller bound.

        Otherwise `open`, if the intervals overlap, or `unasked`.
        """
        if self.first_ends is None or self.second_ends is None:
            return "unasked"
        if self.first_ends[1] < self.second_ends[0]:
            return "first"
        return "second" if self.second_ends[1] < self.first_ends[0] else "open"

    @property
    def apart(self) -> float:
        """How far apart the two bounds can be at most; infinite if that is unknown."""
        if self.first_ends is None or self.second_ends is None:
            return math.inf
        (low, high), (low_b, high_b) = self.first_ends, self.second_ends
        return max(high - low_b, high_b - low)


@dataclass(frozen=True)
class Comparison(AbstractFigure):
    """The comparison of all pairs of classes that were asked on at least one side."""

    first: Group
    second: Group
    verdicts: tuple[PairComparison, ...]

    @property
    def percent(self) -> bool:
        """Whether percentages are compared: scores of different networks have different units."""
        return self.first.fingerprint != self.second.fingerprint

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"A: {self.first.label}; B: {self.second.label}"

    @property
    def name(self) -> str:
        prints = (self.first.fingerprint[:6], self.second.fingerprint[:6])
        return slug("compare", self.first.label, "and", self.second.label, *prints)

    def count(self, what: str) -> int:
        return sum(verdict.more_robust == what for verdict in self.verdicts)

    @property
    def sentence(self) -> str:
        """What the comparison proves."""
        total = counted(len(self.verdicts), "pair")
        unit = " in percent of the maximal confidence" if self.percent else ""
        words = (
            f"A is proven more robust for {self.count('first')} of {total} of classes, "
            f"B for {self.count('second')}; for {self.count('open')} the intervals overlap{unit}"
        )
        unasked = self.count("unasked")
        words += f", and {unasked} cannot be compared." if unasked else "."
        if self.equal:
            words += f" They are equal to within {up(self._apart)} percentage points."
        return words

    @property
    def equal(self) -> bool:
        """Whether no bound can be further apart than what counts as the same."""
        overlap = self.count("open") == len(self.verdicts)
        return overlap and bool(self.percent) and self._apart <= _SAME

    @property
    def _apart(self) -> float:
        return max((each.apart for each in self.verdicts), default=math.inf)

    def columns(self) -> Sequence[str]:
        unit = " percent" if self.percent else ""
        names = [
            f"{side} {end}{more}"
            for side in "AB"
            for more in ("", unit)[: 1 + self.percent]
            for end in ("lower", "upper")
        ]
        return ("source", "target", "A", "B", *names, "more robust")

    def rows(self) -> Sequence[Sequence[Cell]]:
        return [
            (
                verdict.source,
                verdict.target,
                self.first.label,
                self.second.label,
                *_columns(verdict.first, verdict.first_ends, self.percent),
                *_columns(verdict.second, verdict.second_ends, self.percent),
                _WORDS[verdict.more_robust],
            )
            for verdict in self.verdicts
        ]

    def draw(self) -> Drawing:
        sources = sorted({verdict.source for verdict in self.verdicts})
        targets = sorted({verdict.target for verdict in self.verdicts})
        name = self.first.class_name
        labels = ClassLabels([*map(name, sources)], [*map(name, targets)])
        left = labels.left
        below = _TOP + CELL * len(sources) + labels.height
        width = max(left + CELL * len(targets) + 8, 272 + left)
        shapes = labels.axes("which is more robust?", _TOP)
        for verdict in self.verdicts:
            x = left + CELL * targets.index(verdict.target)
            y = _TOP + CELL * sources.index(verdict.source)
            shapes += _cell(x, y, verdict, self.first)
        return Drawing(width, below + 44, self.title, shapes)


def _columns(cell: PairCell | None, ends: Ends | None, percent: bool) -> list[Cell]:
    raw: list[Cell] = [None, None] if cell is None else [cell.lower, cell.upper]
    if not percent:
        return raw
    return [*raw, *((None, None) if ends is None else ends)]


def _cell(x: float, y: float, verdict: PairComparison, group: Group) -> list[Shape]:
    what, size = verdict.more_robust, CELL - 2
    sides = [
        f"{side} {_known(cell)}" for side, cell in (("A", verdict.first), ("B", verdict.second))
    ]
    source, target = map(group.class_name, (verdict.source, verdict.target))
    tip = f"{source} to {target}: {', '.join(sides)}"
    shown = verdict.first or verdict.second
    link = "" if shown is None else f"#problem-{shown.number}"
    fill = _FILL[what]
    ink = "muted" if what in ("open", "unasked") else text_on(fill)
    return [
        Rect(x, y, size, size, fill, None, tip, link, 3),
        Text(x + size / 2, y + size / 2 + 5, _LETTER[what], 14, "middle", ink, bold=True),
    ]


def _known(cell: PairCell | None) -> str:
    if cell is None:
        return "not asked"
    return f"{down(cell.lower)} to {up(cell.upper)}"


def _interest(groups: tuple[Group, Group]) -> int:
    """Rank two networks under one perturbation first, then one network under two."""
    first, second = groups
    if first.perturbation == second.perturbation:
        return 0
    return 1 if first.fingerprint == second.fingerprint else 2


def comparisons(study: StudyData) -> list[Comparison]:
    """Compare every two groups that share pairs of classes, at most as many as fit on a page."""
    found = []
    for first, second in sorted(itertools.combinations(study.groups, 2), key=_interest):
        one = compared((study, first), (study, second))
        if sum(each.first is not None and each.second is not None for each in one.verdicts) > 1:
            found.append(one)
        if len(found) == MOST_COMPARISONS:
            break
    return found


def compared(first: tuple[StudyData, Group], second: tuple[StudyData, Group]) -> Comparison:
    """Compare two groups, each in its study, pair by pair."""
    by_percent = first[1].fingerprint != second[1].fingerprint
    cells = [_cells(study, group, by_percent) for study, group in (first, second)]
    verdicts = []
    for key in sorted(set(cells[0]) | set(cells[1])):
        (one, ends), (other, other_ends) = (own.get(key, (None, None)) for own in cells)
        verdicts.append(PairComparison(*key, one, other, ends, other_ends))
    return Comparison(first[1], second[1], tuple(verdicts))


def _cells(
    study: StudyData, group: Group, by_percent: bool
) -> dict[tuple[int, int], tuple[PairCell, Ends | None]]:
    """The pairs of a group, each with the interval to compare."""
    entries = study.of(group)
    of_source = {entry.source: entry for entry in entries}
    found = {}
    for cell in pair_cells(entries):
        ends: Ends | None = (cell.lower, cell.upper)
        if by_percent:
            ends = percentages((cell.lower, cell.upper), study.largest_of(of_source[cell.source]))
        found[cell.source, cell.target] = (cell, ends)
    return found
