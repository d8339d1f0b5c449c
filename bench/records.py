"""What the suite measures, and the files it is kept in."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from vhagar import Interval
from vhagar.result import BoundKind
from vhagar.runtime.output_files import write_bytes


@dataclass(frozen=True)
class Instance:
    """One line of a suite."""

    number: int
    network: str
    perturbation: str
    clip: bool
    source: int
    target: int

    def __str__(self) -> str:
        clip = "" if self.clip else " unclipped"
        return f"{self.network} {self.perturbation}{clip} {self.source}->{self.target}"


@dataclass(frozen=True)
class Run:
    """What one engine made of one instance.

    `gap_percent` is of the maximal confidence's lower end. `closed` means a gap of at most 1 % of
    the upper bound; `seconds_to_close` is when that was first so. `gap_integral` is the gap in
    percent over the time of the run, in percent times seconds; files of before have none.
    """

    instance: Instance
    engine: str
    timeout: float
    workers: int
    status: str
    lower: float
    upper: float
    gap_percent: float | None
    closed: bool
    nodes: int
    seconds: float
    seconds_to_close: float | None
    gap_integral: float | None = None

    def as_row(self) -> dict[str, Any]:
        row = asdict(self)
        return {**row.pop("instance"), **row}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Run:
        parts = {name: row.pop(name) for name in [part.name for part in fields(Instance)]}
        return cls(instance=Instance(**parts), **row)


class Store:
    """The results so far; every addition is written at once. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs = _read(path) if path is not None and path.exists() else []
        # The maximal confidences belong to the networks, so all results in a folder share them.
        self._confidence_path = None if path is None else path.with_name("max_confidence.json")
        self._confidences: dict[str, dict[str, Any]] = {}
        if self._confidence_path is not None and self._confidence_path.exists():
            self._confidences = json.loads(self._confidence_path.read_text())

    def find(self, instance: Instance, engine: str, timeout: float, workers: int) -> Run | None:
        """The same run, if it was done before; the number of an instance does not matter."""
        for run in self._runs:
            same = (str(run.instance), run.engine, run.timeout, run.workers)
            if same == (str(instance), engine, timeout, workers):
                return run
        return None

    def add(self, run: Run) -> None:
        self._runs.append(run)
        if self._path is not None:
            text = _as_json(self._runs) if self._path.suffix == ".json" else _as_csv(self._runs)
            write_bytes(self._path, text.encode())

    def max_confidence(self, network: str, label: int) -> Interval | None:
        known = self._confidences.get(f"{network} {label}")
        if known is None:
            return None
        return Interval(known["lower"], known["upper"], BoundKind[known["kind"]])

    def add_max_confidence(
        self, network: str, label: int, interval: Interval, seconds: float
    ) -> None:
        self._confidences[f"{network} {label}"] = {
            "lower": interval.lower,
            "upper": interval.upper,
            "kind": interval.kind.name,
            "seconds": seconds,
        }
        if self._confidence_path is not None:
            write_bytes(self._confidence_path, json.dumps(self._confidences, indent=1).encode())


def _as_json(runs: list[Run]) -> str:
    return "[\n" + ",\n".join(json.dumps(run.as_row()) for run in runs) + "\n]\n"


def _as_csv(runs: list[Run]) -> str:
    rows = [run.as_row() for run in runs]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _read(path: Path) -> list[Run]:
    if path.suffix == ".json":
        return [Run.from_row(row) for row in json.loads(path.read_text())]
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [Run.from_row({key: _value(key, text) for key, text in row.items()}) for row in rows]


# How the columns of a CSV file are read; all others are numbers.
_TEXTS = ("network", "perturbation", "engine", "status")
_FLAGS = ("clip", "closed")
_COUNTS = ("number", "source", "target", "workers", "nodes")


def _value(key: str, text: str) -> Any:
    if key in _TEXTS:
        return text
    if key in _FLAGS:
        return text == "True"
    if key in _COUNTS:
        return int(text)
    return float(text) if text else None
