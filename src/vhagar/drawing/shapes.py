"""Drawings as plain lists of shapes, rendered as SVG or PNG.

A shape's colour is `#rrggbb`, `none`, or one of the names in `colours.NAMED`, which a page adapts
to light and dark mode. Lengths are in pixels, with the origin in the top left corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.drawing.colours import NAMED
from vhagar.drawing.png import data_uri

Points = Sequence[tuple[float, float]]
_FONT = "system-ui, sans-serif"


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str | None = None
    tip: str = ""  # shown when pointed at
    link: str = ""  # where a click leads, on a page
    round: float = 0.0


@dataclass(frozen=True)
class Text:
    x: float
    y: float  # of the base line
    text: str
    size: float = 12.0
    anchor: str = "start"  # or middle, end
    fill: str = "ink"
    bold: bool = False
    turned: bool = False  # reads from below


@dataclass(frozen=True)
class Line:
    points: Points
    stroke: str = "grid"
    width: float = 1.0
    dashes: str = ""


@dataclass(frozen=True)
class Area:
    points: Points
    fill: str


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels `(rows, columns, 3)`, shown as squares."""

    x: float
    y: float
    width: float
    height: float
    pixels: NDArray[np.uint8]
    tip: str = ""


Shape = Rect | Text | Line | Area | Picture


@dataclass(frozen=True)
class Drawing:
    """Shapes in drawing order, and a title for screen readers."""

    width: float
    height: float
    title: str
    shapes: list[Shape] = field(default_factory=list)

    def svg(self, alone: bool = False) -> str:
        """Render as SVG, for a page that defines the colours, or as a standalone file."""
        colour = _plain_colour if alone else _page_colour
        head = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}" role="img"'
        if alone:
            head = f'xmlns="http://www.w3.org/2000/svg" width="{_n(self.width)}" {head}'
        parts = [f'<svg {head} font-family="{_FONT}">', f"<title>{escape(self.title)}</title>"]
        if alone:
            parts.append(f'<rect width="100%" height="100%" fill="{NAMED["paper"]}"/>')
        parts += [_svg_shape(shape, colour, alone) for shape in self.shapes]
        return "".join([*parts, "</svg>"])

    def png(self, scale: float = 2.0) -> bytes:
        """Render as PNG with matplotlib."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width / 100, self.height / 100), dpi=100 * scale)
        FigureCanvasAgg(figure)
        axes: Any = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        axes.axis("off")
        for order, shape in enumerate(self.shapes):
            _paint(axes, shape, order)
        content = BytesIO()
        figure.savefig(content, format="png", facecolor=NAMED["paper"])
        return content.getvalue()


def _plain_colour(name: str) -> str:
    return NAMED.get(name, name)


def _page_colour(name: str) -> str:
    return f"var(--{name})" if name in NAMED else name


def _svg_shape(shape: Shape, colour: Any, alone: bool) -> str:
    if isinstance(shape, Rect):
        return _svg_rect(shape, colour, alone)
    if isinstance(shape, Text):
        weight = ' font-weight="600"' if shape.bold else ""
        turn = f' transform="rotate(-90 {_n(shape.x)} {_n(shape.y)})"' if shape.turned else ""
        anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        return (
            f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" '
            f'fill="{colour(shape.fill)}"{anchor}{weight}{turn}>{escape(shape.text)}</text>'
        )
    if isinstance(shape, Line):
        dashes = f' stroke-dasharray="{shape.dashes}"' if shape.dashes else ""
        return (
            f'<polyline points="{_points(shape.points)}" fill="none" '
            f'stroke="{colour(shape.stroke)}" stroke-width="{_n(shape.width)}"{dashes}/>'
        )
    if isinstance(shape, Area):
        return f'<polygon points="{_points(shape.points)}" fill="{colour(shape.fill)}"/>'
    tip = f"<title>{escape(shape.tip)}</title>" if shape.tip else ""
    return (
        f'<image x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" '
        f'height="{_n(shape.height)}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{data_uri(shape.pixels)}">{tip}</image>'
    )


def _svg_rect(shape: Rect, colour: Any, alone: bool) -> str:
    stroke = f' stroke="{colour(shape.stroke)}"' if shape.stroke else ""
    corner = f' rx="{_n(shape.round)}"' if shape.round else ""
    tip = f"<title>{escape(shape.tip)}</title>" if shape.tip else ""
    text = (
        f'<rect x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" '
        f'height="{_n(shape.height)}" fill="{colour(shape.fill)}"{stroke}{corner}>{tip}</rect>'
    )
    return text if alone or not shape.link else f'<a href="{escape(shape.link)}">{text}</a>'


def _paint(axes: Any, shape: Shape, order: int) -> None:
    from matplotlib.patches import Polygon, Rectangle

    colour = _plain_colour
    if isinstance(shape, Rect):
        edge = colour(shape.stroke) if shape.stroke else "none"
        axes.add_patch(
            Rectangle(
                (shape.x, shape.y),
                shape.width,
                shape.height,
                facecolor=colour(shape.fill),
                edgecolor=edge,
                linewidth=0.7,
                zorder=order,
            )
        )
    elif isinstance(shape, Text):
        axes.text(
            shape.x,
            shape.y,
            shape.text.replace("$", r"\$"),
            fontsize=0.72 * shape.size,
            color=colour(shape.fill),
            ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
            va="baseline",
            fontweight="bold" if shape.bold else "normal",
            rotation=90 if shape.turned else 0,
            rotation_mode="anchor",
            zorder=order,
        )
    elif isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        style = "--" if shape.dashes else "-"
        axes.plot(
            xs, ys, style, color=colour(shape.stroke), linewidth=0.72 * shape.width, zorder=order
        )
    elif isinstance(shape, Area):
        axes.add_patch(Polygon(list(shape.points), facecolor=colour(shape.fill), zorder=order))
    else:
        left, right = shape.x, shape.x + shape.width
        top, bottom = shape.y, shape.y + shape.height
        axes.imshow(
            shape.pixels,
            extent=(left, right, bottom, top),
            interpolation="nearest",
            aspect="auto",
            zorder=order,
        )
        axes.set_xlim(0, axes.figure.get_figwidth() * 100)
        axes.set_ylim(axes.figure.get_figheight() * 100, 0)


def _points(points: Points) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
