"""Branch and bound on the signs of undecided neurons, many nodes at once (beta-CROWN).

A node is a target with decided signs for some neurons. Its multipliers are improved by first-order
steps in float32; a node whose value falls below 0 is closed if float64, with its rounding added,
proves the same, and by nothing else. An open node is split at the neuron that gains most: both
children of a few candidate neurons are evaluated without any steps, and the neuron with the best
pair is chosen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index, Mask
from vhagar.local.compact import Compact, upper_bounds
from vhagar.local.device import CPU, Device
from vhagar.local.dual import Dual, Evaluated, Nodes, Steps

Floats = NDArray[np.float32]

# First-order steps at the root, and at other nodes, which start from their parents' multipliers.
_ROOT, _NODE = Steps(40, 0.1, 0.95), Steps(10)
# Steps at a node where all signs are decided.
_LEAF = Steps(300, 0.1, 0.985)
# Candidate neurons whose children are evaluated: those with the largest offsets, and among the
# others those with the largest coefficients.
# Measured: with offsets alone, an MNIST network of 4 x 256 neurons stalled at 20,000 nodes; both
# kinds closed it with 400.
_BY_OFFSET, _BY_SIZE = 4, 2
# Weight of the better child's gain, relative to the worse child's.
_BETTER_CHILD = 0.3
# Nodes that are split at once: at first, and at most; in between, as many as fit into about this
# many seconds.
_FIRST_BATCH, _MOST_AT_ONCE, _SECONDS = 8, 512, 0.25
# Nodes of each batch that are examined for counterexamples.
_LOOKED_AT = 8
# Memory for the open nodes, in numbers.
_MOST_OPEN = 40_000_000
# A search is promising if its worst value has fallen by this share of the worst root's.
_FALLEN = 0.5
# Steps go on until a value is this far below 0, relative to the roots' values: float64 then most
# likely proves that it is below 0.
_CLEARLY = 1e-6


@dataclass(eq=False)
class Tree:
    """All nodes so far: each one's parent (-1 for roots), and the neuron and sign that it decides.

    `proofs` holds the multipliers of closed nodes, in the order of all undecided neurons.
    """

    parents: list[int] = field(default_factory=list)
    neurons: list[int] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    proofs: dict[int, Floats] = field(default_factory=dict)

    def add(self, parent: int, neuron: int, sign: int) -> int:
        self.parents.append(parent)
        self.neurons.append(neuron)
        self.signs.append(sign)
        return len(self.parents) - 1


@dataclass(frozen=True, eq=False)
class _Open:
    """Open nodes with their values and their numbers in the tree."""

    nodes: Nodes
    values: Array
    numbers: Index

    def take(self, some: Any) -> _Open:
        return _Open(self.nodes.take(some), self.values[some], self.numbers[some])


class VersionSearch:
    """Branch and bound over one set of versions, for all rows `start` of score coefficients.

    `uppers` `(rows,)` holds a proven bound on each row at every moment.
    """

    def __init__(self, compact: Compact, start: Array, device: Device = CPU) -> None:
        assert compact.scores is not None
        self.compact, self._start, self._device = compact, start, device
        self.dual = Dual(compact, compact.scores, start, device.place)
        self._batch = _FIRST_BATCH
        self._enough = 0.0
        self.tree = Tree()
        self.roots = [self.tree.add(-1, -1, 0) for _ in start]
        self.uppers = np.full(len(start), np.inf)
        # Of each row: the worst bound of its closed leaves, and how many leaves have no proof yet.
        self._closed = np.full(len(start), -np.inf)
        self._unproven = np.ones(len(start), dtype=np.int64)
        self._triangle = np.concatenate(
            [b.upper * -b.lower / (b.upper - b.lower) for b in compact.blocks] or [np.zeros(0)]
        )
        # The versions that attain the worst bounds of the last batch of nodes.
        self.x: Array = np.zeros((0, len(compact.versions.centre)))
        self._open: _Open | None = None
        self._roots: Nodes | None = None  # with improved multipliers
        self._worst_root = np.inf

    @property
    def open_count(self) -> int:
        return len(self._start) if self._open is None else len(self._open.nodes)

    @property
    def nodes(self) -> int:
        return len(self.tree.parents)

    @property
    def is_promising(self) -> bool:
        """Whether deciding signs, with the ranges as they are, has lowered the worst value much."""
        return self.worst < (1 - _FALLEN) * self._worst_root

    @property
    def worst(self) -> float:
        """The largest value of an open node."""
        assert self._open is not None
        return float(self._open.values.max(initial=-np.inf))

    @property
    def is_full(self) -> bool:
        """Whether the open nodes have used up their memory."""
        return bool(self.open_count * max(self.dual.undecided, 1) > _MOST_OPEN)

    def begin(self) -> None:
        """Bound the roots: CROWN's multipliers, and then first-order steps."""
        nodes = self.dual.begin()
        first = self._device.host(self.dual.evaluate(nodes).value)
        self._enough = -_CLEARLY * float(max(abs(first).max(initial=0.0), 1e-30))
        nodes, found = self.dual.improve(nodes, _ROOT, self._enough)
        self._roots = nodes
        values = self._settle(nodes, found, np.array(self.roots), at_root=True)
        self._keep(nodes, found, values, np.array(self.roots))
        self._worst_root = float(values.max(initial=0.0))

    def early_neuron(self, row: int) -> tuple[int, int] | None:
        """The free neuron of the first layer that has one, by layer and index, with the largest
        offset in the root of a row; None if no neuron is free.

        All later ranges depend on it. Measured: on an MNIST network of 4 x 256 neurons, deciding
        first neurons first closed half of an image's versions in 9 s, deciding those that gain most
        on the ranges as they are nothing.
        """
        assert self._roots is not None
        nodes = self._roots.take(np.array([row]))
        a = abs(self._device.host(self.dual.evaluate(nodes).a)[0])
        free = self._device.host(nodes.signs)[0] == 0
        offsets = np.where(free, a * self._triangle, 0.0)
        for layer, (part, block) in enumerate(
            zip(self.dual.blocks, self.compact.blocks, strict=True)
        ):
            own = offsets[part.part]
            if own.max(initial=0.0) > 0:
                return layer, int(block.neurons[int(own.argmax())])
        return None

    def close(self, row: int, upper: float) -> None:
        """Take over a proven bound on a row, whose open nodes are left out from now on."""
        assert self._open is not None
        self._closed[row] = max(self._closed[row], upper)
        self._unproven[row] = 0
        self._open = self._open.take(self._open.nodes.rows != row)
        self._note_done()

    def step(self) -> bool:
        """Split the nodes with the largest values; False if a fully decided one stays open."""
        assert self._open is not None
        begun = time.process_time()  # a busy machine must not make batches small
        order = np.argsort(-self._open.values, kind="stable")
        chosen, rest = self._open.take(order[: self._batch]), self._open.take(order[self._batch :])
        nodes = chosen.nodes.mapped(self._device.place)
        neurons = self._branch(nodes)
        if (neurons < 0).any():
            return self._insist(chosen, np.flatnonzero(neurons < 0))
        children = _children(nodes, neurons)
        numbers = np.array(
            [
                self.tree.add(int(parent), int(neuron), sign)
                for parent, neuron in zip(chosen.numbers, neurons, strict=True)
                for sign in (-1, 1)
            ]
        )
        np.add.at(self._unproven, chosen.nodes.rows, 1)
        children, found = self.dual.improve(children, _NODE, self._enough)
        values = self._settle(children, found, numbers)
        self._open = rest
        self._keep(children, found, values, numbers)
        share = _SECONDS / max(time.process_time() - begun, 1e-3)
        grown = int(self._batch * min(max(share, 0.25), 2.0))
        self._batch = min(max(grown, 1), _MOST_AT_ONCE)
        return True

    def _insist(self, chosen: _Open, ends: Index) -> bool:
        """Spend more steps on nodes with all signs decided; False if one of them stays open."""
        assert self._open is not None
        nodes = chosen.take(ends).nodes.mapped(self._device.place)
        nodes, found = self.dual.improve(nodes, _LEAF, self._enough)
        self._settle(nodes, found, chosen.numbers[ends])
        self._open = self._open.take(~self._are_proven(self._open.numbers))
        self._note_done()
        return bool(self._are_proven(chosen.numbers[ends]).all())

    def _settle(
        self, nodes: Nodes, found: Evaluated, numbers: Index, at_root: bool = False
    ) -> Array:
        """Close the nodes that float64 proves; return all values, none of another below 0."""
        values = np.asarray(self._device.host(found.value), dtype=np.float64).copy()
        seem = np.arange(len(values)) if at_root else np.flatnonzero(values < 0)
        if not len(seem):
            return values
        signs = self._device.host(nodes.signs)[seem].astype(np.int8)
        p = np.asarray(self._device.host(found.p)[seem], dtype=np.float32)
        rows = self._device.host(nodes.rows)[seem]
        proven = self.prove(rows, p, signs)
        values[seem] = np.where(proven < 0, proven, np.maximum(values[seem], 0.0))
        if at_root:
            self.uppers = np.minimum(self.uppers, proven)
        for place in np.flatnonzero(proven < 0):
            self.tree.proofs[int(numbers[seem[place]])] = p[place]
            row = int(rows[place])
            self._closed[row] = max(self._closed[row], proven[place])
            self._unproven[row] -= 1
        return values

    def _are_proven(self, numbers: Index) -> Mask:
        return np.array([number in self.tree.proofs for number in numbers.tolist()], dtype=np.bool_)

    def prove(self, rows: Index, p: Floats, signs: NDArray[np.int8]) -> Array:
        """Upper bounds that given multipliers prove, in float64 with the rounding added."""
        parts = [block.part for block in self.dual.blocks]
        scores = self.compact.scores
        assert scores is not None
        return upper_bounds(
            self.compact,
            scores,
            self._start[rows],
            lambda k, a: p[:, parts[k]].astype(np.float64),
            [signs[:, part] for part in parts],
        )

    def _keep(self, nodes: Nodes, found: Evaluated, values: Array, numbers: Index) -> None:
        """Add the nodes that are still open."""
        still = np.flatnonzero(~self._are_proven(numbers))
        fresh = _Open(
            nodes.mapped(lambda part: self._device.host(part)[still]), values[still], numbers[still]
        )
        worst = still[np.argsort(-values[still])[:_LOOKED_AT]]
        self.x = np.asarray(self._device.host(found.x)[worst], dtype=np.float64)
        if self._open is None or not len(self._open.nodes):
            self._open = fresh
        else:
            self._open = _Open(
                Nodes.joined([self._open.nodes, fresh.nodes]),
                np.concatenate([self._open.values, fresh.values]),
                np.concatenate([self._open.numbers, fresh.numbers]),
            )
        self._note_done()

    def _note_done(self) -> None:
        """Bound each row whose leaves are all proven by the worst of them."""
        assert self._open is not None
        done = self._unproven == 0
        done[self._open.nodes.rows] = False
        self.uppers = np.where(done, np.minimum(self.uppers, self._closed), self.uppers)

    def _branch(self, nodes: Nodes) -> Index:
        """Choose the neuron at which each node is split; -1 if all its signs are decided."""
        if not self.dual.undecided:
            return np.full(len(nodes), -1)
        found = self.dual.evaluate(nodes)
        a, value = self._device.host(found.a), self._device.host(found.value)
        free = self._device.host(nodes.signs) == 0
        candidates = np.concatenate(
            [
                _largest(np.where(free & (side * a > 0), side * a * self._triangle, -1.0), count)
                for side, count in ((1, _BY_OFFSET), (-1, _BY_SIZE))
            ],
            axis=1,
        )
        usable = np.take_along_axis(free, candidates, axis=1)
        count = candidates.shape[1]
        several = nodes.take(np.repeat(np.arange(len(nodes)), count))
        both = _children(several, candidates.reshape(-1))
        values = self._device.host(self.dual.evaluate(both).value).reshape(len(nodes), count, 2)
        gain = np.clip(value[:, None, None] - values, 0.0, np.maximum(value, 0.0)[:, None, None])
        score = gain.min(axis=2) + _BETTER_CHILD * gain.max(axis=2)
        score = np.where(usable, score, -1.0)
        best = score.argmax(axis=1)
        rows = np.arange(len(nodes))
        return np.where(usable[rows, best], candidates[rows, best], -1)


def _largest(scores: Array, count: int) -> Index:
    """The indices of the `count` largest scores of each row."""
    count = min(count, scores.shape[1])
    return np.argpartition(-scores, count - 1, axis=1)[:, :count]


def _children(nodes: Nodes, neurons: Index) -> Nodes:
    """Both children of each node, inactive first, with the parent's multipliers."""
    both = nodes.take(np.repeat(np.arange(len(nodes)), 2))
    signs, rows = both.signs + 0.0, np.arange(0, 2 * len(nodes), 2)
    signs[rows, neurons], signs[rows + 1, neurons] = -1.0, 1.0
    return Nodes(both.rows, signs, both.slopes, both.shifts)
