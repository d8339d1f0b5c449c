"""Attacks fixed inputs without gradients, where pieces have at most one parameter.

There `LocalAttack` only tries values, too. This needs no PyTorch, whose import takes longer than
forward passes of a small network on a whole test set.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.attack.local_attack import VALUES, Found
from vhagar.dataset import CHUNK
from vhagar.network import AbstractLinear, confidence
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.result.witness import WitnessCheck

# Most multiplications for all inputs and values, which take about as long as importing PyTorch.
_MOST_WORK = 1e9


class ValueAttack:
    """Attacks batches of fixed inputs by a few values of each piece's parameter."""

    passes = (False,)  # `quick` for each pass, as in `LocalAttack`: here one pass is enough

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._images = WitnessCheck(problem).images

    @staticmethod
    def suits(problem: Problem, inputs: int) -> bool:
        """Whether values are all there is to try, and quickly tried on so many inputs."""
        sizes = [len(piece.parameter_bounds[0]) for piece in problem.pieces]
        linear = (layer for layer in problem.network.layers if isinstance(layer, AbstractLinear))
        each = sum(layer.out_size * layer.fan_in for layer in linear)
        tries = sum(VALUES if size else 1 for size in sizes)
        return max(sizes) <= 1 and inputs * tries * each <= _MOST_WORK

    def attacks(self, x: Array, quick: bool = False) -> list[Found]:
        """At most one attack on each input `(count, size)`, in the order of the inputs."""
        found: dict[int, Found] = {}
        for start in range(0, len(x), CHUNK):
            rows = np.arange(start, min(start + CHUNK, len(x)))
            for piece_index, piece in enumerate(self._problem.pieces):
                for parameters in _values(piece):
                    left = rows[[int(row) not in found for row in rows]]
                    self._try(x, left, piece_index, parameters, found)
        return [found[row] for row in sorted(found)]

    def _try(
        self,
        x: Array,
        rows: Index,
        piece_index: int,
        parameters: Array,
        found: dict[int, Found],
    ) -> None:
        """Add to `found` the inputs among the rows that one value pushes into a target class."""
        images = self._images(piece_index, x[rows], np.tile(parameters, (len(rows), 1)))
        scores = self._problem.network.forward(images)
        for target in self._problem.targets:
            for row in rows[confidence(scores, target) > 0].tolist():
                found[row] = Found(row, target, piece_index, parameters)


def _values(piece: AbstractPiece) -> list[Array]:
    """List the values to try, both ends included; without a parameter there is only one image."""
    low, high = piece.parameter_bounds
    shares = np.linspace(0.0, 1.0, VALUES if len(low) else 1)
    return [low + share * (high - low) for share in shares.tolist()]
