"""Bounds over time: of one problem, and of the whole study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.report.numbers import down, up
from vhagar.report.study.data import Entry, StudyData
from vhagar.report.study.drawing import Area, Drawing, Line, Shape, Text
from vhagar.report.study.figure import AbstractFigure, Cell, slug
from vhagar.result import Moment

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420.0, 190.0, 44.0, 66.0, 26.0, 34.0
_WIDE = 720.0


@dataclass(frozen=True)
class BoundsOverTime(AbstractFigure):
    """The interval of one problem, step by step. `ceiling` is the end of the axis.

    The first bounds are often far above the rest, which they would squeeze into a line.
    """

    number: int
    label: str
    moments: tuple[Moment, ...]
    ceiling: float

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"bounds over time: {self.label}"

    @property
    def name(self) -> str:
        return slug("bounds", self.number, self.label)

    def columns(self) -> Sequence[str]:
        return ("problem", "seconds", "lower", "upper")

    def rows(self) -> Sequence[Sequence[Cell]]:
        return [
            (self.number, moment.seconds, moment.lower, moment.upper) for moment in self.moments
        ]

    def draw(self) -> Drawing:
        end = max(self.moments[-1].seconds, 1e-3) if self.moments else 1.0
        frame = _Frame(_WIDTH, _HEIGHT, end, self.ceiling)
        shapes: list[Shape] = [*frame.axes("seconds", "confidence")]
        if not self.moments:
            return Drawing(_WIDTH, _HEIGHT, self.title, shapes)
        lower = frame.steps([(moment.seconds, moment.lower) for moment in self.moments])
        upper = frame.steps([(moment.seconds, moment.upper) for moment in self.moments])
        shapes.append(Area([*upper, *reversed(lower)], "unknown"))
        shapes += [Line(upper, "robust", 2.0), Line(lower, "attackable", 2.0)]
        last = self.moments[-1]
        high, low = upper[-1][1] + 4, lower[-1][1] + 4
        if low - high < 13:  # the two labels keep out of each other's way
            high, low = (high + low) / 2 - 6.5, (high + low) / 2 + 6.5
        x = upper[-1][0] + 5
        shapes += [
            Text(x, high, up(last.upper), 12, fill="robust", bold=True),
            Text(x, low, down(last.lower), 12, fill="attackable", bold=True),
        ]
        return Drawing(_WIDTH, _HEIGHT, self.title, shapes)


@dataclass(frozen=True)
class StudyOverTime(AbstractFigure):
    """How the study went: at each moment, the share of answered problems and the mean gap.

    Gaps are parts of the upper ends: 1 where nothing is known, 0 where the interval is closed.
    """

    seconds: tuple[float, ...]
    answered: tuple[float, ...]
    gaps: tuple[float, ...]

    title = "the study over time: problems answered, and the mean gap"
    name = "study-over-time"

    def columns(self) -> Sequence[str]:
        return ("seconds", "answered", "mean gap")

    def rows(self) -> Sequence[Sequence[Cell]]:
        return list(zip(self.seconds, self.answered, self.gaps, strict=True))

    def draw(self) -> Drawing:
        end = max(self.seconds[-1], 1e-3) if self.seconds else 1.0
        frame = _Frame(_WIDE, 220.0, end, 1.0)
        shapes: list[Shape] = [*frame.axes("seconds of work", "share", percent=True)]
        for values, colour, word in (
            (self.answered, "robust", "answered"),
            (self.gaps, "attackable", "mean gap"),
        ):
            if not values:
                continue
            line = frame.steps(list(zip(self.seconds, values, strict=True)))
            shapes.append(Line(line, colour, 2.2))
            x, y = line[-1]
            shapes.append(Text(x + 5, y + 4, word, 12, fill=colour, bold=True))
        return Drawing(_WIDE + 6, 220.0, self.title, shapes)


class _Frame:
    """Axes, and where points lie in them."""

    def __init__(self, width: float, height: float, end: float, ceiling: float) -> None:
        self._width, self._height, self._end, self._ceiling = width, height, end, ceiling or 1.0

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (self._width - _LEFT - _RIGHT) * min(x / self._end, 1.0)
        up_ = (self._height - _TOP - _BOTTOM) * min(y / self._ceiling, 1.0)
        return _LEFT + across, self._height - _BOTTOM - up_

    def steps(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """A line that stays level until the next point."""
        found: list[tuple[float, float]] = []
        for x, y in points:
            place = self.place(x, y)
            if found:
                found.append((place[0], found[-1][1]))
            found.append(place)
        return found

    def axes(self, across: str, upward: str, percent: bool = False) -> list[Shape]:
        shapes: list[Shape] = [Text(_LEFT, 14, upward, 11, fill="muted")]
        for tick in ticks(self._ceiling):
            left, right = self.place(0.0, tick), self.place(self._end, tick)
            text = f"{100 * tick:g} %" if percent else f"{tick:g}"
            shapes.append(Line([left, right], "grid"))
            shapes.append(Text(left[0] - 6, left[1] + 4, text, 11, "end", "muted"))
        for tick in ticks(self._end):
            x, y = self.place(tick, 0.0)
            shapes.append(Text(x, y + 15, f"{tick:g}", 11, "middle", "muted"))
        middle = (_LEFT + self._width - _RIGHT) / 2
        shapes.append(Text(middle, self._height - 4, across, 11, "middle", "muted"))
        return shapes


def ticks(end: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to at most `end`."""
    rough = end / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [float(f"{k * step:.10g}") for k in range(int(end / step * (1 + 1e-9)) + 1)]


def bounds_over_time(entry: Entry) -> BoundsOverTime:
    """Of one problem."""
    uppers = [moment.upper for moment in entry.history]
    final = uppers[-1] if uppers else 0.0
    highest = max(uppers, default=1.0)
    ceiling = min(highest, 4 * final) if final > 0 else highest
    return BoundsOverTime(
        entry.number, f"{entry.group.label}, {entry.pair}", entry.history, 1.05 * ceiling or 1.0
    )


def study_over_time(study: StudyData, points: int = 200) -> StudyOverTime:
    """From the history of all problems. Pauses between runs do not count."""
    clock, last, moments = 0.0, None, []
    running = _running_spans(study)
    gaps = {entry.number: 1.0 for entry in study.entries}
    done: set[int] = set()
    total = len(gaps) or 1
    gap_sum = float(len(gaps))
    for event in study.events:
        if last is not None:
            clock += _overlap(last, event.time, running)
        last = event.time
        new = _relative_gap(event.lower, event.upper)
        gap_sum += new - gaps.get(event.number, 1.0)
        gaps[event.number] = new
        if event.what == "finished":
            done.add(event.number)
        moments.append((clock, len(done) / total, max(gap_sum, 0.0) / total))
    thin = moments[:: max(len(moments) // points, 1)]
    if moments and thin[-1] != moments[-1]:
        thin.append(moments[-1])
    columns = list(zip(*thin, strict=True)) or [(), (), ()]
    return StudyOverTime(tuple(columns[0]), tuple(columns[1]), tuple(columns[2]))


def _relative_gap(lower: float, upper: float) -> float:
    if not math.isfinite(upper):
        return 1.0
    return (upper - lower) / upper if upper > 0 else 0.0


def _running_spans(study: StudyData) -> list[tuple[float, float]]:
    """When at least one process was at work; one that was killed, until its last event."""
    latest = max((event.time for event in study.events), default=0.0)
    return sorted((run.started, run.ended or latest) for run in study.runs)


def _overlap(start: float, end: float, spans: Sequence[tuple[float, float]]) -> float:
    """How much of a stretch of time was work."""
    covered, reached = 0.0, start
    for begin, stop in spans:
        low, high = max(begin, reached), min(stop, end)
        if high > low:
            covered += high - low
            reached = high
    return covered
