"""Find cone cuts: maximise a linear function of a few neurons' outputs, exactly or nearly so.

Branch and bound inside the cone of influence of a group of neurons that see the same part of the
layer below.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Index
from vhagar.relaxation.cone_cuts import ConeCut, Split
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.cone import Cone, Leaf, Objective, Path
from vhagar.relaxation.lp.cone_branching import score
from vhagar.solver.lp_answer import LpAnswer, LpStatus

# The search in a cone ends once this share of what the cut could cut off is still open.
_NEARLY = 0.2
# Decisions on one path; a checker takes no deeper trees than 64.
_DEEPEST = 60


def cone_cut(cone: Cone, objective: Objective, level: float, most: int) -> ConeCut | None:
    """A cut for an objective that lies below `level`, if one is found.

    `level` is the value that a cut has to cut off; the search takes at most `most` LPs.
    """
    leaves = _ConeSearch(cone, objective, level, most).leaves()
    if leaves is None:
        return None
    cut = cone.cut(objective, *_in_preorder(leaves))
    # A region without any pair has no finite limit; a cut is no place to say so.
    return cut if -math.inf < cut.limit < level else None


class _ConeSearch:
    """Best-first branch and bound in a cone, for one objective."""

    def __init__(self, cone: Cone, objective: Objective, level: float, most: int) -> None:
        self._cone, self._objective = cone, objective
        self._level, self._most = level, most
        self._best = cone.known_value(objective)
        self._worths = cone.worths(objective)
        self._solved = 0
        self._count = itertools.count()
        self._closed: list[Leaf] = []
        self._heap: list[tuple[float, int, Leaf]] = []

    def leaves(self) -> list[Leaf] | None:
        """The leaves of the search tree; None if no cut lies much below the level."""
        cone = self._cone
        cost, self._constant = cone.cost(self._objective)
        if not cost.any() or not self._is_promising():
            return None
        cone.aim(cost)
        answer = self._solve((), None)
        if not answer.optimal:
            return None
        root = self._optimal((), answer)
        self._level = min(self._level, root.value)
        if not self._is_promising():
            return None
        cone.decide()
        self._add(root)
        while self._heap and self._solved < self._most and self._is_promising():
            if -self._heap[0][0] <= self._enough:
                break
            leaf = heapq.heappop(self._heap)[-1]
            for child in self._children(leaf) or ():
                self._add(child)
        leaves = self._closed + [leaf for _, _, leaf in self._heap]
        return leaves if self._is_promising() and len(leaves) > 1 else None

    def _add(self, leaf: Leaf) -> None:
        if leaf.primal is None:
            self._closed.append(leaf)
        else:
            heapq.heappush(self._heap, (-leaf.value, next(self._count), leaf))

    def _children(self, leaf: Leaf) -> tuple[Leaf, Leaf] | None:
        """The children by the best sign that was tried; None closes a leaf without any."""
        assert leaf.primal is not None, "others are closed"
        pseudocosts = self._cone.pseudocosts
        predicted = pseudocosts.predicted(leaf.primal, self._worths)
        taken = np.array([self._cone.place_of(split) for split, _ in leaf.path], dtype=np.int64)
        deep = len(leaf.path) >= _DEEPEST
        best, found = -math.inf, None
        for place in [] if deep else pseudocosts.candidates(predicted, taken):
            children = self._child(leaf, place, False), self._child(leaf, place, True)
            gains = np.array([leaf.value - max(self._reach(c), self._best) for c in children])
            pseudocosts.learn(place, predicted[:, place], gains)
            if score(gains) > best:
                best, found = float(score(gains)), children
            if pseudocosts.is_reliable(place):
                break
        if found is None:
            self._closed.append(leaf)
        return found

    def _child(self, leaf: Leaf, place: int, positive: bool) -> Leaf:
        path = (*leaf.path, (self._cone.split_at(place), positive))
        answer = self._solve(path, leaf.basis)
        if answer.optimal:
            return self._optimal(path, answer)
        ray = answer.duals if answer.status is LpStatus.INFEASIBLE else None
        return Leaf(path, leaf.value, leaf.duals, None, None, ray)

    @staticmethod
    def _reach(leaf: Leaf) -> float:
        """The LP's value of a leaf; nothing is left of an empty one."""
        return leaf.value if leaf.ray is None else -math.inf

    def _solve(self, path: Path, basis: Any) -> LpAnswer:
        self._solved += 1
        return self._cone.solved(path, basis)

    @property
    def _enough(self) -> float:
        return self._best + _NEARLY * max(self._level - self._best, 0.0)

    def _is_promising(self) -> bool:
        """Whether the maximum may still be well below the level."""
        return self._best < self._level

    def _optimal(self, path: Path, answer: LpAnswer) -> Leaf:
        assert answer.primal is not None
        assert answer.duals is not None
        value = self._cone.value_at(answer.primal, self._objective)
        self._best = max(self._best, value)
        upper = answer.objective + self._constant
        return Leaf(path, upper, answer.duals, answer.primal, self._cone.basis())


def _in_preorder(leaves: list[Leaf]) -> tuple[list[Split | None], list[Leaf]]:
    """The tree that the leaves' paths form, in preorder, and the leaves in its order."""
    tree: list[Split | None] = []
    ordered: list[Leaf] = []

    def visit(below: list[Leaf], depth: int) -> None:
        if len(below) == 1 and len(below[0].path) == depth:
            tree.append(None)
            ordered.append(below[0])
            return
        tree.append(below[0].path[depth][0])
        for positive in (False, True):
            visit([leaf for leaf in below if leaf.path[depth][1] is positive], depth + 1)

    visit(leaves, 0)
    return tree, ordered


def groups(bounds: TwinBounds, layer: int) -> list[Index]:
    """The units of a layer in groups that see the same units of the layer below."""
    matrix = sparse.csr_array(bounds.stages[layer].matrix())
    matrix.eliminate_zeros()
    matrix.sort_indices()
    found: dict[bytes, list[int]] = {}
    hexagons = bounds.hexagons[layer]
    for unit in np.flatnonzero(~hexagons.off).tolist():
        seen = matrix.indices[matrix.indptr[unit] : matrix.indptr[unit + 1]]
        found.setdefault(seen.astype(np.int64).tobytes(), []).append(unit)
    return [np.array(units, dtype=np.int64) for units in found.values()]
