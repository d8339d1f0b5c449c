"""The bounds of one problem over time, as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Area, Drawing, Line, Shape, Text
from vhagar.result.numbers import down, up
from vhagar.result.values import Moment

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420.0, 190.0, 44.0, 66.0, 26.0, 34.0


@dataclass(frozen=True)
class BoundsOverTime(AbstractFigure):
    """The interval of one problem over time, on an axis that ends at `ceiling`.

    The first bounds are often far above the rest and would squeeze it into a line.
    """

    number: int
    label: str
    moments: tuple[Moment, ...]
    ceiling: float

    @classmethod
    def of(cls, number: int, label: str, moments: tuple[Moment, ...]) -> BoundsOverTime:
        """The figure with an axis that ends above the highest bound, or far below it."""
        uppers = [moment.upper for moment in moments]
        highest, final = max(uppers, default=1.0), uppers[-1] if uppers else 0.0
        ceiling = min(highest, 4 * final) if final > 0 else highest
        return cls(number, label, moments, 1.05 * ceiling or 1.0)

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
        frame = Frame(_WIDTH, _HEIGHT, end, self.ceiling)
        shapes: list[Shape] = [*frame.axes("seconds", "confidence")]
        if not self.moments:
            return Drawing(_WIDTH, _HEIGHT, self.title, shapes)
        lower = frame.steps([(moment.seconds, moment.lower) for moment in self.moments])
        upper = frame.steps([(moment.seconds, moment.upper) for moment in self.moments])
        shapes.append(Area([*upper, *reversed(lower)], "unknown"))
        shapes += [Line(upper, "robust", 2.0), Line(lower, "attackable", 2.0)]
        last = self.moments[-1]
        high, low = upper[-1][1] + 4, lower[-1][1] + 4
        if low - high < 13:  # move the two labels apart
            high, low = (high + low) / 2 - 6.5, (high + low) / 2 + 6.5
        x = upper[-1][0] + 5
        shapes += [
            Text(x, high, up(last.upper), 12, fill="robust", bold=True),
            Text(x, low, down(last.lower), 12, fill="attackable", bold=True),
        ]
        return Drawing(_WIDTH, _HEIGHT, self.title, shapes)


class Frame:
    """Axes, and the positions of points in them."""

    def __init__(self, width: float, height: float, end: float, ceiling: float) -> None:
        self._width, self._height, self._end, self._ceiling = width, height, end, ceiling or 1.0

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (self._width - _LEFT - _RIGHT) * min(x / self._end, 1.0)
        up_ = (self._height - _TOP - _BOTTOM) * min(y / self._ceiling, 1.0)
        return _LEFT + across, self._height - _BOTTOM - up_

    def steps(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Connect the points by a line that stays level until the next point."""
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


def ticks(end: float) -> list[float]:
    """About five round numbers from 0 to at most `end`."""
    rough = end / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [float(f"{k * step:.10g}") for k in range(int(end / step * (1 + 1e-9)) + 1)]
