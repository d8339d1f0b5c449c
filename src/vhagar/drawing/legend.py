"""The colour scale below a heatmap."""

from __future__ import annotations

import numpy as np

from vhagar.drawing.colours import ramp_pixels
from vhagar.drawing.shapes import Picture, Shape, Text


def legend(x: float, y: float, width: float, largest: float, clipped: bool = False) -> list[Shape]:
    """Return a strip from 0 to the largest value, with its ends and middle labelled.

    If it is clipped, larger values have the last colour, too.
    """
    strip = ramp_pixels(np.linspace(0.0, 1.0, 64)[None])
    shapes: list[Shape] = [Picture(x, y, width, 10, strip)]
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        more = " or more" if clipped and share == 1.0 else ""
        label = f"{share * largest:.3g}{more}"
        shapes.append(Text(x + share * width, y + 26, label, 11, anchor, "muted"))
    return shapes
