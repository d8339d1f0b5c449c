"""The interface of figures: plain data that can draw itself and be written as a table."""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from vhagar.drawing.shapes import Drawing

Cell = str | float | int | None
# How a text begins that spreadsheets execute; a class may be called -1.
_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+\Z)")


class AbstractFigure(ABC):
    """Plain data behind a figure. The data is what is tested."""

    title: str

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, unique in the report."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The column titles of the table."""

    @abstractmethod
    def rows(self) -> Sequence[Sequence[Cell]]:
        """The rows of the table: all numbers that the figure shows, with all digits."""

    @abstractmethod
    def draw(self) -> Drawing:
        """Draw the figure."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Write a table as CSV text; numbers have all their digits, and unknown values are empty.

    Names come from others' files, so a text that a spreadsheet would execute begins with a quote.
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(map(_written, row))
    return target.getvalue()


def _written(cell: Cell) -> Cell:
    if isinstance(cell, str):
        quote = "'" if _FORMULA.match(cell) else ""
        return quote + cell.replace("\r", " ")  # which would begin another row
    return repr(cell) if isinstance(cell, float) else cell


def slug(*parts: object) -> str:
    """Join parts to a file name of letters, digits, points and dashes."""
    text = "-".join(str(part) for part in parts)
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")
