"""The confidence of attacked inputs, bounded without any linear program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.problem import Problem
from vhagar.relaxation.first_order.build import whole_dual
from vhagar.relaxation.first_order.dual import Multipliers, Steps
from vhagar.relaxation.first_order.goal import ConfidenceGoal
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.starts import ClassMultipliers, outward, score_size
from vhagar.runtime.devices import require_torch

Array = NDArray[np.float64]


def root_bounds(
    problem: Problem,
    bounds: TwinBounds,
    targets: Sequence[int | None],
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[int | None, float]:
    """Upper bounds on the source's confidence where the piece leads to each target."""
    torch = require_torch()
    layer = len(bounds.stages) - 1
    rows = torch.tensor([-1 if target is None else target for target in targets], device=device)
    goal = ConfidenceGoal(problem.network.classes, problem.source, rows)
    dual = whole_dual(bounds, layer, torch_stages(bounds.stages, device), device)
    frees = dual.begin(goal)
    dual.run(goal, frees, steps, should_stop)
    chosen = Multipliers(tuple(free.kept.cpu().numpy() for free in frees))
    alpha = goal.kept_alpha.cpu().numpy().astype(np.float64)
    mu = goal.kept_mu.cpu().numpy().astype(np.float64)
    found = confidence_bounds(problem, bounds, targets, alpha, mu, chosen)
    return dict(zip(targets, found, strict=True))


def confidence_bounds(
    problem: Problem,
    bounds: TwinBounds,
    targets: Sequence[int | None],
    alpha: Array,
    mu: Array,
    chosen: Multipliers,
) -> list[float]:
    """What multipliers `(rows, classes)` prove, in float64 and rounded outward.

    They may be anything: `alpha` is brought to the simplex, what is negative is left out.
    """
    source, network = problem.source, problem.network
    goals = np.array([source if target is None else target for target in targets])
    alpha, mu = np.maximum(alpha, 0.0), np.maximum(mu, 0.0)
    alpha[:, source] = 0.0
    mu[np.arange(len(targets)), goals] = 0.0
    mu[[target is None for target in targets]] = 0.0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        classes = ClassMultipliers(alpha / alpha.sum(axis=1, keepdims=True), mu)
        a, b = classes.start(source, goals)
        value = bounds.bound(len(bounds.stages) - 1, a, b, chosen.choice())
        size = score_size(network, bounds.piece)
        proven = outward(value, classes.total(), size, network.classes)
    return [float(bound) for bound in proven]
