"""The table of `--verdicts`: what is known of each input of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context
from pathlib import Path

import numpy as np

from vhagar.coverage import SeenData
from vhagar.drawing.figure import Cell, csv_text
from vhagar.errors import VhagarError
from vhagar.problem import Problem
from vhagar.result import CoverageRows, Result
from vhagar.runtime.output_files import write_bytes

_HEADS = ("input", "label", "class", "confidence", "verdict")
_ROUNDED_DOWN = Context(prec=7, rounding=ROUND_FLOOR)


def write_verdicts(result: Result, data: SeenData | None, path: Path) -> None:
    """Write one line for each input of the data set that the result has covered."""
    covered = result.coverage
    if data is None or covered is None or covered.rows is None:
        raise VhagarError(f"there are no verdicts in {path}: the run was interrupted before")
    write_bytes(path, csv_text(_HEADS, _lines(result.problem, data, covered.rows)).encode())


def _lines(problem: Problem, data: SeenData, rows: CoverageRows) -> Iterator[tuple[Cell, ...]]:
    verdicts, name = _verdicts(rows), problem.class_name
    own = data.scores.argmax(axis=1)
    sure = {int(label): data.sure(int(label)) for label in np.unique(own)}
    for place, label in enumerate(own.tolist()):
        given = "" if data.labels is None else name(int(data.labels[place]))
        confidence = float(sure[label][place])
        # Another score may be as high.
        other = "other class" if confidence > 0 else "no certain class"
        yield place, given, name(label), rounded_down(confidence), verdicts.get(place, other)


def rounded_down(confidence: float) -> str:
    """Seven digits of a confidence, never more than it; empty if it is unknown."""
    if not math.isfinite(confidence):
        return ""
    return str(_ROUNDED_DOWN.create_decimal_from_float(max(confidence, 0.0)))


def _verdicts(rows: CoverageRows) -> dict[int, str]:
    """The verdict on each input of the source class, by its place."""
    each = (
        ("robust", rows.robust),
        ("attacked", rows.attackable),
        ("undecided", rows.unknown),
        ("outside of the domain", rows.outside),
    )
    return {place: verdict for verdict, places in each for place in places}
