"""Count how many inputs of a data set the bounds in a store prove robust."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vhagar.coverage import SeenData, covered
from vhagar.dataset import dataset_sha256
from vhagar.perturbation import Domain
from vhagar.result import BoundKind
from vhagar.search.confidence_probe import largest_within_reach
from vhagar.sweep.class_coverage import ClassCoverage, StudyCoverage
from vhagar.sweep.question import Question, data_domain
from vhagar.sweep.rows import target_of
from vhagar.sweep.store import Store
from vhagar.sweep.study import Model, Study

# One class of one network under one perturbation.
_Key = tuple[str, str, bool, int, Domain | None]


def read_data(path: Path, models: Sequence[Model], study: Study) -> list[SeenData]:
    """Read the data set for each model; an error if it does not fit one of them."""
    return [SeenData.read(path, model.network, study.domain_for(model.network)) for model in models]


def store_coverage(
    store: Store, models: Sequence[Model], dataset: Path, seconds: float = 0.0
) -> StudyCoverage:
    """Count, for each class under each perturbation, the inputs that are proven robust.

    The others are attacked for `seconds` in all, divided evenly, but at least a few of each class
    are attacked. With 0 seconds there are no attacks, and the other inputs count as unknown.
    """
    uppers = known_uppers(store)
    found: list[ClassCoverage] = []
    deadline = time.monotonic() + seconds
    by_network = {model.fingerprint: model.network for model in models}
    seen: dict[tuple[str, tuple[float, float]], SeenData] = {}
    for left, (question, by_target) in zip(range(len(uppers), 0, -1), uppers.items(), strict=True):
        network = by_network[question.network]
        place = (question.network, question.input_range)
        if place not in seen:
            domain = data_domain(question, network.input_shape, uppers)
            seen[place] = SeenData.read(dataset, network, domain)
        problem, upper = question.problem(network), max(by_target.values())
        now = time.monotonic()
        share = now + max(deadline - now, 0.0) / left
        counts = covered(problem, upper, seen[place], share, seconds > 0)
        counts = replace(counts, rows=None)  # a study keeps the counts
        about = question.network, str(question.perturbation), question.clip, question.source
        over = "" if question.domain is None else str(question.domain)
        found.append(ClassCoverage(*about, question.targets, problem.all_others, counts, over))
    return StudyCoverage(dataset.name, tuple(found), dataset_sha256(dataset))


def known_uppers(store: Store) -> dict[Question, dict[int, float]]:
    """Collect, for each class under each perturbation, the upper bounds of all its targets.

    Each key is a question about all targets of the class in the study; a bound is infinite if
    nothing is proven.
    """
    found: dict[_Key, dict[int, float]] = defaultdict(dict)
    ranges: dict[_Key, tuple[float, float]] = {}
    for number, question in store.problems():
        if question.perturbation is None:
            continue
        asked = (question.network, question.perturbation, question.clip, question.source)
        key = (*asked, question.domain)
        ranges.setdefault(key, question.input_range)
        for row in store.rows("goals", number):
            target = target_of(row["target"])
            if target is not None and ranges[key] == question.input_range:
                trusted = row["kind"] != BoundKind.MARABOU.name.lower()
                upper = row["upper"] if trusted and row["upper"] is not None else math.inf
                found[key][target] = min(found[key].get(target, math.inf), upper)
    return {
        Question(
            network, perturbation, source, tuple(sorted(by_target)), clip, ranges[key], domain
        ): by_target
        for key, by_target in found.items()
        for network, perturbation, clip, source, domain in [key]
    }


def quick_largest(store: Store, models: Sequence[Model]) -> dict[Question, tuple[float, float]]:
    """Bound the maximal confidence of every class of the study in a quick search."""
    networks = {model.fingerprint: model.network for model in models}
    asked = dict.fromkeys(question.without_perturbation() for _, question in store.problems())
    found = {}
    for question in asked:
        known = largest_within_reach(question.problem(networks[question.network]), seed=0)
        found[question] = (known.lower, known.upper)
    return found
