"""Hints for a solver's booleans: signs on which most attacks agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.start_points import StartPoint
from vhagar.network import Network
from vhagar.problem import Problem

Signs = NDArray[np.int8]

NO_HINT = -1


@dataclass(frozen=True, eq=False)
class Hints:
    """For each neuron of each ReLU layer, in both copies: 1 (active), 0 (inactive) or `NO_HINT`."""

    first: tuple[Signs, ...]
    second: tuple[Signs, ...]


class GatheredHints:
    """Hints for each target, of the latest round that has found attacks on it."""

    def __init__(self, problem: Problem, majority: float) -> None:
        self._problem, self._majority = problem, majority
        self._hints: dict[int | None, Hints] = {}

    def update(self, target: int | None, points: list[StartPoint]) -> None:
        """Take hints from this round's attacks; without any, keep those of earlier rounds."""
        attacks = [point for point in points if point.confidence > 0]
        if target in self._hints and not attacks:
            return
        empty = np.zeros((0, self._problem.domain.size))
        images = [
            self._problem.pieces[point.piece_index].apply(point.x[None], point.parameters[None])
            for point in attacks
        ]
        x = np.concatenate([empty, *(point.x[None] for point in attacks)])
        x_p = np.concatenate([empty, *images])
        self._hints[target] = hints_of(self._problem.network, x, x_p, self._majority)

    def with_attacks(self, best: Mapping[int | None, AttackFound]) -> dict[int | None, Hints]:
        """The hints; from the best attack on a target that no round has reached."""
        for target, own in best.items():
            if target not in self._hints:  # no ascent has found an attack, or there was none
                x, e = own.x, own.parameters
                self.update(target, [StartPoint(target, own.piece_index, x, e, own.confidence)])
        return dict(self._hints)


def hints_of(network: Network, x: Array, x_p: Array, majority: float) -> Hints:
    """The signs that more than a `majority` share of the solutions `(batch, size)` have.

    Without solutions there are no hints.
    """
    return Hints(_signs(network, x, majority), _signs(network, x_p, majority))


def _signs(network: Network, inputs: Array, majority: float) -> tuple[Signs, ...]:
    entering, _ = network.preactivations(inputs)
    found = []
    for values in entering:
        active = (values >= 0).sum(axis=0) / max(len(inputs), 1)
        inactive = (values < 0).sum(axis=0) / max(len(inputs), 1)
        signs = np.full(values.shape[1], NO_HINT, dtype=np.int8)
        signs[active > majority], signs[inactive > majority] = 1, 0
        found.append(signs)
    return tuple(found)
