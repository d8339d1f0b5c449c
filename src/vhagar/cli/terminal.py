"""The live display in a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vhagar.cli.screen import AbstractScreen, AbstractWatch
from vhagar.problem import Problem
from vhagar.result import Progress, Result
from vhagar.result.numbers import gap, interval, seconds, span, up
from vhagar.result.words import outcome

_WIDEST = 100
_ROOM_FOR_CTRL_C = 2  # the terminal echoes ^C: without room it starts a line and breaks the panel
_FRAME = 6  # the panel's border and padding, both sides
_MOST_TARGETS = 5
_REFRESH_PER_SECOND = 8
# Value at the middle of the bar, relative to its end: the scale is that of square roots. The first
# bound is often a hundred times the answer, so that a linear scale would end in the first cell.
MIDDLE = 0.25


@dataclass(frozen=True)
class _Part:
    """One part of the bar; its glyph tells it apart without colour, too."""

    glyph: str
    style: str


# Red, yellow and blue: everybody can tell them apart, unlike red and green.
_BELOW = _Part("█", "red")
_UNKNOWN = _Part("▒", "yellow")
_ABOVE = _Part("━", "bright_blue")
_ASCII = {"█": "#", "▒": "?", "━": "-"}


class LiveScreen(AbstractScreen):
    """Draws with rich."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)

    @contextmanager
    def watch(self, problem: Problem, timeout: float | None) -> Iterator[AbstractWatch]:
        watch = LiveWatch(self._console, problem, timeout)
        with Live(
            console=self._console,
            get_renderable=watch.render,
            refresh_per_second=_REFRESH_PER_SECOND,
        ):
            yield watch

    def conclude(self, rows: Sequence[tuple[str, str]], sentence: str) -> None:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in rows:
            grid.add_row(f"  {label}", Text(text))
        self._console.print(grid)
        self._console.print()
        self._console.print(Text(sentence, style="bold"))


class LiveWatch(AbstractWatch):
    """A panel that is redrawn several times a second, clock included."""

    def __init__(self, console: Console, problem: Problem, timeout: float | None) -> None:
        self._console = console
        self._problem = problem
        self._timeout = timeout
        self._started = time.monotonic()
        self._progress: Progress | None = None
        self._result: Result | None = None

    def __call__(self, progress: Progress) -> None:
        self._progress = progress

    def finish(self, result: Result) -> None:
        self._result = result

    def render(self) -> RenderableType:
        """The panel now."""
        width = min(self._console.width - _ROOM_FOR_CTRL_C, _WIDEST)
        parts: list[RenderableType] = []
        progress = self._progress
        if progress is not None:
            parts += [*self._bar(progress, width - _FRAME), Text(), self._numbers(progress)]
            if len(progress.targets) > 1:
                parts += [Text(), self._targets(progress, width - _FRAME)]
            parts += [Text()]
        parts += [self._clock()]
        title = Text(str(self._problem), style="bold")
        title.truncate(width - _FRAME, overflow="ellipsis")  # rich would widen the panel for it
        return Panel(Group(*parts), title=title, title_align="left", width=width, padding=(1, 2))

    def _ends(self, progress: Progress) -> tuple[float, float]:
        result = self._result
        return (progress.lower, progress.upper) if result is None else (result.lower, result.upper)

    def _bar(self, progress: Progress, width: int) -> list[RenderableType]:
        lower, upper = self._ends(progress)
        scale = progress.initial_upper
        centre = cells(lower, upper, scale, width).centre
        under = axis(span(lower, upper), centre, up(MIDDLE * scale), up(scale), width)
        return [self._strip(lower, upper, scale, width), Text(under, style="dim")]

    def _strip(self, lower: float, upper: float, scale: float, width: int) -> Text:
        shares = cells(lower, upper, scale, width)
        strip = Text(no_wrap=True)
        counts = shares.below, shares.unknown, shares.above
        for part, count in zip((_BELOW, _UNKNOWN, _ABOVE), counts, strict=True):
            strip.append(self._glyph(part) * count, style=part.style)
        return strip

    def _glyph(self, part: _Part) -> str:
        return part.glyph if self._console.encoding.startswith("utf") else _ASCII[part.glyph]

    def _numbers(self, progress: Progress) -> RenderableType:
        lower, upper = self._ends(progress)
        low, high = interval(lower, upper)
        attack = self._problem.perturbation is not None
        below, above = ("attackable", "robust above") if attack else ("reached", "impossible above")
        grid = Table.grid(padding=(0, 2), expand=True)
        for _ in range(3):
            grid.add_column(ratio=1)
        grid.add_row(
            self._entry(_BELOW, "lower", low),
            self._entry(_UNKNOWN, "gap", gap(lower, upper)),
            self._entry(_ABOVE, "upper", high),
        )
        meanings = (below if lower > 0 else "none found", "not known", above)
        grid.add_row(*(Text(f"  {meaning}", style="dim") for meaning in meanings))
        return grid

    def _entry(self, part: _Part, label: str, value: str) -> Text:
        return Text.assemble((self._glyph(part), part.style), f" {label} ", (value, "bold"))

    def _targets(self, progress: Progress, width: int) -> RenderableType:
        """List the targets with the largest bounds, which keep the interval open."""
        known = self._result.targets if self._result is not None else progress.targets
        ranked = sorted(known.items(), key=lambda item: (-item[1].upper, -item[1].lower))
        shown, rest = ranked[:_MOST_TARGETS], ranked[_MOST_TARGETS:]
        names = [f"to {self._problem.class_name(target)}" for target, _ in shown]
        spans = [span(at.lower, at.upper) for _, at in shown]
        room = width - max(map(len, names)) - max(map(len, spans)) - 4
        table = Table.grid(padding=(0, 2))
        for name, text, (_, at) in zip(names, spans, shown, strict=True):
            strip = self._strip(at.lower, at.upper, progress.initial_upper, max(room, 1))
            table.add_row(Text(name, style="dim"), strip, text)
        if rest:
            more = f"and {len(rest)} more, at most {up(rest[0][1].upper)}"
            table.add_row("", Text(more, style="dim"), "")
        return table

    def _clock(self) -> RenderableType:
        limit = "" if self._timeout is None else f" of {seconds(self._timeout)}"
        if self._result is not None:
            return Text(outcome(self._result))
        elapsed = time.monotonic() - self._started
        phase = "start" if self._progress is None else self._progress.phase
        return Text.assemble((phase, "bold"), f"  {seconds(elapsed)}{limit}")


@dataclass(frozen=True)
class Cells:
    """Numbers of cells below the interval, inside it, and above it."""

    below: int
    unknown: int
    above: int

    @property
    def centre(self) -> float:
        """Position of the interval's middle, in cells."""
        return self.below + self.unknown / 2


def cells(lower: float, upper: float, scale: float, width: int) -> Cells:
    """Divide `width` cells over `[0, scale]`; a cell counts as proven only if all of it is."""
    if not (math.isfinite(upper) and math.isfinite(scale) and scale > 0):
        return Cells(0, width, 0)
    if upper <= 0:
        return Cells(0, 0, width)
    low, high = (math.sqrt(min(end / scale, 1.0)) for end in (lower, upper))
    below = min(math.floor(width * low), width - 1)
    above = min(math.floor(width * (1 - high)), width - 1 - below)
    return Cells(below, width - below - above, above)


def axis(label: str, centre: float, middle: str, end: str, width: int) -> str:
    """Return the line under a bar: 0, `label` at the cell `centre`, and the middle and end values.

    Labels that do not fit are left out.
    """
    line = " " * width
    wanted = [
        ("0", 0),
        (end, width - len(end)),
        (label, min(max(round(centre - len(label) / 2), 3), width - len(end) - len(label) - 2)),
        (middle, round((width - len(middle)) / 2)),
    ]
    for text, start in wanted:
        around = line[max(start - 2, 0) : start + len(text) + 2]
        if start >= 0 and not around.strip():
            line = line[:start] + text + line[start + len(text) :]
    return line
