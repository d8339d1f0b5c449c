"""Multi-start local search: several basins, each until it stagnates, then the best for longer."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.incumbents import AttackFound, Incumbents
from vhagar.attack.local_search import SAME, LocalSearch
from vhagar.attack.options import AttackOptions
from vhagar.attack.region_search import RegionSearch
from vhagar.attack.start_points import StartPoint
from vhagar.problem import Problem

# A basin is left after this share of the patience, in which smaller relative improvements count as
# failures, too. Measured: after a quarter, conv1 `linf(0.1)` 7 to 2 has 24.60 and 24.93 instead of
# 24.82 and 25.07 after 10 s, because worse basins take the time (PERFORMANCE.md).
_STAGNANT, _TINY = 0.15, 1e-3

# The outcomes of successive attempts; None for an attempt that found nothing.
Attempts = Iterable[AttackFound | None]


def multi_start(
    target: int | None,
    attempts: Attempts,
    incumbents: Incumbents,
    regions: RegionSearch,
    options: AttackOptions,
) -> Iterator[None]:
    """Search for attacks on one target; pauses after every attempt.

    Makes all of the given attempts, then searches around the best of their outcomes. Improvements
    are kept in `incumbents`.
    """
    attacks: list[AttackFound] = []
    for found in attempts:
        attacks += [found] if found is not None else []
        yield
    if not options.regions:
        return
    # Basins that rise more slowly at first often end higher, so each has its time.
    for attack in _distinct(attacks)[: options.basins]:
        search = LocalSearch(regions, attack)
        while search.failures < max(int(_STAGNANT * options.patience), 1):
            search.step(_TINY)
            yield
    if target not in incumbents.best:
        return
    last = LocalSearch(regions, incumbents.best[target])
    while last.failures < options.patience:
        if incumbents.confidence(target) > last.best.confidence:  # found elsewhere
            last = LocalSearch(regions, incumbents.best[target])
        last.step()
        yield


def from_start_points(
    target: int | None, points: list[StartPoint], regions: RegionSearch, options: AttackOptions
) -> Attempts:
    """Polish the points and dive from their pieces; if that yields nothing, search around them."""
    found = False
    for point in points:
        attack = regions.polish(target, point.piece_index, point.x, point.parameters)
        found = found or attack is not None
        yield attack
    if not options.regions:
        return
    pieces = {point.piece_index: point.parameters for point in reversed(points)}
    for attack in from_relaxations(target, list(pieces.items()), regions):
        found = found or attack is not None
        yield attack
    for k in range(options.patience if points else 0):
        if found:
            break
        point = points[k % len(points)]
        attack = regions.search_around(target, point.piece_index, point.x, point.parameters)
        found = attack is not None
        yield attack


def from_attacks(target: int | None, attacks: list[AttackFound], regions: RegionSearch) -> Attempts:
    """Polish attacks, the most confident first."""
    for attack in sorted(attacks, key=lambda attack: -attack.confidence):
        yield regions.polish(target, attack.piece_index, attack.x, attack.parameters)


def from_relaxations(
    target: int | None, pieces: list[tuple[int, Array]], regions: RegionSearch
) -> Attempts:
    """Dive from the pieces' relaxations; the parameters are fixed where the piece needs it."""
    for piece_index, parameters in pieces:
        yield regions.dive(target, piece_index, parameters)


def random_pieces(
    problem: Problem, count: int, rng: np.random.Generator
) -> list[tuple[int, Array]]:
    """Pieces in random order, with random parameters.

    If there are few pieces, each occurs several times, because dives are random as well.
    """
    indices = rng.permutation(len(problem.pieces)).tolist()
    chosen = []
    for piece_index in itertools.islice(itertools.cycle(indices), count):
        low, high = problem.pieces[piece_index].parameter_bounds
        chosen.append((piece_index, low + (high - low) * rng.uniform(size=len(low))))
    return chosen


def _distinct(attacks: list[AttackFound]) -> list[AttackFound]:
    """The attacks, best first, without those about as confident as another one."""
    found: list[AttackFound] = []
    for attack in sorted(attacks, key=lambda attack: -attack.confidence):
        if not found or attack.confidence < found[-1].confidence * (1 - SAME):
            found.append(attack)
    return found
