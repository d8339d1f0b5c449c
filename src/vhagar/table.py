"""Tables of features: a CSV file with a header, and what its columns look like."""

from __future__ import annotations

import csv
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.errors import InvalidInput

# Names of the column with the classes, where none is given.
LABELS = ("class", "label", "target")
# What tables hold where a value is missing.
_MISSING = ("", "nan", "na", "n/a", "null", "none", "?")
# What tables hold instead of 0 and 1.
_TRUTH = {"true": 1.0, "false": 0.0}
Rows = list[tuple[int, list[str]]]
_LOG = logging.getLogger(__name__)


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
    values = _values(names, rows, columns, path)
    labels, classes = _classes([row[marked[0]] for _, row in rows]) if marked else (None, ())
    features = tuple(names[k] for k in columns)
    groups = _one_hot(features, values)
    taken = {k for group in groups for k in group}
    whole = np.flatnonzero((values == np.round(values)).all(axis=0)).tolist()
    integer = tuple(k for k in whole if k not in taken)
    return Table(features, values, labels, classes, integer, groups)


def table_inputs(
    path: Path, size: int, features: Sequence[str] = (), classes: Sequence[str] = ()
) -> tuple[Array, NDArray[np.int64] | None]:
    """The inputs `(count, size)` of a CSV file with a header, and their labels if it has some.

    If features have names, columns are found by them, in any order; otherwise all columns are
    features. Labels are in a column called class, label or target, or in the one further column
    whose cells are all names of `classes`.
    """
    names, rows = _cells(path)
    label = _label_column(names, rows, features, classes)
    others = [k for k in range(len(names)) if k != label]
    if features:
        _check_columns([names[k] for k in others], features, path)
        others = [names.index(name) for name in features]
    elif len(others) != size:
        raise InvalidInput(
            f"{path} has {len(others)} columns of features ({', '.join(names[k] for k in others)})"
            f", but the network's inputs have {size} entries; labels belong in a column called "
            f"{', '.join(LABELS[:-1])} or {LABELS[-1]}. With a domain (--domain, see vhagar domain "
            "fit), columns are found by the names of its features, and labels by those of its "
            "classes"
        )
    values = _values(names, rows, others, path)
    if label is None:
        return values, None
    return values, _numbered([(line, row[label]) for line, row in rows], classes, path)


def _label_column(
    names: Sequence[str], rows: Rows, features: Sequence[str], classes: Sequence[str]
) -> int | None:
    further = [k for k, name in enumerate(names) if name not in features]
    called = [k for k in further if names[k] in LABELS]
    if len(called) == 1:
        return called[0]
    named = [k for k in further if features and all(row[k].strip() in classes for _, row in rows)]
    return named[0] if len(named) == 1 and not called else None


def _check_columns(names: Sequence[str], features: Sequence[str], path: Path) -> None:
    """Raise an error that names the features without a column and the columns without a feature."""
    missing = [name for name in features if name not in names]
    further = [name for name in names if name not in features]
    if not missing and not further:
        return
    found = [f"it has no column {', '.join(missing)}"] if missing else []
    found += [f"the domain has no feature {', '.join(further)}"] if further else []
    raise InvalidInput(
        f"the columns of {path} are not the features of the domain: {'; '.join(found)}. Rename "
        "or leave out columns; labels belong in one called class, label or target"
    )


def _numbered(
    cells: Sequence[tuple[int, str]], classes: Sequence[str], path: Path
) -> NDArray[np.int64] | None:
    """Labels by the names of the classes, or numbers that stand for themselves."""
    found = []
    for line, cell in cells:
        name = cell.strip()
        label = list(classes).index(name) if name in classes else _label(name)
        if label is not None:
            found.append(label)
        elif classes:
            raise InvalidInput(
                f"line {line} of {path} has the class {name!r}; the domain has {', '.join(classes)}"
            )
        else:
            _LOG.warning(
                "%s: the labels are not used, because nothing tells the number of class %r; a "
                "domain file (--domain) lists the names as classes",
                path,
                name,
            )
            return None
    return np.array(found, dtype=np.int64)


def _label(cell: str) -> int | None:
    """The number of a class: `2`, or `2.0` as some programs write it."""
    value = _value(cell)
    return int(value) if value >= 0 and value == round(value) else None


def _values(names: Sequence[str], rows: Rows, columns: Sequence[int], path: Path) -> Array:
    return np.array(
        [
            [_number(row[k], names[k], f"line {line} of {path}") for k in columns]
            for line, row in rows
        ]
    )


def _cells(path: Path) -> tuple[list[str], Rows]:
    """The names of the columns, and the rows with their lines in the file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read the table {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"cannot read the table {path}: it is no text ({error})") from None
    lines = csv.reader(text.splitlines())
    rows = [(lines.line_num, row) for row in lines if row]
    names = [name.strip() for name in rows[0][1]] if rows else []
    if len(rows) < 2:
        raise InvalidInput(f"{path} needs a line of names and at least one line of numbers")
    _check_names(names, path)
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise InvalidInput(f"line {line} of {path} has {len(row)} cells, not {len(names)}")
    return names, rows[1:]


def _check_names(names: Sequence[str], path: Path) -> None:
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise InvalidInput(f"the columns of {path} must be separated by commas")
    # Whole numbers may be names: columns are often numbered.
    numbers = [name for name in names if not name.isdecimal() and math.isfinite(_value(name))]
    if numbers:
        raise InvalidInput(
            f"the first line of {path} must hold the names of the columns, not numbers such as "
            f"{numbers[0]}"
        )
    if not all(names):
        raise InvalidInput(
            f"column {names.index('') + 1} of {path} has no name; give it one, or leave it out "
            "(pandas writes an index there: to_csv(..., index=False) does not)"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidInput(f"two columns of {path} are called {twice[0]!r}; rename one of them")


def _value(cell: str) -> float:
    """The finite number that a cell holds, or NaN."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _number(cell: str, name: str, line: str) -> float:
    value = _TRUTH.get(cell.strip().lower(), _value(cell))
    if math.isfinite(value):
        return value
    if cell.strip().lower() in _MISSING:
        raise InvalidInput(
            f"{line} has no value in the column {name} ({cell!r}); leave the line out, or fill in "
            "a number"
        )
    raise InvalidInput(
        f"{line} has {cell!r} in the column {name}, which is not a finite number; if the column "
        f"holds the classes, name it with --label; otherwise replace it by one column of 0 and 1 "
        "for each of its values"
    )


def _classes(cells: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels from 0, and the names of classes where they have some."""
    numbers = [_label(cell) for cell in cells]
    if None not in numbers:
        return np.array(numbers, dtype=np.int64), ()
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
