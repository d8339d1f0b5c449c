"""Turn operations on values into stages with ReLU layers between them.

A value has a depth: the number of ReLU layers below it. A linear operation's result is as deep as
its deepest operand and is computed in the stage of that number; units of ReLU layer d take values
of depth d and give values of depth d + 1. A value that is used in a later stage than its own is
carried through the layers between by linear units.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.joined import Joined, Term
from vhagar_check.layers import Linear, Mask, Network, Shape

# Most entries of one value, and of all values, layers and tables together: far more than in any
# network that can be checked.
_LARGEST, _LARGEST_TOTAL = 2**22, 2**26
_LEAST = 64  # the least cost of an operation, since even a small one takes time


@dataclass(frozen=True, eq=False)
class Value:
    """A vector inside the network."""

    size: int
    depth: int


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand of a sum: a value, through a layer or times a factor."""

    value: Value
    layer: Linear | None = None
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class _Sum:
    result: Value
    operands: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class _Units:
    result: Value
    operand: Value


@dataclass(eq=False)
class Budget:
    """The number of entries that may still be created; a small file can ask for very many."""

    left: int = _LARGEST_TOTAL

    def spend(self, entries: int) -> None:
        self.left -= max(entries, _LEAST)
        if entries > _LARGEST or self.left < 0:
            raise Rejected("the model is too large to be checked")


@dataclass(eq=False)
class Flow:
    """The operations on values, in order."""

    input_shape: Shape
    budget: Budget = field(default_factory=Budget)
    _steps: list[_Sum | _Units] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.input = self._value(math.prod(self.input_shape), 0)

    def _value(self, size: int, depth: int) -> Value:
        self.budget.spend(size)
        return Value(size, depth)

    def sum(self, *operands: Operand) -> Value:
        """A new value: the sum of the operands."""
        sizes = set()
        for operand in operands:
            layer, size = operand.layer, operand.value.size
            if layer is not None and layer.in_size != size:
                raise Rejected("a layer of the model does not fit what it receives")
            sizes.add(size if layer is None else layer.out_size)
        if len(sizes) != 1:
            raise Rejected("values of different sizes are added in the model")
        result = self._value(sizes.pop(), max(operand.value.depth for operand in operands))
        self._steps.append(_Sum(result, operands))
        return result

    def through(self, value: Value, *layers: Linear) -> Value:
        """A new value: the layers applied one after the other."""
        for layer in layers:
            value = self.sum(Operand(value, layer))
        return value

    def units(self, operand: Value) -> Value:
        """A new value: a ReLU of each entry."""
        result = self._value(operand.size, operand.depth + 1)
        self._steps.append(_Units(result, operand))
        return result

    def summands(self, value: Value) -> tuple[Operand, ...]:
        """The operands of a value that is a sum; empty for any other value."""
        found = (step for step in self._steps if step.result is value and isinstance(step, _Sum))
        return next((step.operands for step in found), ())

    def network(self, output: Value) -> Network:
        """Build the stages that compute the output."""
        return _Schedule(self, self._needed(output), output).network()

    def _needed(self, output: Value) -> list[_Sum | _Units]:
        wanted, found = {output}, []
        for step in reversed(self._steps):
            if step.result in wanted:
                found.append(step)
                wanted.update(_operands(step))
        return found[::-1]


def _operands(step: _Sum | _Units) -> list[Value]:
    if isinstance(step, _Units):
        return [step.operand]
    return [operand.value for operand in step.operands]


class _Schedule:
    """Places the values in stages and ReLU layers."""

    def __init__(self, flow: Flow, steps: list[_Sum | _Units], output: Value) -> None:
        self._flow = flow
        self._output = output
        # By the number of the stage, or of the ReLU layer behind it.
        self._sums: dict[int, list[_Sum]] = defaultdict(list)
        self._units: dict[int, list[_Units]] = defaultdict(list)
        self._carried: dict[int, list[Value]] = defaultdict(list)
        last_use = {flow.input: 0}  # in order of creation
        for step in steps:
            last_use[step.result] = step.result.depth
            if isinstance(step, _Units):
                self._units[step.operand.depth].append(step)
                continue
            self._sums[step.result.depth].append(step)
            for value in _operands(step):
                last_use[value] = max(last_use[value], step.result.depth)
        for value, last in last_use.items():
            for k in range(value.depth, last):
                flow.budget.spend(value.size)
                self._carried[k].append(value)

    def network(self) -> Network:
        stages, masks = [], []
        state = [self._flow.input]
        for k in range(self._output.depth):
            entering = [step.operand for step in self._units[k]]
            carried = self._carried[k]
            stages.append(tuple(self._stage(k, state, entering + carried)))
            masks.append(_mask(entering, carried))
            state = [step.result for step in self._units[k]] + carried
        stages.append(tuple(self._stage(self._output.depth, state, [self._output])))
        plain = all(mask is None for mask in masks)
        return Network(tuple(stages), self._flow.input_shape, () if plain else tuple(masks))

    def _stage(self, k: int, state: list[Value], wanted: list[Value]) -> list[Linear]:
        """The layers that compute one list of values, side by side, from another."""
        made = {step.result: step for step in self._sums[k]}
        level = dict.fromkeys(state, 0)
        taken = dict.fromkeys(state, 0)  # the last level that takes a value
        for step in self._sums[k]:
            own = 1 + max(level[value] for value in _operands(step))
            level[step.result] = taken[step.result] = own
            for value in _operands(step):
                taken[value] = max(taken[value], own)
        count = max(level.values())
        # A value of the last level that is needed twice is computed once and copied.
        often = Counter(wanted)
        count += any(often[value] > 1 and level[value] == count for value in often if value in made)
        taken.update(dict.fromkeys(wanted, count))
        new: dict[int, list[Value]] = defaultdict(list)
        for step in self._sums[k]:
            new[level[step.result]].append(step.result)
        layers: list[Linear] = []
        for now in range(1, count + 1):
            kept = [value for value in [*state, *new[now]] if now < taken[value]]
            after = wanted if now == count else kept
            layers += self._layer(state, after, {value: made[value] for value in new[now]})
            state = after
        return layers if count else self._layer(state, wanted, {})

    def _layer(
        self, before: list[Value], after: list[Value], made: dict[Value, _Sum]
    ) -> list[Linear]:
        """One layer, or none if nothing changes."""
        if before == after:
            return []
        for value in after:
            self._flow.budget.spend(value.size)
        ends = np.cumsum([0, *(value.size for value in before)]).tolist()
        starts = dict(zip(before, ends, strict=False))
        blocks = []
        for value in after:
            operands = made[value].operands if value in made else (Operand(value),)
            blocks.append(
                tuple(
                    Term(starts[part.value], part.value.size, part.layer, part.factor)
                    for part in operands
                )
            )
        if len(before) == len(blocks) == len(blocks[0]) == 1:
            (only,) = blocks[0]
            if only.factor == 1.0:
                return [] if only.layer is None else [only.layer]
        return [Joined(ends[-1], tuple(blocks))]


def _mask(entering: list[Value], carried: list[Value]) -> Mask | None:
    if not carried:
        return None
    units, linear = (sum(value.size for value in part) for part in (entering, carried))
    return np.repeat([False, True], [units, linear])
