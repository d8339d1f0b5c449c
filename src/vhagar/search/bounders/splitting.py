"""Splits of nodes over parts of their regions: halves of a span, and parts of the domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.reduction.base import Reduced
from vhagar.relaxation.lp.region_model import Evaluation
from vhagar.search.bounders.base import Branched, Outcome
from vhagar.search.branch import Brancher
from vhagar.search.entry_splits import EntryBrancher, halvings
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node
from vhagar.search.region_cache import Regions, RegionState

# Decisions between two halvings of a nonconvex piece, below its first ones, and between two splits
# by entries with more than two values left.
_SPLIT_EVERY = 3
# It is also halved where bounds over narrower spans are better by this share of the gap.
_COSTLY = 0.3
# A piece whose parameter varies by less than this share is not split before neurons are decided.
_NARROW = 0.01


class Splitter:
    """Decides whether to split a region, and makes the nodes over its parts."""

    def __init__(
        self,
        reduced: Reduced,
        regions: Regions,
        brancher: Brancher,
        next_number: Callable[[], int],
    ) -> None:
        problem = self._problem = reduced.problem
        self._regions, self._brancher = regions, brancher
        self._next_number = next_number
        self._entries = EntryBrancher(problem.network, problem.domain, reduced.splits_entries)

    def halving_is_due(
        self, state: RegionState, node: Node, evaluation: Evaluation, incumbent: Incumbent
    ) -> bool:
        """A nonconvex piece is halved where its span costs much of the gap.

        Where that is not known, it is halved a few times first, and then once in a while: at first
        its relaxation is what is loose, not the neurons'; the limit is the cost of new bounds for
        every part.
        """
        piece = state.region_model.piece
        if piece.convex or piece.span is None:
            return False
        cost = state.region_model.cost_of_span(node.decisions, evaluation.answer.duals)
        if cost is not None:
            return cost > _COSTLY * (node.upper - incumbent.lower)
        affordable = int(math.log2(20_000 / max(self._problem.network.hidden_neurons, 1)))
        early = max(2, min(6, affordable)) if piece.spread > _NARROW else 0
        return halvings(node.region.path) < max(early, len(node.decisions) // _SPLIT_EVERY)

    def entries_are_due(self, node: Node) -> bool:
        """Whether to split by entries with more than two values left, too: once in a while."""
        splits = len(node.region.path) - halvings(node.region.path)
        return splits < len(node.decisions) // _SPLIT_EVERY

    def halved(self, node: Node) -> Branched | None:
        """The same decisions over smaller parts of the piece, whose bounds are tighter."""
        parts = self._regions.piece(node.region).split()
        at = _split_point(parts)
        if at is None:
            return None
        return Branched(Outcome.CHILDREN, self._parts(node, (0, 1)), at=at)

    def by_entry(
        self, node: Node, x: Array, binary: bool = False, settled: bool = True
    ) -> Branched | None:
        """The same decisions over two parts of the domain, if an LP's input `x` is not whole there.

        `binary` looks only at entries with two values left, such as those of one-hot groups.
        Entries that are whole are split, too, unless they are `settled`.
        """
        part = self._regions[node.region].region_model.piece.domain
        split = self._entries.choose(part, x, binary, settled)
        if split is None:
            return None
        domain = self._problem.domain
        steps = split.step(domain, above=False), split.step(domain, above=True)
        children = self._parts(node, steps)
        return Branched(Outcome.CHILDREN, children, at=float(split.at), entry=split.entry)

    def _parts(self, node: Node, steps: tuple[int, int]) -> tuple[Node, ...]:
        """Two nodes with the same decisions over parts of the region."""
        region_model = self._regions[node.region].region_model
        basis = self._brancher.keep(region_model.simplex.basis(), region_model)
        return tuple(
            replace(
                node,
                region=replace(node.region.whole, path=(*node.region.path, step)),
                number=self._next_number(),
                basis=basis,
                challenge=None,
                predicted_gain=0.0,
                rounds=0,
            )
            for step in steps
        )


def _split_point(parts: tuple[AbstractPiece, ...]) -> float | None:
    """The parameter value at which two parts meet; None if there are not two.

    None also if only float64 has nothing between them: bounds are about real numbers.
    """
    spans = [part.span for part in parts if part.span is not None]
    if len(spans) != 2 or spans[0][1] != spans[1][0]:
        return None
    return spans[1][0]
