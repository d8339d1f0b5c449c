"""Linear bounds on the scores over many boxes of inputs at once, in one forward pass.

Every value of the network is bounded by two linear functions of the input. A linear layer uses the
upper or the lower one according to the signs of its weights; a ReLU is bounded by its chord above
and by a line through 0 below. If the input has few entries, such functions have few coefficients,
and thousands of boxes are bounded in a second. Many small boxes give tighter bounds than one large
box that is bounded well.

The input of a box is `centre + radius * u` with all `abs(u) <= 1`, and the functions are linear in
`u`: arrays `(values, entries + 1, boxes)`, the constant last. All arithmetic is float64; bounds on
the rounding errors are added to the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.network import AbstractLinear, Network, Relu
from vhagar.perturbation.domain import UNDERFLOW
from vhagar.relaxation.interval import HALF_ULP


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of inputs, each field `(boxes, entries)`; the radius is rounded up."""

    lower: Array
    upper: Array

    @cached_property
    def centre(self) -> Array:
        return (self.lower + self.upper) / 2

    @cached_property
    def radius(self) -> Array:
        widest = np.maximum(self.upper - self.centre, self.centre - self.lower)
        return widest * (1 + 4 * HALF_ULP) + UNDERFLOW

    def __len__(self) -> int:
        return len(self.lower)


class ForwardBounds:
    """Passes boxes of inputs through a network, whose layers it holds as matrices."""

    def __init__(self, network: Network) -> None:
        self._layers: list[_Linear | Mask | None] = []
        for layer in network.layers:
            if isinstance(layer, AbstractLinear):
                self._layers.append(_Linear(layer.matrix.toarray(), layer.flat_bias))
            else:
                assert isinstance(layer, Relu)
                linear = layer.linear
                self._layers.append(None if linear is None else np.asarray(linear).reshape(-1))
        self.sensitivity = self._sensitivity()

    def _sensitivity(self) -> Array:
        """How much each input entry can matter: products of absolute weights, for ranking only."""
        found = np.eye(self._matrices[0].weight.shape[1])
        for matrix in self._matrices:
            found = abs(matrix.weight) @ found
            found = found / max(float(found.max()), UNDERFLOW)
        return np.asarray(found.sum(axis=0))

    @property
    def _matrices(self) -> list[_Linear]:
        return [layer for layer in self._layers if isinstance(layer, _Linear)]

    def upper(self, boxes: Boxes, leads: Array) -> Array:
        """Linear functions above `leads @ scores`, `(leads, entries + 1, boxes)`.

        Every row of `leads` has one 1 and one -1: the lead of one class over another.
        """
        last = self._layers[-1]
        # Subtracting two rows of weights rounds every entry once; `_Linear.unit` allows for that.
        final = None
        if isinstance(last, _Linear):
            final = _Linear(leads @ last.weight, leads @ last.bias)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            state = _Between.of_inputs(boxes)
            for layer in self._layers[:-1] if final is not None else self._layers:
                if isinstance(layer, _Linear):
                    state = state.through(layer)
                else:
                    state = state.rectified(layer)
            final = _Linear(leads, np.zeros(len(leads))) if final is None else final
            return state.through(final).above


class _Linear:
    """A linear layer, with the parts of its matrix that the bounds need."""

    def __init__(self, weight: Array, bias: Array) -> None:
        self.weight, self.bias = weight, bias
        self.both = np.concatenate([np.maximum(weight, 0.0), np.minimum(weight, 0.0)], axis=1)
        self.absolute = abs(weight)
        # The rounding of sums of two products per input, of the scaling before, and of the bias.
        self.unit = 1.1 * HALF_ULP * (2 * weight.shape[1] + 16)


@dataclass(frozen=True, eq=False)
class _Between:
    """Values between two linear functions of `u`."""

    below: Array
    above: Array

    @classmethod
    def of_inputs(cls, boxes: Boxes) -> _Between:
        count, entries = boxes.lower.shape
        found = np.zeros((entries, entries + 1, count))
        diagonal = np.arange(entries)
        found[diagonal, diagonal] = boxes.radius.T
        found[:, -1] = boxes.centre.T
        return cls(found, found)

    def through(self, layer: _Linear) -> _Between:
        """Bounds on the outputs of a linear layer."""
        entering, terms, boxes = self.above.shape
        # At least the largest absolute value of either function: the sum of its coefficients.
        size = np.maximum(abs(self.above).sum(axis=1), abs(self.below).sum(axis=1))
        stacked = np.concatenate([self.above, self.below]).reshape(2 * entering, -1)
        above = (layer.both @ stacked).reshape(-1, terms, boxes)
        swapped = np.concatenate([self.below, self.above]).reshape(2 * entering, -1)
        below = (layer.both @ swapped).reshape(-1, terms, boxes)
        error = layer.unit * (layer.absolute @ size + abs(layer.bias)[:, None])
        error += UNDERFLOW * (2 * entering + 16) * terms
        above[:, -1] += layer.bias[:, None] + error
        below[:, -1] += layer.bias[:, None] - error
        # The last additions were rounded, too.
        above[:, -1] += 2 * HALF_ULP * abs(above[:, -1])
        below[:, -1] -= 2 * HALF_ULP * abs(below[:, -1])
        return _Between(below, above)

    def rectified(self, linear: Mask | None) -> _Between:
        """Bounds on the outputs of a ReLU layer; `linear` units pass their inputs through."""
        low, high = ranges(self.above)
        # The chord over the range of the function above.
        slope = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / (high - low)))
        slope = np.clip(slope, 0.0, 1.0)
        offset = np.maximum(np.maximum(-slope * low, (1 - slope) * high), 0.0)
        offset = np.where(low >= 0, 0.0, offset * (1 + 8 * HALF_ULP) + 4 * UNDERFLOW)
        # Any slope in [0, 1] is valid below.
        low, high = ranges(self.below)
        lean = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / (high - low)))
        lean = np.clip(lean, 0.0, 1.0)
        if linear is not None:
            slope[linear], offset[linear], lean[linear] = 1.0, 0.0, 1.0
        above, below = self.above * slope[:, None], self.below * lean[:, None]
        above[:, -1] += offset
        return _Between(below, above)


def ranges(functions: Array) -> tuple[Array, Array]:
    """Bounds on the values of functions `(values, entries + 1, boxes)`, rounded outward."""
    constant = functions[:, -1]
    reach = abs(functions[:, :-1]).sum(axis=1)
    reach = reach + HALF_ULP * (functions.shape[1] + 4) * (reach + abs(constant)) + UNDERFLOW
    return constant - reach, constant + reach


def largest_over_pairs(
    first: Array, second: Array, boxes: Boxes, images: Boxes, limit: Array
) -> Array:
    """Upper bounds `(boxes,)` on `first(x) + second(x_p)`, `x` in a box and `x_p` in its image box.

    The functions are `(entries + 1, boxes)`, each linear in the `u` of its own box; `x_p - x` is at
    most `limit` `(entries,)` in absolute value.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r, r_p = boxes.radius.T, images.radius.T
        a, b = first[:-1] / r, second[:-1] / r_p
        # With `x` at its centre plus `v` and `x_p` at its own plus `w`, `w - v` is between these.
        apart = (boxes.centre - images.centre).T
        least, most = apart - limit[:, None], apart + limit[:, None]
        best = np.full(a.shape, -np.inf)
        for v in (-r, r):
            for w in (np.maximum(-r_p, v + least), np.minimum(r_p, v + most)):
                np.maximum(best, a * v + b * w, out=best)
        for w in (-r_p, r_p):
            for v in (np.maximum(-r, w - most), np.minimum(r, w - least)):
                np.maximum(best, a * v + b * w, out=best)
        reach = abs(boxes.centre).T + abs(images.centre).T + r + r_p + limit[:, None]
        size = ((abs(a) + abs(b)) * reach).sum(axis=0) + abs(first[-1]) + abs(second[-1])
        found = best.sum(axis=0) + first[-1] + second[-1]
        return np.asarray(found + HALF_ULP * (4 * len(a) + 32) * size + UNDERFLOW * (1 + size))
