"""The colour scale below a heatmap."""

from __future__ import annotations

import numpy as np

from vhagar.drawing.colours import ramp_pixels
from vhagar.drawing.shapes import Picture, Shape, Text


def legend(x: float, y: float, width: float, largest: float) -> list[Shape]:
    """Return a strip from 0 to the largest value, with its ends and middle labelled."""
    strip = ramp_pixels(np.linspace(0.0, 1.0, 64)[None])
    shapes: list[Shape] = [Picture(x, y, width, 10, strip)]
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        shapes.append(
            Text(x + share * width, y + 26, f"{share * largest:.3g}", 11, anchor, "muted")
        )
    return shapes
