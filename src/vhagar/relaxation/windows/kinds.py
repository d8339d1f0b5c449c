"""Windows: the neurons of the only hidden layer, grouped by the few pixels that they see.

Everything here is about images that rise: where a piece darkens, it is about `-x` and `-x_p`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Index
from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.stages import Stage, stages_of

# A box of a window with more pixels has too many corners, and too many boxes are needed.
MOST_PIXELS = 4
# Every kind of window has a tree of its own.
_MOST_KINDS, _MOST_WINDOWS = 32, 2**14
# Most scores and neurons of a window, and the smallest weights, for the bound on rounding errors.
_MOST_TERMS, _LEAST_WEIGHT = 2**12, 2.0**-900


@dataclass(frozen=True, eq=False)
class Kind:
    """Windows with the same weights, and the same ranges of their pixels.

    `numbers` are the windows' own, `pixels` and `units` have a row for each window. `low` and
    `high` are the ends of the ranges, `weight` is `(units, pixels)`.
    """

    numbers: Index
    pixels: Index
    units: Index
    weight: Array
    bias: Array
    low: Array
    high: Array

    @property
    def width(self) -> int:
        """The number of a window's pixels."""
        return len(self.low)


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of a network under a piece that shifts all pixels by the same `e >= 0`.

    Images are clipped at `end`, which may be infinite. `sign` is -1 where the piece darkens.
    `last` is the stage behind the neurons.
    """

    kinds: tuple[Kind, ...]
    count: int
    least: float
    most: float
    end: float
    sign: float
    last: Stage

    def sizes(self, kind: Kind) -> tuple[Array, Array]:
        """Bounds on the absolute values of a kind's pixels and of its neurons."""
        end = abs(self.end) if np.isfinite(self.end) else 0.0
        pixels = np.maximum(np.maximum(abs(kind.low), abs(kind.high)), end) + self.most
        return pixels, abs(kind.weight) @ pixels + abs(kind.bias)


def windows_of(network: Network, piece: AbstractPiece) -> Windows | None:
    """The windows of a network; None if it has other layers, or neurons that see too much."""
    shift, stages = piece.shift, stages_of(network)
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    if shift is None or len(relus) != 1 or relus[0].linear is not None:
        return None
    first, last = stages
    is_bare = network.layers[0] is relus[0]  # the checker has windows of layers alone
    if is_bare or len(first.layers) > 1 or first.layers[0].fan_in > MOST_PIXELS:
        return None
    if len(last.layers) > 1 or last.layers[0].out_size > _MOST_TERMS:
        return None
    least, most = shift.span
    sign = 1.0 if least >= 0 else -1.0
    ends = sign * piece.domain.low, sign * piece.domain.high
    low, high = np.minimum(*ends), np.maximum(*ends)
    found = _grouped(sign * first.layers[0].matrix, first.layers[0].flat_bias + 0.0, low, high)
    if not 0 < len(found) <= _MOST_WINDOWS or not all(map(_is_tame, found)):
        return None
    kinds = _kinds(found)
    if len(kinds) > _MOST_KINDS:
        return None
    end = np.inf if not shift.clips else max(sign * piece.domain.lower, sign * piece.domain.upper)
    weak, strong = sorted((sign * least, sign * most))
    return Windows(kinds, len(found), weak, strong, end, sign, last)


def _grouped(matrix: sparse.csr_array, bias: Array, low: Array, high: Array) -> list[Kind]:
    """Each window as a kind of its own, in the order of their first neurons."""
    matrix = sparse.csr_array(matrix)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    groups: dict[tuple[int, ...], list[int]] = {}
    starts, columns = matrix.indptr.tolist(), matrix.indices.tolist()
    for unit, (begin, stop) in enumerate(itertools.pairwise(starts)):
        if stop > begin:  # a constant neuron is the same in both copies
            groups.setdefault(tuple(columns[begin:stop]), []).append(unit)
    found = []
    for number, (seen, members) in enumerate(groups.items()):
        pixels, units = np.array(seen), np.array(members)
        entries = np.array([matrix.data[starts[unit] : starts[unit + 1]] for unit in members])
        found.append(
            Kind(
                np.array([number]),
                pixels[None],
                units[None],
                entries,
                bias[units],
                low[pixels],
                high[pixels],
            )
        )
    return found


def _is_tame(window: Kind) -> bool:
    """Whether rounding errors are as small as the bound takes them for: few terms, no underflow."""
    return len(window.bias) <= _MOST_TERMS and bool((abs(window.weight) >= _LEAST_WEIGHT).all())


def _kinds(windows: Sequence[Kind]) -> tuple[Kind, ...]:
    """Join windows that are equal, but for their place."""
    same: dict[tuple[bytes, ...], list[Kind]] = {}
    for one in windows:
        parts = one.weight, one.bias, one.low, one.high
        same.setdefault(tuple(part.tobytes() for part in parts), []).append(one)
    return tuple(
        Kind(
            *(np.concatenate([getattr(one, part) for one in own]) for part in _OF_EACH),
            *(getattr(own[0], part) for part in _OF_ALL),
        )
        for own in same.values()
    )


_OF_EACH = ("numbers", "pixels", "units")
_OF_ALL = ("weight", "bias", "low", "high")
