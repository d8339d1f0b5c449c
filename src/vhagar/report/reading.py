"""Reads a store into the plain data that a report shows."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vhagar.report.data import (
    Entry,
    Event,
    Group,
    NetworkFacts,
    StudyData,
    SweepRun,
    TargetInterval,
)
from vhagar.result import BoundKind, Moment
from vhagar.result.numbers import exact
from vhagar.sweep.neighbours import read_neighbours
from vhagar.sweep.question import Question
from vhagar.sweep.rows import target_of, witness_of_row
from vhagar.sweep.store import Store

# The rows of a table, by problem.
Rows = dict[int, list[Any]]


def read_store(path: str | Path) -> StudyData:
    """Read everything that a store holds."""
    with Store(path) as store:
        return _study(store)


def _study(store: Store) -> StudyData:
    study, conventions = store.study(), store.conventions()
    networks = {
        row["fingerprint"]: NetworkFacts(
            row["name"],
            row["fingerprint"],
            Path(row["path"]).name,
            row["classes"],
            tuple(json.loads(row["input_shape"])),
            _words(conventions[row["fingerprint"]]),
        )
        for row in store.rows("networks")
    }
    runs = {row["id"]: row for row in store.rows("runs")}
    targets, witnesses, events = (
        _by_problem(store.rows(name)) for name in ("goals", "witnesses", "events")
    )
    problems = sorted(store.rows("problems"), key=lambda row: int(row["place"]))
    entries = [
        _entry(row, store.question(row), networks[row["network"]], runs, targets, witnesses, events)
        for row in problems
    ]
    neighbours = read_neighbours(store, {entry.number: entry.witness for entry in entries})
    return StudyData(
        study.name or Path(store.path).stem,
        tuple(networks.values()),
        tuple(replace(entry, neighbour=neighbours.get(entry.number)) for entry in entries),
        tuple(_run(row) for row in runs.values()),
        tuple(
            Event(row["problem"], row["time"], row["what"], row["lower"], _end(row["upper"]))
            for row in store.rows("events")
        ),
        store.coverage(),
        store.largest(),
        None if study.domain is None else Path(study.domain).name,
    )


def _entry(
    row: Any,
    question: Question,
    facts: NetworkFacts,
    runs: Mapping[int, Any],
    targets: Rows,
    witnesses: Rows,
    events: Rows,
) -> Entry:
    number = row["id"]
    return Entry(
        number,
        question,
        Group(facts.name, facts.fingerprint, question.perturbation, question.clip, question.domain),
        row["status"],
        tuple(map(_target, targets[number])),
        _history(events[number]),
        {
            target_of(found["target"]): witness_of_row(found, facts.input_shape)
            for found in witnesses[number]
        },
        row["seconds"],
        row["nodes"],
        row["engine"] or "",
        runs[row["run"]]["version"] if row["run"] in runs else "",
        tuple(json.loads(row["notes"])),
        None if row["certificate"] is None else Path(row["certificate"]).name,
        sum(event["what"] == "transferred" for event in events[number]),
    )


def _words(conventions: Mapping[str, Any]) -> tuple[str, ...]:
    """A network's input and output conventions, as options of a command."""
    words: list[str] = []
    for name, value in conventions.items():
        option = f"--{name.replace('_', '-')}"
        text = value if isinstance(value, str) else _numbers(value)
        words.append(option if value is True else f"{option}={text}")
    return tuple(words)


def _numbers(value: float | Sequence[float]) -> str:
    return ",".join(map(exact, value)) if isinstance(value, Sequence) else exact(value)


def _by_problem(rows: Sequence[Any]) -> Rows:
    found: Rows = defaultdict(list)
    for row in rows:
        found[row["problem"]].append(row)
    return found


def _target(row: Any) -> TargetInterval:
    kind = None if row["kind"] is None else BoundKind[row["kind"].upper()]
    return TargetInterval(target_of(row["target"]), row["lower"], _end(row["upper"]), kind)


def _end(upper: float | None) -> float:
    return math.inf if upper is None else upper


def _history(events: Sequence[Any]) -> tuple[Moment, ...]:
    """The interval over the seconds spent on a problem, starting at its first upper bound."""
    return tuple(
        Moment(row["seconds"], row["lower"], row["upper"])
        for row in events
        if row["upper"] is not None
    )


def _run(row: Any) -> SweepRun:
    settings = json.loads(row["settings"])
    jobs = settings.get("jobs", 1)
    executor = f"{settings.get('executor', 'local')}, {jobs} at a time"
    return SweepRun(row["started"], row["ended"], row["version"], row["machine"], executor)
