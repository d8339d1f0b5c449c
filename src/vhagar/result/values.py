"""The parts of results: statuses, kinds of bounds, intervals, coverage, progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from vhagar.dataset import Neighbour
from vhagar.problem import Problem
from vhagar.result.numbers import interval, seconds
from vhagar.result.witness import Witness

Ends = tuple[float, float]


class Status(Enum):
    """How a run ended; the value is the message."""

    CLOSED = "the interval is closed"
    ROBUST = "nothing can be attacked"
    TIMEOUT = "the time was up"
    INTERRUPTED = "the run was interrupted"
    EXHAUSTED = "the engine can tighten the interval no further"


class BoundKind(Enum):
    """Where an upper bound comes from; the value is the explanation."""

    INTERVAL = "interval arithmetic, rounded outward"
    TWIN = "twin dual formula, rounded outward"
    SPECTRAL = "spectral norms of the network's layers, rounded outward"
    WINDOWS = "windows of a few pixels, each bounded by itself, rounded outward"
    QUADRATIC = "quadratic facts about the difference of the copies, rounded outward"
    BOXES = "linear bounds over boxes of inputs, rounded outward"
    SOLVER = "dual bound of the MIP solver, with its tolerances added outward"
    MARABOU = "Marabou's answer that there is nothing above, taken on trust"


@dataclass(frozen=True)
class Interval:
    """`lower <= delta* <= upper`, and what kind of bound `upper` is."""

    lower: float
    upper: float
    kind: BoundKind

    def __repr__(self) -> str:
        return f"Interval({self.lower}, {self.upper}, {self.kind.name})"

    @property
    def gap(self) -> float:
        return self.upper - self.lower


@dataclass(frozen=True)
class Moment:
    """The interval at one time, in seconds since the start."""

    seconds: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Estimate:
    """An estimate of the *mean* over inputs by random sampling: it does not bound the largest.

    The mean over all inputs of the distribution lies within `half_width` of `mean`, except with
    probability `level`. `samples` is the number of inputs of the source class that were drawn.
    """

    mean: float
    half_width: float
    samples: int
    level: float


@dataclass(frozen=True)
class CoverageCounts:
    """How many of some inputs are proven robust, and how many have a checked witness."""

    inputs: int
    robust: int
    attackable: int

    @property
    def unknown(self) -> int:
        """Inputs with neither a proof nor a witness."""
        return self.inputs - self.robust - self.attackable


@dataclass(frozen=True)
class CoverageRows:
    """Which inputs these are: places in the data set, from 0, in ascending order.

    All are classified as the source class. `unknown` are those with neither a proof nor a witness,
    and `outside` those outside of the problem's domain.
    """

    robust: tuple[int, ...]
    attackable: tuple[int, ...]
    unknown: tuple[int, ...]
    outside: tuple[int, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """What a result says about a data set (see `vhagar.coverage`).

    `inputs` is the size of the data set. `classified` counts the inputs that the network classifies
    as the source class; `correct` counts those of them whose label agrees, and is None without
    labels. `largest` is the largest confidence among the classified inputs, rounded down: a bound
    above it says nothing about this data. Inputs of the source class outside the problem's domain
    are in none of these counts; `outside` counts them. `rows` says which inputs are counted; it is
    None in the store of a sweep, which keeps the counts only.
    """

    inputs: int
    classified: CoverageCounts
    correct: CoverageCounts | None
    largest: float
    seconds: float
    outside: int = 0
    rows: CoverageRows | None = None


def coverage_of_plain(values: Mapping[str, Any]) -> Coverage:
    """Read what `dataclasses.asdict` has made of a coverage; earlier versions had fewer fields."""
    correct, rows = values["correct"], values.get("rows")
    parts = {
        "classified": CoverageCounts(**values["classified"]),
        "correct": None if correct is None else CoverageCounts(**correct),
        "rows": rows and CoverageRows(**{name: tuple(places) for name, places in rows.items()}),
    }
    return Coverage(**{**values, **parts})


@dataclass(frozen=True)
class Progress:
    """What `on_progress` receives: the current interval, and what the verifier is doing.

    `witnesses` holds the best witness of each target class, of None without a perturbation.
    `kind` says what kind of bound `upper` is.
    """

    seconds: float
    lower: float
    upper: float
    phase: str
    targets: dict[int, Interval]
    initial_upper: float
    witnesses: Mapping[int | None, Witness] = field(default_factory=dict)
    kind: BoundKind = BoundKind.INTERVAL

    def __repr__(self) -> str:
        low, high = interval(self.lower, self.upper)
        return f"Progress({seconds(self.seconds)}, {self.phase}, [{low}, {high}])"


@dataclass(frozen=True, eq=False)
class PlausibleWitness:
    """A witness near a data set, with at least the share `share` of the best one's confidence.

    `nearest` is the input of the data set that is nearest to it. It is checked as every witness is,
    and bounds nothing: `Result.lower` is the confidence of the best witness.
    """

    witness: Witness
    nearest: Neighbour
    share: float


@dataclass(frozen=True, eq=False)
class AbstractResult:
    """The interval around the minimal globally robust bound, and the evidence for it.

    `problem` is the question that was asked. `lower` is the confidence of `witness` (0 without
    one); `upper` is a dual bound. `targets` holds an interval for each target class; one that was
    left open cannot exceed `upper`. `nodes` is the number of search-tree nodes processed for all
    targets together; `device` is the hardware that the run used.
    `certificate` is the file that proves the interval, if one was requested and written.
    `estimate` is set for random sampling only (see `vhagar.baseline`), `coverage` if a data set
    was given, and `nearest` is the input of that data set that is nearest to the witness.
    `plausible` is a witness near the data set, if one was asked for and found.
    """

    problem: Problem
    lower: float
    upper: float
    status: Status
    kind: BoundKind
    seconds: float
    targets: dict[int, Interval]
    witness: Witness | None
    history: tuple[Moment, ...]
    timings: dict[str, float]
    engine: str
    device: str = "cpu"
    nodes: int = 0
    notes: tuple[str, ...] = ()
    max_confidence: Interval | None = field(default=None)
    certificate: Path | None = None
    estimate: Estimate | None = field(default=None)
    coverage: Coverage | None = field(default=None)
    nearest: Neighbour | None = field(default=None)
    plausible: PlausibleWitness | None = field(default=None)

    @property
    def interval(self) -> Interval:
        return Interval(self.lower, self.upper, self.kind)

    @property
    def percent(self) -> Ends | None:
        """The bounds as percentages of the maximal confidence, rounded outward.

        None as long as `max_confidence` is unknown (see `vhagar.max_confidence`).
        """
        known = self.max_confidence
        largest = None if known is None else (known.lower, known.upper)
        return percentages((self.lower, self.upper), largest)


def percentages(ends: Ends, largest: Ends | None) -> Ends | None:
    """An interval in percent of the maximal confidence, rounded outward; None if that is unknown.

    No robustness bound exceeds the maximal confidence.
    """
    if largest is None:
        return None
    low = 100 * ends[0] / largest[1] if largest[1] > 0 else 0.0
    high = 100 * ends[1] / largest[0] if largest[0] > 0 else 100.0
    # Two operations were rounded, each by at most half an ulp.
    low, high = low * (1 - 2.0**-51), high * (1 + 2.0**-51)
    return low, (min(high, 100.0) if ends[1] > 0 else 0.0)
