"""One batch for all targets and all pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.images import torch_piece
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.model import TorchNetwork, torch_confidence
from vhagar.attack.options import AttackOptions
from vhagar.problem import Problem
from vhagar.runtime.devices import Tensor, require_torch, torch_device

# Range of distances of aimed starts from the attack, relative to each variable's range.
_NEAREST, _FARTHEST = 0.003, 0.3


@dataclass(frozen=True)
class Group:
    """Rows that share a target and a piece; `piece_index` is the piece's index in the problem."""

    target: int | None
    piece_index: int


@dataclass(frozen=True, eq=False)
class State:
    """Inputs `(rows, size)` and, for each group, the parameters of its rows."""

    x: Tensor
    parameters: tuple[Tensor, ...]


def batch_for(problem: Problem, options: AttackOptions, check: Callable[[], object]) -> Batch:
    """The batch for all targets and pieces; `check` raises an error once there is no time."""
    groups = tuple(
        Group(target, piece_index)
        for target in problem.search_targets
        for piece_index in range(len(problem.pieces))
    )
    device = torch_device(options.device)
    check()
    model = TorchNetwork(problem.network, device, options.double)
    check()
    inputs = options.gpu_inputs if device.type == "cuda" else options.inputs
    return Batch(problem, model, groups, max(inputs // len(groups), 1))


class Batch:
    """The same number of rows for each group, one group after the other."""

    def __init__(
        self, problem: Problem, model: TorchNetwork, groups: tuple[Group, ...], rows_per_group: int
    ) -> None:
        self.problem = problem
        self.model = model
        self.groups = groups
        self.rows_per_group = rows_per_group
        torch = require_torch()
        indices = {group.piece_index for group in groups}
        pieces = {
            piece_index: torch_piece(problem.pieces[piece_index], model.tensor)
            for piece_index in indices
        }
        self.pieces = tuple(pieces[group.piece_index] for group in groups)
        self.low, self.high = model.tensor(problem.domain.low), model.tensor(problem.domain.high)
        self.widths = self.high - self.low
        device = model.device
        targets = [group.target for group in groups for _ in range(rows_per_group)]
        self._source = torch.full((len(targets),), problem.source, device=device)
        self._targets = torch.tensor([target or 0 for target in targets], device=device)
        self._has_target = torch.tensor([target is not None for target in targets], device=device)

    def halved(self) -> Batch:
        """The same groups with half as many rows."""
        return Batch(self.problem, self.model, self.groups, max(self.rows_per_group // 2, 1))

    def __len__(self) -> int:
        return len(self.groups) * self.rows_per_group

    def rows(self, group: int) -> slice:
        """The rows of a group."""
        return slice(group * self.rows_per_group, (group + 1) * self.rows_per_group)

    def start(self, x: Array, rng: np.random.Generator) -> State:
        """The inputs with random parameters, about half of which are at an end of their range."""
        # A start outside of the domain would pass for an attack that no later one surpasses.
        inputs, parameters = self.model.tensor(self.problem.domain.approached(x)), []
        for k, piece in enumerate(self.pieces):
            drawn = rng.uniform(-0.5, 1.5, (self.rows_per_group, len(piece.lower)))
            share = self.model.tensor(np.clip(drawn, 0.0, 1.0))
            chosen = piece.lower + (piece.upper - piece.lower) * share
            parameters.append(piece.project(inputs[self.rows(k)], chosen))
        return State(inputs, tuple(parameters))

    def restarted_near(
        self, state: State, best: dict[int | None, AttackFound], rng: np.random.Generator
    ) -> State:
        """Move half of each group's rows near the target's best attack, at various distances.

        If that attack belongs to another piece, only its input is used.
        """
        torch = require_torch()
        x, parameters = state.x.clone(), [part.clone() for part in state.parameters]
        count = self.rows_per_group // 2
        for k, (group, piece) in enumerate(zip(self.groups, self.pieces, strict=True)):
            attack = best.get(group.target)
            if attack is None or not count:
                continue
            drawn = np.exp(rng.uniform(np.log(_NEAREST), np.log(_FARTHEST), (count, 1)))
            size = self.model.tensor(drawn)
            first = self.rows(k).start
            x[first : first + count] = self._near(attack.x, size * self.widths, rng)
            if group.piece_index == attack.piece_index:
                widths = piece.upper - piece.lower
                parameters[k][:count] = self._near(attack.parameters, size * widths, rng)
        with torch.no_grad():
            return self.projected(x, parameters)

    def _near(self, point: Array, sizes: Tensor, rng: np.random.Generator) -> Tensor:
        noise = self.model.tensor(rng.normal(size=(len(sizes), len(point))))
        return self.model.tensor(point) + sizes * noise

    def images(self, state: State) -> Tensor:
        """The perturbed inputs of all rows."""
        torch = require_torch()
        parts = zip(self.pieces, state.x.split(self.rows_per_group), state.parameters, strict=True)
        return torch.cat([piece.apply(x, parameters) for piece, x, parameters in parts])

    def confidence_and_margin(
        self, state: State, widths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Each row's confidence in the source class, and its image's confidence in the target.

        Without a target, the latter is 1. With `widths`, one for each row, ReLUs are rounded off.
        """
        torch = require_torch()
        both = torch.cat([state.x, self.images(state)])
        if widths is None:
            scores = self.model.scores(both)
        else:
            scores = self.model.smooth_scores(both, torch.cat([widths, widths])[:, None])
        confidence = torch_confidence(scores[: len(self)], self._source)
        margin = torch_confidence(scores[len(self) :], self._targets)
        return confidence, torch.where(self._has_target, margin, 1.0)

    def projected(self, x: Tensor, parameters: list[Tensor]) -> State:
        """Inputs in the domain up to rounding, and the nearest parameters in their boxes."""
        if self.problem.domain.constrained:
            # Whoever checks a witness makes the conditions hold exactly.
            x = self.model.tensor(self.problem.domain.approached(x.double().cpu().numpy()))
        else:
            x = x.clamp(self.low, self.high)
        parts = zip(self.pieces, x.split(self.rows_per_group), parameters, strict=True)
        return State(x, tuple(piece.project(inputs, chosen) for piece, inputs, chosen in parts))
