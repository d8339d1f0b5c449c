"""The content of a store as plain data: everything that a report shows comes from here."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from vhagar.dataset import Neighbour
from vhagar.perturbation import Domain
from vhagar.result import BoundKind, Moment, Witness
from vhagar.result.numbers import exact
from vhagar.sweep.class_coverage import StudyCoverage, over
from vhagar.sweep.neighbours import read_neighbours
from vhagar.sweep.question import Question
from vhagar.sweep.rows import goal_of, witness_of_row
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study


@dataclass(frozen=True)
class Group:
    """One network under one perturbation over one domain; a figure shows one or two groups."""

    network: str
    fingerprint: str
    perturbation: str | None
    clip: bool = True
    domain: Domain | None = None

    @property
    def over(self) -> str:
        """The domain's name; empty for all inputs."""
        return "" if self.domain is None else str(self.domain)

    @property
    def label(self) -> str:
        """A label such as `mnist_conv1, occlusion(14,14,5)`."""
        if self.perturbation is None:
            return f"{self.network}, maximal confidence{over(self.over)}"
        unclipped = "" if self.clip else " unclipped"
        return f"{self.network}, {self.perturbation}{unclipped}{over(self.over)}"


@dataclass(frozen=True)
class Goal:
    """The interval of one target; `upper` is infinite if nothing is proven."""

    target: int | None
    lower: float
    upper: float
    kind: BoundKind | None = None

    @property
    def gap(self) -> float:
        return self.upper - self.lower


@dataclass(frozen=True, eq=False)
class Entry:
    """One problem and everything that is known about it."""

    number: int
    question: Question
    group: Group
    status: str
    goals: tuple[Goal, ...]
    history: tuple[Moment, ...] = ()
    witnesses: dict[int | None, Witness] = field(default_factory=dict)
    seconds: float = 0.0
    nodes: int = 0
    engine: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()
    certificate: str | None = None
    transferred: int = 0
    neighbour: Neighbour | None = None

    @property
    def source(self) -> int:
        return self.question.source

    @property
    def target(self) -> int | None:
        """The target, if there is exactly one."""
        targets = self.question.targets
        return targets[0] if len(targets) == 1 else None

    @property
    def lower(self) -> float:
        return max(goal.lower for goal in self.goals)

    @property
    def upper(self) -> float:
        return max(goal.upper for goal in self.goals)

    @property
    def kind(self) -> BoundKind | None:
        return max(self.goals, key=lambda goal: goal.upper).kind

    @property
    def witness(self) -> Witness | None:
        """The witness with the largest confidence."""
        return max(self.witnesses.values(), key=lambda found: found.confidence, default=None)

    @property
    def relative_gap(self) -> float:
        """The gap relative to the upper end: about 0 if closed, 1 if nothing is known."""
        if not math.isfinite(self.upper):
            return 1.0
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    @property
    def pair(self) -> str:
        """`2 to 3`, `2 to any`, or `2` for a question without targets."""
        source, target = self.question.class_name(self.source), self.target
        if not self.question.targets:
            return source
        return f"{source} to {'any' if target is None else self.question.class_name(target)}"


@dataclass(frozen=True)
class NetworkFacts:
    """A network of the study."""

    name: str
    fingerprint: str
    file: str
    classes: int
    input_shape: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One process's run of the study; times are in seconds since 1970."""

    started: float
    ended: float | None
    version: str
    machine: str
    executor: str


@dataclass(frozen=True)
class Event:
    """An event of the study's history: the problem, the time, and the interval at that time."""

    number: int
    time: float
    what: str
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class StudyData:
    """Everything that a store holds about a study."""

    name: str
    networks: tuple[NetworkFacts, ...]
    entries: tuple[Entry, ...]
    runs: tuple[Run, ...] = ()
    events: tuple[Event, ...] = ()
    coverage: StudyCoverage | None = None
    # Intervals around maximal confidences, by the keys of their questions.
    largest: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # The file of the domain, if the questions are about one.
    domain_file: str | None = None
    # How the networks take an image and give their scores, as words of a command line.
    conventions: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All networks under all perturbations, in the study's order; no maximal confidences."""
        found = (entry.group for entry in self.entries)
        return tuple(dict.fromkeys(group for group in found if group.perturbation is not None))

    def of(self, group: Group) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.group == group)

    def network(self, group: Group) -> NetworkFacts:
        return next(facts for facts in self.networks if facts.fingerprint == group.fingerprint)

    def confidence(self, entry: Entry) -> Entry | None:
        """What is known of the maximal confidence in an entry's source class."""
        for other in self.entries:
            if (
                other.group.perturbation is None
                and other.group.fingerprint == entry.group.fingerprint
                and other.source == entry.source
                and other.question.input_range == entry.question.input_range
                and other.question.domain == entry.question.domain
            ):
                return other
        return None

    def largest_of(self, entry: Entry) -> tuple[float, float] | None:
        """An interval around the maximal confidence in an entry's source class."""
        key = entry.question.without_perturbation().key
        quick, searched = self.largest.get(key), self.confidence(entry)
        if searched is None:
            return quick
        lower, upper = quick or (0.0, math.inf)
        return max(lower, searched.lower), min(upper, searched.upper)


def read_store(path: str | Path) -> StudyData:
    """Read everything that a store holds."""
    with Store(path) as store:
        return _study(store)


def _study(store: Store) -> StudyData:
    networks = {
        row["fingerprint"]: NetworkFacts(
            row["name"],
            row["fingerprint"],
            Path(row["path"]).name,
            row["classes"],
            tuple(json.loads(row["input_shape"])),
        )
        for row in store.rows("networks")
    }
    runs = {row["id"]: row for row in store.rows("runs")}
    goals, witnesses, events = (
        _by_problem(store.rows(name)) for name in ("goals", "witnesses", "events")
    )
    problems = sorted(store.rows("problems"), key=lambda row: int(row["place"]))
    entries = []
    for row in problems:
        number, question = row["id"], store.question(row)
        facts = networks[row["network"]]
        entries.append(
            Entry(
                number,
                question,
                Group(
                    facts.name,
                    facts.fingerprint,
                    question.perturbation,
                    question.clip,
                    question.domain,
                ),
                row["status"],
                tuple(map(_goal, goals[number])),
                _history(events[number]),
                {
                    goal_of(found["target"]): witness_of_row(found, facts.input_shape)
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
        )
    study = store.study()
    neighbours = read_neighbours(store, {entry.number: entry.witness for entry in entries})
    return StudyData(
        study.name or Path(store.path).stem,
        tuple(networks.values()),
        tuple(replace(entry, neighbour=neighbours.get(entry.number)) for entry in entries),
        tuple(_run(row) for row in runs.values()),
        tuple(_event(row) for row in store.rows("events")),
        store.coverage(),
        store.largest(),
        None if study.domain is None else Path(study.domain).name,
        _conventions(study),
    )


def _conventions(study: Study) -> tuple[str, ...]:
    """The study's input and output conventions, as options of a command."""
    words: list[str] = []
    for name in ("layout", "image_shape", "mean", "std", "output", "threshold"):
        value = getattr(study, name)
        if value is not None:
            text = value if isinstance(value, str) else _numbers(value)
            words.append(f"--{name.replace('_', '-')}={text}")
    return tuple(words)


def _numbers(value: float | Sequence[float]) -> str:
    return ",".join(map(exact, value)) if isinstance(value, Sequence) else exact(value)


def _by_problem(rows: Sequence[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row["problem"]].append(row)
    return found


def _goal(row: Any) -> Goal:
    kind = None if row["kind"] is None else BoundKind[row["kind"].upper()]
    return Goal(goal_of(row["target"]), row["lower"], _end(row["upper"]), kind)


def _end(upper: float | None) -> float:
    return math.inf if upper is None else upper


def _history(events: Sequence[Any]) -> tuple[Moment, ...]:
    """The interval over the seconds spent on a problem, starting at its first upper bound."""
    return tuple(
        Moment(row["seconds"], row["lower"], row["upper"])
        for row in events
        if row["upper"] is not None
    )


def _run(row: Any) -> Run:
    settings = json.loads(row["settings"])
    jobs = settings.get("jobs", 1)
    executor = f"{settings.get('executor', 'local')}, {jobs} at a time"
    return Run(row["started"], row["ended"], row["version"], row["machine"], executor)


def _event(row: Any) -> Event:
    return Event(row["problem"], row["time"], row["what"], row["lower"], _end(row["upper"]))
