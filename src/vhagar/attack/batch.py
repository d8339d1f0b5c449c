"""All targets and all pieces in one batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.images import torch_piece
from vhagar.attack.keeper import AttackFound
from vhagar.attack.model import TorchNetwork, leads
from vhagar.problem import Problem
from vhagar.runtime.devices import Tensor, require_torch

Array = NDArray[np.float64]

# How far from an attack the starts that aim at it are, in units of each variable's range.
_NEAREST, _FARTHEST = 0.003, 0.3


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
        device = model.device
        repeats = [group.goal for group in groups for _ in range(rows_each)]
        self._source = torch.full((len(repeats),), problem.source, device=device)
        self._targets = torch.tensor([goal or 0 for goal in repeats], device=device)
        self._attacked = torch.tensor([goal is not None for goal in repeats], device=device)

    def halved(self) -> Batch:
        """The same with half as many rows."""
        return Batch(self.problem, self.model, self.groups, max(self.rows_each // 2, 1))

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

    def aimed(
        self, state: State, best: dict[int | None, AttackFound], rng: np.random.Generator
    ) -> State:
        """Half of each group's rows begin near the goal's best attack, some nearer than others.

        Where the attack belongs to another piece, only its input is taken.
        """
        torch = require_torch()
        x, parameters = state.x.clone(), [part.clone() for part in state.parameters]
        count = self.rows_each // 2
        for k, (group, piece) in enumerate(zip(self.groups, self.pieces, strict=True)):
            attack = best.get(group.goal)
            if attack is None or not count:
                continue
            spread = np.exp(rng.uniform(np.log(_NEAREST), np.log(_FARTHEST), (count, 1)))
            size = self.model.tensor(spread)
            first = self.rows(k).start
            x[first : first + count] = self._near(attack.x, size * self.problem.domain.width, rng)
            if group.root == attack.root:
                box = piece.upper - piece.lower
                parameters[k][:count] = self._near(attack.parameters, size * box, rng)
        with torch.no_grad():
            return self.projected(x, parameters)

    def _near(self, point: Array, sizes: Tensor, rng: np.random.Generator) -> Tensor:
        noise = self.model.tensor(rng.normal(size=(len(sizes), len(point))))
        return self.model.tensor(point) + sizes * noise

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
