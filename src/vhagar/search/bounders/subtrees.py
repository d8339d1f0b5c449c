"""When the hexagons of a subtree are tightened, and whether that was worth its LPs."""

from __future__ import annotations

from dataclasses import replace

from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.optimality_tightening import tightened
from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node, Region

# Decisions from one tightening to the next.
_EVERY = 6
# Work (iterations times entries of the model): at first, and as a share of that of nodes' LPs. The
# share falls with the square of the part of their nodes' gaps that tightenings close. Measured: on
# conv1 they close a quarter, and branching soon closes as much; on 3x50 they close most of it, and
# a search needs a third fewer nodes (PERFORMANCE.md).
_WORK_AT_FIRST, _WORK_SHARE = 1e8, 0.5
# A tightening is kept if it closes this part of the node's gap.
_WORTH = 0.02


class SubtreeTightener:
    """Tightens the bounds of subtrees, for a share of the work that grows with its success."""

    def __init__(self) -> None:
        self._nodes_work = self._spent = 0.0
        self._count, self._closed = 1, 0.5  # tightenings, and parts of gaps that they closed

    def count(self, work: float) -> None:
        """Add the work of a node's LP."""
        self._nodes_work += work

    def is_due(self, node: Node, evaluation: Evaluation, incumbent: Incumbent) -> bool:
        """Whether a node's bounds are to be tightened before it is branched."""
        last = node.region.tightening
        decided = 0 if last is None else last.decided
        return (
            node.region.target is not None
            and evaluation.complete
            and len(node.decisions) >= decided + _EVERY
            and not incumbent.settles(evaluation.upper)
            and self._spent <= _WORK_AT_FIRST + self._share * self._nodes_work
        )

    @property
    def _share(self) -> float:
        return _WORK_SHARE * (self._closed / self._count) ** 2

    def tighten(
        self, region_model: RegionModel, node: Node, evaluation: Evaluation, incumbent: Incumbent
    ) -> tuple[Region, TwinBounds] | None:
        """The region of a node's subtree with its own bounds."""
        bounds, iterations = tightened(
            region_model, node.decisions, evaluation.answer, incumbent.lower
        )
        self._spent += iterations * region_model.entries
        if bounds is None:
            return None
        return replace(node.region, tightening=bounds.tightening), bounds

    def is_worth(self, before: float, after: float, incumbent: Incumbent) -> bool:
        """Whether a node's bound has improved by enough to keep the tightening for its subtree."""
        closed = (before - after) / (before - incumbent.lower)
        self._count += 1
        self._closed += min(closed, 1.0)
        return closed > _WORTH
