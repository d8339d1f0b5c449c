"""Which questions can use each other's results, and the order that makes the most of it.

Two questions about one network and one source class are related if one perturbation contains the
other. Then the witnesses of the smaller are witnesses of the larger, and the upper bounds of the
larger hold for the smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from vhagar.perturbation import Domain
from vhagar.perturbation.subsumption import subsumes
from vhagar.sweep.question import Question


def contains(larger: Question, smaller: Question, domain: Domain) -> bool:
    """Whether every pair of inputs of `smaller` is one of `larger`, targets aside."""
    if (larger.network, larger.source) != (smaller.network, smaller.source):
        return False
    if larger.input_range != smaller.input_range:
        return False
    if larger.domain not in (None, smaller.domain):
        return False
    if larger.perturbation is None:
        return True
    if larger.clip != smaller.clip:
        return False
    return subsumes(larger.parsed, smaller.parsed, domain, smaller.clip)


def ordered(questions: Sequence[Question], domains: dict[str, Domain]) -> list[Question]:
    """Put maximal confidences first, then smaller perturbations before those that contain them.

    Maximal confidences are upper bounds for every other question. Among perturbations, the
    witnesses of smaller ones are worth more than the loose upper bounds of larger ones. All
    questions under one perturbation follow each other, so that they share its bounds. Networks take
    turns, so that each gets as far as the others whenever the time is up.
    """
    groups: dict[tuple[str, str | None, bool, Domain | None], list[Question]] = {}
    for question in questions:
        key = (question.network, question.perturbation, question.clip, question.domain)
        groups.setdefault(key, []).append(question)
    turns: list[list[Question]] = []
    for network in dict.fromkeys(key[0] for key in groups):
        own = [members for key, members in groups.items() if key[0] == network]
        ranks = [_contained(members[0], own, domains[network]) for members in own]
        in_rank = sorted(zip(ranks, own, strict=True), key=lambda pair: pair[0])
        turns.append([question for _, members in in_rank for question in members])
    return [question for turn in zip_longest(*turns) for question in turn if question is not None]


def _contained(question: Question, groups: list[list[Question]], domain: Domain) -> int:
    """How many perturbations this one contains; -1 for no perturbation, which comes first.

    Containment is transitive, so sorting by this number puts every perturbation after those that
    it contains.
    """
    if question.parsed is None:
        return -1
    return sum(
        other[0].parsed is not None
        and question.clip == other[0].clip
        and subsumes(question.parsed, other[0].parsed, domain, question.clip)
        for other in groups
    )
