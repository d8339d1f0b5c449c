"""Two models beside each other: by what is proven about a data set, and for pairs of classes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from vhagar.perturbation import Domain
from vhagar.report.compare import Comparison
from vhagar.report.data import Group, StudyData
from vhagar.result import CoverageCounts
from vhagar.result.numbers import counted, up
from vhagar.sweep.class_coverage import over, share, total

# A perturbation, clipped or not, the input range and the domain.
_Asked = tuple[str | None, bool, tuple[float, float], Domain | None]


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two models: its name, and the study with its results."""

    name: str
    fingerprint: str
    study: StudyData

    @property
    def task(self) -> tuple[int, tuple[int, ...]]:
        """How many classes the network has, and the shape of its inputs."""
        facts = next(own for own in self.study.networks if own.fingerprint == self.fingerprint)
        return facts.classes, tuple(facts.input_shape)

    def groups(self) -> dict[_Asked, Group]:
        """The model's groups by perturbation, clipping, input range and domain."""
        ranges = {entry.group: entry.question.input_range for entry in self.study.entries}
        own = [group for group in self.study.groups if group.fingerprint == self.fingerprint]
        return {
            (group.perturbation, group.clip, ranges[group], group.domain): group for group in own
        }

    @property
    def data(self) -> str | None:
        """What tells the study's data set from others; None without one."""
        known = self.study.coverage
        return None if known is None else known.sha256 or known.dataset

    def counts(self, group: Group) -> dict[int | None, CoverageCounts]:
        """The coverage of each class under a perturbation; that of all classes has the key None."""
        known = self.study.coverage
        found = {} if known is None else known.groups()
        key = (self.fingerprint, str(group.perturbation), group.clip, group.domain_name)
        own = found.get(key, [])
        counts: dict[int | None, CoverageCounts] = {
            each.source: each.coverage.classified for each in own
        }
        return {None: total(own), **counts} if own else {}


@dataclass(frozen=True)
class CoverageVerdict:
    """The coverage of one class's inputs on both sides; `source` is None for all classes."""

    perturbation: str
    source: int | None
    first: CoverageCounts | None
    second: CoverageCounts | None
    domain: str = ""

    @property
    def more_robust(self) -> str:
        """`first` or `second`, the side with a provably larger share of robust inputs."""
        ends = [_shares(counts) for counts in (self.first, self.second)]
        if ends[0] is None or ends[1] is None:
            return "unasked"
        if ends[0][0] > ends[1][1]:
            return "first"
        return "second" if ends[1][0] > ends[0][1] else "open"


def _shares(counts: CoverageCounts | None) -> tuple[Fraction, Fraction] | None:
    """Lower and upper bound on the share of robust inputs; exact, as shares may be equal."""
    if counts is None or not counts.inputs:
        return None
    most = counts.inputs - counts.attackable
    return Fraction(counts.robust, counts.inputs), Fraction(most, counts.inputs)


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Two models, A and B. `pairs` holds one comparison for each perturbation in common."""

    first: Side
    second: Side
    pairs: tuple[Comparison, ...]
    coverages: tuple[CoverageVerdict, ...]

    @property
    def lines(self) -> list[str]:
        """The comparison in words."""
        lines = [f"A: {self.first.name}", f"B: {self.second.name}"]
        for pair in self.pairs:
            about = f"{pair.first.shown}{over(pair.first.domain_name)}"
            lines.append(f"{about}: {pair.sentence}")
            lines += [coverage_line(each) for each in self.coverage_of(pair) if each.source is None]
        return [*lines, f"In all: {self.conclusion}"]

    @property
    def conclusion(self) -> str:
        """What is proven in all, about the data set and about pairs of classes."""
        totals = [each.more_robust for each in self.coverages if each.source is None]
        better, worse = totals.count("first"), totals.count("second")
        data = "Of the data set, neither is better for certain. " if totals else ""
        if better or worse:
            data = (
                f"Of the data set, A is better for certain under {better} of "
                f"{len(totals)} perturbations, B under {worse}. "
            )
        verdicts = [each for pair in self.pairs for each in pair.verdicts]
        first, second = self.count("first"), self.count("second")
        if all(pair.equal for pair in self.pairs):
            apart = up(max(each.apart for each in verdicts))
            pairs = f"all are equal to within {apart} percentage points"
        elif first or second:
            pairs = f"A is proven more robust for {first}, B for {second}"
        else:
            pairs = "none tells the two apart yet"
        return f"{data}Of {counted(len(verdicts), 'pair')} of classes, {pairs}."

    def coverage_of(self, pair: Comparison) -> list[CoverageVerdict]:
        asked = (pair.first.perturbation, pair.first.domain_name)
        return [each for each in self.coverages if (each.perturbation, each.domain) == asked]

    def count(self, what: str) -> int:
        """Count the pairs of classes of all perturbations that are `first`, `second` and so on."""
        return sum(pair.count(what) for pair in self.pairs)

    @property
    def worst(self) -> float:
        """The most percentage points by which B's bound can be larger than A's."""
        if self.first.fingerprint == self.second.fingerprint:
            return 0.0
        gaps = [
            each.second_ends[1] - each.first_ends[0]
            if each.first_ends is not None and each.second_ends is not None
            else math.inf
            for pair in self.pairs
            for each in pair.verdicts
        ]
        return max(gaps, default=math.inf)

    def to_dict(self) -> dict[str, Any]:
        """Convert the comparison to JSON's own types."""
        return {
            "first": {"name": self.first.name, "fingerprint": self.first.fingerprint},
            "second": {"name": self.second.name, "fingerprint": self.second.fingerprint},
            "pairs": [
                {
                    "perturbation": pair.first.perturbation,
                    "domain": pair.first.domain_name,
                    "counts": {
                        name: pair.count(name) for name in ("first", "second", "open", "unasked")
                    },
                    "columns": list(pair.columns()),
                    "rows": [list(row) for row in pair.rows()],
                }
                for pair in self.pairs
            ],
            "coverage": [
                {**asdict(each), "more_robust": each.more_robust} for each in self.coverages
            ],
        }


def coverage_line(verdict: CoverageVerdict) -> str:
    """State the coverage of both sides in one line."""
    sides = [
        f"{name} {share(counts)} % proven robust, {counts.attackable} of {counts.inputs} attacked"
        for name, counts in (("A", verdict.first), ("B", verdict.second))
        if counts is not None
    ]
    proven = {"first": "; A is better, for certain", "second": "; B is better, for certain"}
    return f"  data: {'; '.join(sides)}{proven.get(verdict.more_robust, '')}"
