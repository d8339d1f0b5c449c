"""Three perturbations of one's own: a colour cast, a watermark, and dead rows of a sensor.

    vhagar verify mnist_3x10.onnx --perturbation perturbations.py:dead_rows --source 2 --target 3
    vhagar verify cifar_conv1.onnx --perturbation perturbations.py:colour_cast --source 2

Each says, over a domain, what its map is: `x_p = A x + B e + c`, with every parameter in a range.
Rows, columns and channels of `domain.image` count from 0 here, as numpy's do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vhagar import AffineMap, AffinePerturbation, affine_map
from vhagar.perturbation import Domain


class ColourCast(AffinePerturbation):
    """Every channel changes by an amount of its own, up to `strength`."""

    name = "colour cast"

    def __init__(self, strength: float = 0.05) -> None:
        self.strength = strength

    def arguments(self) -> tuple[str, ...]:
        return (f"{self.strength:g}",)

    def maps(self, domain: Domain) -> Iterator[AffineMap]:
        channels, rows, columns = domain.image
        of_channel = np.repeat(np.eye(channels), rows * columns, axis=0)
        limit = self.strength * domain.width
        yield affine_map(
            domain,
            directions=of_channel,
            ranges=[(-limit, limit)] * channels,
            names=[f"channel {k + 1}" for k in range(channels)],
            label=str(self),
        )


class Watermark(AffinePerturbation):
    """A cross of fixed opacity is blended into a corner; its colour may be anything.

    `x_p = (1 - opacity) x + opacity colour` never leaves the input range. (An opacity from a range
    would multiply `x` by a parameter, which no affine map does.)
    """

    name = "watermark"

    def __init__(self, opacity: float = 0.25, size: int = 7) -> None:
        self.opacity, self.size = opacity, size

    def maps(self, domain: Domain) -> Iterator[AffineMap]:
        logo = np.eye(self.size, dtype=bool) | np.eye(self.size, dtype=bool)[::-1]
        mask = np.zeros(domain.image, dtype=bool)
        mask[:, -self.size :, -self.size :] = logo
        yield affine_map(
            domain,
            matrix=1 - self.opacity,
            directions=np.full((mask.sum(), 1), self.opacity),
            ranges=[(domain.lower, domain.upper)],
            names=["colour"],
            pixels=mask,
            label=str(self),
        )


class DeadRows(AffinePerturbation):
    """One of several bands of rows is stuck: a map for each, with a stuck value for each row."""

    name = "dead rows"

    def __init__(self, first: tuple[int, ...] = (9, 13, 17), count: int = 2) -> None:
        self.first, self.count = first, count

    def maps(self, domain: Domain) -> Iterator[AffineMap]:
        for first in self.first:
            mask = np.zeros(domain.image, dtype=bool)
            mask[:, first : first + self.count] = True
            row = np.broadcast_to(np.arange(domain.image[1])[:, None], domain.image)[mask]
            yield affine_map(
                domain,
                matrix=0.0,
                directions=(row[:, None] == first + np.arange(self.count)).astype(float),
                ranges=[(domain.lower, domain.upper)] * self.count,
                names=[f"row {first + k + 1}" for k in range(self.count)],
                pixels=mask,
                label=f"dead rows from {first + 1}",
            )


colour_cast = ColourCast(0.05)
watermark = Watermark()
dead_rows = DeadRows()
