"""Pictures of stages, class pairs and places in the image; the heatmaps are those of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from figure_data import Stage
from paper_figures import new_figure, save

from vhagar.drawing.colours import NAMED
from vhagar.drawing.figure import AbstractFigure
from vhagar.drawing.shapes import Area, Drawing, Line, Shape, Text
from vhagar.errors import InvalidInput
from vhagar.report.data import StudyData
from vhagar.report.pairs import pair_heatmaps
from vhagar.report.spatial import spatial_heatmaps
from vhagar.runtime.output_files import write_bytes

_GAP, _HEADING = 18.0, 34.0
# Several heatmaps in one picture: small files, and still sharp enough to read.
_SCALE = 1.1


def draw_stages(data: Sequence[Stage], title: str, path: Path) -> None:
    """A panel for each stage: lower and upper bound over time, on the same scales."""
    if not data:
        raise InvalidInput(f"there is no run to draw for {title}")
    figure, axes = new_figure(3.0, len(data))
    for ax, stage in zip(axes, data, strict=True):
        _panel(ax, stage)
    axes[0].set_ylabel("confidence")
    axes[-1].legend(frameon=False, fontsize=8, loc="upper right")
    figure.suptitle(title, x=0.01, ha="left")
    save(figure, path)


def _panel(ax: Any, stage: Stage) -> None:
    times = [moment.seconds for moment in stage.moments]
    lower = [moment.lower for moment in stage.moments]
    upper = [moment.upper for moment in stage.moments]
    ax.fill_between(times, lower, upper, step="post", color=NAMED["unknown"], linewidth=0)
    style = {"drawstyle": "steps-post", "linewidth": 1.4}
    ax.plot(times, upper, label="upper", color=NAMED["robust"], **style)
    ax.plot(times, lower, label="lower", color=NAMED["attackable"], **style)
    ax.set_title(f"{stage.name}\n[{lower[-1]:.3g}, {upper[-1]:.3g}]", fontsize=9)
    ax.set_xlabel("processor seconds")
    ax.set_ylim(bottom=0)


def draw_pairs(study: StudyData, measure: str, path: Path, columns: int = 2) -> None:
    """The heatmaps of all pairs of classes, one for each network and perturbation.

    One of which nothing is known is left out.
    """
    chosen = [
        one
        for one in pair_heatmaps(study)
        if one.measure == measure and any(cell.upper < math.inf for cell in one.cells)
    ]
    _write(chosen, [one.group.label for one in chosen], columns, path)


def draw_spatial(
    study: StudyData,
    measures: Sequence[str],
    targets: Sequence[int | None],
    path: Path,
    columns: int = 2,
) -> None:
    """The heatmaps over the image for these targets; None is any target."""
    chosen = [
        one
        for one in spatial_heatmaps(study)
        if one.measure in measures and one.map.target in targets
    ]
    _write(chosen, [one.map.kind_label for one in chosen], columns, path)


def _write(
    figures: Sequence[AbstractFigure], headings: Sequence[str], columns: int, path: Path
) -> None:
    if not figures:
        raise InvalidInput(f"there is nothing to draw in {path.name}")
    drawings = [one.draw() for one in figures]
    write_bytes(path, side_by_side(drawings, headings, columns).png(scale=_SCALE))


def side_by_side(drawings: Sequence[Drawing], headings: Sequence[str], columns: int) -> Drawing:
    """Drawings of the same size in rows, each under its heading."""
    wide = max(one.width for one in drawings) + _GAP
    high = max(one.height for one in drawings) + _HEADING
    shapes: list[Shape] = []
    for place, (drawing, heading) in enumerate(zip(drawings, headings, strict=True)):
        down, across = divmod(place, columns)
        x, y = across * wide, down * high
        shapes.append(Text(x + wide / 2, y + 22, heading, 15, "middle", bold=True))
        shapes += [_moved(shape, x, y + _HEADING) for shape in drawing.shapes]
    rows = -(-len(drawings) // columns)
    width = wide * min(columns, len(drawings))
    return Drawing(width, high * rows, "; ".join(headings), shapes)


def _moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Line | Area):
        return replace(shape, points=[(px + x, py + y) for px, py in shape.points])
    return replace(shape, x=shape.x + x, y=shape.y + y)
