"""A sweep in a terminal: overall progress, the running problems, and the time left."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vhagar.result.numbers import seconds
from vhagar.sweep.question import Question
from vhagar.sweep.watch import (
    AbstractSweepWatch,
    Pace,
    SweepState,
    ending_words,
    interval_text,
    words,
)

_WIDEST = 100
_FRAME = 6  # the panel's border and padding, both sides
_MOST_SHOWN = 12
_REFRESH_PER_SECOND = 4


class LiveSweepWatch(AbstractSweepWatch):
    """A panel that is redrawn several times a second."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._state = SweepState({}, {}, {})
        self._begun = time.monotonic()
        self._pace = Pace()
        self._seen = time.monotonic()
        self._last = ""
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=_REFRESH_PER_SECOND,
        )

    def begin(self, state: SweepState, timeout: float | None) -> None:
        self.update(state)
        self._pace.left(state)
        self._live.start()

    def update(self, state: SweepState) -> None:
        self._state, self._seen = state, time.monotonic()

    def improved(self, number: int, question: Question, lower: float, upper: float | None) -> None:
        pass

    def finished(
        self, number: int, question: Question, lower: float, upper: float | None, ending: str
    ) -> None:
        name = words(question, self._state.names)
        self._last = f"{name}: {interval_text(lower, upper)}, {ending}"

    def note(self, text: str) -> None:
        self._console.print(Text(f"note: {text}", style="dim"))

    def end(self, state: SweepState) -> None:
        self.update(SweepState(state.counts, {}, state.names))
        self._live.stop()

    def render(self) -> RenderableType:
        """The panel now."""
        state = self._state
        width = min(self._console.width - 2, _WIDEST)
        bar = Table.grid()  # on its own the bar would not end its line
        bar.add_row(
            ProgressBar(total=max(state.total, 1), completed=state.done, width=width - _FRAME)
        )
        parts: list[RenderableType] = [
            bar,
            Text(f"{state.done} of {state.total}: {ending_words(state)}", style="dim"),
        ]
        if state.running:
            parts += [Text(), self._running(width - _FRAME)]
        if self._last:
            parts += [Text(), _cut(f"last: {self._last}", width - _FRAME)]
        parts += [Text(), self._clock()]
        return Panel(Group(*parts), title="sweep", title_align="left", width=width, padding=(1, 2))

    def _running(self, width: int) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(width - 34, 10))
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, justify="right", style="dim")
        since = time.monotonic() - self._seen
        shown = list(self._state.running.values())
        for question, lower, upper, spent in shown[:_MOST_SHOWN]:
            name = words(question, self._state.names)
            table.add_row(Text(name), Text(interval_text(lower, upper)), seconds(spent + since))
        if len(shown) > _MOST_SHOWN:
            table.add_row(Text(f"and {len(shown) - _MOST_SHOWN} more", style="dim"), "", "")
        return table

    def _clock(self) -> RenderableType:
        spent, left = time.monotonic() - self._begun, self._pace.left(self._state)
        if not self._state.open:
            return Text(f"done after {seconds(spent)}")
        rest = "" if left is None else f", about {seconds(left)} left"
        return Text(f"{seconds(spent)}{rest}", style="bold")


def _cut(text: str, width: int) -> Text:
    found = Text(text, style="dim")
    found.truncate(width, overflow="ellipsis")
    return found
