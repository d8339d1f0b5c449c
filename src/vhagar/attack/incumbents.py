"""The best attack on each target; a candidate counts only if the witness check accepts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vhagar.array_types import Array
from vhagar.reduction import Reduced
from vhagar.result import Witness
from vhagar.result.witness import RestoredCheck


@dataclass(frozen=True, eq=False)
class AttackFound:
    """A witness with the flat input, the piece and the parameters that produce it."""

    target: int | None
    piece_index: int
    x: Array
    parameters: Array
    witness: Witness

    @property
    def confidence(self) -> float:
        return self.witness.confidence


OnAttack = Callable[[AttackFound], None]


class Incumbents:
    """The best attack on each target; `on_attack` is called with every improvement.

    A `check` may be shared with others, as it holds a copy of the network.
    """

    def __init__(
        self,
        reduced: Reduced,
        on_attack: OnAttack | None = None,
        check: RestoredCheck | None = None,
    ) -> None:
        self.problem = reduced.problem
        self.best: dict[int | None, AttackFound] = {}
        self._check = check or RestoredCheck(reduced)
        self._on_attack = on_attack

    def confidence(self, target: int | None) -> float:
        """The confidence of the best attack on a target so far; 0 without one."""
        best = self.best.get(target)
        return best.confidence if best else 0.0

    def offer(
        self, target: int | None, piece_index: int, x: Array, parameters: Array
    ) -> AttackFound | None:
        """Check a candidate; return it as an attack if it is one, and keep it if it is the best."""
        verdict = self._check(target, x, piece_index, parameters)
        if not isinstance(verdict, Witness):
            return None
        attack = AttackFound(target, piece_index, x, parameters, verdict)
        self.keep(attack)
        return attack

    def keep(self, attack: AttackFound) -> bool:
        """Keep an attack, which was checked, if it is the best; return whether it is."""
        if attack.confidence <= self.confidence(attack.target):
            return False
        self.best[attack.target] = attack
        if self._on_attack is not None:
            self._on_attack(attack)
        return True
