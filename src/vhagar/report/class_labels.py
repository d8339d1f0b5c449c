"""Labels of classes beside and below a heatmap: numbers, or names that may be long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vhagar.drawing.shapes import Shape, Text

# The size of a cell, and the usual margin beside the first.
CELL, _LEFT = 46.0, 58.0
# Longer names are cut off.
_LONGEST = 18
# Names of more letters than these have no room below a cell, and are turned.
_WIDEST = 5
# Room that is always there, in letters, and the width of a letter.
_ROOM, _LETTER = 3, 7.2


def short_name(name: str) -> str:
    """A name as a label: the beginning of a long one."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\u2026"


def extra_width(names: Sequence[str]) -> float:
    """How much wider than usual a margin must be for labels."""
    longest = max((len(short_name(name)) for name in names), default=0)
    return _LETTER * max(longest - _ROOM, 0)


@dataclass(frozen=True)
class ClassLabels:
    """The names of sources and targets of a heatmap."""

    sources: Sequence[str]
    targets: Sequence[str]

    @property
    def height(self) -> float:
        """The room that names of targets need below the usual line."""
        return extra_width(self.targets) if self._turned else 0.0

    @property
    def _turned(self) -> bool:
        return any(len(name) > _WIDEST for name in self.targets)

    @property
    def left(self) -> float:
        """Where the first column of cells begins."""
        return _LEFT + extra_width(self.sources)

    def axes(self, heading: str, top: float) -> list[Shape]:
        """The heading of a figure of pairs of classes, and the labels of its rows and columns."""
        left, bottom = self.left, top + CELL * len(self.sources)
        below, across = bottom + self.height, left + CELL * len(self.targets) / 2
        shapes: list[Shape] = [
            Text(left, 20, heading, 15, bold=True),
            Text(16, (top + bottom) / 2, "source", 12, "middle", "muted", turned=True),
            Text(across, below + 34, "target", 12, "middle", "muted"),
        ]
        for k, name in enumerate(self.sources):
            shapes.append(Text(left - 10, top + CELL * (k + 0.5) + 4, short_name(name), 13, "end"))
        for k, name in enumerate(self.targets):
            middle = left + CELL * (k + 0.5)
            if self._turned:
                shapes.append(
                    Text(middle + 4, bottom + 6, short_name(name), 13, "end", turned=True)
                )
            else:
                shapes.append(Text(middle, bottom + 17, name, 13, "middle"))
        return shapes
