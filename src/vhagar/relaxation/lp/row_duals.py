"""Read the twin dual's multipliers from the row duals of a lambda-LP, in numpy or in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vhagar.relaxation.arrays import namespace, zeros
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.starts import ClassMultipliers
from vhagar.relaxation.twin_dual import Choice

# Range of the sum of the source's multipliers that can be scaled to 1.
LEAST_TOTAL, MOST_TOTAL = 1e-6, 1e6


class RowDuals:
    """Reads multipliers from duals `(nodes, rows)`, which may be anything.

    `on` marks each layer's active neurons, in the array library of the duals.
    """

    def __init__(self, model: LambdaModel, classes: int, on: Sequence[Any]) -> None:
        self._model = model
        self._classes = classes
        self._on = on

    def classes(self, duals: Any) -> ClassMultipliers:
        """The multipliers of the classes, from the rows of the source and of the target."""
        model = self._model
        return ClassMultipliers(
            self._spread(duals, model.source_rows, model.source_others),
            self._spread(duals, model.target_rows, model.target_others),
        )

    def _spread(self, duals: Any, rows: Any, others: Any) -> Any:
        found = zeros((len(duals), self._classes), duals)
        found[:, others] = (-duals[:, rows]).clip(min=0.0)
        return found

    def choice(self, duals: Any) -> Choice:
        """The multipliers of the neurons; neurons without rows are active or inactive."""

        def choose(layer: int, a: Any, b: Any) -> tuple[Any, Any]:
            rows, on, where = self._model.rows[layer], self._on[layer], namespace(a).where
            p, q = where(on, a, 0.0), where(on, b, 0.0)
            p[:, rows.pairs] = -duals[:, rows.pair_rows]
            q[:, rows.pairs] = -duals[:, rows.pair_rows_p]
            p[:, rows.equal] = -duals[:, rows.equal_rows]
            return p, q

        return choose
