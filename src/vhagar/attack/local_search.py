"""Local search: moves from an attack to better ones in linear regions nearby."""

from __future__ import annotations

from vhagar.attack.incumbents import AttackFound
from vhagar.attack.region_search import RegionSearch

# Attacks whose confidences differ relatively by less than this count as the same.
SAME = 1e-4


class LocalSearch:
    """Steps from an attack to better ones nearby."""

    def __init__(self, regions: RegionSearch, start: AttackFound) -> None:
        self.best = start
        self.failures = 0  # since the last step that led to a better one
        self._regions = regions

    def step(self, least: float = SAME) -> None:
        """Try one neighbour; a relative improvement below the least counts as a failure."""
        at = self.best
        found = self._regions.search_around(
            at.target, at.piece_index, at.x, at.parameters, at.confidence * (1 + SAME)
        )
        if found is None or found.confidence <= at.confidence:
            self.failures += 1
            return
        tiny = found.confidence <= at.confidence * (1 + least)
        self.failures = self.failures + 1 if tiny else 0
        self.best = found
