"""One perturbation for every square of an image: the grids of a study."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain, Perturbation
from vhagar.perturbation.occlusion import Occlusion
from vhagar.perturbation.patch import Patch


@dataclass(frozen=True)
class Grid:
    """One perturbation for every square of an image: `kind` is `occlusion` or `patch`.

    The squares have width `size` and start every `step` pixels (side by side by default); the last
    row and column move inward so that the squares cover the image. Pixels of a patch change by up
    to `limit`.
    """

    kind: str
    size: int
    step: int | None = None
    limit: float = 1.0

    def perturbations(self, domain: Domain) -> list[Perturbation]:
        """List the perturbations of all squares, row by row."""
        if self.kind not in ("occlusion", "patch"):
            raise InvalidInput(
                f"a grid consists of occlusion or patch squares, not of {self.kind!r}"
            )
        _, height, width = domain.image
        if not 1 <= self.size <= min(height, width):
            raise InvalidInput(
                f"squares of width {self.size} do not fit the {height}x{width} image; "
                f"the width can be 1 to {min(height, width)}"
            )
        step = self.size if self.step is None else self.step
        if step < 1:
            raise InvalidInput(f"the step of a grid must be at least 1, not {step}")
        return [
            Occlusion(row, column, self.size)
            if self.kind == "occlusion"
            else Patch((0.0, self.limit), row, column, self.size)
            for row in _starts(height, self.size, step)
            for column in _starts(width, self.size, step)
        ]


def _starts(length: int, size: int, step: int) -> list[int]:
    """The first pixels, counted from 1, of squares that cover a line of pixels."""
    last = length - size + 1
    starts = list(range(1, last + 1, step))
    return starts if starts[-1] == last else [*starts, last]


def grid_of(entry: Any) -> Grid:
    """Read a grid from TOML or JSON values."""
    try:
        grid = Grid(**entry)
    except TypeError:
        raise InvalidInput(f"invalid grid {entry!r}; valid keys: kind, size, step, limit") from None
    whole = [grid.size] if grid.step is None else [grid.size, grid.step]
    if not (all(type(value) is int for value in whole) and is_number(grid.limit)):
        raise InvalidInput(
            f"a grid's size and step are whole numbers, its limit a number: {entry!r}"
        )
    return grid


def is_number(value: Any) -> bool:
    """Whether a value is a number of float64; TOML and JSON have whole numbers of any size."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return False
    return isinstance(value, int | float) and not isinstance(value, bool)
