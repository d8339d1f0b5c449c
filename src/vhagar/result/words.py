"""Results in plain English. Numbers are rounded outward, so every sentence is true as printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vhagar.problem import Problem
from vhagar.result.numbers import down, gap, interval, percent, seconds, span, up
from vhagar.result.serialize import check_command
from vhagar.result.values import AbstractResult, BoundKind, Estimate, Status
from vhagar.result.witness import Witness

_BY_ITS_WORD = ", by Marabou's word"


def headline(problem: Problem) -> str:
    """The question, in a few words: `mnist_conv1, occlusion(14,14,3), class 2 to 3`."""
    name = problem.network.name
    if problem.perturbation is None:
        return f"{name}, maximal confidence in class {problem.source}"
    targets = "any other" if _all_others(problem) else _listed(problem.targets, "or")
    unclipped = "" if problem.clip else " unclipped"
    return f"{name}, {problem.perturbation}{unclipped}, class {problem.source} to {targets}"


def final_sentence(result: AbstractResult, problem: Problem) -> str:
    """The answer, as one sentence."""
    if problem.perturbation is None:
        return _confidence_sentence(result, problem)
    subject, keeps = f"every input classified {problem.source}", _keeps(problem)
    if not math.isfinite(result.upper):
        return (
            f"no bound was proven on the confidence of attackable inputs{_witness_clause(result)}"
        )
    if result.status is Status.ROBUST:
        trust = _BY_ITS_WORD if result.kind is BoundKind.MARABOU else ""
        return f"{subject}, whatever its confidence, {keeps}{trust}"
    if result.witness is None:
        above = f"with confidence above {up(result.upper)}"
        trust = _BY_ITS_WORD if result.kind is BoundKind.MARABOU else ""
        return f"{subject} {above} {keeps}{trust}; no attackable input was found"
    low, high = interval(result.lower, result.upper)
    return (
        f"{subject} with confidence above {span(result.lower, result.upper)} {keeps}: "
        f"above {high} {_standing(result)}, and one with confidence {low} "
        f"{_fate(result.witness)}"
    )


def details(result: AbstractResult, problem: Problem) -> list[tuple[str, str]]:
    """What supports the answer, as labelled lines."""
    rows = [("upper", result.kind.value)] if math.isfinite(result.upper) else []
    if result.percent is not None and result.max_confidence is not None:
        reference = result.max_confidence
        rows.append(
            (
                "percent",
                f"{percent(*result.percent)} of the maximal confidence in class {problem.source}, "
                f"which is {span(reference.lower, reference.upper)}",
            )
        )
    if result.witness is not None:
        rows.append(("witness", witness_words(result.witness, problem.source)))
    if problem.map_fingerprint is not None:
        rows.append(("map", f"its numbers have SHA-256 {problem.map_fingerprint}"))
    if result.certificate is not None:
        command = check_command(result.certificate, problem)
        rows.append(("proof", f"{result.certificate}, which this checks: {command}"))
    if result.device != "cpu":
        rows.append(("device", result.device))
    if result.estimate is not None:
        rows.append(("mean", _estimate_words(result.estimate, problem.source)))
    rows += [("note", note) for note in result.notes]
    return rows


def outcome(result: AbstractResult, problem: Problem) -> str:
    """How the run ended, and when."""
    why = result.status.value
    if problem.perturbation is None and result.status is Status.ROBUST:
        why = f"nothing is classified {problem.source}"  # nobody asked about attacks
    return f"{why}, after {seconds(result.seconds)}"


def interval_words(lower: float, upper: float) -> str:
    """The interval and its gap."""
    low, high = interval(lower, upper)
    return f"[{low}, {high}], gap {gap(lower, upper)}"


def witness_words(witness: Witness, source: int) -> str:
    """The witness in one sentence."""
    start = f"an input with confidence {down(witness.confidence)} in class {source}"
    if witness.target is None or witness.margin is None:
        return start
    if witness.tie:
        end = f"perturbed, class {witness.target} ties for the highest score"
    else:
        end = f"perturbed, it is classified {witness.target} by a margin of {down(witness.margin)}"
    return f"{start}; {end} ({_how(witness)})"


def _standing(result: AbstractResult) -> str:
    """What the upper end rests on, in the answer itself: not everything is a proof."""
    return "Marabou says so" if result.kind is BoundKind.MARABOU else "this is proven"


def _estimate_words(estimate: Estimate, source: int) -> str:
    """Digits that make sense beside the half-width, which is rounded up."""
    sure = f"{100 * (1 - estimate.level):g} %"
    return (
        f"{estimate.mean:.4g} +- {up(estimate.half_width)} (probability {sure}) over inputs "
        f"classified {source} drawn at random, {estimate.samples} of them; 0 for those that keep "
        "clear of the targets"
    )


def _confidence_sentence(result: AbstractResult, problem: Problem) -> str:
    label = problem.source
    if not math.isfinite(result.upper):
        found = "" if result.witness is None else f"; one input reaches {down(result.lower)}"
        return f"no bound was proven on the confidence in class {label}{found}"
    if result.status is Status.ROBUST:
        return f"no input is classified {label} with any confidence"
    if result.witness is None:
        above = f"with confidence above {up(result.upper)}"
        return f"no input is classified {label} {above}; no input classified {label} was found"
    low, high = interval(result.lower, result.upper)
    return (
        f"the maximal confidence in class {label} is {span(result.lower, result.upper)}: "
        f"more than {high} is proven impossible, and an input with confidence {low} was found"
    )


def _keeps(problem: Problem) -> str:
    clipping = "" if problem.clip else " without clipping"
    if _all_others(problem):
        return f"keeps its class under {problem.perturbation}{clipping}"
    several = "class" if len(problem.targets) == 1 else "classes"
    named = _listed(problem.targets, "and")
    return f"keeps clear of {several} {named} under {problem.perturbation}{clipping}"


def _fate(witness: Witness) -> str:
    if witness.tie:
        return f"is brought to a tie with class {witness.target}"
    return f"is pushed into class {witness.target}"


def _witness_clause(result: AbstractResult) -> str:
    if result.witness is None:
        return ""
    return f"; one with confidence {down(result.lower)} {_fate(result.witness)}"


def _how(witness: Witness) -> str:
    """The piece, and the parameters chosen within it; whole numbers are part of its label."""
    chosen = [
        f"{name} {value:.4g}"
        for name, value in (witness.parameters or {}).items()
        if isinstance(value, float)
    ]
    return ", ".join([witness.piece, *chosen])


def _all_others(problem: Problem) -> bool:
    return len(problem.targets) == problem.network.classes - 1


def _listed(labels: Sequence[int], word: str) -> str:
    """`3`, `3 and 5`, `3, 5 and 7`."""
    if len(labels) == 1:
        return str(labels[0])
    return f"{', '.join(map(str, labels[:-1]))} {word} {labels[-1]}"
