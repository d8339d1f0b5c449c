"""Bound the confidence of attackable inputs without any linear program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.problem import Problem
from vhagar.relaxation.first_order.build import whole_dual
from vhagar.relaxation.first_order.dual import LayerMultipliers, Steps
from vhagar.relaxation.first_order.objective import ConfidenceObjective
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.refinement import rounded_multipliers
from vhagar.relaxation.starts import ClassMultipliers, outward, score_size
from vhagar.relaxation.twin_dual import Choice
from vhagar.runtime.devices import require_torch


@dataclass(frozen=True, eq=False)
class RootBound:
    """An upper bound, and the multipliers that prove it, in the order of certificates."""

    upper: float
    numbers: Array

    def stated(self) -> Array:
        """The multipliers, for a `Proof`."""
        return self.numbers


def root_bounds(
    problem: Problem,
    bounds: TwinBounds,
    targets: Sequence[int | None],
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[RootBound]:
    """Upper bounds on the source's confidence of inputs that the piece pushes into each target."""
    torch = require_torch()
    layer = len(bounds.stages) - 1
    rows = torch.tensor([-1 if target is None else target for target in targets], device=device)
    objective = ConfidenceObjective(problem.network.classes, problem.source, rows)
    dual = whole_dual(bounds, layer, torch_stages(bounds.stages, device), device)
    frees = dual.begin(objective)
    dual.run(objective, frees, steps, should_stop)
    chosen = LayerMultipliers(tuple(free.kept.cpu().numpy() for free in frees))
    alpha = objective.kept_alpha.cpu().numpy().astype(np.float64)
    mu = objective.kept_mu.cpu().numpy().astype(np.float64)
    return confidence_bounds(problem, bounds, targets, alpha, mu, chosen.choice())


def confidence_bounds(
    problem: Problem,
    bounds: TwinBounds,
    targets: Sequence[int | None],
    alpha: Array,
    mu: Array,
    choice: Choice,
) -> list[RootBound]:
    """The bounds that multipliers `(rows, classes)` prove, in float64 and rounded outward.

    The multipliers may be anything: negative ones become 0, and `alpha` is scaled to sum to 1.
    """
    source, network = problem.source, problem.network
    leading = np.array([source if target is None else target for target in targets])
    alpha, mu = np.maximum(alpha, 0.0), np.maximum(mu, 0.0)
    alpha[:, source] = 0.0
    mu[np.arange(len(targets)), leading] = 0.0
    mu[[target is None for target in targets]] = 0.0
    stated = _Stated(bounds.hexagons, choice)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        classes = ClassMultipliers(alpha / alpha.sum(axis=1, keepdims=True), mu)
        a, b = classes.start(source, leading)
        value = bounds.bound(len(bounds.stages) - 1, a, b, stated)
        size = score_size(network, bounds.piece)
        proven = outward(value, classes.total(), size, network.classes)
    found = []
    for row, (target, upper) in enumerate(zip(targets, proven, strict=True)):
        weights = [np.delete(classes.alpha[row], source)]
        if target is not None:
            weights.append(np.delete(classes.mu[row], target))
        numbers = np.concatenate([*stated.of_row(row), *weights])
        found.append(RootBound(float(upper) if np.isfinite(numbers).all() else np.inf, numbers))
    return found


class _Stated:
    """A choice of multipliers in the form of proofs, which state those of undecided neurons only.

    Active neurons pass their coefficients on, inactive ones pass on 0. Copies that agree share one
    multiplier: only the sum of both counts, in these neurons and in all that they depend on.
    """

    def __init__(self, hexagons: list[Hexagons], choice: Choice) -> None:
        self._hexagons = hexagons
        self._choice = choice
        self._layers: dict[int, tuple[Array, Array, Array]] = {}

    def __call__(self, layer: int, a: Array, b: Array) -> tuple[Array, Array]:
        h = self._hexagons[layer]
        on, undecided = h.on, h.undecided
        equal, pairs = undecided & h.equal, undecided & ~h.equal
        p, q = (rounded_multipliers(part, np.float64) for part in self._choice(layer, a, b))
        p = np.where(on, a, np.where(equal, p + q, np.where(pairs, p, 0.0)))
        q = np.where(on, b, np.where(pairs, q, 0.0))
        self._layers[layer] = p[:, pairs], q[:, pairs], p[:, equal]
        return p, q

    def of_row(self, row: int) -> list[Array]:
        """The multipliers of one bound, layer by layer."""
        return [part[row] for layer in sorted(self._layers) for part in self._layers[layer]]
