"""Class-pair heatmaps: sources down, targets across, one colour for each bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from vhagar.drawing.colours import ramp, text_on
from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Drawing, Rect, Shape, Text, legend
from vhagar.options import Options
from vhagar.report.class_labels import CELL, ClassLabels
from vhagar.report.data import Entry, Group, StudyData, TargetInterval
from vhagar.result.numbers import down, interval

MEASURES = {
    "lower": "an input this confident can be attacked",
    "upper": "more confident inputs are proven robust",
    "gap": "what is not known: upper minus lower",
}
_TOP = 62.0
# The share of a heatmap's values that get different colours.
_QUANTILE = 0.9


@dataclass(frozen=True)
class PairCell:
    """The interval of one pair of classes; `number` is that of its problem."""

    source: int
    target: int
    lower: float
    upper: float
    number: int

    def value(self, measure: str) -> float:
        """A bound, or the gap between both; NaN if it is unknown."""
        return measured(self.lower, self.upper, measure)

    @property
    def closed(self) -> bool:
        return is_closed(self.lower, self.upper)


def is_closed(lower: float, upper: float) -> bool:
    """Whether an interval is narrow enough to count as closed by default."""
    return upper - lower <= Options.relative_gap * upper and math.isfinite(upper)


def standing_words(
    ends: Sequence[tuple[float, float]],
    unasked: int,
    closed: str = "closed",
    unknown: str = "nothing proven",
) -> str:
    """Count the intervals that are closed, bounded, without any proof, or not asked."""
    narrow = sum(is_closed(*own) for own in ends)
    without = sum(math.isinf(upper) for _, upper in ends)
    counts = (
        (narrow, closed),
        (len(ends) - narrow - without, "bounded"),
        (without, unknown),
        (unasked, "not asked"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def measured(lower: float, upper: float, measure: str) -> float:
    """A bound, or the gap; NaN if it is unknown."""
    if math.isinf(upper) and lower == 0:
        return math.nan
    found = {"lower": lower, "upper": upper, "gap": upper - lower}[measure]
    return found if math.isfinite(found) else math.nan


@dataclass(frozen=True)
class PairHeatmap(AbstractFigure):
    """A heatmap of one bound over all pairs of classes, for one network and perturbation."""

    group: Group
    measure: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    cells: tuple[PairCell, ...]
    largest: float  # the end of the colour scale, the same for lower and upper bounds

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.group.label}: {self.measure}, {MEASURES[self.measure]}"

    @property
    def name(self) -> str:
        return slug("pairs", self.group.label, self.group.fingerprint[:6], self.measure)

    def columns(self) -> Sequence[str]:
        return ("network", "perturbation", "source", "target", "lower", "upper", "gap")

    def rows(self) -> Sequence[Sequence[Cell]]:
        return [
            (
                self.group.network,
                self.group.perturbation,
                cell.source,
                cell.target,
                cell.lower,
                *(_known(cell.value(measure)) for measure in ("upper", "gap")),
            )
            for cell in self.cells
        ]

    def draw(self) -> Drawing:
        name = self.group.class_name
        labels = ClassLabels([*map(name, self.sources)], [*map(name, self.targets)])
        left = labels.left
        width = left + CELL * len(self.targets) + 8
        bottom = _TOP + CELL * len(self.sources)
        below = bottom + labels.height
        heading = "gap" if self.measure == "gap" else f"{self.measure} bound"
        shapes: list[Shape] = [
            *labels.axes(heading, _TOP),
            Text(left, 37, MEASURES[self.measure], 12, fill="muted"),
        ]
        found = {(cell.source, cell.target): cell for cell in self.cells}
        for i, source in enumerate(self.sources):
            for j, target in enumerate(self.targets):
                x, y = left + CELL * j, _TOP + CELL * i
                shapes += self._cell(x, y, found.get((source, target)), source == target)
        clipped = any(cell.value(self.measure) > self.largest for cell in self.cells)
        shapes += legend(left, below + 50, max(width - left - 8, 220), self.largest, clipped)
        shapes.append(Text(left, below + 96, self._standing, 11, fill="muted"))
        return Drawing(max(width, 302 + left), below + 108, self.title, shapes)

    @property
    def _standing(self) -> str:
        pairs = sum(s != t for s in self.sources for t in self.targets)
        ends = [(cell.lower, cell.upper) for cell in self.cells]
        return standing_words(ends, pairs - len(ends), "closed (bold)", "nothing proven (?)")

    def _cell(self, x: float, y: float, cell: PairCell | None, diagonal: bool) -> list[Shape]:
        size = CELL - 2
        if cell is None:
            return [] if diagonal else [Rect(x, y, size, size, "empty", round=3, tip="not asked")]
        value = cell.value(self.measure)
        source, target = map(self.group.class_name, (cell.source, cell.target))
        tip = f"{source} to {target}: {cell_words(cell)}"
        link = f"#problem-{cell.number}"
        if math.isnan(value):
            box = Rect(x, y, size, size, "empty", "grid", tip, link, 3)
            return [box, Text(x + size / 2, y + size / 2 + 4, "?", 13, "middle", "muted")]
        fill = ramp(min(value / self.largest, 1.0) if self.largest > 0 else 0.0)
        middle, word = (x + size / 2, y + size / 2 + 4.5), short(value, self.measure == "lower")
        return [
            Rect(x, y, size, size, fill, None, tip, link, 3),
            Text(*middle, word, 13, "middle", text_on(fill), bold=cell.closed),
        ]


def short(value: float, downward: bool) -> str:
    """Format a number in four characters, which fit into a cell, rounded to the safe side."""
    if value == 0:
        return "0"
    rounding = ROUND_FLOOR if downward else ROUND_CEILING
    if value >= 1000:
        rounded = Context(prec=1, rounding=rounding).create_decimal(value)
        return f"{rounded:.0e}".replace("e+", "e")
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return str(Decimal(value).quantize(Decimal(10) ** -decimals, rounding))


def cell_words(cell: PairCell) -> str:
    if not math.isfinite(cell.upper):
        return f"at least {down(cell.lower)}, no upper bound yet"
    if cell.upper == 0:
        return "robust, whatever the confidence"
    low, high = interval(cell.lower, cell.upper)
    return f"between {low} and {high}"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def pair_cells(entries: Sequence[Entry]) -> tuple[PairCell, ...]:
    """The pairs of all entries; if several entries are about one pair, with the tightest bounds."""
    found: dict[tuple[int, int], PairCell] = {}
    for entry in entries:
        for each in entry.targets:
            if each.target is None:
                continue
            key = (entry.source, each.target)
            found[key] = _met(found.get(key), entry, each)
    return tuple(found[key] for key in sorted(found))


def _met(known: PairCell | None, entry: Entry, each: TargetInterval) -> PairCell:
    assert each.target is not None
    if known is None:
        return PairCell(entry.source, each.target, each.lower, each.upper, entry.number)
    lower, upper = max(known.lower, each.lower), min(known.upper, each.upper)
    # Link to a problem about this pair alone, if there is one: its details are about the pair.
    number = entry.number if entry.target is not None else known.number
    return PairCell(entry.source, each.target, lower, upper, number)


def ranked(cells: Sequence[PairCell]) -> list[PairCell]:
    """Sort the weakest pairs first: by lower bounds, then by upper bounds."""
    return sorted(cells, key=lambda cell: (-cell.lower, -cell.upper))


def most_robust(cells: Sequence[PairCell]) -> list[PairCell]:
    """Sort the pairs with the smallest proven bounds first."""
    return sorted(cells, key=lambda cell: (cell.upper, cell.lower))


def scale_end(values: Sequence[float]) -> float:
    """The end of the colour scale: a few outliers must not make all other values look alike."""
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return 0.0
    return known[math.ceil(_QUANTILE * len(known)) - 1] or known[-1]


def pair_heatmaps(study: StudyData) -> list[PairHeatmap]:
    """Make a heatmap of each measure for each network and perturbation with at least two pairs."""
    cells = {group: pair_cells(study.of(group)) for group in study.groups}
    cells = {group: found for group, found in cells.items() if len(found) > 1}
    heatmaps = []
    for group, found in cells.items():
        sources = tuple(sorted({cell.source for cell in found}))
        targets = tuple(sorted({cell.target for cell in found}))
        largest = scale_end([cell.value("upper") for cell in found])
        for measure in MEASURES:
            heatmaps.append(PairHeatmap(group, measure, sources, targets, found, largest))
    return heatmaps
