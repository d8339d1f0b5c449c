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
from vhagar.relaxation.cone_cuts import ConeCuts, WeightedCuts
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.lp.row_duals import LEAST_TOTAL, MOST_TOTAL, RowDuals
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.relaxation.stages import Magnitudes
from vhagar.relaxation.starts import outward
from vhagar.relaxation.twin_dual import (
    Added,
    AddFacts,
    Allowed,
    Backward,
    coefficients,
    paying,
    twin_bound,
)

# Share of the source's multipliers: smaller ones of the target's are due to costs slightly off.
# Measured: conv1 `rotation(10)`, where the exact multipliers are 0, has 1e-5 (PERFORMANCE.md).
_NO_WEIGHT = 1e-3
# Share of the scores' size by which bounds that use cuts are rounded up.
_ROOM_FOR_CUTS = 2.0**-36


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a bound's multipliers say about the parts of the network.

    `outputs[k]` are the coefficients on the outputs of ReLU layer k before cuts are taken off,
    `first` the multipliers of the first layer's pre-activations, `weights` those of the cuts.
    """

    outputs: dict[int, tuple[Array, Array]]
    first: tuple[Array, Array]
    weights: WeightedCuts


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
        self.cuts = ConeCuts()
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

        def numbers() -> Array:
            scaled = self._stated(duals[None], empty)
            parts = self.plain_numbers(scaled), self._cut_weights(scaled)
            found: Array = np.concatenate(parts, axis=1)[0]
            return found

        return Proof(kind, self._bounds, numbers, self.cuts)

    def numbers(self, duals: Array, empty: bool = False) -> Array:
        """The multipliers of the bounds of some nodes, a row each, in the order of certificates.

        In a proof that a node is `empty`, the source's rows have no weight. Cuts have none here.
        """
        return self.plain_numbers(self._stated(duals, empty))

    def _stated(self, duals: Array, empty: bool) -> Array:
        """Rows of duals, scaled as certificates state them."""
        if empty:
            without = duals.copy()
            without[:, self._model.source_rows] = 0.0
            return without
        alpha = np.maximum(-duals[:, self._model.source_rows], 0.0)
        found: Array = duals / alpha.sum(axis=1, keepdims=True)
        return found

    def plain_numbers(self, duals: Array) -> Array:
        """Rows of duals, unscaled, as multipliers in the order of certificates, without cuts."""
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
                add_facts=self._facts(duals[None]),
            )
            proven = outward(value, classes.total(), self._score_size, self._classes)
            if self.cuts.cuts:
                # A certificate does not state a cut's limit: a checker may round it differently.
                proven = proven + _ROOM_FOR_CUTS * self._score_size * classes.total()
        return float(proven[0])

    def _facts(self, duals: Array) -> AddFacts | None:
        """The cuts with the weights that rows of duals give them; later cuts have none."""
        weights = self._cut_weights(duals)
        return WeightedCuts(self.cuts.cuts, weights).to if weights.any() else None

    def _cut_weights(self, duals: Array) -> Array:
        found = np.zeros((len(duals), len(self.cuts)))
        given = duals[:, self._model.model.row_count :]
        found[:, : given.shape[1]] = np.maximum(given, 0.0)
        return found

    def wanted(self, duals: Array, layers: list[int]) -> Wanted:
        """What these duals say about the outputs of some layers."""
        found, first = {}, [np.zeros(0)] * 2
        cuts = WeightedCuts(self.cuts.cuts, self._cut_weights(duals[None]))
        choice = self._rows.choice(duals[None])

        def add_facts(layer: int, state: Backward, size: Array | None) -> Backward:
            if layer in layers:
                found[layer] = np.nan_to_num(state.a[0]), np.nan_to_num(state.b[0])
            return cuts.to(layer, state, size)

        def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
            p, q = choice(layer, a, b)
            if layer == 0:
                first[:] = np.nan_to_num(p[0]), np.nan_to_num(q[0])
            return p, q

        start = self._rows.classes(duals[None]).start(self._source, self._target)
        with np.errstate(over="ignore", invalid="ignore"):
            coefficients(self._bounds.stages, start, choose, add_facts=add_facts)
        return Wanted(found, (first[0], first[1]), cuts)

    def ignores_target(self, duals: Array | None) -> bool:
        """Whether the bound does not use the target's constraints."""
        if duals is None or self._target is None:
            return False
        mu, alpha = (
            float(np.maximum(-duals[rows], 0.0).sum())
            for rows in (self._model.target_rows, self._model.source_rows)
        )
        return mu <= _NO_WEIGHT * alpha

    def coefficients(self, duals: Array, with_cuts: bool = True) -> Coefficients:
        """The bound's coefficients by these duals; they guide choices and prove nothing.

        Those `with_cuts` are what is left after the cuts are taken off.
        """
        start = self._rows.classes(duals[None]).start(self._source, self._target)
        with np.errstate(over="ignore", invalid="ignore"):  # the duals may be anything
            choice = self._rows.choice(duals[None])
            facts = self._facts(duals[None]) if with_cuts else None
            found = coefficients(self._bounds.stages, start, choice, add_facts=facts)
        first, *layers = ((np.nan_to_num(a[0]), np.nan_to_num(b[0])) for a, b in reversed(found))
        return Coefficients(layers, first)

    @cached_property
    def _magnitudes(self) -> Magnitudes:
        return self._bounds.magnitudes(len(self._bounds.stages) - 1)
