"""One line for every run of the comparison with the paper, appended as it ends."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from vhagar import Result
from vhagar.result import Moment

# The most moments of a run's history that are kept.
_MOMENTS = 40


@dataclass(frozen=True)
class Record:
    """What one method made of one pair of classes.

    `maximum_lower` and `maximum_upper` enclose the maximal confidence of the source class. `mean`,
    `half_width` and `samples` belong to random sampling. `timings` and `history` are small JSON
    texts. A method that cannot answer such a question at all has the status "not applicable".
    """

    network: str
    perturbation: str
    clip: bool
    source: int
    target: int
    method: str
    timeout: float
    workers: int
    seed: int
    status: str
    kind: str
    lower: float | None
    upper: float | None
    seconds: float | None
    maximum_lower: float
    maximum_upper: float
    mean: float | None = None
    half_width: float | None = None
    samples: int | None = None
    nodes: int = 0
    timings: str = "{}"
    history: str = "[]"
    note: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two runs the same."""
        return (
            *(self.network, self.perturbation, self.clip, self.source, self.target),
            *(self.method, self.timeout, self.workers, self.seed),
        )

    @property
    def row(self) -> str:
        return f"{self.network} {self.perturbation}"

    @property
    def pair(self) -> tuple[int, int]:
        return self.source, self.target

    @cached_property
    def moments(self) -> list[Moment]:
        return [Moment(*numbers) for numbers in json.loads(self.history)]

    @cached_property
    def phases(self) -> dict[str, float]:
        return dict(json.loads(self.timings))


def thinned(result: Result, most: int = _MOMENTS) -> str:
    """A history that is short enough for a line: the first, the last, and evenly between."""
    moments = [m for m in result.history if m.upper < float("inf")]
    if len(moments) > most:
        moments = [moments[k * (len(moments) - 1) // (most - 1)] for k in range(most)]
    return json.dumps([[float(f"{n:.7g}") for n in (m.seconds, m.lower, m.upper)] for m in moments])


class RecordFile:
    """A CSV file that only grows. Several programs may append to it at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = [field.name for field in fields(Record)]
        if path.exists():
            _drop_torn_line(path)
        self._known = {record.key for record in self.records()}

    def records(self) -> list[Record]:
        """All that is in the file."""
        if not self._path.exists():
            return []
        with self._path.open(newline="") as file:
            return [_record(line) for line in csv.DictReader(file)]

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._known

    def add(self, record: Record) -> None:
        """Append the line at once, in one piece."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self._names, lineterminator="\n")
        # Whoever comes first writes the header.
        if not self._path.exists() or self._path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow(asdict(record))
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, text.getvalue().encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        self._known.add(record.key)


def _drop_torn_line(path: Path) -> None:
    """A program that was killed while writing left half a line: it goes."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


_TEXTS = ("network", "perturbation", "method", "status", "kind", "timings", "history", "note")
_COUNTS = ("source", "target", "workers", "seed", "samples", "nodes")


def _record(line: dict[str, str]) -> Record:
    return Record(**{name: _value(name, text) for name, text in line.items()})


def _value(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    if text == "":
        return None
    if name == "clip":
        return text == "True"
    return int(text) if name in _COUNTS else float(text)
