"""What the figures are drawn from: files of results, read as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paper_figures import TimeSplit
from script import csv_rows

from vhagar import read_onnx
from vhagar.errors import InvalidInput
from vhagar.network.fingerprint import fingerprint
from vhagar.report.data import Entry, Group, NetworkFacts, StudyData, TargetInterval
from vhagar.report.export import csv_text
from vhagar.result import BoundKind, Moment
from vhagar.runtime.output_files import write_bytes
from vhagar.sweep.question import Question


@dataclass(frozen=True)
class Stage:
    """The bounds of one variant of the paper's method over processor seconds."""

    name: str
    moments: tuple[Moment, ...]


_STAGE_COLUMNS = ("stage", "seconds", "lower", "upper")


def write_stages(path: Path, stages: Sequence[Stage]) -> None:
    """The bounds of all stages as one table."""
    rows = [
        (one.name, round(moment.seconds, 3), moment.lower, moment.upper)
        for one in stages
        for moment in one.moments
    ]
    write_bytes(path, csv_text(_STAGE_COLUMNS, rows).encode())


def read_stages(path: Path) -> list[Stage]:
    """The stages as they were written."""
    found: dict[str, list[Moment]] = {}
    for row in _rows(path):
        moment = Moment(*(float(row[name]) for name in _STAGE_COLUMNS[1:]))
        found.setdefault(row["stage"], []).append(moment)
    return [Stage(name, tuple(moments)) for name, moments in found.items()]


def facts_of(model: Path) -> NetworkFacts:
    """What figures need to know of a network."""
    network = read_onnx(model)
    shape = tuple(network.input_shape)
    return NetworkFacts(model.stem, fingerprint(network), model.name, network.classes, shape)


def read_study(
    path: Path, facts_of: Callable[[str], NetworkFacts], unclipped: str | None = None
) -> StudyData:
    """A study from the table of all results that `vhagar report --figures` writes.

    The table does not say what was clipped: `unclipped` names a kind of perturbation that was not.
    """
    problems: dict[int, list[dict[str, str]]] = {}
    for row in _rows(path):
        problems.setdefault(int(row["problem"]), []).append(row)
    names = dict.fromkeys(rows[0]["network"] for rows in problems.values())
    networks = {name: facts_of(name) for name in names}
    entries = [
        _entry(number, rows, networks[rows[0]["network"]], unclipped)
        for number, rows in problems.items()
    ]
    return StudyData(path.stem, tuple(networks.values()), tuple(entries))


def _entry(
    number: int, rows: Sequence[dict[str, str]], facts: NetworkFacts, unclipped: str | None
) -> Entry:
    first = rows[0]
    perturbation, source = first["perturbation"], int(first["source"])
    clip = perturbation.partition("(")[0] != unclipped
    targets = tuple(int(row["target"]) for row in rows)
    question = Question(facts.fingerprint, perturbation, source, targets, clip)
    group = Group(facts.name, facts.fingerprint, perturbation, clip)
    ends = tuple(
        TargetInterval(
            int(row["target"]),
            float(row["lower"]),
            float(row["upper"]) if row["upper"] else math.inf,
            BoundKind[row["bound"].upper()] if row["bound"] else None,
        )
        for row in rows
    )
    return Entry(number, question, group, first["status"], ends)


_SPLIT_COLUMNS = ("engine", "problem", "part", "seconds")


def write_splits(path: Path, splits: dict[str, list[TimeSplit]]) -> None:
    """All splits of all engines as one table."""
    rows = [
        (engine, one.name, part, round(seconds, 3))
        for engine, found in splits.items()
        for one in found
        for part, seconds in one.seconds.items()
    ]
    write_bytes(path, csv_text(_SPLIT_COLUMNS, rows).encode())


def read_splits(path: Path) -> dict[str, list[TimeSplit]]:
    """The splits of each engine, as they were written."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in _rows(path):
        problems = found.setdefault(row["engine"], {})
        problems.setdefault(row["problem"], {})[row["part"]] = float(row["seconds"])
    return {
        engine: [TimeSplit(name, seconds) for name, seconds in problems.items()]
        for engine, problems in found.items()
    }


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise InvalidInput(f"{path} does not exist; docs/figures.md says how to make it")
    return csv_rows(path)
