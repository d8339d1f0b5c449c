"""What is known about a problem at one moment, as workers report it and the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vhagar.result import Interval, Progress, Status, Witness


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The interval of each target, and the witnesses of new lower bounds.

    Without a perturbation, the target is None. `upper` is infinite if nothing is proven yet.
    """

    seconds: float
    targets: Mapping[int | None, Interval]
    witnesses: Mapping[int | None, Witness] = field(default_factory=dict)

    @classmethod
    def of(cls, progress: Progress) -> Snapshot:
        alone = Interval(progress.lower, progress.upper, progress.kind)
        targets: dict[int | None, Interval] = dict(progress.targets.items())
        return cls(progress.seconds, targets or {None: alone}, progress.witnesses)


@dataclass(frozen=True)
class Ending:
    """How a problem's run ended."""

    status: Status
    nodes: int
    engine: str
    notes: tuple[str, ...] = ()
    certificate: str | None = None
