"""Facts about the outputs of neurons that see little: cuts, each with a proof of its own.

An LP bounds every neuron pair by its own hexagon, although neurons that see the same few pixels
cannot all be at the worst corners of their hexagons at once. A *cone cut* says so for one linear
function of their outputs: over all pairs of a region,

    a . relu(s) + b . relu(t) + c . x + d . x_p <= limit

for some units of a ReLU layer. It is proved by branch and bound inside the units' cone of
influence: a small tree of decided signs, with multipliers of the twin dual at its leaves. The
coefficients `c` belong to pixels that several groups see, and `d` to what they become: without
them, each group could choose these pixels, or the amount by which all pixels change, for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.relaxation.twin_dual import INPUTS, Backward, unit

# A ReLU layer, a unit of it, and a copy: the sign that an inner node of a cut's tree decides.
Split = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class ConeCut:
    """A cut and its proof.

    `units` of ReLU layer `layer` have the coefficients `a` and `b`, `pixels` of `x` have `c`, and
    pixels `perturbed` of `x_p` have `d`.
    `tree` lists the proof's nodes in preorder, the child with the negative sign first; a leaf is
    None. `seen[k]` are the undecided units of layer k in the cone, for all layers up to `layer`,
    and `multipliers[k]` their `(p, q)`, each `(leaves, len(seen[k]))` in float32. The `limit` is
    proven with exactly these numbers.
    """

    layer: int
    units: Index
    a: Array
    b: Array
    limit: float
    tree: tuple[Split | None, ...]
    seen: tuple[Index, ...]
    multipliers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    pixels: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    c: Array = field(default_factory=lambda: np.zeros(0))
    perturbed: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    d: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def terms(self) -> int:
        """How many numbers have coefficients, each copy's output counted once for both."""
        return len(self.units) + len(self.pixels) + len(self.perturbed)


_numbers = itertools.count()


@dataclass(eq=False)
class ConeCuts:
    """The cuts of a region, in the order in which they were found; it only grows.

    `number` tells apart the lists of one process.
    """

    cuts: list[ConeCut] = field(default_factory=list)
    number: int = field(default_factory=lambda: next(_numbers))

    def __len__(self) -> int:
        return len(self.cuts)


@dataclass(frozen=True, eq=False)
class WeightedCuts:
    """Cuts of a region with weights `(rows, cuts)` that are at least 0, in a bound.

    For all pairs, `weight * (limit - a . relu(s) - b . relu(t) - c . x - d . x_p) >= 0`; so it may
    be added to what is bounded.
    """

    cuts: Sequence[ConeCut]
    weights: Array

    def to(self, layer: int, state: Backward, size: Array | None) -> Backward:
        """Add the cuts of a layer to coefficients on its outputs, or all to those on the inputs.

        The absolute values of what has these coefficients are at most `size` in either copy.
        """
        if layer == INPUTS:
            return self._to_inputs(state, size)
        chosen = [k for k, cut in enumerate(self.cuts) if cut.layer == layer]
        chosen = [k for k in chosen if self.weights[:, k].any()]
        if not chosen:
            return state
        a, b, constant = state.a.copy(), state.b.copy(), state.constant
        weight, paid = abs(a) + abs(b), abs(constant)
        for k in chosen:
            cut, factor = self.cuts[k], self.weights[:, k, None]
            a[:, cut.units] -= factor * cut.a
            b[:, cut.units] -= factor * cut.b
            weight[:, cut.units] += factor * (abs(cut.a) + abs(cut.b))
            constant = constant + self.weights[:, k] * cut.limit
            paid = paid + self.weights[:, k] * abs(cut.limit)
        error = state.error
        if size is not None:
            terms = 2 * len(chosen) + 2
            error = error + unit(terms, a) * (weight @ size + paid)
            # What products lose to underflow meets outputs of at most this size.
            lost = 2.0**-1000 * (1.0 + float(size.sum()))
            error = error + lost * (1.0 + self.weights.sum(axis=1))
        return Backward(a, b, constant, error)

    def _to_inputs(self, state: Backward, size: Array | None) -> Backward:
        chosen = [k for k, cut in enumerate(self.cuts) if cut.terms > len(cut.units)]
        chosen = [k for k in chosen if self.weights[:, k].any()]
        if not chosen:
            return state
        a, b, weight = state.a.copy(), state.b.copy(), abs(state.a) + abs(state.b)
        for k in chosen:
            cut, factor = self.cuts[k], self.weights[:, k, None]
            a[:, cut.pixels] -= factor * cut.c
            b[:, cut.perturbed] -= factor * cut.d
            weight[:, cut.pixels] += factor * abs(cut.c)
            weight[:, cut.perturbed] += factor * abs(cut.d)
        error = state.error
        if size is not None:
            error = error + unit(2 * len(chosen) + 2, a) * (weight @ size)
            lost = 2.0**-1000 * (1.0 + float(size.sum()))
            error = error + lost * (1.0 + self.weights.sum(axis=1))
        return Backward(a, b, state.constant, error)
