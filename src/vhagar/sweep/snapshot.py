"""What is known about a problem at one moment, as workers report it and the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vhagar.result import BoundKind, Progress, Status, Witness


@dataclass(frozen=True)
class GoalBounds:
    """The interval of one goal; `upper` is infinite if nothing is proven yet."""

    lower: float
    upper: float
    kind: BoundKind


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The interval of each goal, and the witnesses of new lower bounds.

    A goal is a target class, or None without a perturbation.
    """

    seconds: float
    goals: Mapping[int | None, GoalBounds]
    witnesses: Mapping[int | None, Witness] = field(default_factory=dict)

    @classmethod
    def of(cls, progress: Progress) -> Snapshot:
        goals: dict[int | None, GoalBounds] = {
            target: GoalBounds(known.lower, known.upper, known.kind)
            for target, known in progress.targets.items()
        }
        if not goals:
            goals[None] = GoalBounds(progress.lower, progress.upper, progress.kind)
        return cls(progress.seconds, goals, progress.witnesses)


@dataclass(frozen=True)
class Ending:
    """How a problem's run ended."""

    status: Status
    nodes: int
    engine: str
    notes: tuple[str, ...] = ()
    certificate: str | None = None
