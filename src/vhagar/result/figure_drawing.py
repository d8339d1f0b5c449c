"""The figure of `--plot` as a picture, by matplotlib."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.drawing.colours import NAMED
from vhagar.result.figure import BoundsPanel, FigureData, InputPanel, figure_format
from vhagar.result.numbers import up
from vhagar.runtime.output_files import write_bytes
from vhagar.runtime.threads import import_beside

_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#444444",
    "xtick.color": "#888888",
    "ytick.color": "#888888",
    "xtick.labelcolor": "#444444",
    "ytick.labelcolor": "#444444",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
# The terminal's colours for attackable, unknown and robust confidences.
_ATTACKABLE, _UNKNOWN, _ROBUST = (NAMED[name] for name in ("attackable", "unknown", "robust"))
_SLATE = "#5b6b7a"
_MOST_BARS = 64
# Longer names of features are cut off.
_LONGEST = 24


def prepare() -> None:
    """Import matplotlib while others compute, so that `draw` need not wait for it."""
    import_beside("matplotlib.backends.backend_agg", "matplotlib.figure")


def draw(data: FigureData, path: str | Path) -> None:
    """Draw the data and write it to a file."""
    save(figure(data), path)


def save(drawn: Any, path: str | Path) -> None:
    """Write a matplotlib figure to a file in the format that the file's ending names."""
    path, content = Path(path), BytesIO()
    drawn.savefig(content, format=figure_format(path), dpi=200)
    write_bytes(path, content.getvalue())


def figure(data: FigureData) -> Any:
    """Draw the data as a matplotlib figure."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    first = (data.nearest, data.witness, data.image, data.difference)
    every = [row for row in (first, data.plausible) if row]
    rows = [[panel for panel in row if panel is not None] for row in every]
    inputs = rows[0]
    with mpl.rc_context(_STYLE):
        margins: Any = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.03)
        named = max((len(panel.names) for panel in inputs if _has_bars(panel)), default=0)
        size = (2.3 * len(inputs) + 5.6 + 1.4 * bool(named), max(3.0, 1.0 + 0.17 * named))
        if data.bounds is None:  # the pictures alone fill the height: room for title and scale
            size = (max(2.3 * len(inputs), 5.0) + 1.4 * bool(named), max(3.5, size[1]))
        drawn = Figure(figsize=(size[0], len(rows) * size[1]), layout=margins)
        FigureCanvasAgg(drawn)
        drawn.suptitle(data.title, x=0.012, ha="left", fontsize=10.5, fontweight="bold")
        ratios = [1.0] * len(inputs) + ([] if data.bounds is None else [2.1])
        grid = drawn.add_gridspec(len(rows), len(ratios), width_ratios=ratios)
        for k, (row, panels) in enumerate(zip(every, rows, strict=True)):
            for place, panel in enumerate(panels):
                ax = drawn.add_subplot(grid[k, place])
                _draw_input(drawn, ax, panel, diverging=panel is row[-1])
                if _has_bars(panel) and place:
                    ax.set_yticklabels([])  # the first panel has them
        if data.bounds is not None:
            _draw_bounds(drawn.add_subplot(grid[:, -1]), data.bounds)
    return drawn


def _draw_input(figure: Any, ax: Any, panel: InputPanel, diverging: bool) -> None:
    ax.set_title(panel.title, linespacing=1.4)
    if panel.values.ndim == 1:
        _draw_vector(ax, panel)
        return
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_visible(False)  # unlike an axis without ticks, it takes no time
    if panel.values.ndim == 3:
        ax.imshow((panel.values - panel.low) / (panel.high - panel.low), interpolation="nearest")
        return
    shade = ax.imshow(
        panel.values,
        cmap="RdBu_r" if diverging else "gray",
        vmin=panel.low,
        vmax=panel.high,
        interpolation="nearest",
    )
    if diverging:
        ticks = [panel.low, 0.0, panel.high]
        below = ax.inset_axes((0.0, -0.11, 1.0, 0.05))  # so that all images keep one size
        bar = figure.colorbar(shade, cax=below, orientation="horizontal", ticks=ticks)
        bar.outline.set_linewidth(0.4)
        bar.ax.set_xticklabels([f"{tick:.3g}" for tick in ticks])


def _has_bars(panel: InputPanel) -> bool:
    """Whether every feature has a bar with its name."""
    return panel.values.ndim == 1 and 0 < len(panel.names) <= _MOST_BARS


def _draw_features(ax: Any, panel: InputPanel) -> None:
    """Draw features from top to bottom, each with its name."""
    places = np.arange(panel.values.size)
    ax.barh(places, panel.values, color=_SLATE)
    ax.axvline(0.0, color="#888888", linewidth=0.6)
    names = [
        name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\u2026" for name in panel.names
    ]
    ax.set_yticks(places, names)
    ax.set_ylim(places[-1] + 0.6, -0.6)
    margin = 0.04 * (panel.high - panel.low)
    ax.set_xlim(panel.low - margin, panel.high + margin)
    ax.set_xlabel(panel.entries)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_vector(ax: Any, panel: InputPanel) -> None:
    """Draw an input that is not an image as bars."""
    if _has_bars(panel):
        _draw_features(ax, panel)
        return
    size = panel.values.size
    if size <= _MOST_BARS:
        ax.bar(np.arange(size), panel.values, color=_SLATE)
    else:
        ax.stairs(panel.values, np.arange(size + 1) - 0.5, fill=True, color=_SLATE)
    ax.axhline(0.0, color="#888888", linewidth=0.6)
    ax.set_xlim(-0.6, size - 0.4)
    margin = 0.04 * (panel.high - panel.low)
    ax.set_ylim(panel.low - margin, panel.high + margin)
    ax.set_xlabel(panel.entries)
    ax.spines[["top", "right"]].set_visible(False)
    ax.xaxis.get_major_locator().set_params(integer=True, nbins=5)


def _draw_bounds(ax: Any, panel: BoundsPanel) -> None:
    ax.set_title(panel.title, linespacing=1.4)
    ax.set_xlabel("seconds")
    ax.set_ylabel("confidence")
    ax.spines[["top", "right"]].set_visible(False)
    if panel.seconds.size == 0:
        return
    start, end = _time_axis(ax, panel)
    seconds = np.clip(panel.seconds, start, end)
    ax.fill_between(seconds, panel.lower, panel.upper, step="post", color=_UNKNOWN, linewidth=0)
    ax.step(seconds, panel.upper, where="post", color=_ROBUST, linewidth=1.6, clip_on=True)
    ax.step(seconds, panel.lower, where="post", color=_ATTACKABLE, linewidth=1.6, clip_on=False)
    ax.set_ylim(0.0, panel.ceiling)
    if panel.upper[0] > panel.ceiling:
        _label_first_bound(ax, panel)
    apart = panel.upper[-1] - panel.lower[-1] > 0.1 * panel.ceiling
    _label(ax, end, panel.upper[-1], panel.upper_text, _ROBUST, "center" if apart else "bottom")
    _label(ax, end, panel.lower[-1], panel.lower_text, _ATTACKABLE, "center" if apart else "top")


def _label(ax: Any, x: float, y: float, text: str, colour: str, align: str) -> None:
    """Write the final value at the end of its line."""
    place = {"textcoords": "offset points", "ha": "left", "va": align, "annotation_clip": False}
    ax.annotate(text, (x, y), (5, 0), color=colour, fontweight="bold", **place)


def _label_first_bound(ax: Any, panel: BoundsPanel) -> None:
    """State a first bound that is off the scale in the corner that the curve leaves free."""
    enters = panel.seconds[np.argmax(panel.upper <= panel.ceiling)]
    (place, _) = ax.transAxes.inverted().transform(ax.transData.transform((enters, 0.0)))
    x, side = (0.98, "right") if place < 0.5 else (0.02, "left")
    text = f"first bound {up(float(panel.upper[0]))}"
    ax.text(x, 0.96, text, transform=ax.transAxes, ha=side, va="top", color="#444444")


def _time_axis(ax: Any, panel: BoundsPanel) -> tuple[float, float]:
    """Make the axis logarithmic if most of the visible progress happens early in the run."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    gaps = np.minimum(panel.upper, panel.ceiling) - panel.lower
    halfway = panel.seconds[np.argmax(gaps <= (gaps[0] + gaps[-1]) / 2)]
    start, end = 0.0, max(float(panel.seconds[-1]), 1e-3)
    if end > 5 and halfway < end / 15:
        begins = panel.seconds[np.argmax(gaps < gaps[0])]
        start = max(float(panel.seconds[0]), float(begins) / 3, end / 1000)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator())
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.set_xlim(start, end)
    return start, end
