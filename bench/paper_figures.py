"""Figures of the comparison. Lines of results -> plain data -> picture; the data is tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from paper_records import Record

from vhagar.drawing.colours import NAMED
from vhagar.runtime.output_files import write_bytes

# As in the program's own figures: what is attackable, what is not known, what is robust.
_ATTACKABLE, _UNKNOWN, _ROBUST = (NAMED[name] for name in ("attackable", "unknown", "robust"))
# Okabe and Ito's.
_COLOURS = ("#0072b2", "#d55e00", "#5b6b7a", "#e69f00", "#56b4e9", "#cc79a7")
# Curves that lie on each other must both be seen.
_DASHES = ("-", "-", "--", ":")
# Phases are neither good nor bad.
_PHASES = ("#9fb1bd", "#5b6b7a", "#c08a2d", "#3b6ea5", "#7b4f9d")
_NAMES = {
    "vhagar": "VHAGaR",
    "marabou": "Marabou",
    "dataset": "dataset sampling",
    "random": "random sampling",
    "mip": "the paper's MIP, HiGHS",
    "plain-mip": "plain MIP, HiGHS",
    "mip-dependencies": "MIP with dependencies",
}
# Times at which gaps are compared, in each factor of ten; and the last beside the first, at most.
_TIMES, _SPAN = 40, 300.0


@dataclass(frozen=True)
class Approach:
    """What one method knows of one problem: attackable up to `lower`, robust above `upper`."""

    name: str
    lower: float
    upper: float


@dataclass(frozen=True)
class GapCurve:
    """A method's mean gap, in percent of the maximal confidence, at some times."""

    name: str
    seconds: tuple[float, ...]
    gap: tuple[float, ...]


@dataclass(frozen=True)
class TimeSplit:
    """Mean seconds that a method spent in each phase on a network."""

    name: str
    seconds: dict[str, float]

    @property
    def divided(self) -> bool:
        """Whether more than one phase can be seen."""
        return max(self.seconds.values()) < 0.99 * sum(self.seconds.values())


def approaches(records: Sequence[Record], row: str, pair: tuple[int, int]) -> list[Approach]:
    """The bounds of all methods for one problem; methods without an answer are left out."""
    return [
        Approach(_NAMES.get(r.method, r.method), r.lower, r.upper)
        for r in records
        if r.row == row and r.pair == pair and r.lower is not None and r.upper is not None
    ]


def gap_curves(records: Sequence[Record]) -> list[GapCurve]:
    """Mean gaps over the problems that all methods have, from when all have an interval."""
    methods = list(dict.fromkeys(r.method for r in records))
    runs = {
        name: {
            (r.row, r.pair): r
            for r in records
            if r.method == name and r.moments and r.maximum_lower > 0
        }
        for name in methods
    }
    methods = [name for name in methods if runs[name]]
    common = set.intersection(*(set(runs[name]) for name in methods)) if methods else set()
    if not common:
        return []
    used = [runs[name][problem] for name in methods for problem in common]
    end = max(r.timeout for r in used)
    start = max([r.moments[0].seconds for r in used] + [end / _SPAN])
    end = max(end, 2 * start)
    count = max(2, math.ceil(_TIMES * math.log10(end / start)))
    times = np.geomspace(start, end, count)
    return [
        GapCurve(
            _NAMES.get(name, name),
            tuple(times.tolist()),
            tuple(
                fmean(_gap_at(runs[name][problem], time) for problem in sorted(common))
                for time in times.tolist()
            ),
        )
        for name in methods
    ]


def _gap_at(record: Record, time: float) -> float:
    """The gap of the last moment not after the time; the first one before that."""
    moments = record.moments
    before = [m for m in moments if m.seconds <= time] or moments[:1]
    last = before[-1]
    return 100 * (last.upper - last.lower) / record.maximum_lower


def time_splits(records: Sequence[Record], method: str) -> list[TimeSplit]:
    """Where a method's time goes, for each network."""
    own = [r for r in records if r.method == method and r.phases]
    found = []
    for network in dict.fromkeys(r.network for r in own):
        runs = [r.phases for r in own if r.network == network]
        phases = dict.fromkeys(phase for run in runs for phase in run)
        seconds = {phase: fmean(run.get(phase, 0.0) for run in runs) for phase in phases}
        found.append(TimeSplit(network, seconds))
    return found


def draw_approaches(
    data: Sequence[Approach], title: str, path: Path, largest: float = math.inf
) -> None:
    """One bar for each method: red is attackable, green is robust, what is between is unknown.

    Bars end at the largest confidence that there is, where that is known.
    """
    figure, (ax,) = new_figure(1.0 + 0.45 * len(data))
    end = min(1.04 * max(one.upper for one in data), largest)
    for place, one in enumerate(data):
        parts = ((0.0, one.lower, _ATTACKABLE), (one.lower, one.upper, _UNKNOWN))
        for left, right, colour in (*parts, (one.upper, end, _ROBUST)):
            width = max(min(right, end) - left, 0.0)
            ax.barh(place, width, left=left, color=colour, height=0.6)
        ax.text(end, place, f"  [{one.lower:.4g}, {one.upper:.4g}]", va="center", fontsize=8)
    ax.set_yticks(range(len(data)), [one.name for one in data])
    ax.invert_yaxis()
    ax.set_xlim(0.0, end or 1.0)
    ax.set_xlabel("confidence: attackable, unknown, robust")
    ax.set_title(title, loc="left")
    save(figure, path)


def draw_gaps(data: Sequence[GapCurve], title: str, path: Path) -> None:
    """Mean gap over time, both on logarithmic scales."""
    figure, (ax,) = new_figure(3.4)
    for k, one in enumerate(data):
        visible = [max(gap, 1e-3) for gap in one.gap]
        style = {"color": _COLOURS[k % len(_COLOURS)], "linestyle": _DASHES[k % len(_DASHES)]}
        ax.plot(one.seconds, visible, label=one.name, drawstyle="steps-post", **style)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("seconds")
    ax.set_ylabel("mean gap, % of the maximal confidence")
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(title, loc="left")
    save(figure, path)


def draw_split(data: Sequence[TimeSplit], title: str, path: Path) -> None:
    """One bar for each network, divided by phases."""
    figure, (ax,) = new_figure(1.2 + 0.45 * len(data))
    phases = list(dict.fromkeys(phase for one in data for phase in one.seconds))
    for place, one in enumerate(data):
        total, left = sum(one.seconds.values()) or 1.0, 0.0
        for k, phase in enumerate(phases):
            width = 100 * one.seconds.get(phase, 0.0) / total
            colour = _PHASES[k % len(_PHASES)]
            label = phase if place == 0 else None
            ax.barh(place, width, left=left, color=colour, height=0.6, label=label)
            left += width
        ax.text(101, place, f"{total:.1f} s", va="center", fontsize=8)
    ax.set_yticks(range(len(data)), [one.name for one in data])
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("% of the time")
    # Below everything, over the whole width: long names of problems leave the axes little of it.
    figure.legend(frameon=False, fontsize=8, ncols=len(phases), loc="outside lower center")
    ax.set_title(title, loc="left")
    save(figure, path)


def new_figure(height: float, panels: int = 1) -> tuple[Any, list[Any]]:
    """A figure with panels side by side that share their scales."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def save(figure: Any, path: Path) -> None:
    """As PNG, in one step."""
    content = BytesIO()
    figure.savefig(content, format="png", dpi=160)
    write_bytes(path, content.getvalue())
