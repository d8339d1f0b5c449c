"""All targets and all pieces in one batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.images import torch_piece
from vhagar.attack.model import Tensor, TorchNetwork, leads, require_torch
from vhagar.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Rows with one goal and one piece; `root` is the piece's place in the problem."""

    goal: int | None
    root: int


@dataclass(frozen=True, eq=False)
class State:
    """Inputs `(rows, size)` and, for each group, the parameters of its rows."""

    x: Tensor
    parameters: tuple[Tensor, ...]


class Batch:
    """As many rows for each group, one group after the other."""

    def __init__(
        self, problem: Problem, model: TorchNetwork, groups: tuple[Group, ...], rows_each: int
    ) -> None:
        self.problem = problem
        self.model = model
        self.groups = groups
        self.rows_each = rows_each
        torch = require_torch()
        roots = {group.root for group in groups}
        kinds = {root: torch_piece(problem.pieces[root], model.tensor) for root in roots}
        self.pieces = tuple(kinds[group.root] for group in groups)
        device = model.tensor(0.0).device
        repeats = [group.goal for group in groups for _ in range(rows_each)]
        self._source = torch.full((len(repeats),), problem.source, device=device)
        self._targets = torch.tensor([goal or 0 for goal in repeats], device=device)
        self._attacked = torch.tensor([goal is not None for goal in repeats], device=device)

    def __len__(self) -> int:
        return len(self.groups) * self.rows_each

    def rows(self, group: int) -> slice:
        """Where a group's rows are."""
        return slice(group * self.rows_each, (group + 1) * self.rows_each)

    def start(self, x: Array, rng: np.random.Generator) -> State:
        """Inputs with parameters from all over their boxes, both ends among them."""
        inputs, parameters = self.model.tensor(x), []
        for k, piece in enumerate(self.pieces):
            places = rng.uniform(-0.5, 1.5, (self.rows_each, len(piece.lower)))
            spread = self.model.tensor(np.clip(places, 0.0, 1.0))
            chosen = piece.lower + (piece.upper - piece.lower) * spread
            parameters.append(piece.project(inputs[self.rows(k)], chosen))
        return State(inputs, tuple(parameters))

    def images(self, state: State) -> Tensor:
        """The perturbed inputs of all rows."""
        torch = require_torch()
        parts = zip(self.pieces, state.x.split(self.rows_each), state.parameters, strict=True)
        return torch.cat([piece.apply(x, parameters) for piece, x, parameters in parts])

    def leads(self, state: State) -> tuple[Tensor, Tensor]:
        """Each row's confidence in the source class, and that of its image in the target.

        Where nothing is attacked, the latter is 1.
        """
        torch = require_torch()
        scores = self.model.scores(torch.cat([state.x, self.images(state)]))
        confidence = leads(scores[: len(self)], self._source)
        margin = leads(scores[len(self) :], self._targets)
        return confidence, torch.where(self._attacked, margin, 1.0)

    def projected(self, x: Tensor, parameters: list[Tensor]) -> State:
        """The nearest inputs in the domain, and the nearest parameters in their boxes."""
        domain = self.problem.domain
        x = x.clamp(domain.lower, domain.upper)
        parts = zip(self.pieces, x.split(self.rows_each), parameters, strict=True)
        return State(x, tuple(piece.project(inputs, chosen) for piece, inputs, chosen in parts))
