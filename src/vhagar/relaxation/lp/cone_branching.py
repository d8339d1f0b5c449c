"""Which sign to decide next in a cone: pseudocosts, which all searches in the cone share.

A decision removes mass from the LP's solution on the other side of 0. The mass times the sign's
weight in the function that is maximised is its predicted gain; the ratio of observed to predicted
gain is learned for each sign and side.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array, Index

# A decision that removes no more than this from the LP's solution changes nothing.
_NOTHING = 1e-9
# Candidates that are strong-branched at a node, and observations of both sides after which a
# pseudocost is trusted without. Measured: PERFORMANCE.md, "deep searches in cones".
_MOST_TRIALS, _RELIABLE = 4, 3
# The smaller gain of the two children counts in full, and this share of the larger one.
_LARGER_GAIN = 0.2


class ConePseudocosts:
    """The ratios of observed to predicted gains of a cone's signs.

    Times an LP's solution, `positive` and `negative` `(signs, columns)` are what decisions for the
    other sign remove.
    """

    def __init__(self, positive: Array, negative: Array) -> None:
        self._positive, self._negative = positive, negative
        self._ratio = np.ones((2, len(positive)))
        self._observed = np.zeros((2, len(positive)))

    def predicted(self, primal: Array, worths: Array) -> Array:
        """The predicted gains `(2, signs)` of deciding each sign as negative and as positive.

        Both are 0 where one decision changes nothing.
        """
        mass = np.stack([self._positive @ primal, self._negative @ primal])
        return np.where(mass.min(axis=0) > _NOTHING, mass * worths, 0.0)

    def candidates(self, predicted: Array, taken: Index) -> list[int]:
        """The signs to try, the most promising first; `taken` are decided already."""
        scores = score(predicted * self._ratio)
        scores[taken] = 0.0
        scores[predicted.min(axis=0) <= 0] = 0.0
        order = np.argsort(-scores, kind="stable")[:_MOST_TRIALS]
        return [int(place) for place in order if scores[place] > 0]

    def is_reliable(self, place: int) -> bool:
        """Whether both children of a sign were observed often enough."""
        return bool(self._observed[:, place].min() >= _RELIABLE)

    def learn(self, place: int, predicted: Array, gains: Array) -> None:
        """Observe what both decisions of a sign gained, where `predicted` `(2,)` was predicted."""
        self._observed[:, place] += 1
        change = gains / predicted - self._ratio[:, place]
        self._ratio[:, place] += change / self._observed[:, place]


def score(gains: Array) -> Array:
    """How good decisions are whose two children gain as much, `(2, ...)`."""
    return np.asarray(gains.min(axis=0) + _LARGER_GAIN * gains.max(axis=0))
