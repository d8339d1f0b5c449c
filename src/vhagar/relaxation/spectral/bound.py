"""Bound how far the source's lead over a target can shift between the copies, by spectral norms.

An attacked input's confidence is at most `g(x) - g(x_p)` with `g` the source's score minus the
target's, because `g(x_p) <= 0`. With the expansion of that difference (`expansion.py`) and positive
scalings `d_k` for the free units of ReLU layer k, the deviation `a_k = diag(e) (s_k - s_p_k) / 2`
of the layer from its middle slopes satisfies

    |d_k a_k|  <=  r_k  :=  N(0, k) |c_k|  +  sum over i < k of N(i, k) r_i

where `N(i, k)` is a bound on the norm of `diag(d_k) block(i, k) diag(1/d_i)`, and `c_k` are
scalings of the input's coordinates, which are between -1 and 1. Then

    g(x) - g(x_p)  <=  support of the linear part  +  sum over k of |v_k / d_k| r_k

with `v_k` the coefficients of layer k's deviation in `g`. This holds for all positive scalings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.spectral.expansion import Chain, Expansion, Pair, expand
from vhagar.relaxation.spectral.norms import UNDERFLOW, length, norm_bound
from vhagar.relaxation.spectral.scalings import Scalings, ScalingSearch
from vhagar.relaxation.spectral.slopes import InputChange, LayerSlopes, input_change, layer_slopes

# More than the relative error of the few operations from the proven norms to the bound.
_ROUNDING = 2.0**-40


@dataclass(frozen=True, eq=False)
class SpectralProof:
    """The proof of a spectral bound: the scalings, and bounds on the scaled blocks' norms.

    Everything else follows from the problem. `squares` are upper bounds on the eigenvalues of the
    blocks' Gram matrices, in the order of `pairs_of`.
    """

    upper: float
    scalings: Scalings
    squares: tuple[float, ...]
    slopes: tuple[LayerSlopes, ...]
    change: InputChange

    def block(self) -> tuple[dict[str, Any], bytes]:
        """The proof in the format of certificates (`docs/certificate.md`, "SPEC")."""
        about = {
            "layers": [len(layer.free) for layer in self.slopes],
            "pixels": self.change.pixels.tolist(),
            "middle": bool(self.change.middle.any()),
        }
        parts: list[NDArray[Any]] = [layer.status for layer in self.slopes]
        parts.append(np.array(self.squares, dtype="<f8"))
        parts += [part.astype("<f4") for part in (*self.scalings.layers, *self.scalings.inputs)]
        return about, b"".join(part.tobytes() for part in parts)


class SpectralBounder:
    """Bounds of one piece for several targets; more steps make them tighter."""

    def __init__(
        self, network: Network, piece: AbstractPiece, source: int, targets: Sequence[int]
    ) -> None:
        self._piece = piece
        self._change = input_change(piece)
        self._slopes = layer_slopes(network, piece, self._change)
        self._expansion = expand(network, self._change, self._slopes)
        self._leads = [_lead(network.classes, source, target) for target in targets]
        self._search: ScalingSearch | None = None
        if self._expansion is not None:
            self._search = ScalingSearch(self._expansion, self._rows(self._expansion))

    def _rows(self, expansion: Expansion) -> tuple[Array, ...]:
        chains = expansion.to_scores[1:]
        return tuple(np.stack([chain.pull(lead) for lead in self._leads]) for chain in chains)

    def bounds(
        self,
        steps: int,
        should_stop: Callable[[], bool] = lambda: False,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> list[SpectralProof | None]:
        """Take steps, then prove a bound for each target; None where that fails.

        The steps end early once `is_enough()` is true, so that there is time for the proof.
        """
        if self._expansion is None or self._search is None:
            return [None] * len(self._leads)
        with np.errstate(all="ignore"):
            self._search.steps(steps, lambda: should_stop() or is_enough())
        if should_stop():
            return [None] * len(self._leads)
        scalings = self._search.scalings()
        uppers, squares = difference_bounds(
            self._expansion, self._piece, self._change, self._leads, scalings, should_stop
        )
        return [
            SpectralProof(upper, scalings, squares, self._slopes, self._change)
            if math.isfinite(upper)
            else None
            for upper in uppers
        ]


def pairs_of(layers: int) -> list[Pair]:
    """The blocks in the order of certificates: by their later layer."""
    return [(i, j) for j in range(1, layers + 1) for i in range(j)]


def difference_bounds(
    expansion: Expansion,
    piece: AbstractPiece,
    change: InputChange,
    leads: Sequence[Array],
    scalings: Scalings,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[list[float], tuple[float, ...]]:
    """The bound for each lead `(classes,)`, proven from the scalings, and the norms' squares.

    A bound is infinite if the proof fails or if there is no time for all norms.
    """
    layers = [part.astype(np.float64) for part in scalings.layers]
    inputs = [part.astype(np.float64) for part in scalings.inputs]
    if not all(bool(np.isfinite(part).all() and (part > 0).all()) for part in layers + inputs):
        return [math.inf] * len(leads), ()
    reach = [0.0] * expansion.layers
    squares = []
    for i, j in pairs_of(expansion.layers):
        if should_stop():
            return [math.inf] * len(leads), ()
        before = layers[i - 1] if i else inputs[j - 1]
        norm = norm_bound(expansion.blocks[i, j], layers[j - 1], before)
        squares.append(norm.square)
        farthest = reach[i - 1] if i else length(before)
        reach[j - 1] += norm.bound * farthest * (1 + _ROUNDING)
    totals = [_total(expansion, piece, change, lead, layers, reach) for lead in leads]
    return totals, tuple(squares)


def _total(
    expansion: Expansion,
    piece: AbstractPiece,
    change: InputChange,
    lead: Array,
    layers: Sequence[Array],
    reach: Sequence[float],
) -> float:
    with np.errstate(all="ignore"):
        first, *others = expansion.to_scores
        coefficients, error = _pulled(first, lead)
        linear = float(piece.support(coefficients[None], -coefficients[None]).value[0])
        total = linear + _ROUNDING * abs(linear)
        total += float((error * change.magnitude).sum()) * (1 + _ROUNDING)
        for chain, scaling, most in zip(others, layers, reach, strict=True):
            row, error = _pulled(chain, lead)
            largest = (abs(row) + error) / scaling
            total += length(largest) * most * (1 + _ROUNDING) + UNDERFLOW
        total += _ROUNDING * abs(total)
    return total if math.isfinite(total) else math.inf


def _pulled(chain: Chain, lead: Array) -> tuple[Array, Array]:
    """The lead's coefficients on a chain's input, and a bound on the rounding error of each."""
    row = chain.pull(lead)
    error = chain.relative_error * chain.absolute().pull(abs(lead)) * (1 + 1e-6)
    return row, np.asarray(error + chain.lost(backwards=True) + UNDERFLOW)


def _lead(classes: int, source: int, target: int) -> Array:
    lead = np.zeros(classes)
    lead[source], lead[target] = 1.0, -1.0
    return lead
