"""Proves the bound of a spectral proof: every norm, and the bound that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vhagar_check.definite import Entries, is_above
from vhagar_check.layers import HALF_ULP, TINY, UNDERFLOW, Floats, Indices, Linear, gamma
from vhagar_check.spectral import FREE, SpectralRegion

# Entries of a batch of rows.
_BATCH_ENTRIES = 2**22
# A bound on the relative error of a few sums of positive numbers.
_SLACK = 2.0**-40


class SpectralProver:
    """Proves the bounds of one region; the norms are proved once, for all targets."""

    def __init__(self, region: SpectralRegion) -> None:
        self._region = region
        self._network = region.network
        self._free = [np.flatnonzero(layer == FREE) for layer in region.status]
        self._middle = [np.array([0.0, 1.0, 0.5])[layer] for layer in region.status]
        self._absolute = region.change.absolute()
        self._terms = (
            64
            + 2 * region.piece.domain.size
            + sum(layer.terms + 4 for stage in region.network.stages for layer in stage)
        )
        self.piece_number, self.span = region.piece_number, region.piece.span
        self._reach = self._proved_reach()

    def upper(self, source: int, target: int) -> float:
        """A bound on the confidence of inputs that the piece pushes into the target."""
        lead = np.zeros((1, self._network.classes))
        lead[0, source], lead[0, target] = 1.0, -1.0
        change = self._region.change
        pulled = zip(
            self._to_scores(lead, False),
            self._to_scores(lead, True),
            self._to_scores(0 * lead, True, UNDERFLOW),
            strict=True,
        )
        *others, (row, error) = [
            (row, gamma(self._terms) * size + lost + TINY) for row, size, lost in pulled
        ]
        linear = float(self._region.piece.support(row, -row)[0])
        total = float((error * change.size).sum())
        for layer, (part, room) in zip(reversed(range(len(self._free))), others, strict=True):
            largest = (abs(part) + room) / self._region.layers[layer]
            total += _length(largest) * self._reach[layer]
        found = total * (1 + _SLACK) + linear + abs(linear) * _SLACK
        return max(found, 0.0) if math.isfinite(found) else math.inf

    def _proved_reach(self) -> list[float]:
        """Bound each layer's scaled deviation; infinite if a norm is not proved."""
        reach = [0.0] * len(self._free)
        squares = iter(self._region.squares.tolist())
        for j in range(1, len(self._free) + 1):
            for i in range(j):
                square = next(squares)
                if not self._is_norm(i, j, square):
                    return [math.inf] * len(self._free)
                scalings = self._region.inputs[j - 1]
                length = reach[i - 1] if i else _length(scalings)
                reach[j - 1] += math.sqrt(square) * length * (1 + _SLACK)
        return reach

    def _is_norm(self, i: int, j: int, square: float) -> bool:
        """Whether the squared norm of a scaled block is proved to be at most `square`."""
        left = self._region.layers[j - 1]
        right = 1 / (self._region.layers[i - 1] if i else self._region.inputs[j - 1])
        if not len(left) or not len(right):
            return True
        size = self._size(i, j, left, right)
        if square >= size:
            return True
        by_rows = len(left) <= len(right)
        gram = self._gram(i, j, left, right, by_rows)
        room = gamma(2 * self._terms) * size
        room += gram.order * self._lost(i, j, left, right, by_rows) + TINY
        value = np.where(gram.row == gram.column, square - gram.value, -gram.value)
        missing = np.setdiff1d(np.arange(gram.order), gram.row[gram.row == gram.column])
        rest = Entries(
            gram.order,
            np.concatenate([gram.row, missing]),
            np.concatenate([gram.column, missing]),
            np.concatenate([value, np.full(len(missing), square)]),
        )
        return is_above(rest, room + 4 * HALF_ULP * square)

    def _size(self, i: int, j: int, left: Floats, right: Floats) -> float:
        """The largest row sum of a scaled block times the largest column sum, in absolute values:
        at least the squared norm."""
        rows = self._push(right[None], i, j, True)
        rows = rows + self._push(0 * right[None], i, j, True, UNDERFLOW) + UNDERFLOW
        columns = self._pull(left[None], i, j, True)
        columns = columns + self._pull(0 * left[None], i, j, True, UNDERFLOW) + UNDERFLOW
        one, other = float((rows[0] * left).max()), float((columns[0] * right).max())
        return (one + UNDERFLOW) * (other + UNDERFLOW) * (1 + 1e-9) + TINY

    def _gram(self, i: int, j: int, left: Floats, right: Floats, by_rows: bool) -> Entries:
        """The Gram matrix of a scaled block on its smaller side, without its zeros."""
        order = min(len(left), len(right))
        parts: list[tuple[Indices, Indices, Floats]] = []
        for begin, unit in _unit_rows(order, self._widest()):
            if by_rows:
                there = self._pull(unit * left, i, j, False) * right
                back = self._push(there * right, i, j, False) * left
            else:
                there = self._push(unit * right, i, j, False) * left
                back = self._pull(there * left, i, j, False) * right
            row, column = np.nonzero(back)
            value = back[row, column]
            kept = column <= row + begin
            parts.append((row[kept] + begin, column[kept], value[kept]))
        row, column, value = (np.concatenate([part[k] for part in parts]) for k in range(3))
        return Entries(order, row, column, value)

    def _widest(self) -> int:
        sizes = [layer.in_size for stage in self._network.stages for layer in stage]
        return max([self._region.piece.domain.size, *sizes])

    def _push(self, rows: Floats, i: int, j: int, size: bool, lost: float = 0.0) -> Floats:
        """Map the free units of layer i, or the coordinates, to those of layer j, halved.

        With `size`, in absolute values; `lost` bounds what underflow takes from each product.
        """
        if i == 0:
            values = (self._absolute if size else self._region.change).push(rows) + lost
        else:
            values = self._spread(rows, i)
        for k in range(i, j):
            for layer in self._network.stages[k]:
                values = layer.forward(layer.size if size else layer.kernel, values)
                values = values * (1.01 if lost else 1.0) + lost * (layer.terms + 1)
            if k < j - 1:
                values = values * self._middle[k]
        return values[:, self._free[j - 1]] * 0.5

    def _pull(self, rows: Floats, i: int, j: int, size: bool, lost: float = 0.0) -> Floats:
        """The transpose of `_push`."""
        values = self._spread(rows * 0.5, j)
        for k in range(j - 1, i - 1, -1):
            for layer in reversed(self._network.stages[k]):
                values = self._back(layer, values, size, lost)
            if k > i:
                values = values * self._middle[k - 1]
        if i == 0:
            pulled: Floats = (self._absolute if size else self._region.change).pull(values)
            return pulled + lost * len(values[0])
        picked: Floats = values[:, self._free[i - 1]]
        return picked

    def _back(self, layer: Linear, values: Floats, size: bool, lost: float) -> Floats:
        back: Floats = layer.backward(layer.size if size else layer.kernel, values)
        return back * (1.01 if lost else 1.0) + lost * (layer.terms + 1)

    def _lost(self, i: int, j: int, left: Floats, right: Floats, by_rows: bool) -> float:
        """A bound on what underflow can take from an entry of a Gram matrix in `_gram`."""
        lost = 4 * UNDERFLOW
        if by_rows:
            there = self._pull(np.full((1, len(left)), lost), i, j, True, lost) * right + lost
            back = self._push(there * right + lost, i, j, True, lost) * left
        else:
            there = self._push(np.full((1, len(right)), lost), i, j, True, lost) * left + lost
            back = self._pull(there * left + lost, i, j, True, lost) * right
        return float(back.max()) * 1.01 + lost

    def _spread(self, rows: Floats, layer: int) -> Floats:
        """Extend rows on a layer's free units to rows on the whole layer."""
        values = np.zeros((len(rows), len(self._middle[layer - 1])))
        values[:, self._free[layer - 1]] = rows
        return values

    def _to_scores(self, lead: Floats, size: bool, lost: float = 0.0) -> Iterator[Floats]:
        """Yield the lead's coefficients on each layer's free units, the last layer's first, and
        on `x - x_p` at the end."""
        values = abs(lead) if size else lead
        for k in range(len(self._network.stages) - 1, -1, -1):
            for layer in reversed(self._network.stages[k]):
                values = self._back(layer, values, size, lost)
            if k:
                yield values[:, self._free[k - 1]]
                values = values * self._middle[k - 1]
        yield values


def _length(values: Floats) -> float:
    """At least the Euclidean length; divided by the largest value, as squares may underflow."""
    largest = float(values.max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(((values / largest) ** 2).sum()) * (1 + _SLACK))


def _unit_rows(order: int, widest: int) -> Iterator[tuple[int, Floats]]:
    step = max(1, _BATCH_ENTRIES // widest)
    for begin in range(0, order, step):
        yield begin, np.eye(min(step, order - begin), order, begin)
