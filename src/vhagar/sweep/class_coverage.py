"""How much of a data set the bounds of a study cover, class by class, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vhagar.result import Coverage, CoverageCounts, numbers
from vhagar.result.evidence import counts_words, outside_words
from vhagar.result.values import coverage_of_plain


@dataclass(frozen=True)
class ClassCoverage:
    """One class of one network under one perturbation.

    Inputs count as robust if none of the `targets` can be reached; `all_targets` says whether
    these are all other classes. `network` is the network's fingerprint, `domain` the name of the
    domain, empty for all inputs.
    """

    network: str
    perturbation: str
    clip: bool
    source: int
    targets: tuple[int, ...]
    all_targets: bool
    coverage: Coverage
    domain: str = ""

    def with_attacks_of(self, earlier: ClassCoverage) -> ClassCoverage:
        """Take over the attacks of an earlier count, if more of them succeeded.

        Each had a checked witness, and an attackable input is never proven robust later.
        """
        if replace(earlier, coverage=self.coverage) != self:  # a different question
            return self
        now, before = self.coverage, earlier.coverage
        found, known = now.classified, before.classified
        fits = known.inputs == found.inputs and known.attackable + found.robust <= found.inputs
        if not fits or known.attackable <= found.attackable:
            return self
        correct = now.correct
        if correct is not None and before.correct is not None:
            correct = replace(correct, attackable=before.correct.attackable)
        classified = replace(found, attackable=known.attackable)
        return replace(self, coverage=replace(now, classified=classified, correct=correct))


@dataclass(frozen=True)
class StudyCoverage:
    """The coverage of all classes of a study; `dataset` is the file's name, `sha256` its hash."""

    dataset: str
    classes: tuple[ClassCoverage, ...]
    sha256: str = ""

    def with_attacks_of(self, earlier: StudyCoverage | None) -> StudyCoverage:
        """Take over the attacks of an earlier count of the same file, for classes with more."""
        if earlier is None or earlier.sha256 != self.sha256:
            return self
        classes = list(self.classes)
        for known in earlier.classes:
            classes = [each.with_attacks_of(known) for each in classes]
        return replace(self, classes=tuple(classes))

    def groups(self) -> dict[tuple[str, str, bool, str], list[ClassCoverage]]:
        """The classes of each network under each perturbation, clipped or not, in each domain."""
        found: dict[tuple[str, str, bool, str], list[ClassCoverage]] = {}
        for each in self.classes:
            key = (each.network, each.perturbation, each.clip, each.domain)
            found.setdefault(key, []).append(each)
        return found

    def labels(
        self, names: Mapping[str, str], shown: Mapping[tuple[str, str], str]
    ) -> dict[tuple[str, str, bool, str], str]:
        """What each of the groups is called.

        `names` maps fingerprints to names of networks; `shown` maps perturbations and domains to
        perturbations with the names that the domain has for features.
        """
        return {
            (network, text, clip, domain): f"{names[network]}, "
            f"{shown.get((text, domain), text)}{'' if clip else ' unclipped'}{over(domain)}"
            for network, text, clip, domain in self.groups()
        }

    def lines(
        self, names: Mapping[str, str], shown: Mapping[tuple[str, str], str] | None = None
    ) -> list[str]:
        """Describe the coverage in words; `names` and `shown` are as for `labels`."""
        labels = self.labels(names, shown or {})
        return [f"{labels[key]}: {total_words(found)}" for key, found in self.groups().items()]

    def plain(self) -> dict[str, Any]:
        """Convert to JSON's own types; `from_plain` reads them."""
        found = asdict(self)
        for each in found["classes"]:
            del each["coverage"]["rows"]  # of all questions, they would fill a store
        return found

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> StudyCoverage:
        classes = tuple(map(_class, values["classes"]))
        return cls(values["dataset"], classes, values.get("sha256", ""))


def over(domain: str) -> str:
    """The text `, over NAME` if there is a domain."""
    return f", over {domain}" if domain else ""


def _class(values: Mapping[str, Any]) -> ClassCoverage:
    coverage = coverage_of_plain(values["coverage"])
    return ClassCoverage(**{**values, "targets": tuple(values["targets"]), "coverage": coverage})


def total(classes: Sequence[ClassCoverage]) -> CoverageCounts:
    """The counts of several classes together."""
    return _sum([each.coverage.classified for each in classes])


def correct_total(classes: Sequence[ClassCoverage]) -> CoverageCounts | None:
    """The counts of the correctly classified inputs of several classes; None without labels."""
    known = [each.coverage.correct for each in classes if each.coverage.correct is not None]
    return _sum(known) if known and len(known) == len(classes) else None


def _sum(counts: Sequence[CoverageCounts]) -> CoverageCounts:
    return CoverageCounts(
        sum(each.inputs for each in counts),
        sum(each.robust for each in counts),
        sum(each.attackable for each in counts),
    )


def total_words(classes: Sequence[ClassCoverage]) -> str:
    """State the coverage of several classes together in one sentence."""
    counts = total(classes)
    outside = sum(each.coverage.outside for each in classes)
    if not counts.inputs and outside:
        return f"all {outside} inputs of the classes asked about lie outside of the domain"
    if not counts.inputs:
        return "no input is classified as a class that was asked about"
    toward = "" if all(each.all_targets for each in classes) else " against the targets asked"
    words = counts_words(counts, f"of {counts.inputs} inputs", toward, correct_total(classes))
    return words + outside_words(outside)


def share(counts: CoverageCounts) -> str:
    """The percentage that is proven robust, rounded down."""
    return numbers.share(counts.robust, counts.inputs)
