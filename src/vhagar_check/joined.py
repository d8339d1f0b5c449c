"""Layers that branch and join: several values side by side in one vector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vhagar_check.exact import Exact
from vhagar_check.layers import Array, Floats, Indices, Linear, Plain, Shape


@dataclass(eq=False)
class Pick(Plain):
    """Every output is the sum of some entries of the input, or 0.

    Entry `inputs[k]` is added to output `outputs[k]`, all with the same sign; `outputs` ascend.
    """

    outputs: Indices
    inputs: Indices
    in_size: int
    out_size: int
    sign: float = 1.0

    def __post_init__(self) -> None:
        self.bias = np.zeros(self.out_size)
        counts = [np.bincount(places, minlength=1).max() for places in (self.outputs, self.inputs)]
        self.terms = max(1, *(int(count) for count in counts))

    @classmethod
    def of(cls, index: Indices, in_size: int, sign: float = 1.0) -> Pick:
        """Make output k the sum of the entries `index[k]`, one or a row; -1 stands for none."""
        table = index.reshape(len(index), -1)
        outputs, places = np.nonzero(table >= 0)
        return cls(outputs, table[outputs, places], in_size, len(index), sign)

    @property
    def kernel(self) -> Floats:
        return np.array([self.sign])

    @cached_property
    def exact_kernel(self) -> Exact:
        return Exact.of(self.kernel)

    def forward(self, kernel: Array, z: Array) -> Array:
        return _moved(z * kernel, self.inputs, self.outputs, self._forwards, self.out_size)

    def backward(self, kernel: Array, p: Array) -> Array:
        order, *groups = self._backwards
        return _moved(p * kernel, self.outputs[order], self.inputs[order], groups, self.in_size)

    @cached_property
    def _forwards(self) -> list[Indices]:
        return _groups(self.outputs)

    @cached_property
    def _backwards(self) -> list[Indices]:
        order = np.argsort(self.inputs, kind="stable")
        return [order, *_groups(self.inputs[order])]


def _groups(places: Indices) -> list[Indices]:
    """The different values of ascending numbers, and where each begins."""
    different, starts = np.unique(places, return_index=True)
    return [different, starts]


def _moved(
    values: Array, source: Indices, target: Indices, groups: list[Indices], size: int
) -> Array:
    """Add the entries `source` of each row up at `target`, which ascends."""
    different, starts = groups
    found = values[:, source]
    if len(different) < len(target):
        found = np.add.reduceat(found, starts, axis=1)
    if len(different) == size:
        return np.asarray(found)
    out = np.zeros((len(values), size), dtype=values.dtype)
    out[:, different] = found
    return out


@dataclass(frozen=True, eq=False)
class Term:
    """A term of a block: `size` entries from `start`, through a layer or times a factor."""

    start: int
    size: int
    layer: Linear | None = None
    factor: float = 1.0

    @property
    def entries(self) -> slice:
        return slice(self.start, self.start + self.size)

    @property
    def out_size(self) -> int:
        return self.size if self.layer is None else self.layer.out_size

    @property
    def terms(self) -> int:
        return 1 if self.layer is None else self.layer.terms

    @property
    def kernel(self) -> Floats:
        return np.array([self.factor]) if self.layer is None else self.layer.kernel


@dataclass(frozen=True, eq=False)
class _Part:
    """A term, where its block lies in the output, and where its kernel lies in the layer's."""

    term: Term
    block: slice
    numbers: slice
    shape: Shape

    def kernel(self, whole: Array) -> Array:
        return whole[self.numbers].reshape(self.shape)


@dataclass(eq=False)
class Joined(Linear):
    """Blocks side by side, each the sum of terms. At most one term of a block has a bias."""

    in_size: int
    blocks: tuple[tuple[Term, ...], ...]
    joins = True

    def __post_init__(self) -> None:
        self._parts: list[_Part] = []
        begin = first = 0
        for block in self.blocks:
            end = begin + block[0].out_size
            for term in block:
                shape = term.kernel.shape
                last = first + term.kernel.size
                self._parts.append(_Part(term, slice(begin, end), slice(first, last), shape))
                first = last
            begin = end
        self.out_size = begin
        self.bias = np.zeros(begin)
        for part in self._parts:
            if part.term.layer is not None:
                self.bias[part.block] += part.term.layer.bias
        self.terms = self._most_terms()

    def _most_terms(self) -> int:
        forwards = [sum(term.terms for term in block) for block in self.blocks]
        backwards: dict[int, int] = {}
        for part in self._parts:
            start = part.term.start
            backwards[start] = backwards.get(start, 0) + part.term.terms
        return max(*forwards, *backwards.values())

    @cached_property
    def kernel(self) -> Floats:
        return np.concatenate([part.term.kernel.reshape(-1) for part in self._parts])

    def forward(self, kernel: Array, z: Array) -> Array:
        out = np.zeros((len(z), self.out_size), dtype=z.dtype)
        for part in self._parts:
            layer, own, value = part.term.layer, part.kernel(kernel), z[:, part.term.entries]
            out[:, part.block] += value * own if layer is None else layer.forward(own, value)
        return out

    def backward(self, kernel: Array, p: Array) -> Array:
        out = np.zeros((len(p), self.in_size), dtype=p.dtype)
        for part in self._parts:
            layer, own, value = part.term.layer, part.kernel(kernel), p[:, part.block]
            out[:, part.term.entries] += (
                value * own if layer is None else layer.backward(own, value)
            )
        return out

    def exact_forward(self, z: Exact) -> Exact:
        parts = []
        for part in self._parts:
            value, layer = z.part(part.term.entries), part.term.layer
            moved = _times(part.term, value) if layer is None else layer.exact_forward(value)
            parts.append((part.block, moved))
        return Exact.summed(self.out_size, parts)

    def exact_backward(self, p: Exact) -> Exact:
        parts = []
        for part in self._parts:
            value, layer = p.part(part.block), part.term.layer
            pulled = _times(part.term, value) if layer is None else layer.exact_backward(value)
            parts.append((part.term.entries, pulled))
        return Exact.summed(self.in_size, parts)


def _times(term: Term, value: Exact) -> Exact:
    """Multiply by a term's factor, a whole number such as 1 or -1."""
    return Exact(value.numerators * int(term.factor), value.denominator)
