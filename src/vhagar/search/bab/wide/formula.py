"""What multipliers prove of many nodes: the twin dual formula in float64, a block at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.threads import in_threads
from vhagar.relaxation.twin import Allowed, Corners, twin_bound
from vhagar.search.bab.context import PIXELS, Context, Decision

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

# Nodes that are evaluated together: their masks fit into a cache that cores share.
_BLOCK = 64
# Sums of multipliers that are told from 0 and from infinity, as for one node.
_LEAST, _MOST = 1e-6, 1e6


def bit_of(copy: int, positive: bool) -> int:
    """What a decision adds to a neuron's code: 1 for s >= 0, 2 for s <= 0, 4 and 8 for t."""
    return (1 if positive else 2) << (2 * copy)


def coded(sizes: list[int], nodes: list[tuple[Decision, ...]]) -> Codes:
    """Decisions about neurons as codes `(nodes, neurons)`, all layers in a row."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    codes = np.zeros((len(nodes), int(starts[-1])), dtype=np.uint8)
    for row, decisions in enumerate(nodes):
        for decision in decisions:
            assert decision.layer != PIXELS, "pixels are not decided here"
            place = starts[decision.layer] + decision.neuron
            codes[row, place] |= bit_of(decision.copy, decision.positive)
    return codes


class WideBound:
    """Bounds on `delta` over nodes of one piece and one target, many at once."""

    def __init__(self, context: Context, score_size: float, threads: int = 1) -> None:
        self._context = context
        self._score_size = score_size
        self._threads = threads
        sizes = [len(hexagons) for hexagons in context.bounds.hexagons]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # As for one node: of a sum over the classes, several times over.
        self._rounding = 2.0**-51 * (context.bounds.network.classes + 8)

    def uppers(self, duals: Array, codes: Codes) -> Array:
        """Upper bounds `(nodes,)` from rows' duals `(nodes, rows)`, which may be anything.

        Infinite where the duals prove nothing, minus infinite where decisions contradict a bound.
        """
        found = np.full(len(duals), np.inf)

        def prove(number: int) -> None:
            rows = slice(number * _BLOCK, (number + 1) * _BLOCK)
            found[rows] = self._block(duals[rows], codes[rows])

        in_threads(prove, -(-len(duals) // _BLOCK), self._threads)
        return found

    def _block(self, duals: Array, codes: Codes) -> Array:
        model = self._context.model
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = np.maximum(-duals[:, model.source_rows], 0.0).sum(axis=1)
            usable = np.isfinite(duals).all(axis=1) & (total > _LEAST) & (total < _MOST)
            scaled = np.where(usable[:, None], duals / total[:, None], 0.0)
            masks = [self._mask(layer, codes) for layer in range(len(self._starts) - 1)]
            empty = np.zeros(len(duals), dtype=np.bool_)
            for mask in masks:
                if mask is not None:
                    empty |= np.any(np.isneginf(mask).all(axis=0), axis=1)
            value = self._evaluate(scaled, tuple(masks))
        value = np.where(usable & ~np.isnan(value), value, np.inf)
        return np.where(empty, -np.inf, value)

    def _mask(self, layer: int, codes: Codes) -> Array | None:
        """`(corners, nodes, neurons)`: minus infinity for corners that decisions cut off."""
        own = codes[:, self._starts[layer] : self._starts[layer + 1]]
        decided = np.flatnonzero(own.any(axis=0))
        if not len(decided):
            return None
        corners = self._context.bounds.corners[layer]
        mask = np.zeros((len(corners.s), *own.shape))
        mask[:, :, decided] = np.where(cut_off(corners, decided, own[:, decided]), -np.inf, 0.0)
        return mask

    def _evaluate(self, duals: Array, masks: tuple[Array | None, ...]) -> Array:
        context = self._context
        bounds, model = context.bounds, context.model
        alpha = np.maximum(-duals[:, model.source_rows], 0.0)
        mu = np.maximum(-duals[:, model.target_rows], 0.0)
        a = np.zeros((len(duals), bounds.network.classes))
        b = np.zeros_like(a)
        a[:, model.source_others] = -alpha
        a[:, context.problem.source] = alpha.sum(axis=1)
        if context.target is not None:
            b[:, model.target_others] = -mu
            b[:, context.target] = mu.sum(axis=1)

        def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
            """Multipliers from the rows' duals; neurons without rows are linear or off."""
            on, rows = bounds.hexagons[layer].on, model.rows[layer]
            p, q = np.where(on, a, 0.0), np.where(on, b, 0.0)
            p[:, rows.pairs] = -duals[:, rows.pair_rows]
            q[:, rows.pairs] = -duals[:, rows.pair_rows_p]
            p[:, rows.equal] = -duals[:, rows.equal_rows]
            return p, q

        value = twin_bound(
            bounds.stages,
            bounds.corners,
            bounds.piece,
            (a, b),
            choose,
            bounds.input_magnitude,
            Allowed(masks),
        )
        # The sums of alpha and mu are rounded, and alpha sums to 1 only up to rounding.
        size = (alpha.sum(axis=1) + mu.sum(axis=1)) * self._score_size
        found: Array = value + self._rounding * (size + abs(value))
        return found


def cut_off(corners: Corners, neurons: NDArray[np.int64], codes: Codes) -> Mask:
    """Which corners `(corners, nodes, neurons)` of some neurons their codes `(nodes, neurons)` cut
    off: those on the other side of a decided sign."""
    s, t = corners.s[:, None, neurons], corners.t[:, None, neurons]
    cut = np.zeros((len(s), *codes.shape), dtype=np.bool_)
    for values, positive, negative in ((s, 1, 2), (t, 4, 8)):
        cut |= (values < 0) & ((codes & positive) != 0)
        cut |= (values > 0) & ((codes & negative) != 0)
    return cut
