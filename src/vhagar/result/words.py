"""Say results in plain English, with numbers rounded outward: every sentence is true as printed."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

import numpy as np

from vhagar.dataset import Neighbour
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.result.numbers import down, gap, interval, percent, seconds, span, up
from vhagar.result.serialize import check_command
from vhagar.result.values import (
    AbstractResult,
    BoundKind,
    Coverage,
    CoverageCounts,
    Estimate,
    Interval,
    Status,
)
from vhagar.result.witness import Witness

# From here on exp(-upper) is too small to distinguish from 0.
_CERTAIN = 30.0
# A bound says little unless an input is known whose confidence exceeds it by this factor.
_NEARLY = 1.01
_PRINTED = Decimal("1.000000")
# Features whose changes are printed.
_MOST_CHANGES = 12


def final_sentence(result: AbstractResult) -> str:
    """The answer in two short sentences: what is proven, and what was found."""
    problem = result.problem
    if problem.perturbation is None:
        return _confidence_sentence(result)
    subject, fate = (
        f"no input{_within(problem)} classified {problem.source_name}",
        f"can be {_pushed(problem)}",
    )
    if not math.isfinite(result.upper):
        return f"No bound was proven on the confidence of inputs that {fate}. {_found(result)}"
    if result.status is Status.ROBUST:
        return f"{_standing(result)} {subject} {fate}, whatever its confidence."
    _, high = _ends(result)
    return f"{_standing(result)} {subject} with confidence above {high} {fate}. {_found(result)}"


def _within(problem: Problem) -> str:
    return "" if problem.domain.whole else f" of the domain {problem.domain}"


def _standing(result: AbstractResult) -> str:
    """Begin the statement with its standing: not every upper bound is a proof."""
    return "According to Marabou," if result.kind is BoundKind.MARABOU else "Proven:"


def _pushed(problem: Problem) -> str:
    how = "" if problem.perturbation is None else problem.perturbation.shown
    clipping = "" if problem.clip else " without clipping"
    into = "another class" if problem.all_others else f"class {problem.target_names}"
    return f"pushed into {into} by {how}{clipping}"


def _ends(result: AbstractResult) -> tuple[str, str]:
    """Format both ends with equally many decimals; without a witness the upper one on its own."""
    if result.witness is None:
        return "0", up(result.upper)
    if not math.isfinite(result.upper):
        return down(result.lower), "unknown"
    return interval(result.lower, result.upper)


def _found(result: AbstractResult) -> str:
    witness = result.witness
    if witness is None:
        return "No counterexample was found."
    low, _ = _ends(result)
    name = result.problem.class_name(witness.target)
    if witness.tie:
        return f"Counterexample at {low}: an exact tie with class {name}."
    which = "" if len(result.problem.targets) == 1 else f", pushed into class {name}"
    return f"Counterexample at {low}{which}."


def _confidence_sentence(result: AbstractResult) -> str:
    label = result.problem.source_name
    low, high = _ends(result)
    within = _within(result.problem)
    found = f"An input with confidence {low} was found."
    if result.witness is None:
        found = f"No input classified {label} was found."
    if not math.isfinite(result.upper):
        return f"No bound was proven on the confidence in class {label}. {found}"
    if result.status is Status.ROBUST:
        return f"Proven: no input{within} is classified {label} with any confidence."
    return f"Proven: no input{within} is classified {label} with confidence above {high}. {found}"


def summary(result: AbstractResult) -> str:
    """Summarise a result in a few lines: the question, the interval, its evidence, the answer."""
    rows = [
        ("interval", interval_words(result.lower, result.upper)),
        ("status", outcome(result)),
        *details(result),
    ]
    lines = [f"{label + ':':10}{text}" for label, text in rows]
    return "\n".join([str(result.problem), *lines, final_sentence(result)])


def details(result: AbstractResult) -> list[tuple[str, str]]:
    """List the evidence for the answer as labelled lines."""
    problem = result.problem
    rows = [("upper", result.kind.value)] if math.isfinite(result.upper) else []
    if result.percent is not None and result.max_confidence is not None:
        reference = result.max_confidence
        rows.append(
            (
                "percent",
                f"{percent(*result.percent)} of the maximal confidence in class "
                f"{problem.source_name}, which is {span(reference.lower, reference.upper)}",
            )
        )
    if problem.perturbation is not None:
        rows += _vacuous_rows(result)
        rows += _probability_rows(result.upper)
    if result.coverage is not None:
        rows.append(("coverage", coverage_words(result.coverage, problem.source_name)))
        if result.coverage.largest <= result.upper:
            rows.append(("note", _uncovered_words(result.coverage, result.upper)))
    if result.witness is not None:
        rows.append(("witness", witness_words(result.witness, problem)))
        rows += _change_rows(result.witness, problem)
    if result.nearest is not None:
        rows.append(("nearest", _nearest_words(result.nearest, problem)))
    if not problem.domain.whole:
        rows.append(("domain", domain_words(problem.domain)))
    if problem.map_fingerprint is not None:
        rows.append(("map", f"its numbers have SHA-256 {problem.map_fingerprint}"))
    if result.certificate is not None:
        command = check_command(result.certificate, problem)
        rows.append(("proof", f"{result.certificate}; check with: {command}"))
    if result.device != "cpu":
        rows.append(("device", result.device))
    if result.estimate is not None:
        rows.append(("mean", _estimate_words(result.estimate, problem.source_name)))
    rows += [("note", note) for note in result.notes]
    return rows


def domain_words(domain: Domain) -> str:
    """A domain in one sentence."""
    narrowed = int(domain.restricted.sum())
    found = f"{domain}, which narrows the range of {narrowed} of {domain.size} entries"
    found = "; ".join([found, *_condition_words(domain)])
    leave = "must lie in it, too" if domain.perturbed_inside else "may leave it"
    return f"{found}; perturbed inputs {leave}; its numbers have SHA-256 {domain.fingerprint}"


def _condition_words(domain: Domain) -> list[str]:
    """Describe the conditions other than ranges, and which of them upper bounds ignore."""
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
    if len(groups.whole):
        found.append("upper bounds also count values between whole numbers")
    return found


def sufficient_probability(upper: float) -> float:
    """The softmax probability above which a confidence exceeds `upper`, rounded up.

    `p / (1 - p)` is `exp(score)` over the sum of all others', which is at most `exp(confidence)`.
    """
    return min(1.0, (1 + 2.0**-40) / (1 + math.exp(-upper))) if upper < _CERTAIN else 1.0


def _probability_rows(upper: float) -> list[tuple[str, str]]:
    """State the bound as a softmax probability, unless it would be printed as 1."""
    enough = Decimal(sufficient_probability(upper)).quantize(_PRINTED, rounding=ROUND_CEILING)
    if enough >= 1:
        return []
    return [("softmax", f"a probability above {enough} is a confidence above {up(upper)}")]


def coverage_words(coverage: Coverage, source: str) -> str:
    """Say in one sentence how many inputs of a data set are robust, attacked and undecided."""
    counts, outside = coverage.classified, coverage.outside
    if not counts.inputs and outside:
        those = f"{outside} inputs" if outside > 1 else "input"
        return f"the domain contains none of the {those} classified {source}"
    if not counts.inputs:
        return f"none of the {coverage.inputs} inputs is classified {source}"
    parts = [
        f"{_part(counts.robust, counts)} are proven robust",
        f"{counts.attackable} were attacked with success",
        f"{counts.unknown} are undecided",
    ]
    within = " inside the domain" if outside else ""
    noun = "input" if counts.inputs == 1 else "inputs"
    words = f"of {counts.inputs} {noun} classified {source}{within}, {', '.join(parts)}"
    correct = coverage.correct
    if correct is not None:
        part = _part(correct.robust, correct)
        words += f"; of the {correct.inputs} classified correctly, {part}"
    return words + (f"; {outside} more lie outside of the domain" if outside else "")


def _part(number: int, counts: CoverageCounts) -> str:
    """Format a number and its percentage, rounded down: it reads 100 only for all of them."""
    if not counts.inputs:
        return str(number)
    share = math.floor(1000 * number / counts.inputs) / 10
    return f"{number} ({share:g} %)"


def _vacuous_rows(result: AbstractResult) -> list[tuple[str, str]]:
    """Warn about a bound that says next to nothing, as hardly any input can exceed it."""
    largest, upper = result.max_confidence, result.upper
    if not is_vacuous(upper, largest) or largest is None or not math.isfinite(upper):
        return []
    return [
        (
            "note",
            f"the bound says next to nothing: no input is known to be more confident than "
            f"{up(upper)} by 1 %; the largest confidence found is {down(largest.lower)}",
        )
    ]


def is_vacuous(upper: float, largest: Interval | None) -> bool:
    """Whether a bound is within 1 % of the largest known confidence, or above it."""
    return largest is not None and 0 < largest.lower <= _NEARLY * upper


def _uncovered_words(coverage: Coverage, upper: float) -> str:
    if not coverage.classified.inputs:
        return "the bound says nothing about this data: it holds no input that the bound is about"
    return (
        f"the bound says nothing about this data: no input has a confidence above {up(upper)}, "
        f"the largest is {down(coverage.largest)}"
    )


def outcome(result: AbstractResult) -> str:
    """How the run ended, and when."""
    problem, why = result.problem, result.status.value
    if problem.perturbation is None and result.status is Status.ROBUST:
        why = f"nothing is classified {problem.source_name}"  # nobody asked about attacks
    return f"{why}, after {seconds(result.seconds)}"


def interval_words(lower: float, upper: float) -> str:
    """The interval and its gap."""
    low, high = interval(lower, upper)
    return f"[{low}, {high}], gap {gap(lower, upper)}"


def witness_words(witness: Witness, problem: Problem) -> str:
    """The witness in one sentence."""
    start = f"an input with confidence {down(witness.confidence)} in class {problem.source_name}"
    if witness.target is None or witness.margin is None:
        return start
    target = problem.class_name(witness.target)
    if witness.tie:
        end = f"perturbed, class {target} ties for the highest score"
    else:
        end = f"perturbed, it is classified {target} by a margin of {down(witness.margin)}"
    return f"{start}; {end} ({_how(witness)})"


def changes(witness: Witness, problem: Problem) -> list[tuple[str, float, float]]:
    """List the features that a witness's perturbation changes: name, before and after.

    The largest change comes first, relative to the feature's range in the domain.
    """
    if witness.x_p is None:
        return []
    domain = problem.domain
    x, x_p = witness.x.reshape(-1), witness.x_p.reshape(-1)
    width = domain.high - domain.low
    size = abs(x_p - x) / np.where(width > 0, width, domain.width)
    order = [k for k in np.argsort(-size, kind="stable").tolist() if size[k] > 0]
    return [(domain.entry_name(k), float(x[k]), float(x_p[k])) for k in order]


def _nearest_words(found: Neighbour, problem: Problem) -> str:
    """The input of the data set that is nearest to the witness."""
    label = "" if found.label is None else f", labelled {problem.class_name(found.label)},"
    return (
        f"input {found.row} of the data set{label} is nearest to the witness; they differ by "
        f"{100 * found.distance:.3g} % of their ranges (root mean square)"
    )


def _change_rows(witness: Witness, problem: Problem) -> list[tuple[str, str]]:
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
    noun = "features" if more > 1 else "feature"
    return [*rows, ("change", f"and {more} more {noun}")] if more else rows


def _estimate_words(estimate: Estimate, source: str) -> str:
    """State the estimated mean, with the half-width rounded up."""
    sure = f"{100 * (1 - estimate.level):g} %"
    return (
        f"{estimate.mean:.4g} +- {up(estimate.half_width)} (probability {sure}) over inputs "
        f"classified {source} drawn at random, {estimate.samples} of them; 0 for those that "
        "cannot be pushed into a target class"
    )


def _how(witness: Witness) -> str:
    """Name the piece and its chosen parameters; whole numbers are part of its label already."""
    chosen = [
        f"{name} {value:.4g}"
        for name, value in (witness.parameters or {}).items()
        if isinstance(value, float)
    ]
    return ", ".join([witness.piece, *chosen])
