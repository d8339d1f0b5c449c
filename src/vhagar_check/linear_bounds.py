"""Linear bounds on leads of classes over boxes of inputs, from the input to the scores.

Every value of the network lies between two functions that are linear in `u`, where the input of a
box is `centre + radius u` and every `|u| <= 1`. Coefficients are `(boxes, entries + 1, values)`,
the constant last. `docs/certificate.md` states the rules ("Boxes of inputs").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.intervals import Pulled
from vhagar_check.layers import HALF_ULP, TINY, Floats, Mask, Network, gamma

# Most entries of a stage's matrix.
_MOST_ENTRIES = 2**24


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of inputs, `(boxes, entries)`."""

    low: Floats
    high: Floats

    @property
    def centre(self) -> Floats:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> Floats:
        """Half the width, rounded up, so that `centre + radius u` covers the whole box."""
        middle = self.centre
        widest = np.maximum(self.high - middle, middle - self.low)
        return np.asarray(widest * (1 + 8 * HALF_ULP) + TINY)


@dataclass(frozen=True, eq=False)
class _Stage:
    """The matrix and the constant of a stage, and bounds on their errors."""

    rows: Floats
    constant: Floats
    rows_error: Floats
    constant_error: Floats

    @classmethod
    def of(cls, network: Network, k: int, rows: Floats) -> _Stage:
        layers = network.stages[k]
        if not layers:
            nothing = np.zeros(len(rows))
            return cls(rows, nothing, np.zeros_like(rows), nothing)
        if rows.size > _MOST_ENTRIES or len(rows) * layers[0].in_size > _MOST_ENTRIES:
            raise Rejected("a proof by boxes is about a network that is too wide for it")
        pulled = Pulled.through(layers, rows)
        widest = max(layer.out_size for layer in layers)
        share = gamma(widest + 2 * len(layers) + 8)
        share += sum(gamma(2 * layer.terms + 8) for layer in layers)
        off = 1.02 * share * pulled.bias_size + TINY
        return cls(pulled.rows, pulled.constant, pulled.room(layers), off)

    def through(self, below: Floats, above: Floats) -> tuple[Floats, Floats]:
        """Pass the linear bounds on the stage's inputs through to its outputs."""
        up, down = np.maximum(self.rows, 0.0), np.minimum(self.rows, 0.0)
        over = above @ up.T + below @ down.T
        under = below @ up.T + above @ down.T
        size = np.maximum(abs(above).sum(axis=1), abs(below).sum(axis=1)) * (1 + 1e-9)
        terms = 2 * self.rows.shape[1] + above.shape[1] + 16
        off = gamma(terms) * (size @ abs(self.rows).T + abs(self.constant))
        off = 1.01 * (off + size @ self.rows_error.T + self.constant_error) + TINY
        over[:, -1] += self.constant + off
        under[:, -1] += self.constant - off
        over[:, -1] += 4 * HALF_ULP * abs(over[:, -1])
        under[:, -1] -= 4 * HALF_ULP * abs(under[:, -1])
        return under, over


class LinearBounds:
    """The stages of a network, for boxes of inputs."""

    def __init__(self, network: Network) -> None:
        self._network = network
        sizes = network.relu_sizes_and_classes[:-1]
        self._hidden = [_Stage.of(network, k, np.eye(size)) for k, size in enumerate(sizes)]

    def above(self, boxes: Boxes, leads: Floats) -> Floats:
        """Functions above `leads @ scores`, `(boxes, entries + 1, leads)`."""
        count, entries = boxes.low.shape
        below = np.zeros((count, entries + 1, entries))
        diagonal = np.arange(entries)
        below[:, diagonal, diagonal] = boxes.radius
        below[:, -1] = boxes.centre
        over = below
        for k, stage in enumerate(self._hidden):
            below, over = stage.through(below, over)
            below, over = _rectified(below, over, self._network.linear_units(k))
        last = _Stage.of(self._network, len(self._hidden), leads)
        return last.through(below, over)[1]


def _rectified(below: Floats, above: Floats, linear: Mask | None) -> tuple[Floats, Floats]:
    """Pass linear bounds through a ReLU layer: the chord above, a line through 0 below."""
    low, high = extremes(above)
    slope = _slope(low, high)
    offset = np.maximum(-slope * low, (1 - slope) * high) * (1 + 16 * HALF_ULP) + TINY
    offset = np.where(low >= 0, 0.0, np.maximum(offset, 0.0))
    lean = _slope(*extremes(below))
    if linear is not None:
        slope[:, linear], offset[:, linear], lean[:, linear] = 1.0, 0.0, 1.0
    above, below = above * slope[:, None], below * lean[:, None]
    above[:, -1] += offset
    return below, above


def _slope(low: Floats, high: Floats) -> Floats:
    chord = high / np.where(high > low, high - low, 1.0)
    return np.clip(np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, chord)), 0.0, 1.0)


def extremes(functions: Floats) -> tuple[Floats, Floats]:
    """The least and the largest value `(boxes, values)` of functions, rounded outward."""
    constant, reach = functions[:, -1], abs(functions[:, :-1]).sum(axis=1)
    reach = reach + gamma(functions.shape[1] + 4) * (reach + abs(constant)) + TINY
    return constant - reach, constant + reach


def largest_of_pairs(
    first: Floats, second: Floats, boxes: Boxes, images: Boxes, limit: Floats
) -> Floats:
    """The largest of `first(x) + second(x_p)` `(boxes,)`, with `|x_p - x| <= limit` per entry.

    The functions are `(boxes, entries + 1)`, each in the `u` of its own boxes. The contribution of
    an entry is largest at a corner of the set of its pairs, with one of the two at an end of its
    range.
    """
    r, s = boxes.radius, images.radius
    a, b = first[:, :-1] / r, second[:, :-1] / s
    shift = boxes.centre - images.centre
    best = np.full(a.shape, -np.inf)
    for v in (-r, r):
        for w in (np.maximum(-s, v + shift - limit), np.minimum(s, v + shift + limit)):
            best = np.maximum(best, a * v + b * w)
    for w in (-s, s):
        for v in (np.maximum(-r, w - shift - limit), np.minimum(r, w - shift + limit)):
            best = np.maximum(best, a * v + b * w)
    reach = abs(boxes.centre) + abs(images.centre) + r + s + limit
    size = ((abs(a) + abs(b)) * reach).sum(axis=1) + abs(first[:, -1]) + abs(second[:, -1])
    found = best.sum(axis=1) + first[:, -1] + second[:, -1]
    return np.asarray(found + gamma(4 * a.shape[1] + 32) * size + TINY * (1 + size))
