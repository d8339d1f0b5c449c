"""How much of a data set the bounds of a study cover, class by class, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vhagar.result import Coverage, CoverageCounts


@dataclass(frozen=True)
class ClassCoverage:
    """One class of one network under one perturbation.

    Inputs count as robust where none of the `targets` can be reached; `all_targets` tells whether
    these are all other classes. `network` is its fingerprint, `domain` the name of the domain,
    empty for all inputs.
    """

    network: str
    perturbation: str
    clip: bool
    source: int
    targets: tuple[int, ...]
    all_targets: bool
    coverage: Coverage
    domain: str = ""


@dataclass(frozen=True)
class StudyCoverage:
    """All classes that a study asks about; `dataset` is the name of the file."""

    dataset: str
    classes: tuple[ClassCoverage, ...]

    def groups(self) -> dict[tuple[str, str, bool, str], list[ClassCoverage]]:
        """The classes of each network under each perturbation, clipped or not, in each domain."""
        found: dict[tuple[str, str, bool, str], list[ClassCoverage]] = {}
        for each in self.classes:
            key = (each.network, each.perturbation, each.clip, each.domain)
            found.setdefault(key, []).append(each)
        return found

    def lines(self, names: Mapping[str, str]) -> list[str]:
        """In words; `names` are those of networks by their fingerprints."""
        return [
            f"{names[network]}, {perturbation}{'' if clip else ' unclipped'}{over(domain)}: "
            f"{total_words(found)}"
            for (network, perturbation, clip, domain), found in self.groups().items()
        ]

    def plain(self) -> dict[str, Any]:
        """In JSON's own types; `from_plain` reads it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> StudyCoverage:
        return cls(values["dataset"], tuple(map(_class, values["classes"])))


def over(domain: str) -> str:
    """`, over NAME` for what is about a domain."""
    return f", over {domain}" if domain else ""


def _class(values: Mapping[str, Any]) -> ClassCoverage:
    found = dict(values["coverage"])
    correct = found["correct"]
    found["classified"] = CoverageCounts(**found["classified"])
    found["correct"] = None if correct is None else CoverageCounts(**correct)
    given = {**values, "targets": tuple(values["targets"]), "coverage": Coverage(**found)}
    return ClassCoverage(**given)


def total(classes: Sequence[ClassCoverage]) -> CoverageCounts:
    """The counts of several classes together."""
    counts = [each.coverage.classified for each in classes]
    return CoverageCounts(
        sum(each.inputs for each in counts),
        sum(each.robust for each in counts),
        sum(each.attackable for each in counts),
    )


def total_words(classes: Sequence[ClassCoverage]) -> str:
    """What is known of the inputs of several classes, in one sentence."""
    counts = total(classes)
    if not counts.inputs:
        return "no input is classified as a class that was asked about"
    toward = "" if all(each.all_targets for each in classes) else " against the targets asked"
    return (
        f"of {counts.inputs} inputs {counts.robust} ({share(counts)} %) are proven robust{toward}, "
        f"{counts.attackable} were attacked with success, {counts.unknown} are undecided"
    )


def share(counts: CoverageCounts) -> str:
    """The percentage that is proven robust, rounded down."""
    return f"{math.floor(1000 * counts.robust / max(counts.inputs, 1)) / 10:g}"
