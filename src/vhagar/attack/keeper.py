"""The keeper of attacks: whatever is found counts only once the witness check accepted it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.reduction import Reduced
from vhagar.result import Witness
from vhagar.result.witness import RestoredCheck

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttackFound:
    """A witness, and what makes it: a flat input, a piece of the problem and its parameters."""

    target: int | None
    root: int
    x: Array
    parameters: Array
    witness: Witness

    @property
    def confidence(self) -> float:
        return self.witness.confidence


OnAttack = Callable[[AttackFound], None]


class Keeper:
    """The best attack on each goal; `on_attack` hears of every improvement."""

    def __init__(self, reduced: Reduced, on_attack: OnAttack | None = None) -> None:
        self.problem = reduced.problem
        self.best: dict[int | None, AttackFound] = {}
        self._check = RestoredCheck(reduced)
        self._on_attack = on_attack

    def confidence(self, goal: int | None) -> float:
        """Of the best attack on a goal so far; 0 without one."""
        best = self.best.get(goal)
        return best.confidence if best else 0.0

    def judge(self, goal: int | None, root: int, x: Array, parameters: Array) -> AttackFound | None:
        """The candidate as an attack, if it is one; the best of them are kept."""
        verdict = self._check(goal, x, root, parameters)
        if not isinstance(verdict, Witness):
            return None
        attack = AttackFound(goal, root, x, parameters, verdict)
        if attack.confidence > self.confidence(goal):
            self.best[goal] = attack
            if self._on_attack is not None:
                self._on_attack(attack)
        return attack
