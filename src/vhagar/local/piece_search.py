"""Search one piece: do all of its versions keep the image's class?

CROWN comes first, then optimised slopes, first of the scores and then of the neurons' ranges too,
then branch and bound on the signs of neurons: on the ranges as they are, and, if that takes longer
than they did and lowers the bounds little, in parts where the sign of one more neuron is decided
and all ranges are tightened again. If a piece has few parameters, their box is split instead: in
small boxes few neurons are undecided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.local.box import Box, BoxProof, uppers_of
from vhagar.local.branching import Tree, VersionSearch
from vhagar.local.compact import Compact, RefinedLayer, input_coefficients, upper_bounds
from vhagar.local.device import CPU, Device
from vhagar.local.elimination import compact_network
from vhagar.local.quadratic_proof import QuadraticBounds, are_possible, likely_seconds
from vhagar.local.versions import FixedMap
from vhagar.network import Network

# Most parameters of a box that is split, and nodes searched in it before that.
_FEW_PARAMETERS, _NODES_PER_BOX = 10, 24
# Most boxes of one piece; their proofs take memory.
_MOST_BOXES = 50_000
# Share of the remaining time for optimised slopes of the neurons' ranges.
_TIGHTENING = 0.3
# Branch and bound has this share of the time that bounds by quadratic facts would take before they
# are tried.
_BEFORE_FACTS = 0.25


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
        return uppers_of(self.root, len(self.targets))

    def step(self) -> Array:
        """Process one box, and return versions that attain its bounds: likely counterexamples."""
        if self._is_split_by_parameters:
            self._open.sort(key=lambda box: float(box.uppers.max()))
        box = self._open.pop()
        begun = time.process_time()
        if box.search is None:
            self._begin(box)
            box.seconds_to_begin = time.process_time() - begun
        elif self._is_time_for_facts(box):
            self._bound_by_facts(box)
        elif self._has_parts(box):
            self._open += box.parts
            self._finish(box)
            return np.zeros((0, 0))
        else:
            before = box.search.nodes
            box.stuck = not box.search.step() or box.search.is_full
            self.nodes += box.search.nodes - before
            box.note(time.process_time() - begun, box.search.worst)
        return self._take(box)

    def _is_time_for_facts(self, box: Box) -> bool:
        """Whether to bound a lead by quadratic facts."""
        if self._is_split_by_parameters or not box.tightened or box.decisions:
            return False
        assert box.search is not None
        if box.needs_signs or not are_possible(box.search.compact):
            return False
        if box.quadratic is not None or box.stuck:
            return True
        likely = likely_seconds(box.search.compact, int((box.uppers >= 0).sum()))
        tried = box.seconds >= max(_BEFORE_FACTS * likely, box.seconds_to_begin)
        return tried and box.forecast > likely

    def _bound_by_facts(self, box: Box) -> None:
        """Bound the largest lead by quadratic facts."""
        assert box.search is not None
        if box.quadratic is None:
            box.quadratic = QuadraticBounds(box.search.compact, self.record)
        row = int(box.uppers.argmax())
        upper = box.quadratic.bound(box.start[row], float(box.uppers[row]), self.stop)
        if upper < 0:
            box.search.close(row, upper)
            if self.record and box.quadratic.proof is not None:
                box.facts[row] = box.quadratic.proof
        else:
            box.quadratic, box.needs_signs = None, True

    def _take(self, box: Box) -> Array:
        """Take over what the search of a box has found."""
        if box.search is None:  # no version obeys its decisions
            return np.zeros((0, 0))
        box.uppers = np.minimum(box.uppers, box.search.uppers)
        found = box.search.x
        if box.is_closed:
            self._finish(box)
        else:
            self._open.append(box)
        return found

    def _finish(self, box: Box) -> None:
        """Keep only the proof of a box, and drop the rest of its search."""
        search, box.search, box.quadratic = box.search, None, None
        if not self.record or search is None:
            return
        box.proof = BoxProof(
            *_ranges(search.compact),
            search.tree,
            search.roots,
            box.start,
            search.uppers < 0,
            box.decisions,
            box.facts,
        )

    def _close_empty(self, box: Box, compact: Compact, decision: tuple[int, int]) -> None:
        """Close a box in which no version obeys a decision."""
        box.uppers = np.full(len(box.rows), -np.inf)
        if not self.record:
            return
        others = {place: sign for place, sign in box.decisions.items() if place != decision}
        nothing, closed = np.zeros((0, 0)), np.ones(len(box.rows), dtype=np.bool_)
        box.proof = BoxProof(*_ranges(compact), Tree(), [], nothing, closed, others, is_empty=True)

    def finish(self) -> None:
        """End the search, and keep what is proved so far, even of open boxes."""
        for box in self._open:
            self._finish(box)

    def _begin(self, box: Box) -> None:
        versions = self.fixed.versions(box.lower, box.upper)
        tightened = self._share_is_over() if box.tightened else None
        compact = compact_network(
            self.network, versions, self.stop, self.record, tightened, box.decisions
        )
        if compact.contradicted is not None:
            self._close_empty(box, compact, compact.contradicted)
            return
        box.start = self._rows(compact, box.rows)
        box.search = VersionSearch(compact, box.start, self.device)
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

    @property
    def _is_split_by_parameters(self) -> bool:
        return 0 < len(self.fixed.lower) <= _FEW_PARAMETERS

    def _has_parts(self, box: Box) -> bool:
        """Divide a box if it is time to; a box that can only be given up has no parts."""
        assert box.search is not None
        if self._is_split_by_parameters:
            wide = (box.upper - box.lower).max(initial=0.0)
            enough = box.stuck or box.search.nodes >= _NODES_PER_BOX + len(box.rows)
            splits = wide > 1e-7 * (1 + abs(box.lower).max()) and self._boxes < _MOST_BOXES
            if enough and splits:
                self._split(box)
        elif not box.tightened:
            box.parts = (box.part(tightened=True),)
        elif (box.stuck or self._is_slow(box)) and self._boxes < _MOST_BOXES:
            self._decide(box)
        if box.stuck and not box.parts:
            self.failed.append(box)
        return box.stuck or bool(box.parts)

    def _is_slow(self, box: Box) -> bool:
        """Whether the search of a box has had time and lowered its bounds little.

        Parts begin anew. Measured: PERFORMANCE.md, "a search that lowers its bounds goes on".
        """
        assert box.search is not None
        return box.seconds >= box.seconds_to_begin and not box.search.is_promising

    def _decide(self, box: Box) -> None:
        """Decide the sign of an early neuron on which the worst bound depends.

        Branching within a box decides signs, too, but leaves the ranges of the other neurons alone.
        In the parts, all are tightened again.
        """
        assert box.search is not None
        box.neuron = box.search.early_neuron(int(box.uppers.argmax()))
        if box.neuron is None:
            return
        self._boxes += 2
        box.parts = tuple(box.part(decided={box.neuron: sign}, tightened=True) for sign in (-1, 1))

    def _split(self, box: Box) -> None:
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


def _ranges(compact: Compact) -> tuple[list[NDArray[np.uint8]], list[Index], list[RefinedLayer]]:
    """What a proof says of the neurons' ranges: statuses, undecided neurons, and multipliers."""
    return compact.status, [block.neurons for block in compact.blocks], compact.refined
