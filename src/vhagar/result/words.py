"""Say results in plain English, with numbers rounded outward: every sentence is true as printed."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from vhagar.problem import Problem, classed
from vhagar.result.evidence import (
    change_rows,
    coverage_words,
    domain_words,
    estimate_words,
    nearest_words,
    plausible_rows,
    uncovered_words,
    which_words,
    witness_words,
)
from vhagar.result.numbers import counted, down, gap, interval, percent, seconds, span, up
from vhagar.result.serialize import check_command
from vhagar.result.values import AbstractResult, BoundKind, Status

# From here on exp(-upper) is too small to distinguish from 0.
_CERTAIN = 30.0
# A bound says little unless an input is known whose confidence exceeds it by this factor.
_NEARLY = 1.01
_PRINTED = Decimal("1.000000")
# Engines that look for witnesses only, by their names.
PROVING_NOTHING = frozenset({"attack", "paper-attack", "dataset", "random"})


def final_sentence(result: AbstractResult) -> str:
    """The answer in two short sentences: what is proven, and what was found."""
    problem = result.problem
    if problem.perturbation is None:
        return _confidence_sentence(result)
    subject = f"no input{_within(problem)} classified {problem.source_name}"
    fate = f"can be {_pushed(problem)}"
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
    into = "another class" if problem.all_others else classed(problem.target_names)
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
        covered = result.coverage
        if covered is not None and covered.classified.attackable:
            count = covered.classified.attackable
            was = "was" if count == 1 else "were"
            return f"{counted(count, 'input')} of the data set {was} attacked with success."
        return "No counterexample was found."
    low, _ = _ends(result)
    name = result.problem.class_name(witness.target)
    if witness.tie:
        return f"Counterexample at {low}: an exact tie with {classed(name)}."
    which = "" if len(result.problem.targets) == 1 else f", pushed into {classed(name)}"
    return f"Counterexample at {low}{which}."


def _confidence_sentence(result: AbstractResult) -> str:
    label = result.problem.source_name
    low, high = _ends(result)
    within = _within(result.problem)
    found = f"An input with confidence {low} was found."
    if result.witness is None:
        found = f"No input classified {label} was found."
    if not math.isfinite(result.upper):
        return f"No bound was proven on the confidence in {classed(label)}. {found}"
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
    """List the evidence for the answer as labelled lines: data and witnesses first."""
    problem = result.problem
    data = _data_rows(result)
    about_data = any(label == "note" for label, _ in data)
    # What says nothing about the data says nothing: one such note is enough.
    rows = [] if problem.perturbation is None or about_data else _vacuous_rows(result)
    rows += data
    if result.witness is not None:
        rows.append(("witness", witness_words(result.witness, problem)))
        rows += change_rows(result.witness, problem)
    if result.nearest is not None:
        rows.append(("nearest", nearest_words(result.nearest, problem)))
    if result.plausible is not None:
        rows += plausible_rows(result.plausible, problem)
    if problem.perturbation is not None:
        rows += _probability_rows(result.upper)
    if result.percent is not None and result.max_confidence is not None:
        reference = result.max_confidence
        largest = f"the maximal confidence in {classed(problem.source_name)}"
        known = span(reference.lower, reference.upper)
        rows.append(("percent", f"{percent(*result.percent)} of {largest}, which is {known}"))
    if math.isfinite(result.upper):
        rows.append(("upper", result.kind.value))
    if not problem.domain.whole:
        proved = result.certificate is not None
        rows.append(("domain", domain_words(problem.domain, fingerprint=proved)))
    if problem.map_fingerprint is not None:
        rows.append(("map", f"its numbers have SHA-256 {problem.map_fingerprint}"))
    if result.certificate is not None:
        command = check_command(result.certificate, problem)
        rows.append(("proof", f"{result.certificate}; check with: {command}"))
    if result.device != "cpu":
        rows.append(("device", result.device))
    if result.estimate is not None:
        rows.append(("mean", estimate_words(result.estimate, problem.source_name)))
    rows += [("note", note) for note in result.notes]
    advice = _advice(result)
    return [*rows, ("next", advice)] if advice else rows


def _data_rows(result: AbstractResult) -> list[tuple[str, str]]:
    """What the bound says of a data set, if one was given."""
    covered = result.coverage
    if covered is None:
        return []
    rows = [("coverage", coverage_words(covered, result.problem.source_name))]
    which = "" if covered.rows is None else which_words(covered.rows)
    rows += [("which", which)] if which else []
    if covered.largest <= result.upper:
        rows.append(("note", uncovered_words(covered, result.upper)))
    return rows


def _advice(result: AbstractResult) -> str:
    """What can be done about a bound that says nothing, and about inputs that are undecided."""
    covered, found = result.coverage, []
    if result.problem.perturbation is None:
        return ""
    if _vacuous_rows(result) or (covered is not None and covered.largest <= result.upper):
        found.append(f"{_ways(result)} can lower the bound")
    if covered is not None and covered.classified.unknown and _is_local(result.problem):
        found.append("vhagar local asks about one input at a time")
    return "; ".join(found)


def _ways(result: AbstractResult) -> str:
    """What can lower the bound; that of an engine which proves nothing is there from the start."""
    if result.engine in PROVING_NOTHING:
        return "vhagar verify"
    single = " a single target," if len(result.problem.targets) > 1 else ""
    time = " more time," if result.status is Status.TIMEOUT else ""
    return f"{time}{single} a smaller perturbation or a domain".removeprefix(" ")


def _is_local(problem: Problem) -> bool:
    """Whether the question can be asked about one given input, too."""
    formulas = (piece.formula for piece in problem.pieces)
    return not problem.domain.perturbed_inside and all(each is not None for each in formulas)


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


def _vacuous_rows(result: AbstractResult) -> list[tuple[str, str]]:
    """Warn about a bound that says next to nothing, as hardly any input can exceed it."""
    largest, upper = result.max_confidence, result.upper
    if largest is None or not math.isfinite(upper) or not exceeds_nearly_all(upper, largest.lower):
        return []
    words = (
        f"the bound says next to nothing: an input must be more confident than {up(upper)}, "
        f"and the largest confidence found is {down(largest.lower)}"
    )
    return [("note", words)]


def exceeds_nearly_all(upper: float, largest: float) -> bool:
    """Whether a bound is within 1 % of the largest known confidence, or above it."""
    return 0 < largest <= _NEARLY * upper


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
