"""The robust share of a data set: bars for each class, and a curve over the perturbation's size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Area, Drawing, Line, Rect, Shape, Text
from vhagar.perturbation.quotients import with_quotients
from vhagar.problem import classed
from vhagar.report.class_labels import extra_width, short_name
from vhagar.report.data import Group, StudyData
from vhagar.result import CoverageCounts, numbers
from vhagar.sweep.class_coverage import ClassCoverage, correct_total, over, share, total

_LEFT, _TOP, _WIDTH, _BAR, _STEP = 58.0, 44.0, 330.0, 18.0, 26.0
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?")
_PLOT = (420.0, 210.0)


@dataclass(frozen=True)
class CoverageBars(AbstractFigure):
    """A bar for each class, and one for all, of one network under one perturbation."""

    group: Group
    classes: tuple[ClassCoverage, ...]

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.group.label}: inputs of the data set that are proven robust"

    @property
    def name(self) -> str:
        return slug("coverage", self.group.label, self.group.fingerprint[:6])

    @property
    def total(self) -> CoverageCounts:
        return total(self.classes)

    @property
    def weakest(self) -> ClassCoverage | None:
        """The class with the smallest share of inputs that are proven robust."""
        known = [each for each in self.classes if each.coverage.classified.inputs]
        return min(known, key=lambda each: _robust(each.coverage.classified), default=None)

    def columns(self) -> Sequence[str]:
        return ("network", "perturbation", "class", "inputs", "robust", "attackable", "unknown")

    def rows(self) -> Sequence[Sequence[Cell]]:
        about = (self.group.network, self.group.perturbation)
        return [
            (*about, label, counts.inputs, counts.robust, counts.attackable, counts.unknown)
            for label, counts in self._bars()
        ]

    def _bars(self) -> list[tuple[str, CoverageCounts]]:
        name = self.group.class_name
        own = [(name(each.source), each.coverage.classified) for each in self.classes]
        correct = correct_total(self.classes)
        right = [] if correct is None else [("correct", correct)]
        return [("all", self.total), *right, *own]

    def draw(self) -> Drawing:
        bars = self._bars()
        left = _LEFT + extra_width([label for label, _ in bars])
        shapes: list[Shape] = [
            Text(left, 18, self.group.label, 14, bold=True),
            Text(left, 34, "by class: proven robust, not known, attacked", 12, fill="muted"),
        ]
        for place, (label, counts) in enumerate(bars):
            of_all = place < len(bars) - len(self.classes)
            y = _TOP + _STEP * place + (0 if of_all else 8)
            name = short_name(label)
            shapes.append(Text(left - 10, y + 14, name, 13, "end", "ink", bold=of_all))
            shapes += _bar(left, y, counts)
        height = _TOP + _STEP * len(bars) + 16
        return Drawing(left + _WIDTH + 74, height, self.title, shapes)


def _bar(left: float, y: float, counts: CoverageCounts) -> list[Shape]:
    tip = (
        f"{counts.robust} proven robust, {counts.unknown} not known, {counts.attackable} attacked "
        f"with success, of {counts.inputs}"
    )
    if not counts.inputs:
        return [Text(left, y + 14, "no input", 12, fill="muted")]
    shapes: list[Shape] = []
    x = left
    parts = counts.robust, counts.unknown, counts.attackable
    for number, fill in zip(parts, ("robust", "unknown", "attackable"), strict=True):
        width = _WIDTH * number / counts.inputs
        if number:
            shapes.append(Rect(x, y, width, _BAR, fill, None, tip))
        x += width
    shapes.append(Text(left + _WIDTH + 8, y + 14, f"{share(counts)} %", 13))
    return shapes


@dataclass(frozen=True)
class CoverageCurve(AbstractFigure):
    """The robust share over the size of a perturbation: a proven curve, and an upper one.

    `points` holds sizes with their counts, in order; `family` is the perturbation's text, with `s`
    for its size.
    """

    network: str
    fingerprint: str
    family: str
    points: tuple[tuple[float, CoverageCounts], ...]

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.network}: proven robust over the size s of {self.family}"

    @property
    def name(self) -> str:
        return slug("curve", self.network, self.family, self.fingerprint[:6])

    def columns(self) -> Sequence[str]:
        return ("network", "perturbation", "s", "inputs", "robust", "attackable")

    def rows(self) -> Sequence[Sequence[Cell]]:
        return [
            (self.network, self.family, size, counts.inputs, counts.robust, counts.attackable)
            for size, counts in self.points
        ]

    def draw(self) -> Drawing:
        width, height = _PLOT
        left, top, bottom = 52.0, 44.0, height - 40
        largest = self.points[-1][0] or 1.0

        def place(size: float, part: float) -> tuple[float, float]:
            return left + (width - left - 16) * size / largest, bottom - (bottom - top) * part

        proven = [place(size, _part(counts.robust, counts)) for size, counts in self.points]
        most = [place(size, 1 - _part(counts.attackable, counts)) for size, counts in self.points]
        shapes: list[Shape] = [
            Text(left, 18, f"{self.network}, {self.family}", 14, bold=True),
            Text(left, 34, "share that is robust: proven, and at most", 12, fill="muted"),
            Area((*most, *reversed(proven)), "unknown"),
        ]
        for part in (0.0, 0.5, 1.0):
            (x, y), (end, _) = place(0.0, part), place(largest, part)
            shapes.append(Line(((x, y), (end, y)), "grid", 1))
            shapes.append(Text(left - 8, y + 4, f"{100 * part:.0f} %", 11, "end", "muted"))
        shapes += [Line(tuple(proven), "robust", 2.5), Line(tuple(most), "attackable", 2.5)]
        # Few enough labels that they do not overlap.
        step = max(len(self.points) // 5, 1)
        for size, _ in [*self.points[:-1:step], self.points[-1]]:
            x, _ = place(size, 0.0)
            label = with_quotients(repr(size))
            label = label if "/" in label else f"{size:g}"
            # A label in the middle would leave the figure at its right end.
            anchor = "end" if size == largest else "middle"
            shapes.append(Text(x, bottom + 16, label, 11, anchor, "muted"))
        shapes.append(Text((left + width) / 2, height - 6, "size s", 11, "middle", "muted"))
        return Drawing(width, height, self.title, shapes)


def _part(number: int, counts: CoverageCounts) -> float:
    return number / counts.inputs if counts.inputs else 0.0


def _robust(counts: CoverageCounts) -> float:
    return _part(counts.robust, counts)


def coverage_bars(study: StudyData) -> list[CoverageBars]:
    """Make one figure for each network under each perturbation; none without a data set."""
    known = {} if study.coverage is None else study.coverage.groups()
    groups = {
        (group.fingerprint, group.perturbation, group.clip, group.domain_name): group
        for group in study.groups
    }
    return [
        CoverageBars(groups[key], tuple(sorted(own, key=lambda each: each.source)))
        for key, own in known.items()
        if key in groups
    ]


def coverage_curves(study: StudyData) -> list[CoverageCurve]:
    """Make one curve for each network and kind of perturbation with at least two sizes."""
    families: dict[tuple[str, str, bool, str], list[tuple[tuple[float, ...], CoverageBars]]] = {}
    for bars in coverage_bars(study):
        text = bars.group.perturbation or ""
        numbers = tuple(map(float, _NUMBER.findall(text)))
        kind = _NUMBER.sub("#", text)
        key = (bars.group.fingerprint, kind, bars.group.clip, bars.group.domain_name)
        families.setdefault(key, []).append((numbers, bars))
    found = []
    for (fingerprint, skeleton, _, domain), members in families.items():
        columns = list(zip(*(numbers for numbers, _ in members), strict=True))
        moving = [k for k, column in enumerate(columns) if len(set(column)) > 1]
        if len(moving) != 1:
            continue
        (place,) = moving
        sizes = [(numbers[place], bars.total) for numbers, bars in members]
        points = sorted(sizes, key=lambda point: point[0])
        family = skeleton
        for k, word in enumerate(_NUMBER.findall(members[0][1].group.perturbation or "")):
            family = family.replace("#", "s" if k == place else with_quotients(word), 1)
        name = members[0][1].group.network
        found.append(CoverageCurve(name, fingerprint, family + over(domain), tuple(points)))
    return found


def coverage_sentences(study: StudyData) -> list[str]:
    """Say for which network and perturbation the data fare worst, and for which best.

    The worst is where most inputs were attacked. If most are proven there, too, attacks tell little
    apart: then the worst is where the fewest are proven.
    """
    bars = [each for each in coverage_bars(study) if each.weakest is not None]
    if not bars:
        return []
    safest = max(bars, key=lambda each: _robust(each.total))
    weakest = max(bars, key=lambda each: _attacked(each.total))
    if not weakest.total.attackable:
        return ["No input was attacked with success.", _proven_sentence("Safest: ", safest)]
    if len(bars) == 1:
        return [_proven_sentence("", safest), _attacked_sentence("Attacked: ", safest)]
    if weakest is safest:
        least = min(bars, key=lambda each: _robust(each.total))
        return [_proven_sentence("Weakest: ", least), _proven_sentence("Safest: ", safest)]
    return [_attacked_sentence("Weakest: ", weakest), _proven_sentence("Safest: ", safest)]


def _attacked_sentence(start: str, bars: CoverageBars) -> str:
    counts, group = bars.total, bars.group
    own = max(bars.classes, key=lambda one: _attacked(one.coverage.classified))
    hit = own.coverage.classified
    return (
        f"{start}{group.label}: {counts.attackable} of {counts.inputs} inputs were attacked "
        f"with success, the largest share in {classed(group.class_name(own.source))} "
        f"({numbers.share(hit.attackable, hit.inputs)}\u00a0%)."
    )


def _proven_sentence(start: str, bars: CoverageBars) -> str:
    counts, group, worst = bars.total, bars.group, bars.weakest
    assert worst is not None
    toward = "" if all(own.all_targets for own in bars.classes) else " against its targets"
    return (
        f"{start}{group.label}: {share(counts)}\u00a0% of {counts.inputs} inputs are proven "
        f"robust{toward}; the smallest share is that of {classed(group.class_name(worst.source))}, "
        f"{share(worst.coverage.classified)}\u00a0%."
    )


def _attacked(counts: CoverageCounts) -> float:
    return _part(counts.attackable, counts)
