"""Colours that people with any kind of colour vision can tell apart, on light and dark pages.

Ramps change in lightness from end to end; categories differ in more than red and green. The
categorical colours are those of Okabe and Ito, "Color Universal Design" (2008).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array

Pixels = NDArray[np.uint8]

# Colours of standalone files; a page has them as CSS variables, for light and dark mode.
NAMED = {
    "ink": "#1d2733",
    "muted": "#5d6a78",
    "grid": "#d6dce3",
    "paper": "#ffffff",
    "attackable": "#d55e00",
    "robust": "#0072b2",
    "unknown": "#f3dfa2",
    "empty": "#e9edf1",
}

# From little to much: light to dark.
_RAMP = ("#fff6d5", "#d3e8b6", "#86cbb6", "#43a2bb", "#2b6fa9", "#2a3f82", "#1b1f4f")
# From less to more, white in the middle.
_DIVERGING = ("#08519c", "#6baed6", "#f7f7f7", "#fd8d3c", "#a63603")


def ramp(share: float) -> str:
    """The colour for a share from 0 to 1."""
    return _hex(_mix(_RAMP, np.asarray(share)))


def ramp_pixels(shares: Array) -> Pixels:
    """Colours `(..., 3)` for shares from 0 to 1; NaN has the colour of an empty cell."""
    known = np.isfinite(shares)
    found = _mix(_RAMP, np.where(known, shares, 0.0))
    found[~known] = _rgb(NAMED["empty"])
    return found


def diverging_pixels(values: Array, reach: float) -> Pixels:
    """Colours `(..., 3)` for values from `-reach` to `reach`."""
    return _mix(_DIVERGING, (values / (reach or 1.0) + 1) / 2)


def text_on(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    # Both have the same contrast at (l + 0.05)^2 = 0.05 * 1.05.
    return "#000000" if luminance(colour) > 0.18 else "#ffffff"


def luminance(colour: str) -> float:
    """Relative luminance, from 0 to 1."""
    red, green, blue = (_linear(channel / 255) for channel in _rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4


def _mix(anchors: tuple[str, ...], shares: Array) -> Pixels:
    table = np.array([_rgb(anchor) for anchor in anchors], dtype=np.float64)
    place = np.clip(shares, 0.0, 1.0) * (len(table) - 1)
    below = np.minimum(place.astype(np.int64), len(table) - 2)
    part = (place - below)[..., None]
    mixed = table[below] * (1 - part) + table[below + 1] * part
    pixels: Pixels = np.round(mixed).astype(np.uint8)
    return pixels


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hex(pixel: Pixels) -> str:
    red, green, blue = (int(channel) for channel in pixel)
    return f"#{red:02x}{green:02x}{blue:02x}"
