"""Search one piece: do all of its versions keep the image's class?

CROWN comes first, then optimised slopes, first of the scores and then of the neurons' ranges too,
then branch and bound on the signs of neurons. If a piece has few parameters, their box is split
instead of tightening ranges: in small boxes few neurons are undecided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.local.branching import CPU, Branching, Device, Tree
from vhagar.local.compact import Compact, RefinedLayer, input_coefficients, upper_bounds
from vhagar.local.elimination import compact_network
from vhagar.local.versions import FixedMap
from vhagar.network import Network

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Most parameters of a box that is split, and nodes searched in it before that.
_FEW_PARAMETERS, _NODES_PER_BOX = 10, 24
# Most boxes of one piece; their proofs take memory.
_MOST_BOXES = 50_000
# Share of the remaining time for optimised slopes of the neurons' ranges.
_TIGHTENING = 0.3


@dataclass(frozen=True, eq=False)
class BoxProof:
    """The proof of a box's bounds: its neurons' ranges, and its search tree."""

    status: list[NDArray[np.uint8]]
    neurons: list[Index]  # the undecided ones of each ReLU layer
    refined: list[RefinedLayer]
    tree: Tree
    roots: list[int]
    start: Array
    closed: NDArray[np.bool_]


@dataclass(eq=False)
class Box:
    """A box of parameters: the targets to exclude there, their search, and its parts.

    `rows` are indices into the list of targets, `start` their rows of score coefficients. The parts
    are two halves, or the same box with tightened ranges, for the targets that were still open.
    """

    lower: Array
    upper: Array
    rows: Index
    uppers: Array  # (rows,)
    start: Array = field(default_factory=lambda: np.zeros((0, 0)))
    search: Branching | None = None
    proof: BoxProof | None = None
    parts: tuple[Box, ...] = ()
    at: tuple[int, float] | None = None  # the parameter that is split, and where
    stuck: bool = False
    tightened: bool = False

    @property
    def is_closed(self) -> bool:
        return bool((self.uppers < 0).all())

    def part(self, lower: Array, upper: Array) -> Box:
        """A part of the box, for the targets that are still open."""
        left = np.flatnonzero(~(self.uppers < 0))
        return Box(lower, upper, self.rows[left], self.uppers[left])


@dataclass(eq=False)
class PieceSearch:
    """Proves, box by box, that no version of a piece is classified as a target.

    `rivals` holds for each target the class that must stay ahead of it; with None, each box takes
    the class with the best bound.
    """

    network: Network
    fixed: FixedMap
    targets: tuple[int, ...]
    rivals: tuple[int, ...] | None
    stop: Callable[[], bool]
    record: bool = False  # whether to keep the proofs for a certificate
    device: Device = CPU
    seconds_left: Callable[[], float] = lambda: math.inf
    root: Box = field(init=False)
    failed: list[Box] = field(default_factory=list)
    nodes: int = 0

    def __post_init__(self) -> None:
        rows = np.arange(len(self.targets))
        unknown = np.full(len(rows), np.inf)
        self.root = Box(self.fixed.lower, self.fixed.upper, rows, unknown)
        self._open = [self.root]
        self._boxes = 1

    @property
    def is_done(self) -> bool:
        """Whether every box is either closed or given up."""
        return not self._open

    @property
    def open_count(self) -> int:
        """Open nodes of all boxes."""
        return sum(1 if box.search is None else box.search.open_count for box in self._open)

    @property
    def uppers(self) -> Array:
        """A proven bound on each target's lead over its rival, for every version."""
        return _uppers(self.root, np.full(len(self.targets), -np.inf))

    def step(self) -> Array:
        """Process one box, and return versions that attain its bounds: likely counterexamples."""
        self._open.sort(key=lambda box: float(box.uppers.max()))
        box = self._open.pop()
        if box.search is None:
            self._begin(box)
        elif not box.tightened and not self._can_split(box):
            self._open += self._tightened(box)
            self._finish(box)
            return np.zeros((0, 0))
        elif self._is_to_be_split(box):
            self._open += self._split(box)
            self._finish(box)
            return np.zeros((0, 0))
        else:
            before = box.search.nodes
            box.stuck = not box.search.step() or box.search.is_full
            self.nodes += box.search.nodes - before
        assert box.search is not None
        box.uppers = np.minimum(box.uppers, box.search.uppers)
        found = box.search.x
        if box.is_closed:
            self._finish(box)
        elif box.stuck and not self._can_split(box):
            self.failed.append(box)
            self._finish(box)
        else:
            self._open.append(box)
        return found

    def _finish(self, box: Box) -> None:
        """Keep only the proof of a box, and drop the rest of its search."""
        search, box.search = box.search, None
        if not self.record or search is None:
            return
        compact = search.compact
        box.proof = BoxProof(
            compact.status,
            [block.neurons for block in compact.blocks],
            compact.refined,
            search.tree,
            search.roots,
            box.start,
            search.uppers < 0,
        )

    def finish(self) -> None:
        """End the search, and keep what is proved so far, even of open boxes."""
        for box in self._open:
            self._finish(box)

    def _begin(self, box: Box) -> None:
        versions = self.fixed.versions(box.lower, box.upper)
        tightened = self._share_is_over() if box.tightened else None
        compact = compact_network(self.network, versions, self.stop, self.record, tightened)
        box.start = self._rows(compact, box.rows)
        box.search = Branching(compact, box.start, self.device)
        box.search.begin()
        self.nodes += box.search.nodes

    def _share_is_over(self) -> Callable[[], bool]:
        """Tell whether the time for tightening is over."""
        end = time.monotonic() + _TIGHTENING * self.seconds_left()
        return lambda: self.stop() or time.monotonic() > end

    def _rows(self, compact: Compact, rows: Index) -> Array:
        """Coefficients of each target's score minus its rival's."""
        classes = self.network.classes
        found = np.zeros((len(rows), classes))
        for place, row in enumerate(rows.tolist()):
            target = self.targets[row]
            if self.rivals is not None:
                rival = self.rivals[row]
            else:
                others = np.array([j for j in range(classes) if j != target])
                leads = -np.eye(classes)[others]
                leads[:, target] = 1.0
                assert compact.scores is not None
                rival = int(others[upper_bounds(compact, compact.scores, leads).argmin()])
            found[place, target], found[place, rival] = 1.0, -1.0
        return found

    def _can_split(self, box: Box) -> bool:
        wide = (box.upper - box.lower).max(initial=0.0)
        few = 0 < len(box.lower) <= _FEW_PARAMETERS
        return bool(few and wide > 1e-7 * (1 + abs(box.lower).max()))

    def _is_to_be_split(self, box: Box) -> bool:
        assert box.search is not None
        enough = box.stuck or box.search.nodes >= _NODES_PER_BOX + len(box.rows)
        return enough and self._can_split(box) and self._boxes < _MOST_BOXES

    def _tightened(self, box: Box) -> tuple[Box, ...]:
        """The same box once more, where the neurons' ranges get optimised slopes."""
        box.parts = (replace(box.part(box.lower, box.upper), tightened=True),)
        return box.parts

    def _split(self, box: Box) -> tuple[Box, ...]:
        """Halve the parameter that the worst bound depends on most."""
        assert box.search is not None
        compact, worst = box.search.compact, box.start[[int(box.uppers.argmax())]]
        assert compact.scores is not None
        width = box.upper - box.lower
        slopes = abs(self.fixed.pull(input_coefficients(compact, compact.scores, worst))[0])
        parameter = int((slopes * width).argmax())
        if not width[parameter] > 0:
            parameter = int(width.argmax())
        at = float((box.lower[parameter] + box.upper[parameter]) / 2)
        below, above = box.upper.copy(), box.lower.copy()
        below[parameter] = above[parameter] = at
        box.at = parameter, at
        self._boxes += 2
        box.parts = tuple(
            box.part(low, high) for low, high in ((box.lower, below), (above, box.upper))
        )
        return box.parts


def _uppers(box: Box, found: Array) -> Array:
    """The bounds of a box, or those of its parts where they are better."""
    own = box.uppers.copy()
    if box.parts:
        below = np.max([_uppers(part, found)[part.rows] for part in box.parts], axis=0)
        places = np.searchsorted(box.rows, box.parts[0].rows)
        own[places] = np.minimum(own[places], below)
    whole = found.copy()
    whole[box.rows] = own
    return whole
