"""The attack as engines of their own: they raise the lower bound and leave the upper one alone."""

from __future__ import annotations

import time

from vhagar.attack.keeper import Attack
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import attack
from vhagar.dataset import named_dataset
from vhagar.errors import InvalidInput
from vhagar.result import Tracker
from vhagar.search.base import AbstractEngine


class AttackEngine(AbstractEngine):
    """The attack with all its additions, until the time is up."""

    def run(self, tracker: Tracker, deadline: float) -> bool:
        options = self._options(tracker.options.seed)
        dataset = named_dataset(tracker.options, tracker.problem.domain)
        if deadline == float("inf") and options.rounds is None:
            raise InvalidInput("the attack would never end: give a timeout")

        def offer(found: Attack) -> None:
            piece = tracker.problem.pieces[found.root]
            tracker.offer_witness(found.target, found.x, piece, found.parameters)

        attack(
            tracker.problem,
            timeout=None if deadline == float("inf") else max(deadline - time.monotonic(), 0.0),
            options=options,
            dataset=dataset,
            on_attack=offer,
            should_stop=lambda: tracker.closed,
        )
        return time.monotonic() > deadline

    def _options(self, seed: int) -> AttackOptions:
        return AttackOptions(seed=seed)


class PaperAttackEngine(AttackEngine):
    """The paper's Algorithm 2 as published, again and again with other inputs."""

    def _options(self, seed: int) -> AttackOptions:
        return AttackOptions.paper(seed=seed)
