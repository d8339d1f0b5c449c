"""Judge a study's results by requirements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vhagar.problem import classed
from vhagar.result import BoundKind
from vhagar.result.requirement import Facts, Judged, Requirement
from vhagar.sweep.class_coverage import total
from vhagar.sweep.store import Store

_CLOSED = ("closed", "robust")


def judged_store(store: Store, requirements: Sequence[Requirement]) -> list[Judged]:
    """Judge bounds problem by problem, and coverage for each network under each perturbation."""
    found: list[Judged] = []
    for requirement in requirements:
        about_data = requirement.quantity == "coverage"
        facts = _coverages(store) if about_data else _problems(store)
        found += [requirement.judged(subject, own, spent) for subject, own, spent in facts]
    return found


def _problems(store: Store) -> Iterator[tuple[str, Facts, float]]:
    names = {row["fingerprint"]: row["name"] for row in store.rows("networks")}
    for row in store.rows("problems"):
        question = store.question(row)
        if question.perturbation is None:
            continue
        lower, upper = store.interval(row["id"])
        if upper is None or _relies_on_marabou(store, row["id"]):
            upper = math.inf
        facts = Facts(lower, upper, row["status"] in _CLOSED)
        unclipped = "" if question.clip else " unclipped"
        about = f"{names[question.network]}, {question.shown}{unclipped}"
        source = question.class_name(question.source)
        asked = f"{about}, {classed(source)} to {question.toward}{question.over}"
        yield asked, facts, row["seconds"]


def _relies_on_marabou(store: Store, number: int) -> bool:
    """Whether one of a problem's bounds is Marabou's word, which proves nothing."""
    marabou = BoundKind.MARABOU.name.lower()
    return any(row["kind"] == marabou for row in store.rows("goals", number))


def _coverages(store: Store) -> Iterator[tuple[str, Facts, float]]:
    coverage = store.coverage()
    if coverage is None:
        return
    names = {row["fingerprint"]: row["name"] for row in store.rows("networks")}
    labels = coverage.labels(names, shown_perturbations(store))
    for key, own in coverage.groups().items():
        seconds = sum(each.coverage.seconds for each in own)
        yield labels[key], Facts(counts=total(own)), seconds


def shown_perturbations(store: Store) -> dict[tuple[str, str], str]:
    """For each perturbation and the name of its domain: the perturbation in words for readers."""
    questions = map(store.question, store.rows("problems"))
    return {
        (each.perturbation, "" if each.domain is None else str(each.domain)): each.shown
        for each in questions
        if each.perturbation is not None
    }
