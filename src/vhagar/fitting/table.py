"""Tables of features: a CSV file with a header, and what its columns look like."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import InvalidInput

Array = NDArray[np.float64]

# Names of the column with the classes, where none is given.
LABELS = ("class", "label", "target")


@dataclass(frozen=True, eq=False)
class Table:
    """The rows `(count, features)` of a table, with names; `labels` and `classes` if it has some.

    `integer` are the columns that hold whole numbers, and `one_hot` groups of columns of which one
    is 1 and the others are 0 in every row. Both are guesses: the next row may be another.
    """

    features: tuple[str, ...]
    values: Array
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    integer: tuple[int, ...]
    one_hot: tuple[tuple[int, ...], ...]


def read_table(path: str | Path, label: str | None = None) -> Table:
    """Read a CSV file with a header.

    `label` names the column with the classes; without it, that is one called class, label or
    target. Texts there are numbered in alphabetical order, and numbers stand for themselves.
    """
    path = Path(path)
    names, rows = _cells(path)
    if label is not None and label not in names:
        raise InvalidInput(f"{path} has no column {label!r}; it has {', '.join(names)}")
    marked = [k for k, name in enumerate(names) if name == label or (not label and name in LABELS)]
    if len(marked) > 1:
        raise InvalidInput(f"several columns of {path} could be the classes; name one with --label")
    columns = [k for k in range(len(names)) if k not in marked]
    if not columns:
        raise InvalidInput(f"{path} has no column of a feature")
    values = np.array([[_number(row[k], names[k], path) for k in columns] for row in rows])
    labels, classes = _classes([row[marked[0]] for row in rows]) if marked else (None, ())
    features = tuple(names[k] for k in columns)
    groups = _one_hot(features, values)
    taken = {k for group in groups for k in group}
    whole = np.flatnonzero((values == np.round(values)).all(axis=0)).tolist()
    integer = tuple(k for k in whole if k not in taken)
    return Table(features, values, labels, classes, integer, groups)


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the table {path}: {error}") from None
    rows = [row for row in csv.reader(text.splitlines()) if row]
    names = [name.strip() for name in rows[0]] if rows else []
    if len(rows) < 2:
        raise InvalidInput(f"{path} needs a line of names and at least one line of numbers")
    if not all(names) or len(set(names)) < len(names):
        raise InvalidInput(f"the columns of {path} need names, each its own")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise InvalidInput(f"line {number} of {path} has {len(row)} cells, not {len(names)}")
    return names, rows[1:]


def _number(cell: str, name: str, path: Path) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(
            f"the column {name} of {path} holds {cell!r}, which is no number; make a column of 0 "
            "and 1 for each of its values, and leave out rows that lack one"
        )
    return value


def _classes(cells: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels from 0, and the names of classes where they have some."""
    if all(cell.strip().isdecimal() for cell in cells):
        return np.array([int(cell) for cell in cells], dtype=np.int64), ()
    names = tuple(sorted({cell.strip() for cell in cells}))
    return np.array([names.index(cell.strip()) for cell in cells], dtype=np.int64), names


def _one_hot(names: Sequence[str], values: Array) -> tuple[tuple[int, ...], ...]:
    """Neighbouring columns of 0 and 1 whose names begin alike and whose sum is 1 in every row."""
    binary = ((values == 0) | (values == 1)).all(axis=0)
    found = []
    for _, members in groupby(range(len(names)), key=lambda k: (bool(binary[k]), _stem(names[k]))):
        group = tuple(members)
        hot = len(group) > 1 and bool(binary[list(group)].all())
        if hot and (values[:, group].sum(axis=1) == 1).all():
            found.append(group)
    return tuple(found)


def _stem(name: str) -> str:
    """`colour` for `colour=red`, `colour_red` and `colour[red]`."""
    for mark in ("=", "[", "_"):
        stem, found, _ = name.rpartition(mark) if mark == "_" else name.partition(mark)
        if found:
            return stem
    return name
