"""Which basins to search: several at first, each for a while, then only the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.keeper import AttackFound, Keeper
from vhagar.attack.options import AttackOptions
from vhagar.attack.regions import Regions

Array = NDArray[np.float64]

# Attacks whose confidences differ by less than this part are taken for the same.
_SAME = 1e-4


@dataclass(frozen=True, eq=False)
class Candidate:
    """Where a search can begin: an input that attacks the goal, or nearly does."""

    goal: int | None
    root: int
    x: Array
    parameters: Array
    confidence: float


class _Chain:
    """Steps from attack to better attack."""

    def __init__(self, regions: Regions, start: AttackFound) -> None:
        self.best = start
        self.failures = 0
        self._regions = regions

    def step(self) -> None:
        at = self.best
        found = self._regions.around(
            at.target, at.root, at.x, at.parameters, at.confidence * (1 + _SAME)
        )
        if found is None or found.confidence <= at.confidence:
            self.failures += 1
            return
        # Creeping counts as standing still.
        crept = found.confidence <= at.confidence * (1 + _SAME)
        self.failures = self.failures + 1 if crept else 0
        self.best = found


# What was found, one attempt after the other; None where an attempt found nothing.
Attempts = Iterable[AttackFound | None]


def tournament(
    goal: int | None,
    beginnings: Attempts,
    keeper: Keeper,
    regions: Regions,
    options: AttackOptions,
) -> Iterator[None]:
    """Search for attacks on one goal; pauses after every attempt. The keeper hears of them all.

    All of the beginnings are made; the best of them are gone on from.
    """
    attacks: list[AttackFound] = []
    for found in beginnings:
        attacks += [found] if found is not None else []
        yield
    if not options.regions:
        return
    chains = [_Chain(regions, attack) for attack in _different(attacks)[: options.basins]]
    while len(chains) > 1:
        for chain in chains:
            for _ in range(max(options.patience // options.basins, 1)):
                chain.step()
                yield
        chains.sort(key=lambda chain: -chain.best.confidence)
        chains = chains[: len(chains) // 2]
    if goal not in keeper.best:
        return
    champion = _Chain(regions, keeper.best[goal])
    while champion.failures < options.patience:
        if keeper.confidence(goal) > champion.best.confidence:  # somebody else's
            champion = _Chain(regions, keeper.best[goal])
        champion.step()
        yield


def from_candidates(
    goal: int | None, candidates: list[Candidate], regions: Regions, options: AttackOptions
) -> Attempts:
    """Polish the candidates; where that yields nothing, look around them."""
    found = False
    for candidate in candidates:
        attack = regions.polished(goal, candidate.root, candidate.x, candidate.parameters)
        found = found or attack is not None
        yield attack
    if not options.regions:
        return
    places = {candidate.root: candidate.parameters for candidate in reversed(candidates)}
    for attack in from_relaxations(goal, list(places.items()), regions):
        found = found or attack is not None
        yield attack
    for k in range(options.patience if candidates else 0):
        if found:
            break
        candidate = candidates[k % len(candidates)]
        attack = regions.around(goal, candidate.root, candidate.x, candidate.parameters)
        found = attack is not None
        yield attack


def from_relaxations(
    goal: int | None, places: list[tuple[int, Array]], regions: Regions
) -> Attempts:
    """Dives from the relaxations of pieces, each with parameters to fix where that is needed."""
    for root, parameters in places:
        yield regions.dived(goal, root, parameters)


def _different(attacks: list[AttackFound]) -> list[AttackFound]:
    """The best first, without those that look like a better one."""
    found: list[AttackFound] = []
    for attack in sorted(attacks, key=lambda attack: -attack.confidence):
        if not found or attack.confidence < found[-1].confidence * (1 - _SAME):
            found.append(attack)
    return found
