"""Bound the confidence of attackable inputs by one backward pass, without first-order steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhagar.problem import Problem
from vhagar.relaxation.first_order.root import RootBound, confidence_bounds
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.quick_multipliers import quick_payment
from vhagar.relaxation.twin_dual import Choice


def quick_root_bounds(
    problem: Problem, bounds: TwinBounds, targets: Sequence[int | None]
) -> list[RootBound]:
    """Upper bounds on the source's confidence of inputs that the piece pushes into each target.

    With a target, the bound is how far the source's lead over it can shift between the copies.
    Without one, the lead over any other class is a bound, and so is the mean of the leads; the best
    of these counts.
    """
    starts: list[tuple[int, int | None, int | None]] = []  # place in the answer, target, rival
    others = [j for j in range(problem.network.classes) if j != problem.source]
    for place, target in enumerate(targets):
        rivals = [target] if target is not None else [*others, None]
        starts += [(place, target, rival) for rival in rivals]
    alpha, mu = np.zeros((2, len(starts), problem.network.classes))
    for row, (_, target, rival) in enumerate(starts):
        alpha[row, others if rival is None else rival] = 1.0
        mu[row, problem.source] = 0.0 if target is None else 1.0
    rows = confidence_bounds(
        problem, bounds, [target for _, target, _ in starts], alpha, mu, _quick(bounds)
    )
    found: list[list[RootBound]] = [[] for _ in targets]
    for (place, _, _), bound in zip(starts, rows, strict=True):
        found[place].append(bound)
    return [min(own, key=lambda bound: bound.upper) for own in found]


def _quick(bounds: TwinBounds) -> Choice:
    pay = quick_payment(bounds.corners)
    return lambda layer, a, b: pay(layer, a, b)[:2]
