"""Describe the evidence beside an interval in words: witness, data set, mean, domain."""

from __future__ import annotations

import numpy as np

from vhagar.dataset import Neighbour
from vhagar.perturbation import Domain
from vhagar.perturbation.quotients import with_quotients
from vhagar.problem import Problem, classed
from vhagar.result.numbers import counted, down, share, up
from vhagar.result.values import (
    Coverage,
    CoverageCounts,
    CoverageRows,
    Estimate,
    PlausibleWitness,
)
from vhagar.result.witness import Witness

# Features whose changes are printed.
_MOST_CHANGES = 12
# Inputs of a data set that are named.
_MOST_INPUTS = 10


def witness_words(witness: Witness, problem: Problem) -> str:
    """The witness in one sentence."""
    start = f"an input with confidence {down(witness.confidence)} in {classed(problem.source_name)}"
    if witness.target is None or witness.margin is None:
        return start
    target = problem.class_name(witness.target)
    if witness.tie:
        end = f"perturbed, {classed(target)} ties for the highest score"
    else:
        end = f"perturbed, it is classified {target} by a margin of {down(witness.margin)}"
    return f"{start}; {end} ({_how(witness)})"


def changes(witness: Witness, problem: Problem) -> list[tuple[str, float, float]]:
    """List the features that a witness's perturbation changes: name, before and after.

    The largest change comes first, relative to the feature's range in the domain.
    """
    if witness.x_p is None:
        return []
    x, x_p = witness.x.reshape(-1), witness.x_p.reshape(-1)
    order = feature_changes(witness, problem.domain)
    return [(problem.domain.entry_name(k), float(x[k]), float(x_p[k])) for k in order]


def feature_changes(witness: Witness, domain: Domain) -> list[int]:
    """The entries that a witness's perturbation changes, the largest part of a range first."""
    if witness.x_p is None:
        return []
    width = domain.high - domain.low
    change = abs(witness.x_p - witness.x).reshape(-1)
    size = change / np.where(width > 0, width, domain.width)
    return [k for k in np.argsort(-size, kind="stable").tolist() if size[k] > 0]


def nearest_words(found: Neighbour, problem: Problem, to: str = "the witness") -> str:
    """The input of the data set that is nearest to a witness."""
    label = "" if found.label is None else f", labelled {problem.class_name(found.label)},"
    return (
        f"input {found.row} of the data set{label} is nearest to {to}; entries differ by "
        f"{100 * found.distance:.3g} % of their ranges (root mean square)"
    )


def plausible_rows(found: PlausibleWitness, problem: Problem) -> list[tuple[str, str]]:
    """The witness near the data set, its changes and the input that is nearest to it."""
    return [
        ("near", f"near the data, {witness_words(found.witness, problem)}"),
        *change_rows(found.witness, problem),
        ("nearest", nearest_words(found.nearest, problem, "the witness near the data")),
    ]


def change_rows(witness: Witness, problem: Problem) -> list[tuple[str, str]]:
    """List the largest changes of a witness feature by feature, if inputs are not images."""
    if len(problem.domain.shape) != 1 or not problem.domain.features:
        return []
    found = changes(witness, problem)
    width = max((len(name) for name, _, _ in found[:_MOST_CHANGES]), default=0)
    rows = [
        ("change", f"{name:{width}}  {before:.6g} -> {after:.6g}")
        for name, before, after in found[:_MOST_CHANGES]
    ]
    more = len(found) - len(rows)
    return [*rows, ("change", f"and {counted(more, 'more feature')}")] if more else rows


def _how(witness: Witness) -> str:
    """Name the piece and its chosen parameters; whole numbers are part of its label already."""
    chosen = [
        f"{name} {value:.4g}"
        for name, value in (witness.parameters or {}).items()
        if isinstance(value, float)
    ]
    return ", ".join([with_quotients(witness.piece), *chosen])


def coverage_words(coverage: Coverage, source: str) -> str:
    """Say in one sentence how many inputs of a data set are robust, attacked and undecided."""
    counts, outside = coverage.classified, coverage.outside
    if not counts.inputs and outside:
        those = f"{outside} inputs" if outside > 1 else "input"
        return f"the domain contains none of the {those} classified {source}"
    if not counts.inputs:
        return f"none of the {coverage.inputs} inputs is classified {source}"
    within = " inside the domain" if outside else ""
    whole = f"of {counted(counts.inputs, 'input')} classified {source}{within},"
    return counts_words(counts, whole, "", coverage.correct) + outside_words(outside)


def which_words(rows: CoverageRows) -> str:
    """Name the inputs that are not proven robust, of each kind that has only a few."""
    kinds = (
        ("attacked", rows.attackable),
        ("undecided", rows.unknown),
        ("outside of the domain", rows.outside),
    )
    found = [
        f"{'input' if len(places) == 1 else 'inputs'} {', '.join(map(str, places))} ({kind})"
        for kind, places in kinds
        if 0 < len(places) <= _MOST_INPUTS
    ]
    return f"{'; '.join(found)}; the first input is 0" if found else ""


def outside_words(outside: int) -> str:
    """How many inputs of a data set the bound says nothing about; nothing if there are none."""
    verb = "lies" if outside == 1 else "lie"
    return f"; {outside} more {verb} outside of the domain" if outside else ""


def counts_words(
    counts: CoverageCounts, whole: str, toward: str, correct: CoverageCounts | None
) -> str:
    """Say how many inputs of a whole are robust, attacked and undecided, and correct among them."""
    one, hit, left = (number == 1 for number in (counts.robust, counts.attackable, counts.unknown))
    words = (
        f"{whole} {_part(counts.robust, counts)} {'is' if one else 'are'} proven robust{toward}, "
        f"{counts.attackable} {'was' if hit else 'were'} attacked with success, "
        f"{counts.unknown} {'is' if left else 'are'} undecided"
    )
    if correct is None:
        return words
    part = _part(correct.robust, correct)
    verb = "is" if correct.robust == 1 else "are"
    return f"{words}; of the {correct.inputs} classified correctly, {part} {verb} proven robust"


def _part(number: int, counts: CoverageCounts) -> str:
    """Format a number and its percentage."""
    if not counts.inputs:
        return str(number)
    return f"{number} ({share(number, counts.inputs)} %)"


def uncovered_words(coverage: Coverage, upper: float) -> str:
    """Say that no input of a data set exceeds the bound."""
    if not coverage.classified.inputs:
        return "the bound says nothing about this data: it holds no input that the bound is about"
    return (
        f"the bound says nothing about this data: no input has a confidence above {up(upper)}, "
        f"the largest is {down(coverage.largest)}"
    )


def estimate_words(estimate: Estimate, source: str) -> str:
    """State the estimated mean, with the half-width rounded up."""
    sure = f"{100 * (1 - estimate.level):g} %"
    mean = f"{estimate.mean:.4g}"
    # What the rounding of the mean leaves out is added to the half-width.
    room = estimate.half_width + abs(estimate.mean - float(mean))
    return (
        f"{mean} +- {up(room)} (probability {sure}) over inputs "
        f"classified {source} drawn at random, {estimate.samples} of them; 0 for those that "
        "cannot be pushed into a target class"
    )


def domain_words(domain: Domain, fingerprint: bool = False) -> str:
    """A domain in one sentence; with its fingerprint, to compare with a certificate's."""
    narrowed = int(domain.restricted.sum())
    entries = "features" if domain.features else "entries"
    found = f"{domain}, which narrows the range of {narrowed} of {domain.size} {entries}"
    found = "; ".join([found, *_condition_words(domain)])
    leave = "must lie in it, too" if domain.perturbed_inside else "may leave it"
    known = f"; its numbers have SHA-256 {domain.fingerprint}" if fingerprint else ""
    return f"{found}; perturbed inputs {leave}{known}"


def _condition_words(domain: Domain) -> list[str]:
    """Describe the conditions other than ranges."""
    groups, found = domain.groups, []
    rows = 0 if domain.own_rows is None else domain.own_rows.count
    for count, one, several in (
        (len(groups.integer), "entry is a whole number", "entries are whole numbers"),
        (len(groups.one_hot), "group is one-hot", "groups are one-hot"),
        (len(groups.ordered), "group is in ascending order", "groups are in ascending order"),
        (rows, "linear row holds", "linear rows hold"),
    ):
        if count:
            found.append(f"{count} {one if count == 1 else several}")
    if domain.zonotope is not None:
        found.append(f"inputs lie in a zonotope of {domain.zonotope.count} components")
    return found
