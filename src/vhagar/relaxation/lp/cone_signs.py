"""The undecided signs of a cone, and what deciding them cuts off its LP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.cone_cuts import Split
from vhagar.relaxation.lp.lambda_model import PairModel
from vhagar.solver.linear_model import Columns


@dataclass(frozen=True, eq=False)
class ConeSigns:
    """The undecided signs of a cone; units are counted within it.

    `sides` are the columns of each sign's negative and positive corners. Times the LP's solution,
    `positive` and `negative` `(signs, columns)` are what decisions for the other sign remove.
    """

    splits: tuple[Split, ...]
    sides: dict[Split, tuple[Columns, Columns]]
    positive: Array
    negative: Array

    @cached_property
    def places(self) -> dict[Split, int]:
        """The place of each sign among `splits`."""
        return {split: place for place, split in enumerate(self.splits)}


def undecided_signs(pairs: PairModel, equal: Sequence[Mask]) -> ConeSigns:
    """The undecided signs of a cone's LP; `equal` marks each layer's units with equal copies."""
    weights, model = pairs.weights, pairs.model
    splits: list[Split] = []
    sides: list[tuple[Columns, Columns]] = []
    positive: list[Array] = []
    negative: list[Array] = []
    for layer, of_layer in enumerate(equal):
        for unit in distinct(weights.neuron[weights.layer == layer]).tolist():
            own = np.flatnonzero((weights.layer == layer) & (weights.neuron == unit))
            columns = weights.column[own]
            copies = (weights.s,) if of_layer[unit] else (weights.s, weights.t)
            for copy, of_all in enumerate(copies):
                values = of_all[own]
                if not ((values < 0).any() and (values > 0).any()):
                    continue
                splits.append((layer, unit, copy))
                sides.append((columns[values < 0], columns[values > 0]))
                for rows, part in ((positive, values), (negative, -values)):
                    row = np.zeros(model.column_count)
                    row[columns] = np.maximum(part, 0.0)
                    rows.append(row)
    shape = len(splits), model.column_count
    masses = (np.array(rows).reshape(shape) for rows in (positive, negative))
    return ConeSigns(tuple(splits), dict(zip(splits, sides, strict=True)), *masses)
