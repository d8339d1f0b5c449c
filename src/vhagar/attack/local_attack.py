"""Local attacks on given inputs: can the perturbation push this input into a target class?

The inputs are fixed; only the perturbation's parameters are chosen. A piece without parameters is
simply evaluated, a single parameter is tried at many values, and several are found by gradient
ascent, as in the attack: first towards whichever target is nearest, then towards each of them. An
attack may exist although none is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.images import TorchPiece, torch_piece
from vhagar.attack.model import TorchNetwork, torch_confidence
from vhagar.attack.starts import confidences
from vhagar.dataset import CHUNK
from vhagar.problem import Problem
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.runtime.devices import Tensor, as_numpy, one_torch_thread, require_torch, torch_device

# Values of a single parameter, both ends included.
VALUES = 17
# Steps of the ascent, and the first step as a share of the parameter's range; steps shrink to 0.
_STEPS, _STEP = 10, 0.25


@dataclass(frozen=True, eq=False)
class Found:
    """An attack on the input with index `row`, not yet checked."""

    row: int
    target: int
    piece_index: int
    parameters: Array


@dataclass(eq=False)
class _Batch:
    """Inputs without an attack so far and their indices, and the attacks on the others."""

    x: Tensor
    rows: NDArray[np.int64]
    found: list[Found] = field(default_factory=list)


class LocalAttack:
    """Attacks batches of fixed inputs."""

    def __init__(
        self, problem: Problem, device: str | None = None, deadline: Deadline = NEVER
    ) -> None:
        self._problem = problem
        self._deadline = deadline
        self._model = TorchNetwork(problem.network, torch_device(device or "auto"))
        self._pieces = [torch_piece(piece, self._model.tensor) for piece in problem.pieces]

    def confidences(self, x: Array) -> Array:
        """The confidence of every input in the source class; negative for other classes."""
        return confidences(self._model, x, self._problem.source)

    @property
    def passes(self) -> tuple[bool, ...]:
        """`quick` for each pass over many inputs: a quick one first, where that saves time."""
        several = any(len(piece.lower) > 1 for piece in self._pieces)
        return (True, False) if several and len(self._problem.targets) > 1 else (False,)

    def attacks(self, x: Array, quick: bool = False) -> list[Found]:
        """At most one attack on each input `(count, size)`, in the order of the inputs.

        A `quick` attack goes for the nearest target only: a tenth of the work for ten classes.
        Raises `OutOfTime` at the deadline: without all attacks, an input's bound is unknown.
        """
        found: list[Found] = []
        with one_torch_thread():
            for start in range(0, len(x), CHUNK):
                part = self._model.tensor(x[start : start + CHUNK])
                batch = _Batch(part, np.arange(start, start + len(part)))
                for piece_index, piece in enumerate(self._pieces):
                    self._attack(piece_index, piece, batch, quick)
                found += batch.found
        return sorted(found, key=lambda attack: attack.row)

    def _attack(self, piece_index: int, piece: TorchPiece, batch: _Batch, quick: bool) -> None:
        """Attack the remaining inputs with one piece."""
        if len(piece.lower) > 1:
            targets = self._problem.targets
            each = [(target,) for target in targets if len(targets) > 1 and not quick]
            for chosen_targets in [targets, *each]:
                self._ascend(piece_index, piece, chosen_targets, batch)
            return
        # Without a parameter there is only one image.
        for share in np.linspace(0.0, 1.0, VALUES if len(piece.lower) else 1).tolist():
            self._deadline.check()
            value = piece.lower + share * (piece.upper - piece.lower)
            self._try(piece_index, piece, value.expand(len(batch.x), -1), batch)

    def _ascend(
        self, piece_index: int, piece: TorchPiece, chosen_targets: tuple[int, ...], batch: _Batch
    ) -> None:
        """Signed gradient ascent, from no change (or the nearest that the piece allows)."""
        torch = require_torch()
        start = torch.zeros_like(piece.lower).expand(len(batch.x), -1)
        parameters = piece.project(batch.x, start)
        for k in range(_STEPS + 1):
            self._deadline.check()
            parameters = parameters[self._try(piece_index, piece, parameters, batch)]
            if k == _STEPS or not len(batch.x):
                return
            variables = parameters.detach().requires_grad_(True)
            total = self._lead(piece.apply(batch.x, variables), chosen_targets).sum()
            (gradient,) = torch.autograd.grad(total, variables)
            step = _STEP * (1 - k / _STEPS) * (piece.upper - piece.lower)
            with torch.no_grad():
                parameters = piece.project(batch.x, variables + step * gradient.sign())

    def _try(
        self, piece_index: int, piece: TorchPiece, parameters: Tensor, batch: _Batch
    ) -> Tensor:
        """Remove attacked inputs from the batch, and return a mask of those that stay."""
        torch = require_torch()
        with torch.no_grad():
            scores = self._model.scores(piece.apply(batch.x, parameters))
            winner = scores.argmax(dim=1)
            targets = torch.tensor(self._problem.targets, device=winner.device)
            attacked = torch.isin(winner, targets) & (torch_confidence(scores, winner) > 0)
            for place in torch.nonzero(attacked)[:, 0].tolist():
                row, own = int(batch.rows[place]), as_numpy(parameters[place])
                batch.found.append(Found(row, int(winner[place]), piece_index, own))
        batch.x, batch.rows = batch.x[~attacked], batch.rows[(~attacked).cpu().numpy()]
        return ~attacked

    def _lead(self, x: Tensor, chosen_targets: tuple[int, ...]) -> Tensor:
        """The lead of the best of some targets over all classes that are none of them."""
        torch = require_torch()
        scores = self._model.scores(x)
        chosen = torch.zeros(scores.shape[1], dtype=torch.bool, device=scores.device)
        chosen[list(chosen_targets)] = True
        return scores[:, chosen].amax(dim=1) - scores[:, ~chosen].amax(dim=1)
