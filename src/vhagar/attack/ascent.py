"""Projected gradient ascent over inputs and perturbation parameters together.

Two ways to balance the two goals, confidence in the source class at `x` and in the target class at
its image: the adaptive term of the paper, and an augmented Lagrangian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.batch import Batch, State
from vhagar.attack.options import AttackOptions
from vhagar.runtime.devices import Tensor, require_torch

Array = NDArray[np.float64]

# Adam's usual averages of slopes and of their squares.
_MEMORY, _SQUARE_MEMORY, _TINY = 0.9, 0.99, 1e-8
# Of the scale of the scores: the margin aimed at, the largest multiplier.
_ROOM, _LARGEST_MULTIPLIER = 1e-4, 20.0
# How much of the penalty a multiplier takes over in one step: rows that are slow to give in end in
# better places, where they give in at all, so every row has its own.
_SLOWEST_LEARNING, _FASTEST_LEARNING = 0.03, 0.3
# The last step beside the first.
_LAST_STEP = 0.02
# And its own size of steps: from this part of the option's to its inverse.
_SMALLEST_STEP = 0.5


@dataclass(frozen=True, eq=False)
class Solutions:
    """The best that each row of a batch came by.

    `confidence` `(rows,)` is minus infinity where the row never attacked anything; `x` and
    `parameters` are then where it ended.
    """

    confidence: Array
    x: Array
    parameters: tuple[Array, ...]


class _Record:
    """Keeps every row's best attack so far."""

    def __init__(self, state: State) -> None:
        torch = require_torch()
        self._best = torch.full_like(state.x[:, 0], -torch.inf)
        self._state = state

    def see(self, confidence: Tensor, margin: Tensor, state: State) -> None:
        torch = require_torch()
        better = (margin > 0) & (confidence > 0) & (confidence > self._best)
        # A row without an attack is kept where it is now.
        taken = (better | torch.isneginf(self._best))[:, None]
        self._best = torch.where(better, confidence, self._best).detach()
        x = torch.where(taken, state.x, self._state.x).detach()
        groups = zip(
            taken.split(len(taken) // len(state.parameters)),
            state.parameters,
            self._state.parameters,
            strict=True,
        )
        chosen = (torch.where(rows, new, old).detach() for rows, new, old in groups)
        self._state = State(x, tuple(chosen))

    def solutions(self) -> Solutions:
        x, parameters = self._state.x, self._state.parameters
        return Solutions(_numpy(self._best), _numpy(x), tuple(_numpy(p) for p in parameters))


def ascend(
    batch: Batch,
    state: State,
    options: AttackOptions,
    rng: np.random.Generator,
    should_stop: Callable[[], bool] = lambda: False,
) -> Solutions:
    """The ascent the options ask for."""
    record = _Record(state)
    if options.lagrangian:
        _lagrangian(batch, state, options, rng, record, should_stop)
    else:
        _balanced(batch, state, options, record, should_stop)
    return record.solutions()


def _balanced(
    batch: Batch,
    state: State,
    options: AttackOptions,
    record: _Record,
    should_stop: Callable[[], bool],
) -> None:
    """The paper's ascent: signs of the slopes, with its adaptive balancing term."""
    torch = require_torch()
    for k in range(options.steps + 1):
        variables = _variables(state)
        confidence, margin = batch.leads(State(variables[0], tuple(variables[1:])))
        record.see(confidence, margin, state)
        if k == options.steps or should_stop():
            return
        second_goal = margin.clamp(max=options.tau).sum()
        (for_source,) = torch.autograd.grad(confidence.sum(), variables[:1], retain_graph=True)
        for_target = _slopes(second_goal, variables)
        size = for_source.norm(dim=1, keepdim=True)
        balance = (
            options.lambda_0 * size / (for_target[0] + options.kappa).norm(dim=1, keepdim=True)
        )
        # Only the second goal depends on the parameters: its weight does not change their signs.
        directions = [for_source + balance * for_target[0], *for_target[1:]]
        step = options.step * (1 - k / options.steps)
        state = _moved(batch, state, [step * slope.sign() for slope in directions])


def _lagrangian(
    batch: Batch,
    state: State,
    options: AttackOptions,
    rng: np.random.Generator,
    record: _Record,
    should_stop: Callable[[], bool],
) -> None:
    """Maximise the confidence subject to the attack, by an augmented Lagrangian and Adam.

    The multipliers start at 0: first the inputs become confident, then they are made to yield.
    """
    torch = require_torch()
    rate = options.step * _spread(batch, rng, _SMALLEST_STEP, 1 / _SMALLEST_STEP)[:, None]
    learning = options.penalty * _spread(batch, rng, _SLOWEST_LEARNING, _FASTEST_LEARNING)
    adam, scale = _Adam(), 0.0
    multiplier = torch.zeros_like(state.x[:, 0])
    for k in range(options.steps + 1):
        variables = _variables(state)
        confidence, margin = batch.leads(State(variables[0], tuple(variables[1:])))
        record.see(confidence, margin, state)
        if k == options.steps or should_stop():
            return
        scale = scale or max(float(confidence.detach().abs().mean()), 1e-30)
        missing = _ROOM - margin / scale
        active = multiplier + options.penalty * missing > 0
        cost = multiplier * missing + options.penalty / 2 * missing**2
        value = confidence / scale - torch.where(active, cost, 0.0)
        slopes = _slopes(value.sum(), variables)
        pull = multiplier + learning * missing.detach()
        multiplier = pull.clamp(0.0, _LARGEST_MULTIPLIER)
        left = max(1 - k / options.steps, _LAST_STEP)
        directions = adam.directions(slopes)
        sizes = [rate * left, *(rate[batch.rows(g)] * left for g in range(len(batch.groups)))]
        state = _moved(
            batch, state, [size * way for size, way in zip(sizes, directions, strict=True)]
        )


def _spread(batch: Batch, rng: np.random.Generator, low: float, high: float) -> Tensor:
    """One number for every row, from low to high at the scale of a logarithm."""
    return batch.model.tensor(np.exp(rng.uniform(np.log(low), np.log(high), len(batch))))


class _Adam:
    """Slopes, averaged and brought to size 1."""

    def __init__(self) -> None:
        self._means: list[Tensor] = []
        self._squares: list[Tensor] = []
        self._count = 0

    def directions(self, slopes: list[Tensor]) -> list[Tensor]:
        if not self._count:
            self._means = [slope * 0 for slope in slopes]
            self._squares = [slope * 0 for slope in slopes]
        self._count += 1
        warm, warm_square = 1 - _MEMORY**self._count, 1 - _SQUARE_MEMORY**self._count
        found = []
        for k, slope in enumerate(slopes):
            self._means[k] = _MEMORY * self._means[k] + (1 - _MEMORY) * slope
            square = _SQUARE_MEMORY * self._squares[k] + (1 - _SQUARE_MEMORY) * slope**2
            self._squares[k] = square
            found.append(self._means[k] / warm / ((square / warm_square).sqrt() + _TINY))
        return found


def _variables(state: State) -> list[Tensor]:
    return [part.detach().requires_grad_(True) for part in (state.x, *state.parameters)]


def _slopes(value: Tensor, variables: list[Tensor]) -> list[Tensor]:
    """The gradients; zero for variables that the value does not depend on."""
    torch = require_torch()
    found = torch.autograd.grad(value, variables, allow_unused=True)
    return [
        torch.zeros_like(variable) if slope is None else slope
        for slope, variable in zip(found, variables, strict=True)
    ]


def _moved(batch: Batch, state: State, steps: list[Tensor]) -> State:
    """One step in units of each variable's range, projected; none where a slope is no number."""
    torch = require_torch()
    with torch.no_grad():
        steps = [step.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for step in steps]
        x = state.x + batch.problem.domain.width * steps[0]
        parts = zip(batch.pieces, state.parameters, steps[1:], strict=True)
        parameters = [old + (piece.upper - piece.lower) * step for piece, old, step in parts]
        return batch.projected(x, parameters)


def _numpy(tensor: Tensor) -> Array:
    result: Array = tensor.detach().cpu().double().numpy()
    return result
