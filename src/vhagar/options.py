"""How to search. Frozen, passed on from the caller; there is no global configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vhagar.errors import InvalidInput


@dataclass(frozen=True)
class Options:
    """Options of `verify`.

    `engine` names the search engine. The interval is closed when `upper - lower` is at most
    `relative_gap * upper`, or too small beside the first bound to matter (see `Tracker`).
    `processes` says whether searches run in processes of their own; without, everything happens in
    the caller's process, one target after the other, which is slower and easier to debug.
    """

    engine: str = "mip"
    relative_gap: float = 1e-3
    processes: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.relative_gap) and 0 <= self.relative_gap < 1):
            raise InvalidInput(f"the relative gap must be in [0,1), not {self.relative_gap}")
