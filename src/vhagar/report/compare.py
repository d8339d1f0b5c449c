"""Two networks, or two perturbations, pair by pair: which is proven to be more robust."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.drawing.colours import NAMED, text_on
from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Drawing, Rect, Shape, Text
from vhagar.report.data import Group, StudyData
from vhagar.report.pairs import PairCell, pair_cells
from vhagar.result.numbers import down, up

MOST_COMPARISONS = 15
_CELL, _LEFT, _TOP = 46.0, 58.0, 44.0
_FILL = {"first": NAMED["robust"], "second": NAMED["attackable"], "open": "empty"}
_LETTER = {"first": "A", "second": "B", "open": "?"}


@dataclass(frozen=True)
class Verdict:
    """One pair of classes in both groups."""

    source: int
    target: int
    first: PairCell
    second: PairCell

    @property
    def more_robust(self) -> str:
        """`first` or `second` where the intervals prove it: a smaller bound is more robust."""
        if self.first.upper < self.second.lower:
            return "first"
        if self.second.upper < self.first.lower:
            return "second"
        return "open"


@dataclass(frozen=True)
class Comparison(AbstractFigure):
    """All pairs of classes that two groups have in common."""

    first: Group
    second: Group
    verdicts: tuple[Verdict, ...]

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
        total = len(self.verdicts)
        return (
            f"A is proven more robust for {self.count('first')} of {total} pairs of classes, "
            f"B for {self.count('second')}; for {self.count('open')} the intervals overlap."
        )

    def columns(self) -> Sequence[str]:
        return (
            *("source", "target", "A", "A lower", "A upper"),
            *("B", "B lower", "B upper", "more robust"),
        )

    def rows(self) -> Sequence[Sequence[Cell]]:
        words = {"first": "A", "second": "B", "open": "not proven"}
        return [
            (
                verdict.source,
                verdict.target,
                *(self.first.label, verdict.first.lower, verdict.first.upper),
                *(self.second.label, verdict.second.lower, verdict.second.upper),
                words[verdict.more_robust],
            )
            for verdict in self.verdicts
        ]

    def draw(self) -> Drawing:
        sources = sorted({verdict.source for verdict in self.verdicts})
        targets = sorted({verdict.target for verdict in self.verdicts})
        bottom = _TOP + _CELL * len(sources)
        width = max(_LEFT + _CELL * len(targets) + 8, 330)
        middle = _LEFT + _CELL * len(targets) / 2
        shapes: list[Shape] = [
            Text(_LEFT, 20, "which is more robust?", 15, bold=True),
            Text(16, (_TOP + bottom) / 2, "source", 12, "middle", "muted", turned=True),
            Text(middle, bottom + 34, "target", 12, "middle", "muted"),
        ]
        for k, source in enumerate(sources):
            shapes.append(Text(_LEFT - 10, _TOP + _CELL * (k + 0.5) + 4, str(source), 13, "end"))
        for k, target in enumerate(targets):
            shapes.append(Text(_LEFT + _CELL * (k + 0.5), bottom + 17, str(target), 13, "middle"))
        for verdict in self.verdicts:
            x = _LEFT + _CELL * targets.index(verdict.target)
            y = _TOP + _CELL * sources.index(verdict.source)
            shapes += _cell(x, y, verdict)
        return Drawing(width, bottom + 44, self.title, shapes)


def _cell(x: float, y: float, verdict: Verdict) -> list[Shape]:
    what, size = verdict.more_robust, _CELL - 2
    first, second = verdict.first, verdict.second
    tip = (
        f"{verdict.source} to {verdict.target}: A {down(first.lower)} to {up(first.upper)}, "
        f"B {down(second.lower)} to {up(second.upper)}"
    )
    fill = _FILL[what]
    ink = "muted" if what == "open" else text_on(fill)
    return [
        Rect(x, y, size, size, fill, None, tip, f"#problem-{first.number}", 3),
        Text(x + size / 2, y + size / 2 + 5, _LETTER[what], 14, "middle", ink, bold=True),
    ]


def _interest(groups: tuple[Group, Group]) -> int:
    """Two networks under one perturbation first, then one network under two."""
    first, second = groups
    if first.perturbation == second.perturbation:
        return 0
    return 1 if first.fingerprint == second.fingerprint else 2


def comparisons(study: StudyData) -> list[Comparison]:
    """Every two groups that share pairs of classes, as many as a page can hold."""
    cells = {
        group: {(cell.source, cell.target): cell for cell in pair_cells(study.of(group))}
        for group in study.groups
    }
    found = []
    for first, second in sorted(itertools.combinations(cells, 2), key=_interest):
        shared = sorted(set(cells[first]) & set(cells[second]))
        if len(shared) > 1:
            verdicts = tuple(Verdict(*key, cells[first][key], cells[second][key]) for key in shared)
            found.append(Comparison(first, second, verdicts))
        if len(found) == MOST_COMPARISONS:
            break
    return found
