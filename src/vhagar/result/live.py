"""The progress bar of notebooks: a display that is updated in place during a run."""

from __future__ import annotations

import math
import sys
import time
from html import escape
from typing import Any

from vhagar.problem import Problem
from vhagar.result.numbers import seconds
from vhagar.result.values import AbstractResult, Progress
from vhagar.result.words import final_sentence, interval_words

# Shortest time between two updates, in seconds.
_BETWEEN = 0.2
# Colours of the attackable, the unknown and the proven robust part of the bar.
_COLOURS = ("#d55e00", "#e6c35c", "#0072b2")


def notebook_bar(problem: Problem, timeout: float | None) -> NotebookBar | None:
    """Make a progress bar for a run; None outside of a notebook that can show it."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    shell = get_ipython()
    # A terminal has no kernel, and could not update what it has printed.
    return None if getattr(shell, "kernel", None) is None else NotebookBar(problem, timeout)


class NotebookBar:
    """Shows the progress of one run as its `on_progress`; a failing display never ends the run."""

    def __init__(self, problem: Problem, timeout: float | None) -> None:
        self._problem = problem
        self._limit = "" if timeout is None else f" of {seconds(timeout)}"
        self._handle: Any = None
        self._shown = -math.inf

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._shown >= _BETWEEN:
            self._shown = time.monotonic()
            self._show(self.html(progress))

    def finish(self, result: AbstractResult) -> None:
        """Leave the answer where the bar was."""
        self._show(f"<div>{escape(final_sentence(result))}</div>")

    def html(self, progress: Progress) -> str:
        """The bar from 0 to the first bound, on a square-root scale, and the interval below it."""
        lower, upper = _shares(progress)
        shares = (lower, upper - lower, 100 - upper)
        parts = "".join(
            f'<div style="width:{share:.2f}%;background:{colour}"></div>'
            for share, colour in zip(shares, _COLOURS, strict=True)
        )
        bar = f'<div style="display:flex;height:0.8em;max-width:40em">{parts}</div>'
        spent = f"{progress.phase}, {seconds(progress.seconds)}{self._limit}"
        words = f"{spent}: {interval_words(progress.lower, progress.upper)}"
        return f"<div>{escape(str(self._problem))}{bar}<small>{escape(words)}</small></div>"

    def _show(self, html: str) -> None:
        try:
            from IPython.display import HTML, display

            if self._handle is None:
                self._handle = display(HTML(html), display_id=True)
            else:
                self._handle.update(HTML(html))
        except Exception:  # the run matters, not its display
            self._shown = math.inf


def _shares(progress: Progress) -> tuple[float, float]:
    """Place the ends of the interval on the bar, in percent."""
    scale = progress.initial_upper
    if not (math.isfinite(scale) and scale > 0 and math.isfinite(progress.upper)):
        return 0.0, 100.0
    lower, upper = (
        100 * math.sqrt(min(max(end, 0.0) / scale, 1.0)) for end in (progress.lower, progress.upper)
    )
    return min(lower, upper), upper
