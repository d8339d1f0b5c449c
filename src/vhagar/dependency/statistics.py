"""How many relations there are in each layer, of which kind, and by which rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from vhagar.dependency.question import Verdict
from vhagar.dependency.relation import Order, Relations, Rule


@dataclass(frozen=True)
class Kind:
    """What relations are counted by. `shifted`: between two different indices."""

    order: Order
    rule: Rule
    shifted: bool
    exact: bool


@dataclass(frozen=True)
class LayerStatistics:
    """`position` 0 is the input, i + 1 what leaves layer i of the network's `size` values."""

    position: int
    size: int
    relations: dict[Kind, int]
    questions: dict[Verdict, int]

    def total(self, order: Order | None = None, rule: Rule | None = None) -> int:
        """The number of relations of an order and by a rule; None stands for any."""
        return sum(
            number
            for kind, number in self.relations.items()
            if order in (None, kind.order) and rule in (None, kind.rule)
        )


def count(
    position: int, size: int, known: Relations, questions: Counter[Verdict]
) -> LayerStatistics:
    """The statistics of one layer."""
    kinds = zip(
        known.orders(),
        known.rule.tolist(),
        (known.first != known.second).tolist(),
        known.exact.tolist(),
        strict=True,
    )
    numbers = Counter(
        Kind(order, Rule(rule), shifted, exact)
        for order, rule, shifted, exact in kinds
        if order is not None
    )
    return LayerStatistics(position, size, dict(numbers), dict(questions))
