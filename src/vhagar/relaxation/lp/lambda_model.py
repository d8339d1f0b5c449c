"""The lambda-LP: the exact convex hull of every neuron pair, as columns that decisions switch off.

An undecided pair is a convex combination of its hexagon's corners, with weights lambda. Deciding a
sign fixes the lambdas of the corners on the other side at 0: the matrix never changes, so the dual
simplex starts from the last basis. Active neurons are linear and need no rows or columns.

The LP only proposes multipliers. The bound is computed from them elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.relaxed import Expression
from vhagar.relaxation.influence_cones import Relaxed
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.pair_hulls import CornerWeights, add_convexity, add_weights
from vhagar.solver.basis import Layout
from vhagar.solver.linear_model import Columns, LinearArrays, LinearModel


@dataclass(frozen=True, eq=False)
class LambdaColumns:
    """The lambda columns: each belongs to one corner of one neuron of one ReLU layer."""

    column: Columns
    layer: Columns
    neuron: Columns
    s: Array
    t: Array


@dataclass(frozen=True, eq=False)
class LayerRows:
    """The rows of a ReLU layer's undecided neurons; their duals are the layer's multipliers."""

    pairs: Columns  # neurons with a row for each copy
    pair_rows: Columns
    pair_rows_p: Columns
    equal: Columns  # neurons with one row for both copies
    equal_rows: Columns
    equal_sums: Columns  # the convexity rows of the equal neurons' weights


class PairModel:
    """The lambda-LP of the network's first stages over one piece: all before ReLU layer `depth`.

    `first` and `second` are that layer's pre-activations in both copies.
    """

    def __init__(self, bounds: Relaxed, depth: int) -> None:
        self.model = LinearModel()
        self.rows: list[LayerRows] = []
        self.entering: list[tuple[Expression, Expression]] = []  # each ReLU layer's inputs
        self.leaving: list[tuple[Expression, Expression]] = []  # and its outputs
        self._weights: list[tuple[Columns, int, Columns, Array, Array]] = []
        self._column_keys: list[Columns] = []
        self._row_keys: list[Columns] = []
        stage = bounds.stages[0]
        self.inputs = bounds.piece.relax_stage(self.model, stage.matrix(), stage.bias())
        first, second = self.inputs.first, self.inputs.second
        self._column_keys.append(np.arange(self.model.column_count))
        self._row_keys.append(np.arange(self.model.row_count))
        for layer, stage in enumerate(bounds.stages[1 : depth + 1]):
            first, second = self._add_layer(bounds, layer, first, second)
            matrix, bias, width = stage.matrix(), stage.bias(), self.model.column_count
            first, second = (copy.then(matrix, bias, width) for copy in (first, second))
        self.first, self.second = first, second
        self.weights = self._collect()

    @cached_property
    def arrays(self) -> LinearArrays:
        """The finished model; a neuron's rows in both copies are twins."""
        none = np.zeros(0, dtype=np.int64)
        first = np.concatenate([none, *(rows.pair_rows for rows in self.rows)])
        second = np.concatenate([none, *(rows.pair_rows_p for rows in self.rows)])
        return replace(self.model.arrays(), twins=(first, second))

    @property
    def region_rows(self) -> Columns:
        """The rows that only the LPs of single linear regions contain: those of a large zonotope.

        Measured: over images they lower the bounds of nodes by 1 % at most, in 20 times the time
        (PERFORMANCE.md, "zonotopes: rows").
        """
        zonotope = self.inputs.zonotope
        return np.zeros(0, dtype=np.int64) if zonotope is None or zonotope.small else zonotope.rows

    def _add_layer(
        self, bounds: Relaxed, layer: int, first: Expression, second: Expression
    ) -> tuple[Expression, Expression]:
        """Add the rows and columns of a ReLU layer; returns its post-activations in both copies."""
        self.entering.append((first, second))
        hexagons = bounds.hexagons[layer]
        undecided = ~hexagons.on & ~hexagons.off
        equal = np.flatnonzero(undecided & hexagons.equal)
        pairs = np.flatnonzero(undecided & ~hexagons.equal)
        of_equal = self._corner_columns(bounds, layer, equal)
        of_pairs = self._corner_columns(bounds, layer, pairs)
        equal_rows = self._tie(first, equal, of_equal, of_equal.s)
        pair_rows = self._tie(first, pairs, of_pairs, of_pairs.s)
        pair_rows_p = self._tie(second, pairs, of_pairs, of_pairs.t)
        equal_sums = add_convexity(self.model, of_equal)
        add_convexity(self.model, of_pairs)
        for kind, neurons in enumerate((equal, pairs, pairs, equal, pairs)):
            # The same key for both kinds: a pair of the whole piece may be equal in a part of it.
            self._row_keys.append(_keys(layer, neurons, np.full(len(neurons), min(kind, 3))))
        self.rows.append(LayerRows(pairs, pair_rows, pair_rows_p, equal, equal_rows, equal_sums))
        columns = np.concatenate([of_equal.column, of_pairs.column])
        neurons = np.concatenate([equal[of_equal.owner], pairs[of_pairs.owner]])
        s, t = (np.concatenate([getattr(part, n) for part in (of_equal, of_pairs)]) for n in "st")
        on = hexagons.on
        after = (
            self._after(first, on, columns, neurons, s),
            self._after(second, on, columns, neurons, t),
        )
        self.leaving.append(after)
        return after

    def _corner_columns(self, bounds: Relaxed, layer: int, neurons: Columns) -> CornerWeights:
        """Add one column for each distinct corner of these neurons, except the origin."""
        corners = bounds.corners[layer]
        found = add_weights(self.model, corners.s[:, neurons], corners.t[:, neurons])
        owner = neurons[found.owner]
        self._weights.append((found.column, layer, owner, found.s, found.t))
        self._column_keys.append(_keys(layer, owner, found.which))
        return found

    def _tie(
        self, before: Expression, neurons: Columns, weights: CornerWeights, values: Array
    ) -> Columns:
        """Add rows: pre-activation = sum of lambda * corner."""
        if not len(neurons):
            return np.zeros(0, dtype=np.int64)
        all_before = np.arange(before.matrix.shape[1])
        constant = -before.constant[neurons]
        blocks = [(all_before, before.matrix[neurons]), (weights.column, weights.sums(-values))]
        return self.model.add_rows(blocks, constant, constant)

    def _after(
        self, before: Expression, on: Mask, columns: Columns, neurons: Columns, values: Array
    ) -> Expression:
        """The post-activation: the pre-activation of active neurons, else by the corners' ReLUs."""
        width = self.model.column_count
        kept = sparse.csr_array(before.matrix * on.astype(np.float64)[:, None])
        kept.resize((len(on), width))
        positive = values > 0
        rest = sparse.coo_array(
            (values[positive], (neurons[positive], columns[positive])), shape=(len(on), width)
        )
        return Expression(sparse.csr_array(kept + rest), np.where(on, before.constant, 0.0))

    def _collect(self) -> LambdaColumns:
        none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        parts = self._weights
        return LambdaColumns(
            np.concatenate([none, *(part[0] for part in parts)]),
            np.concatenate([none, *(np.full(len(part[0]), part[1]) for part in parts)]),
            np.concatenate([none, *(part[2] for part in parts)]),
            np.concatenate([nothing, *(part[3] for part in parts)]),
            np.concatenate([nothing, *(part[4] for part in parts)]),
        )


class LambdaModel(PairModel):
    """The lambda-LP of one piece and one target (or, without a target, of one copy)."""

    def __init__(
        self, bounds: TwinBounds, source: int, target: int | None, score_size: float
    ) -> None:
        super().__init__(bounds, len(bounds.stages) - 1)
        # These bounds are never reached: if one held delta, the source's rows would have no duals.
        self.delta = int(self.model.add_columns(-3.0 * score_size, 3.0 * score_size)[0])
        # The target's lead in the second copy; fixed at 0 unless a caller asks how large it can be.
        self.lead = int(self.model.add_columns(0.0, 0.0)[0])
        self._add_classes(self.first, self.second, source, target)
        self.layout = self._layout()

    def _add_classes(
        self, first: Expression, second: Expression, source: int, target: int | None
    ) -> None:
        classes = len(first.constant)
        every = np.arange(self.model.column_count)
        self.source_rows = self._margin_rows(first, every, source, self.delta)
        self.source_others = np.array([j for j in range(classes) if j != source])
        self.target_rows = self.target_others = np.zeros(0, dtype=np.int64)
        if target is not None:
            self.target_rows = self._margin_rows(second, every, target, self.lead)
            self.target_others = np.array([j for j in range(classes) if j != target])

    def _margin_rows(self, scores: Expression, every: Columns, label: int, lead: int) -> Columns:
        """Add rows: `score[label] - score[j] - lead >= 0` for every other class j."""
        chosen = [j for j in range(len(scores.constant)) if j != label]
        rows = -np.eye(len(scores.constant))[chosen]
        rows[:, label] = 1.0
        wide = scores.matrix.copy()
        wide.resize((wide.shape[0], len(every)))
        blocks = [
            (every, sparse.csr_array(sparse.csr_array(rows) @ wide)),
            (np.array([lead]), np.full((len(chosen), 1), -1.0)),
        ]
        return self.model.add_rows(blocks, -(rows @ scores.constant), np.inf)

    def _layout(self) -> Layout:
        """Keys of columns and rows by their meaning; the last ones are the same in every model."""
        columns, rows = (
            np.concatenate([*keys, -1 - np.arange(count - sum(map(len, keys)))])
            for keys, count in (
                (self._column_keys, self.model.column_count),
                (self._row_keys, self.model.row_count),
            )
        )
        return Layout(columns, rows)


def _keys(layer: int, neurons: Columns, which: Columns) -> Columns:
    """Keys of the rows or columns of neurons, larger than all keys of inputs."""
    keys: Columns = ((layer + 1) << 40) + (neurons.astype(np.int64) << 8) + which
    return keys
