"""Turn the simplex method's row duals into valid bounds, by the twin dual formula, node by node.

The duals may come from anywhere and be wrong in any way: the bound is still valid, only looser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.lp.row_duals import LEAST_TOTAL, MOST_TOTAL, RowDuals
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.relaxation.stages import Magnitudes
from vhagar.relaxation.starts import outward
from vhagar.relaxation.twin_dual import Added, Allowed, coefficients, paying, twin_bound

# Share of the source's multipliers: smaller ones of the target's are due to costs slightly off.
# Measured: conv1 `rotation(10)`, where the exact multipliers are 0, has 1e-5 (PERFORMANCE.md).
_NO_WEIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class Coefficients:
    """How the bound depends on both copies' values, to first order.

    `layers` holds the coefficients on each ReLU layer's outputs, `inputs` those on `x` and `x_p`.
    """

    layers: list[tuple[Array, Array]]
    inputs: tuple[Array, Array]


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
        self._rows = RowDuals(model, self._classes, [hexagons.on for hexagons in bounds.hexagons])

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
        """The duals scaled to a total of 1 on the source's rows; None where they prove nothing."""
        if duals is None or not np.isfinite(duals).all():
            return None
        total = float(self._alpha(duals).sum())
        return duals / total if LEAST_TOTAL < total < MOST_TOTAL else None

    def _alpha(self, duals: Array) -> Array:
        return np.maximum(-duals[self._model.source_rows], 0.0)

    def infeasible(self, ray: Array | None, allowed: Allowed) -> bool:
        """Whether a dual ray proves that the node contains no attackable input."""
        return self.contradiction(ray, allowed) is not None

    def contradiction(self, ray: Array | None, allowed: Allowed) -> Array | None:
        """The ray, scaled and with the right sign, if it proves the node free of attackable inputs.

        With no weight on the source's rows, the formula bounds a number that is at least 0
        wherever the target's constraints hold. A bound below 0 is a contradiction.
        """
        if ray is None or not np.isfinite(ray).all() or not ray.any():
            return None
        scaled = ray / float(abs(ray).max())
        nothing = np.zeros(len(self._model.source_rows))
        # Solvers differ in the sign of a ray, so both are tried.
        for signed in (scaled, -scaled):
            if self._evaluate(signed, nothing, allowed) < 0:
                return signed
        return None

    def proof(self, kind: ProofKind, duals: Array | None = None) -> Proof:
        """The proof of a bound. `duals` are those given to `upper`, or the ray that `contradiction`
        returned; other kinds of proofs have none."""
        if duals is None:
            return Proof(kind, self._bounds)
        empty = kind is ProofKind.CONTRADICTION
        return Proof(kind, self._bounds, lambda: self.numbers(duals[None], empty)[0])

    def numbers(self, duals: Array, empty: bool = False) -> Array:
        """The multipliers of the bounds of some nodes, a row each, in the order of certificates.

        In a proof that a node is `empty`, the source's rows have no weight.
        """
        model = self._model
        alpha = np.maximum(-duals[:, model.source_rows], 0.0)
        if not empty:
            return self.plain_numbers(duals / alpha.sum(axis=1, keepdims=True))
        without = duals.copy()
        without[:, model.source_rows] = 0.0
        return self.plain_numbers(without)

    def plain_numbers(self, duals: Array) -> Array:
        """Rows of duals, unscaled, as multipliers in the order of certificates."""
        model, parts = self._model, []
        for rows in model.rows:
            places = (rows.pair_rows, rows.pair_rows_p, rows.equal_rows)
            parts += [-duals[:, place] for place in places]
        alpha = np.maximum(-duals[:, model.source_rows], 0.0)
        mu = np.maximum(-duals[:, model.target_rows], 0.0)
        return np.concatenate([*parts, alpha, mu], axis=1)

    def side_bounds(self, duals: Array, added: Added, level: float, allowed: Allowed) -> Array:
        """Upper bounds `(rows,)` on the `added` terms, for attacked pairs of confidence >= `level`.

        For these pairs, `sum of alpha_j (lead over j - level)` and the target's leads are at least
        0, so multiples of them may be added to the bounded terms.
        """
        classes = self._rows.classes(duals)
        with np.errstate(over="ignore", invalid="ignore"):
            value = twin_bound(
                self._bounds.stages,
                self._bounds.piece,
                classes.start(self._source, self._target),
                paying(self._bounds.corners, self._rows.choice(duals), allowed.layers),
                self._magnitudes,
                allowed.pixels,
                added,
            )
            proven = outward(value, classes.total(), self._score_size, self._classes)
            # At most the exact product, although both the sum of alpha and the product are rounded.
            spared = level * classes.alpha.sum(axis=1) * (1 - 2.0**-50 * (self._classes + 8))
            found = np.nextafter(proven - np.nextafter(spared, -np.inf), np.inf)
        return np.where(np.isfinite(spared) & np.isfinite(proven), found, np.inf)

    def _evaluate(
        self,
        duals: Array,
        alpha: Array,
        allowed: Allowed,
        part: AbstractPiece | None = None,
    ) -> float:
        classes = self._rows.classes(duals[None])
        classes.alpha[0, self._model.source_others] = alpha
        with np.errstate(over="ignore", invalid="ignore"):
            value = twin_bound(
                self._bounds.stages,
                self._bounds.piece if part is None else part,
                classes.start(self._source, self._target),
                paying(self._bounds.corners, self._rows.choice(duals[None]), allowed.layers),
                self._magnitudes,
                allowed.pixels,
            )
            proven = outward(value, classes.total(), self._score_size, self._classes)
        return float(proven[0])

    def ignores_target(self, duals: Array | None) -> bool:
        """Whether the bound does not use the target's constraints."""
        if duals is None or self._target is None:
            return False
        mu, alpha = (
            float(np.maximum(-duals[rows], 0.0).sum())
            for rows in (self._model.target_rows, self._model.source_rows)
        )
        return mu <= _NO_WEIGHT * alpha

    def coefficients(self, duals: Array) -> Coefficients:
        """The bound's coefficients by these duals; they guide choices and prove nothing."""
        start = self._rows.classes(duals[None]).start(self._source, self._target)
        with np.errstate(over="ignore", invalid="ignore"):  # the duals may be anything
            found = coefficients(self._bounds.stages, start, self._rows.choice(duals[None]))
        first, *layers = ((np.nan_to_num(a[0]), np.nan_to_num(b[0])) for a, b in reversed(found))
        return Coefficients(layers, first)

    @cached_property
    def _magnitudes(self) -> Magnitudes:
        return self._bounds.magnitudes(len(self._bounds.stages) - 1)
