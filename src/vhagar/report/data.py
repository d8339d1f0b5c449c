"""The content of a store as plain data: everything that a report shows comes from here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vhagar.dataset import Neighbour
from vhagar.perturbation import Domain
from vhagar.result import BoundKind, Moment, Witness
from vhagar.result.words import exceeds_nearly_all
from vhagar.sweep.class_coverage import StudyCoverage, over
from vhagar.sweep.question import Question, shown_perturbation


@dataclass(frozen=True)
class Group:
    """One network under one perturbation over one domain; a figure shows one or two groups."""

    network: str
    fingerprint: str
    perturbation: str | None
    clip: bool = True
    domain: Domain | None = None

    @property
    def domain_name(self) -> str:
        """The domain's name; empty for all inputs."""
        return "" if self.domain is None else str(self.domain)

    @property
    def label(self) -> str:
        """A label such as `mnist_conv1, occlusion(14,14,5)`."""
        if self.perturbation is None:
            return f"{self.network}, maximal confidence{over(self.domain_name)}"
        unclipped = "" if self.clip else " unclipped"
        return f"{self.network}, {self.shown}{unclipped}{over(self.domain_name)}"

    @property
    def shown(self) -> str:
        """The perturbation, with the names that the domain has for features."""
        return shown_perturbation(self.perturbation, self.domain)

    def class_name(self, label: int) -> str:
        """The name that the domain has for a class, or its number."""
        return str(label) if self.domain is None else self.domain.class_name(label)


@dataclass(frozen=True)
class TargetInterval:
    """The interval of one target; `upper` is infinite if nothing is proven."""

    target: int | None
    lower: float
    upper: float
    kind: BoundKind | None = None

    @property
    def gap(self) -> float:
        return self.upper - self.lower


def relative_gap(lower: float, upper: float) -> float:
    """The gap relative to the upper end: about 0 if closed, 1 if nothing is known."""
    if not math.isfinite(upper):
        return 1.0
    return (upper - lower) / upper if upper > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Entry:
    """One problem and everything that is known about it."""

    number: int
    question: Question
    group: Group
    status: str
    targets: tuple[TargetInterval, ...]
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
        return max(each.lower for each in self.targets)

    @property
    def upper(self) -> float:
        return max(each.upper for each in self.targets)

    @property
    def kind(self) -> BoundKind | None:
        return max(self.targets, key=lambda each: each.upper).kind

    @property
    def witness(self) -> Witness | None:
        """The witness with the largest confidence."""
        return max(self.witnesses.values(), key=lambda found: found.confidence, default=None)

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.lower, self.upper)

    @property
    def pair(self) -> str:
        """`2 to 3`, `2 to any other`, or `2` for a question without targets."""
        source, target = self.question.class_name(self.source), self.target
        if not self.question.targets:
            return source
        return f"{source} to {'any other' if target is None else self.question.class_name(target)}"


@dataclass(frozen=True)
class NetworkFacts:
    """A network of the study."""

    name: str
    fingerprint: str
    file: str
    classes: int
    input_shape: tuple[int, ...]
    # How it takes an image and gives its scores, as words of a command line.
    conventions: tuple[str, ...] = ()


@dataclass(frozen=True)
class SweepRun:
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
    runs: tuple[SweepRun, ...] = ()
    events: tuple[Event, ...] = ()
    coverage: StudyCoverage | None = None
    # Intervals around maximal confidences, by the keys of their questions.
    largest: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # The file of the domain, if the questions are about one.
    domain_file: str | None = None

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

    def is_vacuous(self, entry: Entry) -> bool:
        """Whether an entry's upper bound says next to nothing, as hardly any input exceeds it."""
        if entry.group.perturbation is None or not math.isfinite(entry.upper):
            return False
        largest = self.largest_of(entry)
        return largest is not None and exceeds_nearly_all(entry.upper, largest[0])

    def largest_of(self, entry: Entry) -> tuple[float, float] | None:
        """An interval around the maximal confidence in an entry's source class."""
        key = entry.question.without_perturbation().key
        quick, searched = self.largest.get(key), self.confidence(entry)
        if searched is None:
            return quick
        lower, upper = quick or (0.0, math.inf)
        return max(lower, searched.lower), min(upper, searched.upper)
