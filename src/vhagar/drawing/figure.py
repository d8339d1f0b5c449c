"""What every figure of a report is: plain data that can draw itself and write itself as a table."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from vhagar.drawing.shapes import Drawing

Cell = str | float | int | None


class AbstractFigure(ABC):
    """Plain data behind a picture. The data is what is tested."""

    title: str

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, different from every other figure's of the report."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The heads of the table."""

    @abstractmethod
    def rows(self) -> Sequence[Sequence[Cell]]:
        """The table: all numbers that the picture shows, with all their digits."""

    @abstractmethod
    def draw(self) -> Drawing:
        """The picture."""


def slug(*parts: object) -> str:
    """Parts of a name as a file's name: letters, digits, points and dashes."""
    text = "-".join(str(part) for part in parts)
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")
