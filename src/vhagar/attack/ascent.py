"""Projected gradient ascent over inputs and perturbation parameters together.

Each `x` should be confident in the source class, and its image in the target class. The two
objectives are balanced by the paper's adaptive term or by an augmented Lagrangian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.batch import Batch, State
from vhagar.attack.options import AttackOptions
from vhagar.relaxation.adam import Adam
from vhagar.runtime.devices import Tensor, as_numpy, require_torch

# The margin to aim for, relative to the scale of the scores, and the largest multiplier.
MARGIN, LARGEST_MULTIPLIER = 1e-4, 20.0
# Range of the share of the penalty that a multiplier takes over per step. Each row has its own:
# rows that converge slowly end in better places, if they converge at all.
SLOWEST_LEARNING, FASTEST_LEARNING = 0.03, 0.3
# Last step size, relative to the first.
LAST_STEP = 0.02
# Each row has its own step size, from this multiple of the option's to its inverse.
_SMALLEST_STEP = 0.5
# Share of the rows whose ReLUs are rounded off at first, the range of their widths, relative to the
# spread of a layer's values, and the share of the steps until no width is left.
# Measured: PERFORMANCE.md, "ReLUs are rounded off".
# A quarter of the rows instead: 1.75 instead of 1.96 on mnistfc_256x2 `linf(0.02)` 2 to 3.
_SMOOTHED, _NARROWEST, _WIDEST, _ROUNDED = 0.5, 0.02, 0.5, 0.5
# Steps between two reports of what was found.
_REPORT_EVERY = 10

# Called with what the rows of a batch have found so far.
OnSolutions = Callable[["Solutions"], None]


@dataclass(frozen=True, eq=False)
class Solutions:
    """The best attack that each row of a batch has found.

    Where a row has found none, `confidence` `(rows,)` is minus infinity, and `x` and `parameters`
    are those it ended with.
    """

    confidence: Array
    x: Array
    parameters: tuple[Array, ...]


class _BestAttacks:
    """Every row's best attack so far."""

    def __init__(self, state: State, on_solutions: OnSolutions) -> None:
        torch = require_torch()
        self._best = torch.full_like(state.x[:, 0], -torch.inf)
        self._state = state
        self._on_solutions = on_solutions
        self._updates, self._reported = 0, -np.inf

    def update(self, confidence: Tensor, margin: Tensor, state: State) -> None:
        self._take(confidence, margin, state)
        self._updates += 1
        best = float(self._best.max())
        if self._updates % _REPORT_EVERY == 0 and best > self._reported:
            self._reported = best
            self._on_solutions(self.solutions())

    def _take(self, confidence: Tensor, margin: Tensor, state: State) -> None:
        torch = require_torch()
        better = (margin > 0) & (confidence > 0) & (confidence > self._best)
        # For a row without an attack, keep its current state.
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
        return Solutions(as_numpy(self._best), as_numpy(x), tuple(as_numpy(p) for p in parameters))


def ascend(
    batch: Batch,
    state: State,
    options: AttackOptions,
    rng: np.random.Generator,
    should_stop: Callable[[], bool] = lambda: False,
    on_solutions: OnSolutions = lambda solutions: None,
) -> Solutions:
    """Run the ascent that the options ask for; `on_solutions` hears of attacks on the way."""
    best = _BestAttacks(state, on_solutions)
    if options.lagrangian:
        _lagrangian_ascent(batch, state, options, rng, best, should_stop)
    else:
        _adaptive_ascent(batch, state, options, best, should_stop)
    return best.solutions()


def _adaptive_ascent(
    batch: Batch,
    state: State,
    options: AttackOptions,
    best: _BestAttacks,
    should_stop: Callable[[], bool],
) -> None:
    """The paper's ascent: signs of gradients, with its adaptive balancing term."""
    torch = require_torch()
    for k in range(options.steps + 1):
        variables = _variables(state)
        confidence, margin = batch.confidence_and_margin(State(variables[0], tuple(variables[1:])))
        best.update(confidence, margin, state)
        if k == options.steps or should_stop():
            return
        target_objective = margin.clamp(max=options.tau).sum()
        (for_source,) = torch.autograd.grad(confidence.sum(), variables[:1], retain_graph=True)
        for_target = _gradients(target_objective, variables)
        size = for_source.norm(dim=1, keepdim=True)
        balance = (
            options.lambda_0 * size / (for_target[0] + options.kappa).norm(dim=1, keepdim=True)
        )
        # The parameters need no weight: only one objective depends on them, and only signs matter.
        directions = [for_source + balance * for_target[0], *for_target[1:]]
        step = options.step * (1 - k / options.steps)
        state = _moved(batch, state, [step * direction.sign() for direction in directions])


def _lagrangian_ascent(
    batch: Batch,
    state: State,
    options: AttackOptions,
    rng: np.random.Generator,
    best: _BestAttacks,
    should_stop: Callable[[], bool],
) -> None:
    """Maximise the confidence subject to a positive margin: augmented Lagrangian with Adam.

    The multipliers start at 0, so the inputs first become confident and then attackable. At first
    some rows see ReLUs that are rounded off, less and less: attacked pairs lie where many neurons
    change, and where exactly, gradients of the network itself do not tell.
    """
    torch = require_torch()
    rate = options.step * _log_uniform(batch, rng, _SMALLEST_STEP, 1 / _SMALLEST_STEP)[:, None]
    learning = options.penalty * _log_uniform(batch, rng, SLOWEST_LEARNING, FASTEST_LEARNING)
    widths = _first_widths(batch, rng) if options.smooth else None
    scale = 0.0
    adams = [Adam() for _ in _variables(state)]
    multiplier = torch.zeros_like(state.x[:, 0])
    for k in range(options.steps + 1):
        variables = _variables(state)
        own = None if widths is None else widths * max(1 - k / (_ROUNDED * options.steps), 0.0)
        current = State(variables[0], tuple(variables[1:]))
        confidence, margin, exact = _evaluated(batch, current, own)
        best.update(exact, margin, state)
        if k == options.steps or should_stop():
            if own is not None and bool((own > 0).any()):  # what these rows are worth is not known
                best.update(*batch.confidence_and_margin(current), state)
            return
        scale = scale or max(float(confidence.detach().abs().mean()), 1e-30)
        violation = MARGIN - margin / scale
        active = multiplier + options.penalty * violation > 0
        cost = multiplier * violation + options.penalty / 2 * violation**2
        value = confidence / scale - torch.where(active, cost, 0.0)
        gradients = _gradients(value.sum(), variables)
        updated = multiplier + learning * violation.detach()
        multiplier = updated.clamp(0.0, LARGEST_MULTIPLIER)
        decay = max(1 - k / options.steps, LAST_STEP)
        sizes = [rate * decay, *(rate[batch.rows(g)] * decay for g in range(len(batch.groups)))]
        steps = [
            size * adam.direction(gradient)
            for size, adam, gradient in zip(sizes, adams, gradients, strict=True)
        ]
        state = _moved(batch, state, steps)


def _evaluated(batch: Batch, state: State, widths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Confidences and margins with ReLUs rounded off; confidences again, of the network itself.

    The latter are minus infinity in rows whose ReLUs are rounded off.
    """
    torch = require_torch()
    if widths is None or not (widths > 0).any():
        confidence, margin = batch.confidence_and_margin(state)
        return confidence, margin, confidence
    confidence, margin = batch.confidence_and_margin(state, widths)
    return confidence, margin, torch.where(widths > 0, -torch.inf, confidence)


def _first_widths(batch: Batch, rng: np.random.Generator) -> Tensor:
    """How far each row's ReLUs are rounded off in the first step; 0 for some."""
    rounded = batch.model.tensor(rng.uniform(size=len(batch)) < _SMOOTHED)
    return rounded * _log_uniform(batch, rng, _NARROWEST, _WIDEST)


def _log_uniform(batch: Batch, rng: np.random.Generator, low: float, high: float) -> Tensor:
    """One random number per row, log-uniform between low and high."""
    return batch.model.tensor(np.exp(rng.uniform(np.log(low), np.log(high), len(batch))))


def _variables(state: State) -> list[Tensor]:
    return [part.detach().requires_grad_(True) for part in (state.x, *state.parameters)]


def _gradients(value: Tensor, variables: list[Tensor]) -> list[Tensor]:
    """The gradients; zero for variables that the value does not depend on."""
    torch = require_torch()
    found = torch.autograd.grad(value, variables, allow_unused=True)
    return [
        torch.zeros_like(variable) if gradient is None else gradient
        for gradient, variable in zip(found, variables, strict=True)
    ]


def _moved(batch: Batch, state: State, steps: list[Tensor]) -> State:
    """The state after one projected step, in units of each variable's range.

    Entries whose gradient is not finite do not move.
    """
    torch = require_torch()
    with torch.no_grad():
        steps = [step.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for step in steps]
        x = state.x + batch.widths * steps[0]
        parts = zip(batch.pieces, state.parameters, steps[1:], strict=True)
        parameters = [old + (piece.upper - piece.lower) * step for piece, old, step in parts]
        return batch.projected(x, parameters)
