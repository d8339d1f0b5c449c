"""Drawings as plain lists of shapes, rendered as SVG or PNG.

A shape's colour is `#rrggbb`, `none`, or one of the names in `colours.NAMED`, which a page adapts
to light and dark mode. Lengths are in pixels, with the origin in the top left corner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.drawing.colours import NAMED, ramp_pixels
from vhagar.drawing.png import data_uri

Points = Sequence[tuple[float, float]]
# What a colour's name stands for.
Colour = Callable[[str], str]
_FONT = "system-ui, sans-serif"


class AbstractShape(ABC):
    """One part of a drawing."""

    @abstractmethod
    def svg(self, colour: Colour, alone: bool) -> str:
        """An SVG element; `alone` in a file without links."""

    @abstractmethod
    def paint(self, axes: Any, order: int) -> None:
        """Paint with matplotlib, above all shapes of a lower order."""


@dataclass(frozen=True)
class Rect(AbstractShape):
    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str | None = None
    tip: str = ""  # shown when pointed at
    link: str = ""  # where a click leads, on a page
    round: float = 0.0

    def svg(self, colour: Colour, alone: bool) -> str:
        stroke = f' stroke="{colour(self.stroke)}"' if self.stroke else ""
        corner = f' rx="{_n(self.round)}"' if self.round else ""
        tip = f"<title>{escape(self.tip)}</title>" if self.tip else ""
        text = (
            f'<rect x="{_n(self.x)}" y="{_n(self.y)}" width="{_n(self.width)}" '
            f'height="{_n(self.height)}" fill="{colour(self.fill)}"{stroke}{corner}>{tip}</rect>'
        )
        return text if alone or not self.link else f'<a href="{escape(self.link)}">{text}</a>'

    def paint(self, axes: Any, order: int) -> None:
        from matplotlib.patches import Rectangle

        edge = _plain_colour(self.stroke) if self.stroke else "none"
        patch = Rectangle((self.x, self.y), self.width, self.height, linewidth=0.7, zorder=order)
        patch.set(facecolor=_plain_colour(self.fill), edgecolor=edge)
        axes.add_patch(patch)


@dataclass(frozen=True)
class Text(AbstractShape):
    x: float
    y: float  # of the base line
    text: str
    size: float = 12.0
    anchor: str = "start"  # or middle, end
    fill: str = "ink"
    bold: bool = False
    turned: bool = False  # reads from below

    def svg(self, colour: Colour, alone: bool) -> str:
        weight = ' font-weight="600"' if self.bold else ""
        turn = f' transform="rotate(-90 {_n(self.x)} {_n(self.y)})"' if self.turned else ""
        anchor = "" if self.anchor == "start" else f' text-anchor="{self.anchor}"'
        return (
            f'<text x="{_n(self.x)}" y="{_n(self.y)}" font-size="{_n(self.size)}" '
            f'fill="{colour(self.fill)}"{anchor}{weight}{turn}>{escape(self.text)}</text>'
        )

    def paint(self, axes: Any, order: int) -> None:
        axes.text(
            self.x,
            self.y,
            self.text.replace("$", r"\$"),
            fontsize=0.72 * self.size,
            color=_plain_colour(self.fill),
            ha={"start": "left", "middle": "center", "end": "right"}[self.anchor],
            va="baseline",
            fontweight="bold" if self.bold else "normal",
            rotation=90 if self.turned else 0,
            rotation_mode="anchor",
            zorder=order,
        )


@dataclass(frozen=True)
class Line(AbstractShape):
    points: Points
    stroke: str = "grid"
    width: float = 1.0

    def svg(self, colour: Colour, alone: bool) -> str:
        return (
            f'<polyline points="{_points(self.points)}" fill="none" '
            f'stroke="{colour(self.stroke)}" stroke-width="{_n(self.width)}"/>'
        )

    def paint(self, axes: Any, order: int) -> None:
        xs, ys = zip(*self.points, strict=True)
        width = 0.72 * self.width
        axes.plot(xs, ys, color=_plain_colour(self.stroke), linewidth=width, zorder=order)


@dataclass(frozen=True)
class Area(AbstractShape):
    points: Points
    fill: str

    def svg(self, colour: Colour, alone: bool) -> str:
        return f'<polygon points="{_points(self.points)}" fill="{colour(self.fill)}"/>'

    def paint(self, axes: Any, order: int) -> None:
        from matplotlib.patches import Polygon

        inside = _plain_colour(self.fill)
        axes.add_patch(Polygon(list(self.points), facecolor=inside, zorder=order))


@dataclass(frozen=True, eq=False)
class Picture(AbstractShape):
    """Pixels `(rows, columns, 3)`, shown as squares."""

    x: float
    y: float
    width: float
    height: float
    pixels: NDArray[np.uint8]

    def svg(self, colour: Colour, alone: bool) -> str:
        return (
            f'<image x="{_n(self.x)}" y="{_n(self.y)}" width="{_n(self.width)}" '
            f'height="{_n(self.height)}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="{data_uri(self.pixels)}"></image>'
        )

    def paint(self, axes: Any, order: int) -> None:
        extent = (self.x, self.x + self.width, self.y + self.height, self.y)
        axes.imshow(
            self.pixels, extent=extent, interpolation="nearest", aspect="auto", zorder=order
        )
        axes.set_xlim(0, axes.figure.get_figwidth() * 100)
        axes.set_ylim(axes.figure.get_figheight() * 100, 0)


Shape = Rect | Text | Line | Area | Picture


def legend(x: float, y: float, width: float, largest: float, clipped: bool = False) -> list[Shape]:
    """The colour scale of a heatmap: a strip from 0 to the largest value, labelled below.

    If it is clipped, larger values have the last colour, too.
    """
    strip = ramp_pixels(np.linspace(0.0, 1.0, 64)[None])
    shapes: list[Shape] = [Picture(x, y, width, 10, strip)]
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        more = " or more" if clipped and share == 1.0 else ""
        label = f"{share * largest:.3g}{more}"
        shapes.append(Text(x + share * width, y + 26, label, 11, anchor, "muted"))
    return shapes


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
        parts += [shape.svg(colour, alone) for shape in self.shapes]
        return "".join([*parts, "</svg>"])

    def png(self, scale: float = 2.0) -> bytes:
        """Render as PNG with matplotlib, with that many pixels per unit."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width / 100, self.height / 100), dpi=100 * scale)
        FigureCanvasAgg(figure)
        axes: Any = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        axes.axis("off")
        for order, shape in enumerate(self.shapes):
            shape.paint(axes, order)
        content = BytesIO()
        figure.savefig(content, format="png", facecolor=NAMED["paper"])
        return content.getvalue()


def _plain_colour(name: str) -> str:
    return NAMED.get(name, name)


def _page_colour(name: str) -> str:
    return f"var(--{name})" if name in NAMED else name


def _points(points: Points) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
