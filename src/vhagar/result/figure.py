"""The figure of `--plot`: the witness, its image, their difference, and the bounds over time.

AbstractResult -> plain data (`figure_data`) -> picture (`draw`); the data is what is tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.drawing.colours import NAMED
from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.result.numbers import down, interval, span, up
from vhagar.result.serialize import write_bytes
from vhagar.result.values import AbstractResult, Status
from vhagar.result.witness import Witness
from vhagar.result.words import outcome

Array = NDArray[np.float64]

FORMATS = ("png", "pdf", "svg")


@dataclass(frozen=True, eq=False)
class InputPanel:
    """One input: `(rows, columns)` grey, `(rows, columns, 3)` colour, or `(size,)` no image.

    `entries` says what the entries of an input that is no image are.
    """

    title: str
    values: Array
    low: float
    high: float
    entries: str = "input entry"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class BoundsPanel:
    """The interval over time, on an axis that ends at `ceiling`: below the first bounds if they
    would squeeze the rest into a line."""

    title: str
    seconds: Array
    lower: Array
    upper: Array
    ceiling: float
    lower_text: str
    upper_text: str


@dataclass(frozen=True, eq=False)
class FigureData:
    """The panels of the figure, in order after `nearest`; one with nothing to show is None."""

    title: str
    witness: InputPanel | None
    image: InputPanel | None
    difference: InputPanel | None
    bounds: BoundsPanel | None
    nearest: InputPanel | None = None


def figure_format(path: Path) -> str:
    """The format that a file's name asks for."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InvalidInput(
            f"cannot tell the format of the plot {path}; end its name with .png, .pdf or .svg"
        )
    return suffix


def figure_data(result: AbstractResult) -> FigureData:
    """What the figure shows, as plain data."""
    witness, image, difference = input_panels(result.witness, result.problem)
    near = _nearest_panel(result, witness)
    return FigureData(str(result.problem), witness, image, difference, _bounds(result), near)


def _nearest_panel(result: AbstractResult, witness: InputPanel | None) -> InputPanel | None:
    """The input of the data set that is nearest to the witness, on the witness's scale."""
    found = result.nearest
    if found is None or witness is None:
        return None
    label = "" if found.label is None else f": {result.problem.class_name(found.label)}"
    title = f"nearest of the data{label}\ndistance {100 * found.distance:.3g} %"
    x = _in_range(found.x.reshape(result.problem.network.input_shape), result.problem)
    return replace(witness, title=title, values=picture(x))


def input_panels(
    witness: Witness | None, problem: Problem
) -> tuple[InputPanel | None, InputPanel | None, InputPanel | None]:
    """Build the panels of the witness, its image and their difference; None for a missing one."""
    if witness is None:
        return None, None, None
    # One scale for both: without clipping the perturbed input may leave the domain.
    inputs = [witness.x] if witness.x_p is None else [witness.x, witness.x_p]
    shown = [_in_range(x, problem) for x in inputs]
    ends = problem.domain.lower, problem.domain.upper
    about: tuple[str, tuple[str, ...]] = InputPanel.entries, ()
    if has_units(problem.domain):
        ends, about = (0.0, 1.0), ("part of the feature's range", problem.domain.features)
    low = min(ends[0], *(float(array.min()) for array in shown))
    high = max(ends[1], *(float(array.max()) for array in shown))
    title = f"classified {problem.source_name}\nconfidence {down(witness.confidence)}"
    first = InputPanel(title, picture(shown[0]), low, high, *about)
    if witness.x_p is None or witness.margin is None:
        return first, None, None
    fate = "an exact tie with" if witness.tie else "classified"
    title = f"perturbed: {fate} {problem.class_name(witness.target)}\nmargin {down(witness.margin)}"
    second = InputPanel(title, picture(shown[1]), low, high, *about)
    change = largest_change(picture(shown[1]) - picture(shown[0]))
    most = float(abs(change).max())
    part = f"{100 * most:.3g} % of a range" if has_units(problem.domain) else f"{most:.3g}"
    title = f"difference\nlargest change {part}"
    return first, second, InputPanel(title, change, -(most or 1.0), most or 1.0, *about)


def has_units(domain: Domain) -> bool:
    """Whether entries are features, each in units of its own, so that one scale shows nothing."""
    return len(domain.shape) == 1 and bool(domain.features)


def _in_range(x: Array, problem: Problem) -> Array:
    """Features as parts of their ranges in the domain; other inputs as they are."""
    if not has_units(problem.domain):
        return x
    domain = problem.domain
    width = domain.high - domain.low
    found: Array = (x - domain.low) / np.where(width > 0, width, domain.width)
    return found


def picture(x: Array) -> Array:
    """An input as an image where it is one, else flat."""
    if x.ndim == 2:
        return x
    if x.ndim == 3 and x.shape[0] == 1:
        return x.reshape(x.shape[1:])
    if x.ndim == 3 and x.shape[0] == 3:
        return x.transpose(1, 2, 0)
    return x.reshape(-1)


def largest_change(difference: Array) -> Array:
    """Keep, at each pixel of a colour image, the signed change of the channel that changes most."""
    if difference.ndim < 3:
        return difference
    strongest = abs(difference).argmax(axis=-1)
    change: Array = np.take_along_axis(difference, strongest[..., None], axis=-1)[..., 0]
    return change


def _bounds(result: AbstractResult) -> BoundsPanel:
    problem = result.problem
    moments = [moment for moment in result.history if math.isfinite(moment.upper)]
    upper = np.array([moment.upper for moment in moments])
    ending = outcome(result)
    if result.witness is None and result.status is not Status.ROBUST:
        what = "attackable input" if problem.targets else f"input classified {problem.source_name}"
        ending += f"; no {what} was found"
    return BoundsPanel(
        f"interval {span(result.lower, result.upper)}\n{ending}",
        np.array([moment.seconds for moment in moments]),
        np.array([moment.lower for moment in moments]),
        upper,
        _ceiling(upper),
        *interval(result.lower, result.upper),
    )


def _ceiling(upper: Array) -> float:
    """End the axis above the highest bound, unless that is far above the final one."""
    if upper.size == 0:
        return 1.0
    highest, final = float(upper.max()) or 1.0, float(upper[-1])
    return 1.05 * (min(highest, 4 * final) if final > 0 else highest)


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


def draw(data: FigureData, path: str | Path) -> None:
    """Draw the data and write it to a file in the format that the file's ending names."""
    path, content = Path(path), BytesIO()
    figure(data).savefig(content, format=figure_format(path), dpi=200)
    write_bytes(path, content.getvalue())


def figure(data: FigureData) -> Any:
    """Draw the data as a matplotlib figure."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    every = (data.nearest, data.witness, data.image, data.difference)
    inputs = [panel for panel in every if panel is not None]
    with mpl.rc_context(_STYLE):
        margins: Any = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.03)
        named = max((len(panel.names) for panel in inputs if _has_bars(panel)), default=0)
        size = (2.3 * len(inputs) + 5.6 + 1.4 * bool(named), max(3.0, 1.0 + 0.17 * named))
        if data.bounds is None:  # the pictures alone fill the height: room for title and scale
            size = (max(2.3 * len(inputs), 5.0) + 1.4 * bool(named), max(3.5, size[1]))
        drawn = Figure(figsize=size, layout=margins)
        FigureCanvasAgg(drawn)
        drawn.suptitle(data.title, x=0.012, ha="left", fontsize=10.5, fontweight="bold")
        ratios = [1.0] * len(inputs) + ([] if data.bounds is None else [2.1])
        axes = drawn.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0]
        for ax, panel in zip(axes, inputs, strict=False):
            _draw_input(drawn, ax, panel, diverging=panel is data.difference)
            if _has_bars(panel) and panel is not inputs[0]:
                ax.set_yticklabels([])  # the first panel has them
        if data.bounds is not None:
            _draw_bounds(axes[-1], data.bounds)
    return drawn


def _draw_input(figure: Any, ax: Any, panel: InputPanel, diverging: bool) -> None:
    ax.set_title(panel.title, linespacing=1.4)
    if panel.values.ndim == 1:
        _draw_vector(ax, panel)
        return
    ax.set_xticks([])
    ax.set_yticks([])
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
