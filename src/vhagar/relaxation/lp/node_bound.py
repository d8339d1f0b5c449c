"""From a simplex's row duals to a bound that holds: the twin dual formula, node by node.

The duals may come from anywhere and be wrong in any way; the bound is valid all the same, only
looser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.lp.proof_kind import ProofKind
from vhagar.relaxation.twin import Allowed, Choice, twin_bound

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """How the bound depends on both copies' values, to first order.

    `layers` holds the coefficients on each ReLU layer's outputs, `inputs` those on `x` and `x_p`.
    """

    layers: list[tuple[Array, Array]]
    inputs: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Proof:
    """Why a node's bound holds. `duals` are those given to `NodeBound.upper`, or the ray that
    `NodeBound.contradiction` returned."""

    kind: ProofKind
    duals: Array | None = None


class NodeBound:
    """Bounds on `delta` over the nodes of one piece and one target."""

    def __init__(
        self,
        bounds: TwinBounds,
        model: LambdaModel,
        source: int,
        target: int | None,
        score_size: float,
    ) -> None:
        self._bounds = bounds
        self._model = model
        self._source = source
        self._target = target
        self._score_size = score_size
        self._classes = bounds.network.classes
        # Of a sum over the classes, several times over.
        self._rounding = 2.0**-51 * (self._classes + 8)

    def upper(
        self, duals: Array | None, allowed: Allowed, part: AbstractPiece | None = None
    ) -> float:
        """An upper bound on the node's `delta`; infinite where the duals prove nothing.

        With a part of the piece given, the bound is for that part only.
        """
        scaled = self._scaled(duals)
        if scaled is None:
            return math.inf
        return self._evaluate(scaled, self._alpha(scaled), allowed, part=part)

    def _scaled(self, duals: Array | None) -> Array | None:
        """A weight of 1 on the source's rows; None where the duals prove nothing."""
        if duals is None or not np.isfinite(duals).all():
            return None
        total = float(self._alpha(duals).sum())
        return duals / total if 1e-6 < total < 1e6 else None

    def _alpha(self, duals: Array) -> Array:
        return np.maximum(-duals[self._model.source_rows], 0.0)

    def infeasible(self, ray: Array | None, allowed: Allowed) -> bool:
        """Whether a dual ray proves that the node holds no attacked input."""
        return self.contradiction(ray, allowed) is not None

    def contradiction(self, ray: Array | None, allowed: Allowed) -> Array | None:
        """A ray, scaled and with its sign, that proves that the node holds no attacked input.

        With no weight on the source's rows, the formula bounds a number that is at least 0
        wherever the target's constraints hold. A bound below 0 is a contradiction.
        """
        if ray is None or not np.isfinite(ray).all() or not ray.any():
            return None
        scaled = ray / float(abs(ray).max())
        nothing = np.zeros(len(self._model.source_rows))
        # Solvers differ in the sign of a ray; the formula does not mind being asked twice.
        for signed in (scaled, -scaled):
            if self._evaluate(signed, nothing, allowed) < 0:
                return signed
        return None

    def numbers(self, proof: Proof) -> Array:
        """All that a proof's bound was computed from, in the order of certificates."""
        empty = proof.kind is ProofKind.CONTRADICTION
        duals = proof.duals if empty else self._scaled(proof.duals)
        if duals is None:
            return np.zeros(0)  # the proof needs no numbers
        parts = []
        for rows in self._model.rows:
            parts += [-duals[rows.pair_rows], -duals[rows.pair_rows_p], -duals[rows.equal_rows]]
        alpha = np.zeros(len(self._model.source_rows)) if empty else self._alpha(duals)
        return np.concatenate([*parts, alpha, self._mu(duals)])

    def _mu(self, duals: Array) -> Array:
        return np.maximum(-duals[self._model.target_rows], 0.0)

    def _evaluate(
        self,
        duals: Array,
        alpha: Array,
        allowed: Allowed,
        part: AbstractPiece | None = None,
    ) -> float:
        mu = self._mu(duals)
        with np.errstate(over="ignore", invalid="ignore"):
            (value,) = twin_bound(
                self._bounds.stages,
                self._bounds.corners,
                self._bounds.piece if part is None else part,
                self._start(alpha, mu),
                self._choice(duals),
                self._bounds.input_magnitude,
                allowed,
            )
        # The sums of alpha and mu are rounded, and alpha sums to 1 only up to rounding.
        size = float(alpha.sum() + mu.sum()) * self._score_size
        rounding = self._rounding * (size + abs(value))
        bound = float(value) + rounding
        return bound if not math.isnan(bound) else math.inf

    def ignores_target(self, duals: Array | None) -> bool:
        """Whether the bound makes no use of the target's constraints."""
        if duals is None or self._target is None:
            return False
        mu, alpha = (
            float(np.maximum(-duals[rows], 0.0).sum())
            for rows in (self._model.target_rows, self._model.source_rows)
        )
        return mu <= 1e-9 * alpha

    def coefficients(self, duals: Array) -> Coefficients:
        """What the duals say matters; for choices, not for bounds."""
        alpha, mu = (
            np.maximum(-duals[rows], 0.0)
            for rows in (self._model.source_rows, self._model.target_rows)
        )
        choice = self._choice(duals)
        layers = []
        with np.errstate(over="ignore", invalid="ignore"):  # the duals may be anything
            p, q = self._start(alpha, mu)
            for layer in range(len(self._matrices) - 2, -1, -1):
                a, b = (part @ self._matrices[layer + 1] for part in (p, q))
                layers.append((np.nan_to_num(a[0]), np.nan_to_num(b[0])))
                p, q = choice(layer, a, b)
            inputs = tuple(np.nan_to_num(part @ self._matrices[0])[0] for part in (p, q))
        return Coefficients(layers[::-1], (inputs[0], inputs[1]))

    @cached_property
    def _matrices(self) -> list[sparse.csr_array]:
        return [stage.matrix() for stage in self._bounds.stages]

    def _start(self, alpha: Array, mu: Array) -> tuple[Array, Array]:
        """The coefficients of what is bounded, on both copies' scores."""
        model = self._model
        a, b = np.zeros((1, self._classes)), np.zeros((1, self._classes))
        a[0, model.source_others] = -alpha
        a[0, self._source] = alpha.sum()
        if self._target is not None:
            b[0, model.target_others] = -mu
            b[0, self._target] = mu.sum()
        return a, b

    def _choice(self, duals: Array) -> Choice:
        """Multipliers from the rows' duals; neurons without rows are linear or off."""
        bounds, model = self._bounds, self._model

        def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
            hexagons, rows = bounds.hexagons[layer], model.rows[layer]
            on = hexagons.on
            p, q = np.where(on, a, 0.0), np.where(on, b, 0.0)
            p[0, rows.pairs] = -duals[rows.pair_rows]
            q[0, rows.pairs] = -duals[rows.pair_rows_p]
            p[0, rows.equal] = -duals[rows.equal_rows]
            return p, q

        return choose
