"""Which sign to decide next: pseudocosts, made reliable by trying the best candidates.

A candidate is one copy of one neuron that the LP leaves undecided. What a child removes from the
LP's solution is measured by its *mass*: the sum of lambda times the pre-activation over the corners
that the child cuts off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.linear import Columns
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.search.bab.context import PIXELS
from vhagar.search.bab.lp import Weights

Array = NDArray[np.float64]
Place = tuple[int, int, int]

_RELIABLE = 4
_MOST_TRIALS = 10
_LOOK_AT = 40
# Of a neuron's range: what counts as no mass at all.
_SMALLEST_MASS = 1e-8
# Of the bound: a child that promises less is as good as one that promises nothing.
_SMALLEST_DECREASE = 1e-9


@dataclass(frozen=True, eq=False)
class Candidate:
    """A sign to decide, with the masses that its two children remove."""

    place: Place
    negative_mass: float  # removed where the sign is decided positive
    positive_mass: float  # removed where the sign is decided negative
    prior: float


class Candidates:
    """Finds the undecided signs of an LP solution."""

    def __init__(self, bounds: TwinBounds, weights: Weights, pixels: Columns | None) -> None:
        self._weights = weights
        self._pixels = pixels
        self._pixel_corners = bounds.piece.pixel_corners()
        first = abs(bounds.stages[0].matrix()).sum(axis=0)
        self._pixel_influence = np.asarray(first).reshape(-1)
        self._equal = [hexagons.equal for hexagons in bounds.hexagons]
        sizes = [len(hexagons) for hexagons in bounds.hexagons]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._flat = self._offsets[weights.layer] + weights.neuron
        magnitudes = [hexagons.magnitude for hexagons in bounds.hexagons]
        self._no_mass = _SMALLEST_MASS * np.concatenate([np.zeros(0), *magnitudes])
        # How much the next layer listens to a neuron: a prior for its pseudocost.
        self._influence = np.concatenate(
            [np.asarray(abs(stage.matrix()).sum(axis=0)).reshape(-1) for stage in bounds.stages[1:]]
            or [np.zeros(0)]
        )

    def of(self, primal: Array) -> list[Candidate]:
        """The candidates, those with the best prior first."""
        lambdas = np.maximum(primal[self._weights.column], 0.0)
        found = self._pixel_candidates(primal)
        for copy, values in enumerate((self._weights.s, self._weights.t)):
            size = int(self._offsets[-1])
            positive = np.bincount(self._flat, lambdas * np.maximum(values, 0.0), size)
            negative = np.bincount(self._flat, lambdas * np.maximum(-values, 0.0), size)
            prior = np.minimum(positive, negative) * self._influence
            for k in np.flatnonzero((positive > self._no_mass) & (negative > self._no_mass)):
                layer = int(np.searchsorted(self._offsets, k, side="right")) - 1
                neuron = int(k - self._offsets[layer])
                if copy == 1 and self._equal[layer][neuron]:
                    continue
                place = (layer, neuron, copy)
                found.append(
                    Candidate(place, float(negative[k]), float(positive[k]), float(prior[k]))
                )
        return sorted(found, key=lambda candidate: -candidate.prior)

    def undecided(self, decided: set[Place]) -> Candidate | None:
        """Where no LP solution tells what to decide: the most heard neuron that is left."""
        weight = self._influence * self._no_mass
        for k in self._flat[np.argsort(-weight[self._flat], kind="stable")].tolist():
            layer = int(np.searchsorted(self._offsets, k, side="right")) - 1
            neuron = int(k - self._offsets[layer])
            for copy in (0,) if self._equal[layer][neuron] else (0, 1):
                if (layer, neuron, copy) not in decided:
                    return Candidate((layer, neuron, copy), 0.0, 0.0, 0.0)
        return None

    def _pixel_candidates(self, primal: Array) -> list[Candidate]:
        """Pixels that the LP puts partly on either side of the clip."""
        corners = self._pixel_corners
        if self._pixels is None or corners is None:
            return []
        weights = np.maximum(primal[self._pixels], 0.0)
        # How far each corner lies from the first, which both parts share.
        reach = np.hypot(corners.x[1:] - corners.x[0], corners.x_p[1:] - corners.x_p[0])
        clipped = weights @ (reach * (corners.side[1:] > 0))
        moved = weights @ (reach * (corners.side[1:] < 0))
        prior = np.minimum(clipped, moved) * self._pixel_influence
        return [
            Candidate((PIXELS, int(k), 0), float(moved[k]), float(clipped[k]), float(prior[k]))
            for k in np.flatnonzero((clipped > _SMALLEST_MASS) & (moved > _SMALLEST_MASS))
        ]


@dataclass(eq=False)
class _Average:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1


@dataclass(eq=False)
class Pseudocosts:
    """Bound decrease per unit of removed mass, averaged per candidate and side."""

    _sides: dict[tuple[Place, bool], _Average] = field(default_factory=dict)
    _all: _Average = field(default_factory=_Average)

    def learn(self, place: Place, positive: bool, decrease: float, mass: float) -> None:
        rate = max(decrease, 0.0) / max(mass, 1e-300)
        self._sides.setdefault((place, positive), _Average()).add(rate)
        self._all.add(rate)

    def observations(self, place: Place) -> int:
        counts = [self._sides.get((place, side), _Average()).count for side in (False, True)]
        return min(counts)

    def estimate(self, candidate: Candidate) -> tuple[float, float]:
        """Expected decreases of the negative and the positive child."""
        return (
            self._rate(candidate.place, False) * candidate.positive_mass,
            self._rate(candidate.place, True) * candidate.negative_mass,
        )

    def _rate(self, place: Place, positive: bool) -> float:
        known = self._sides.get((place, positive))
        if known is not None and known.count:
            return known.total / known.count
        return self._all.total / self._all.count if self._all.count else 1.0

    def score(self, candidate: Candidate, least: float) -> float:
        left, right = self.estimate(candidate)
        return max(left, least) * max(right, least)


# Tries a candidate: the bounds of the negative and the positive child.
Trial = Callable[[Candidate], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The candidate to branch on, and its children's bounds where they were tried."""

    candidate: Candidate
    uppers: tuple[float, float] | None


def choose(
    candidates: list[Candidate],
    costs: Pseudocosts,
    upper: float,
    cutoff: float,
    trial: Trial,
) -> Chosen:
    """Reliability branching: the candidate whose children promise the largest decreases."""
    least = _SMALLEST_DECREASE * min(upper, 1e300)
    if any(costs.observations(c.place) for c in candidates[:_LOOK_AT]):
        ranked = sorted(candidates, key=lambda c: -costs.score(c, least))[:_LOOK_AT]
    else:
        ranked = candidates[:_LOOK_AT]
    best = Chosen(ranked[0], None)
    best_score, trials, fruitless = -1.0, 0, 0
    for candidate in ranked:
        tried: tuple[float, float] | None = None
        if costs.observations(candidate.place) < _RELIABLE and trials < _MOST_TRIALS:
            trials += 1
            tried = trial(candidate)
            decreases = [max(upper - max(child, cutoff), 0.0) for child in tried]
            masses = (candidate.positive_mass, candidate.negative_mass)
            for positive in (False, True):
                costs.learn(candidate.place, positive, decreases[positive], masses[positive])
            if min(tried) <= cutoff:
                return Chosen(candidate, tried)  # one child is closed: nothing beats that
            score = max(decreases[0], least) * max(decreases[1], least)
        else:
            score = costs.score(candidate, least)
        if score > best_score:
            best, best_score, fruitless = Chosen(candidate, tried), score, 0
        else:
            fruitless += 1
            if fruitless >= 8:
                break
    return best
