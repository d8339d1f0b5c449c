"""Which sign to decide next: gains predicted from the LP's multipliers, corrected by pseudocosts.

A candidate is one copy of one neuron that the LP leaves undecided. The LP counts its ReLU as the
mean of the corners' ReLUs; deciding its sign removes the *mass* on the other side. That mass times
the neuron's coefficient in the bound is what the child's bound would fall by if nothing else could
adapt: the predicted gain. Other neurons do adapt, so the ratio of observed to predicted gain is
learnt, neuron by neuron, from the children that were solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.decisions import PIXELS
from vhagar.relaxation.lp.lambda_model import LambdaColumns
from vhagar.relaxation.lp.lazy_rows import LEAST_COEFFICIENT
from vhagar.relaxation.lp.node_bound import Coefficients
from vhagar.relaxation.proof import Proof
from vhagar.solver.linear_model import Columns

Place = tuple[int, int, int]

# Observations needed before a pseudocost is trusted: few in a small tree, and one more for every so
# many signs that were observed in all, because in a large tree a better choice pays many times.
# Measured: PERFORMANCE.md, "pseudocosts trusted later".
_RELIABLE, _MOST_RELIABLE, _PER_OBSERVATION = 2, 8, 25
# Candidates that are ranked, and the strong-branched ones in a row without improvement after which
# no more are tried. Measured: nine questions that close, 4,537 LPs instead of 5,785 with eight.
_LOOK_AT, _FRUITLESS = 40, 4
# With cuts in its LP, a node's gap may depend on signs above the cones alone, whose predicted gains
# are next to nothing while the target's rows hardly count. So if the best sign is expected to close
# less than this share of the gap in one of its children, so many signs of the last layer are
# strong-branched, however well they are known. Measured: PERFORMANCE.md, "cone cuts earlier".
_HOPELESS, _OF_LAST_LAYER = 0.05, 8
# Mass that counts as none, relative to the neuron's range.
_SMALLEST_MASS = 1e-8
# Share of the bound: a smaller predicted gain counts as none.
_SMALLEST_DECREASE = 1e-9


@dataclass(frozen=True, eq=False)
class Candidate:
    """A sign to decide, and the predicted gains of the negative and the positive child."""

    place: Place
    gains: tuple[float, float]


class Candidates:
    """Finds the undecided signs of an LP solution."""

    def __init__(self, bounds: TwinBounds, weights: LambdaColumns, pixels: Columns | None) -> None:
        self._weights = weights
        self._pixels = pixels
        self._pixel_corners = bounds.piece.pixel_corners()
        none = np.zeros(0)
        self._offsets = bounds.offsets
        self._layer = np.repeat(np.arange(len(bounds.hexagons)), np.diff(self._offsets))
        self._flat = self._offsets[weights.layer] + weights.neuron
        self._equal = np.concatenate([none, *(h.equal for h in bounds.hexagons)]).astype(np.bool_)
        sizes_of_ranges = np.concatenate([none, *(h.magnitude for h in bounds.hexagons)])
        self._no_mass = _SMALLEST_MASS * sizes_of_ranges
        self._undecided = np.zeros(len(self._layer), dtype=np.bool_)
        self._undecided[self._flat] = True

    def of(self, primal: Array, coefficients: Coefficients) -> list[Candidate]:
        """The candidates, the most promising first."""
        lambdas = np.maximum(primal[self._weights.column], 0.0)
        found = self._pixel_candidates(primal, coefficients)
        for copy, values in enumerate((self._weights.s, self._weights.t)):
            size = len(self._layer)
            positive = np.bincount(self._flat, lambdas * np.maximum(values, 0.0), size)
            negative = np.bincount(self._flat, lambdas * np.maximum(-values, 0.0), size)
            open_ = (positive > self._no_mass) & (negative > self._no_mass)
            if copy == 1:
                open_ &= ~self._equal
            worth = self._worth(coefficients, copy)
            for k in np.flatnonzero(open_).tolist():
                gains = float(worth[k] * positive[k]), float(worth[k] * negative[k])
                found.append(Candidate(self._place(k, copy), gains))
        return sorted(found, key=lambda c: -c.gains[0] * c.gains[1])

    def _worth(self, coefficients: Coefficients, copy: int) -> Array:
        """How much the bound rises with each neuron's value in a copy."""
        none = np.zeros(0)
        both = [
            np.concatenate([none, *(layer[k] for layer in coefficients.layers)]) for k in (0, 1)
        ]
        worth = abs(np.where(self._equal, both[0] + both[1], both[copy]))
        count = np.bincount(self._layer, self._undecided)
        total = np.bincount(self._layer, worth * self._undecided)
        mean = total / np.maximum(count, 1.0)
        return np.asarray(np.maximum(worth, LEAST_COEFFICIENT * mean[self._layer]))

    def _place(self, k: int, copy: int) -> Place:
        layer = int(self._layer[k])
        return layer, k - int(self._offsets[layer]), copy

    def undecided(self, decided: set[Place]) -> Candidate | None:
        """Where no LP solution tells what to decide: the last neuron with a large range."""
        weight = self._no_mass * self._undecided
        for k in np.lexsort((-weight, -self._layer)).tolist():
            if not self._undecided[k]:
                continue
            for copy in (0,) if self._equal[k] else (0, 1):
                if self._place(k, copy) not in decided:
                    return Candidate(self._place(k, copy), (0.0, 0.0))
        return None

    def _pixel_candidates(self, primal: Array, coefficients: Coefficients) -> list[Candidate]:
        """Pixels that the LP puts partly on either side of the clip."""
        corners = self._pixel_corners
        if self._pixels is None or corners is None:
            return []
        weights = np.maximum(primal[self._pixels], 0.0)
        # How far each corner lies from the first, which both parts share.
        reach = np.hypot(corners.x[1:] - corners.x[0], corners.x_p[1:] - corners.x_p[0])
        clipped = weights @ (reach * (corners.side[1:] > 0))
        moved = weights @ (reach * (corners.side[1:] < 0))
        worth = abs(coefficients.inputs[1])
        return [
            Candidate(
                (PIXELS, int(k), 0), (float(worth[k] * clipped[k]), float(worth[k] * moved[k]))
            )
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
    """Mean ratio of observed to predicted gain, per candidate and side, and per layer."""

    _sides: dict[tuple[Place, bool], _Average] = field(default_factory=dict)
    _layers: dict[int, _Average] = field(default_factory=dict)
    _learnt: int = 0

    def learn(self, place: Place, positive: bool, decrease: float, predicted_gain: float) -> None:
        if predicted_gain <= 0.0:
            return
        self._learnt += 1
        ratio = min(max(decrease, 0.0) / predicted_gain, 1e3)
        self._sides.setdefault((place, positive), _Average()).add(ratio)
        self._layers.setdefault(place[0], _Average()).add(ratio)

    def is_reliable(self, place: Place) -> bool:
        """Whether both sides of a candidate were observed often enough, for a tree of this size."""
        needed = min(max(_RELIABLE, self._learnt // _PER_OBSERVATION), _MOST_RELIABLE)
        counts = [self._sides.get((place, side), _Average()).count for side in (False, True)]
        return min(counts) >= needed

    def estimate(self, candidate: Candidate, most: float) -> tuple[float, float]:
        """Expected decreases of the negative and the positive child; none is worth more than
        `most`."""
        negative, positive = (
            min(self._ratio(candidate.place, side) * candidate.gains[side], most)
            for side in (False, True)
        )
        return negative, positive

    def _ratio(self, place: Place, positive: bool) -> float:
        for known in (self._sides.get((place, positive)), self._layers.get(place[0])):
            if known is not None and known.count:
                return known.total / known.count
        return 1.0


@dataclass(frozen=True, eq=False)
class Child:
    """A child that was solved: its bound, a basis of its LP, and what the bound rests on.

    `proved` is what its LP proves, where the bound is a smaller one that was known before.
    """

    upper: float
    basis: Any
    proof: Proof | None = None
    proved: float | None = None

    def gain(self, before: float) -> float:
        """By how much its LP proves less than `before`."""
        return max(before - (self.upper if self.proved is None else self.proved), 0.0)


# Solves a candidate's negative and positive child; None where that would cost too much.
Trial = Callable[[Candidate], tuple[Child, Child] | None]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The sign to decide, and its children where they were solved on the way."""

    candidate: Candidate
    children: tuple[Child, Child] | None


def _doubted(ranked: list[Candidate], pseudocosts: Pseudocosts, most: float) -> list[Candidate]:
    """Candidates that are tried whatever is known of them, if the best one seems to gain little."""
    if min(pseudocosts.estimate(ranked[0], most)) >= _HOPELESS * most:
        return []
    last = max(candidate.place[0] for candidate in ranked)
    return [candidate for candidate in ranked if candidate.place[0] == last][:_OF_LAST_LAYER]


def choose(
    candidates: list[Candidate],
    pseudocosts: Pseudocosts,
    upper: float,
    cutoff: float,
    trial: Trial,
    proved: float | None = None,
    with_cuts: bool = False,
) -> Chosen:
    """Reliability branching: the candidate whose children are expected to gain most.

    Gains are differences of what LPs prove, the parent's being `proved`. Where a smaller bound is
    known from elsewhere, differences from that would be none, and signs that matter would count as
    useless for good. In LPs `with_cuts`, pseudocosts are doubted where no sign seems to gain much.
    """
    before = upper if proved is None else proved
    least, most = _SMALLEST_DECREASE * min(upper, 1e300), upper - cutoff

    def score(decreases: tuple[float, float]) -> float:
        return max(decreases[0], least) * max(decreases[1], least)

    estimates = {id(c): score(pseudocosts.estimate(c, most)) for c in candidates}
    ranked = sorted(candidates, key=lambda c: -estimates[id(c)])
    doubted = _doubted(ranked, pseudocosts, most) if with_cuts else []
    best, best_score, fruitless = Chosen(ranked[0], None), -1.0, 0
    for candidate in [*doubted, *(c for c in ranked[:_LOOK_AT] if c not in doubted)]:
        tried: tuple[Child, Child] | None = None
        value, is_doubted = estimates[id(candidate)], candidate in doubted
        if is_doubted or not pseudocosts.is_reliable(candidate.place):
            tried = trial(candidate)
        if tried is not None:
            decreases = [min(child.gain(before), most) for child in tried]
            for positive in (False, True):
                place, gain = candidate.place, candidate.gains[positive]
                pseudocosts.learn(place, positive, decreases[positive], gain)
            if min(child.upper for child in tried) <= cutoff:
                return Chosen(candidate, tried)  # one child is closed: nothing beats that
            value = score((decreases[0], decreases[1]))
        if value > best_score:
            best, best_score, fruitless = Chosen(candidate, tried), value, 0
        else:
            fruitless += 1
            if fruitless >= _FRUITLESS and not is_doubted:
                break
    return best
