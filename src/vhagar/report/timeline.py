"""The progress over time of each problem, and of the whole study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.drawing.figure import AbstractFigure, Cell
from vhagar.drawing.shapes import Drawing, Line, Shape, Text
from vhagar.report.data import Entry, StudyData, relative_gap
from vhagar.report.sentences import answered
from vhagar.result.timeline import BoundsOverTime, Frame

_WIDE = 720.0
_WORD = 14.0
# The most moments that are drawn, approximately.
_POINTS = 200


@dataclass(frozen=True)
class StudyOverTime(AbstractFigure):
    """The progress of a study: the share of answered problems and the mean gap over time.

    Gaps are relative to the upper ends: 1 if nothing is known, about 0 if the interval is closed.
    """

    seconds: tuple[float, ...]
    answered: tuple[float, ...]
    gaps: tuple[float, ...]

    title = "the study over time: intervals closed, and the mean gap"
    name = "study-over-time"

    def columns(self) -> Sequence[str]:
        return ("seconds", "answered", "mean gap")

    def rows(self) -> Sequence[Sequence[Cell]]:
        return list(zip(self.seconds, self.answered, self.gaps, strict=True))

    def draw(self) -> Drawing:
        end = max(self.seconds[-1], 1e-3) if self.seconds else 1.0
        frame = Frame(_WIDE, 220.0, end, 1.0)
        shapes: list[Shape] = [*frame.axes("seconds of work", "share", percent=True)]
        ends: list[tuple[tuple[float, float], str, str]] = []
        for values, colour, word in (
            (self.answered, "robust", "closed"),
            (self.gaps, "attackable", "mean gap"),
        ):
            if not values:
                continue
            line = frame.steps(list(zip(self.seconds, values, strict=True)))
            shapes.append(Line(line, colour, 2.2))
            ends.append((line[-1], word, colour))
        # Words of lines that end side by side would cover each other.
        ends.sort(key=lambda end: end[0][1])
        below = -math.inf
        for (x, y), word, colour in ends:
            below = max(y + 4, below + _WORD)
            shapes.append(Text(x + 5, below, word, 12, fill=colour, bold=True))
        return Drawing(_WIDE + 6, 220.0, self.title, shapes)


def bounds_over_time(entry: Entry) -> BoundsOverTime:
    """Make the figure of one problem's bounds over time."""
    return BoundsOverTime.of(entry.number, f"{entry.group.label}, {entry.pair}", entry.history)


def study_over_time(study: StudyData) -> StudyOverTime:
    """Compute the progress from the history of all problems, without pauses between runs."""
    clock, last, moments = 0.0, None, []
    running = _running_spans(study)
    gaps = {entry.number: 1.0 for entry in study.entries}
    closed = {entry.number for entry in answered(study)}
    done: set[int] = set()
    total = len(gaps) or 1
    gap_sum = float(len(gaps))
    for event in study.events:
        if last is not None:
            clock += _overlap(last, event.time, running)
        last = event.time
        new = relative_gap(event.lower, event.upper)
        gap_sum += new - gaps.get(event.number, 1.0)
        gaps[event.number] = new
        if event.what == "finished" and event.number in closed:
            done.add(event.number)
        moments.append((clock, len(done) / total, max(gap_sum, 0.0) / total))
    thin = moments[:: max(len(moments) // _POINTS, 1)]
    if moments and thin[-1] != moments[-1]:
        thin.append(moments[-1])
    columns = list(zip(*thin, strict=True)) or [(), (), ()]
    return StudyOverTime(tuple(columns[0]), tuple(columns[1]), tuple(columns[2]))


def _running_spans(study: StudyData) -> list[tuple[float, float]]:
    """The time spans of all runs; a run that was killed ends with the study's last event."""
    latest = max((event.time for event in study.events), default=0.0)
    return sorted((run.started, run.ended or latest) for run in study.runs)


def _overlap(start: float, end: float, spans: Sequence[tuple[float, float]]) -> float:
    """How much of a time span the runs cover."""
    covered, reached = 0.0, start
    for begin, stop in spans:
        low, high = max(begin, reached), min(stop, end)
        if high > low:
            covered += high - low
            reached = high
    return covered
