"""Attacks by sampling, for inputs with few entries: random inputs, and ever smaller steps.

Where regions of a class are thin, gradients from random inputs lead past them; many samples near
the best ones so far do not. Nothing here needs torch, so it begins at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.score_gradients import leads, scores_and_pull
from vhagar.network import Network
from vhagar.problem import Problem

# Inputs with at most this many entries are sampled, and their boxes can be halved.
FEW_ENTRIES = 10
# Samples of a round, and how many of the best ones they come from.
_SAMPLES, _KEPT = 256, 32
# Of each round's samples this share is anywhere.
_ANYWHERE = 0.125
# Steps are this share of the input range at first; each round's are shorter by this factor, down
# to the least, and then long again.
_FIRST, _SHORTER, _LEAST = 0.25, 0.8, 1e-5
# Where gradients lead to corners of a box: the ratio of each step to the one before.
STEP_RATIO = 0.7


@dataclass(frozen=True, eq=False)
class Sample:
    """An input of the source class, and parameters that lead it to the target."""

    x: Array
    parameters: Array
    confidence: float


class Sampler:
    """Looks for pairs of one piece and one target, round after round."""

    def __init__(self, problem: Problem, target: int, piece_index: int, seed: int) -> None:
        self._problem, self._target = problem, target
        self._piece = problem.pieces[piece_index]
        self._rng = np.random.default_rng([seed, target, piece_index])
        size = problem.domain.size
        self._x, self._merit = np.zeros((0, size)), np.zeros(0)
        self._share = _FIRST
        self.best: Sample | None = None

    def round(self, given: Array | None = None) -> bool:
        """Try samples, and `given` inputs beside them; whether a better pair was found."""
        domain = self._problem.domain
        anywhere = int(_ANYWHERE * _SAMPLES) if len(self._x) else _SAMPLES
        fresh = self._rng.uniform(domain.low, domain.high, (anywhere, domain.size))
        fresh = domain.approached(fresh)
        tried = [fresh] if given is None else [fresh, given]
        if len(self._x):
            chosen = self._x[self._rng.integers(len(self._x), size=_SAMPLES - anywhere)]
            widths = domain.high - domain.low
            step = self._share * widths * self._rng.standard_normal(chosen.shape)
            tried.append(domain.approached(chosen + step))
        self._share = self._share * _SHORTER if self._share > _LEAST else _FIRST
        return self._keep(np.concatenate(tried))

    def _keep(self, x: Array) -> bool:
        confidence, margin, parameters = self._evaluated(x)
        # Pairs count by their confidence, all others by what they lack.
        lacking = np.minimum(confidence, 0.0) + np.minimum(margin, 0.0)
        merit = np.where((margin > 0) & (confidence > 0), confidence, np.minimum(lacking, 0.0))
        merit = np.where(np.isnan(merit), -np.inf, merit)
        first = int(merit.argmax())
        better = merit[first] > (0.0 if self.best is None else self.best.confidence)
        if better:
            self.best = Sample(x[first], parameters[first], float(merit[first]))
        every, merits = np.concatenate([self._x, x]), np.concatenate([self._merit, merit])
        order = np.argsort(-merits, kind="stable")[:_KEPT]
        self._x, self._merit = every[order], merits[order]
        return bool(better)

    def _evaluated(self, x: Array) -> tuple[Array, Array, Array]:
        """The confidence in the source, the best one in the target, and the parameters for it."""
        network, piece = self._problem.network, self._piece
        confidence, _ = confidence_gradients(network, self._problem.source, x)
        low, high = piece.parameter_bounds
        free = piece.free_pixels
        assert free is not None  # that is what the search asks for
        near, best = x, np.full(len(x), -np.inf)
        chosen = np.zeros((len(x), len(low)))
        for _ in range(3):
            _, gradient = confidence_gradients(network, self._target, near)
            parameters = np.where(gradient[:, free] > 0, high, low)
            near = piece.apply(x, parameters)
            margin, _ = confidence_gradients(network, self._target, near)
            better = margin > best
            best = np.where(better, margin, best)
            chosen = np.where(better[:, None], parameters, chosen)
        return confidence, best, chosen


def confidence_gradients(network: Network, label: int, x: Array) -> tuple[Array, Array]:
    """The confidence in a class of each input `(batch, size)`, and its gradient."""
    scores, pull = scores_and_pull(network, x)
    lead, gradient = leads(scores, np.full(len(x), label))
    return lead, pull(gradient)
