"""Local robustness of given inputs: can the perturbation push this one into a target?

The inputs stay as they are; only the perturbation's parameters are chosen. A piece without
parameters is simply evaluated, one parameter is tried at many values, and several are found by
gradient ascent, as in the attack. What it finds is there; what it misses may be there all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.images import TorchPiece, torch_piece
from vhagar.attack.model import TorchNetwork, leads
from vhagar.problem import Problem
from vhagar.runtime.devices import Tensor, require_torch, torch_device

Array = NDArray[np.float64]

# The most inputs that the network sees at once.
CHUNK = 1024
# Values of a single parameter, both ends included.
_VALUES = 17
# Steps of the ascent, and their length: from this part of the parameter's range down to none.
_STEPS, _STEP = 10, 0.25


@dataclass(frozen=True, eq=False)
class Found:
    """An attack on one of the inputs, by its place: not yet checked."""

    row: int
    target: int
    root: int
    parameters: Array


@dataclass(eq=False)
class _Crowd:
    """Inputs that nobody has turned yet, and their places; and the attacks on the others."""

    x: Tensor
    rows: NDArray[np.int64]
    found: list[Found] = field(default_factory=list)


class LocalAttack:
    """Attacks batches of inputs that are not to be changed."""

    def __init__(self, problem: Problem, device: str | None = None) -> None:
        self._problem = problem
        self._model = TorchNetwork(problem.network, torch_device(device or "auto"))
        self._pieces = [torch_piece(piece, self._model.tensor) for piece in problem.pieces]

    def confidences(self, x: Array) -> Array:
        """The confidence of every input in the source class; negative for other classes."""
        torch = require_torch()
        with torch.no_grad():
            parts = [self._lead(self._model.tensor(part), self._problem.source) for part in _cut(x)]
        return np.concatenate([_numpy(part) for part in parts]) if parts else np.zeros(0)

    def attacks(self, x: Array) -> list[Found]:
        """At most one attack on each input `(count, size)`, in the order of the inputs."""
        found: list[Found] = []
        for start in range(0, len(x), CHUNK):
            part = self._model.tensor(x[start : start + CHUNK])
            crowd = _Crowd(part, np.arange(start, start + len(part)))
            for root, piece in enumerate(self._pieces):
                self._attack(root, piece, crowd)
            found += crowd.found
        return sorted(found, key=lambda attack: attack.row)

    def _attack(self, root: int, piece: TorchPiece, crowd: _Crowd) -> None:
        """Those who are left, by one piece."""
        if len(piece.lower) > 1:
            for target in self._problem.targets:
                self._ascend(root, piece, target, crowd)
            return
        # A few values of the parameter, or the one image there is.
        for share in np.linspace(0.0, 1.0, _VALUES if len(piece.lower) else 1).tolist():
            value = piece.lower + share * (piece.upper - piece.lower)
            self._try(root, piece, value.expand(len(crowd.x), -1), crowd)

    def _ascend(self, root: int, piece: TorchPiece, target: int, crowd: _Crowd) -> None:
        """Signs of the slopes, from no change (or the nearest to it that the piece allows)."""
        torch = require_torch()
        start = torch.zeros_like(piece.lower).expand(len(crowd.x), -1)
        parameters = piece.project(crowd.x, start)
        for k in range(_STEPS + 1):
            parameters = parameters[self._try(root, piece, parameters, crowd)]
            if k == _STEPS or not len(crowd.x):
                return
            variables = parameters.detach().requires_grad_(True)
            total = self._lead(piece.apply(crowd.x, variables), target).sum()
            (slope,) = torch.autograd.grad(total, variables)
            step = _STEP * (1 - k / _STEPS) * (piece.upper - piece.lower)
            with torch.no_grad():
                parameters = piece.project(crowd.x, variables + step * slope.sign())

    def _try(self, root: int, piece: TorchPiece, parameters: Tensor, crowd: _Crowd) -> Tensor:
        """Those who are turned leave the crowd; returns which ones stay."""
        torch = require_torch()
        with torch.no_grad():
            scores = self._model.scores(piece.apply(crowd.x, parameters))
            winner = scores.argmax(dim=1)
            targets = torch.tensor(self._problem.targets, device=winner.device)
            turned = torch.isin(winner, targets) & (leads(scores, winner) > 0)
            for place in torch.nonzero(turned)[:, 0].tolist():
                row, own = int(crowd.rows[place]), _numpy(parameters[place])
                crowd.found.append(Found(row, int(winner[place]), root, own))
        crowd.x, crowd.rows = crowd.x[~turned], crowd.rows[(~turned).cpu().numpy()]
        return ~turned

    def _lead(self, x: Tensor, label: int) -> Tensor:
        return leads(self._model.scores(x), self._label(label, len(x)))

    def _label(self, label: int, count: int) -> Tensor:
        torch = require_torch()
        return torch.full((count,), label, device=self._model.tensor(0.0).device)


def _cut(x: Array) -> Iterator[Array]:
    for start in range(0, len(x), CHUNK):
        yield x[start : start + CHUNK]


def _numpy(tensor: Tensor) -> Array:
    result: Array = tensor.detach().cpu().double().numpy()
    return result
