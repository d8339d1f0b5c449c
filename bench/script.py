"""What scripts have in common: reading CSV files, and words for what is wrong with their input."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

from vhagar.errors import InvalidInput, VhagarError

_Given = ParamSpec("_Given")


def in_words(main: Callable[_Given, int | None]) -> Callable[_Given, int]:
    """Make of a script's `main` one that returns an exit code.

    What is wrong with its input is one sentence and the exit code 2, as for `vhagar`.
    """

    @wraps(main)
    def answered(*given: _Given.args, **named: _Given.kwargs) -> int:
        try:
            return main(*given, **named) or 0
        except VhagarError as error:
            text = str(error)
        except OSError as error:
            text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"{Path(main.__code__.co_filename).name}: error: {text}", file=sys.stderr)
        return 2

    return answered


def csv_rows(path: Path, *columns: str) -> list[dict[str, str]]:
    """Read the rows of a CSV file that must have some columns."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InvalidInput(f"{path} has no column {missing[0]}; it needs {', '.join(columns)}")
        return list(reader)
