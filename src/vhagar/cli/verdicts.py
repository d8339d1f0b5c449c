"""The table of `--verdicts`: what is known of each input of a data set."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np

from vhagar.coverage import SeenData
from vhagar.errors import VhagarError
from vhagar.result import CoverageRows, Result
from vhagar.runtime.output_files import write_bytes

_HEADS = ("input", "label", "class", "confidence", "verdict")
# Confidences are rounded down to multiples of its reciprocal.
_DIGITS = 1e6


def write_verdicts(result: Result, dataset: Path, path: Path) -> None:
    """Write one line for each input of the data set that the result has covered."""
    covered = result.coverage
    if covered is None or covered.rows is None:
        raise VhagarError(f"there are no verdicts in {path}: the run was interrupted before")
    problem = result.problem
    data = SeenData.read(dataset, problem.network, problem.domain)
    verdicts, name = _verdicts(covered.rows), problem.class_name
    own = data.scores.argmax(axis=1)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_HEADS)
    sure = {int(label): data.sure(int(label)) for label in np.unique(own)}
    for place, label in enumerate(own.tolist()):
        given = "" if data.labels is None else name(int(data.labels[place]))
        confidence = math.floor(max(float(sure[label][place]), 0.0) * _DIGITS) / _DIGITS
        verdict = verdicts.get(place, "other class")
        table.writerow((place, given, name(label), confidence, verdict))
    write_bytes(path, text.getvalue().encode())


def _verdicts(rows: CoverageRows) -> dict[int, str]:
    """The verdict on each input of the source class, by its place."""
    each = (
        ("robust", rows.robust),
        ("attacked", rows.attackable),
        ("undecided", rows.unknown),
        ("outside of the domain", rows.outside),
    )
    return {place: verdict for verdict, places in each for place in places}
