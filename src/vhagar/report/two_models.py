"""Compare two models, by what is proven about a data set, and for each pair of classes."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain
from vhagar.report.compare import Comparison, compared
from vhagar.report.data import Group, StudyData
from vhagar.report.reading import read_store
from vhagar.result import CoverageCounts
from vhagar.result.numbers import up
from vhagar.sweep.class_coverage import over, share, total
from vhagar.sweep.database import MAGIC
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.settings import Settings
from vhagar.sweep.study import Study, load_models
from vhagar.sweep.watch import AbstractSweepWatch

StrPath = str | os.PathLike[str]
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
        key = (self.fingerprint, str(group.perturbation), group.clip, group.over)
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
            about = f"{pair.first.shown}{over(pair.first.over)}"
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
        return f"{data}Of {len(verdicts)} pairs of classes, {pairs}."

    def coverage_of(self, pair: Comparison) -> list[CoverageVerdict]:
        asked = (pair.first.perturbation, pair.first.over)
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
                    "domain": pair.first.over,
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


def compare_sides(first: Side, second: Side) -> ModelComparison:
    """Compare two networks under the perturbations that both studies contain."""
    _require_same_task({side.name: side.task for side in (first, second)})
    ours, theirs = first.groups(), second.groups()
    shared = [key for key in ours if key in theirs]
    if not shared:
        raise InvalidInput(f"{first.name} and {second.name} have no perturbation in common")
    coverages = []
    # Shares of two data sets say nothing of which network is better.
    comparable = first.data is None or second.data in (None, first.data)
    for key in shared if comparable else ():
        counts = [first.counts(ours[key]), second.counts(theirs[key])]
        for source in dict.fromkeys([*counts[0], *counts[1]]):
            one, other = (own.get(source) for own in counts)
            about = str(ours[key].perturbation)
            coverages.append(CoverageVerdict(about, source, one, other, ours[key].over))
    pairs = [compared((first.study, ours[key]), (second.study, theirs[key])) for key in shared]
    return ModelComparison(first, second, tuple(pairs), tuple(coverages))


def compare(
    first: StrPath,
    second: StrPath,
    *,
    perturbations: str | Sequence[str] = (),
    store: StrPath | None = None,
    settings: Settings | None = None,
    watch: AbstractSweepWatch | None = None,
    **asked: Any,
) -> ModelComparison:
    """Compare two models, or the networks of two stores (`study.db`, or `study.db:name`).

    Models are verified first, under the `perturbations`, with their maximal confidences; other
    keyword arguments are fields of `Study`, such as `dataset` and `timeout`. The results are kept
    in `store`, if one is given.
    """
    names = [os.fspath(first), os.fspath(second)]
    stores = [_is_store(name.rpartition(":")[0]) or _is_store(name) for name in names]
    if all(stores):
        if perturbations or asked:
            raise InvalidInput("stores hold their answers already: name two stores and no question")
        return compare_sides(*(_stored(name) for name in names))
    for name in names:
        if not Path(name).exists() and not _is_store(name.rpartition(":")[0]):
            raise InvalidInput(f"no model file and no store at {name}; check the path")
    if any(stores):
        raise InvalidInput("compare two models or two stores, not one of each")
    if not perturbations and not asked.get("grids"):
        raise InvalidInput("two models are compared under a perturbation; give --perturbation")
    several = [perturbations] if isinstance(perturbations, str) else list(perturbations)
    given = {"confidence": True, **asked, "networks": names, "perturbations": several}
    study = Study.from_plain(given)
    models = {model.path: model for model in load_models(study)}
    networks = {path: model.network for path, model in models.items()}
    _require_same_task({name: (own.classes, own.input_shape) for name, own in networks.items()})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compare.db" if store is None else Path(store)
        run_sweep(study, path, settings=settings, watch=watch).close()
        data = read_store(path)
    sides = []
    for name, place in zip(names, study.networks, strict=True):
        # Two files of the same network are loaded as one model.
        model = models.get(place) or next(iter(models.values()))
        sides.append(Side(Path(name).stem, model.fingerprint, data))
    return compare_sides(*sides)


def _require_same_task(tasks: Mapping[str, tuple[int, tuple[int, ...]]]) -> None:
    """Refuse networks for different tasks: their classes have nothing to do with each other."""
    classes = {name: count for name, (count, _) in tasks.items()}
    inputs = {name: math.prod(shape) for name, (_, shape) in tasks.items()}
    for how, noun, numbers in (
        ("class by class", "classes", classes),
        ("on the same inputs", "inputs", inputs),
    ):
        if len(set(numbers.values())) > 1:
            counts = " and ".join(f"{name} has {number}" for name, number in numbers.items())
            raise InvalidInput(f"two models are compared {how}, but {counts} {noun}")
    images = {name: shape for name, (_, shape) in tasks.items() if len(shape) == 3}
    if len(set(images.values())) > 1:
        kinds = " and ".join(
            f"{name} takes images of {channels} channels of {rows} x {columns} pixels"
            for name, (channels, rows, columns) in images.items()
        )
        raise InvalidInput(
            f"two models are compared on the same inputs, but {kinds}; where their layouts differ, "
            "sweep each model with its own --layout, then compare the two stores"
        )


def _is_store(name: str) -> bool:
    path = Path(name)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _stored(name: str) -> Side:
    """Read a network of a store: `study.db`, or `study.db:name` if it holds several."""
    path, chosen = (name, None) if _is_store(name) else name.rsplit(":", 1)
    study = read_store(path)
    fitting = [facts for facts in study.networks if chosen in (None, facts.name)]
    if len(fitting) != 1:
        names = ", ".join(facts.name for facts in study.networks)
        raise InvalidInput(f"choose one of the networks of {path}, as {path}:NAME; it has: {names}")
    return Side(fitting[0].name, fitting[0].fingerprint, study)
