"""The inputs that a perturbation is about."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import InvalidInput

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """The inputs: every entry of a tensor of `shape` lies in `[lower, upper]`; `lower` is black."""

    shape: Shape
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))
        if not (math.isfinite(self.lower) and math.isfinite(self.upper - self.lower)):
            raise InvalidInput(f"the input range {self.lower},{self.upper} is not finite")
        if self.lower >= self.upper:
            raise InvalidInput(
                f"the input range needs lower < upper, not {self.lower},{self.upper}"
            )

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def magnitude(self) -> float:
        """The largest absolute value an entry can have."""
        return max(abs(self.lower), abs(self.upper))

    def part(self, size: int) -> Domain:
        """So many entries with the same range."""
        return Domain((size,), self.lower, self.upper)

    @property
    def image(self) -> tuple[int, int, int]:
        """`(channels, rows, columns)`; an error where the input is not an image."""
        if len(self.shape) == 2:
            return (1, *self.shape)
        if len(self.shape) == 3:
            return self.shape
        raise InvalidInput(
            f"this perturbation needs an image (channels, rows, columns), but the network's input "
            f"has shape {self.shape}; if it is an image, give its shape with --image-shape C,H,W "
            "(image_shape=...), else use linf, brightness or contrast"
        )
