"""Interval arithmetic through stages, and the directions in which values can change.

Bounding a stage of several layers layer by layer is loose: terms that a join adds may cancel. So
the bounds come from the rows of the stage's whole matrix, which are unit rows pulled back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vhagar_check.layers import (
    HALF_ULP,
    TINY,
    UNDERFLOW,
    Floats,
    Linear,
    Mask,
    Network,
    Scale,
    gamma,
    interval,
)

Box = tuple[Floats, Floats]
# Entries of a batch of coefficients: few enough for a cache.
MOST_ENTRIES = 2**17


def entering(network: Network, k: int, boxes: list[Box]) -> list[Box]:
    """Boxes of ReLU layer k's pre-activations, from boxes of stage k's inputs."""
    layers = network.stages[k]
    if _one_by_one(layers):
        return [_through_layers(layers, *box) for box in boxes]
    found: list[list[Box]] = [[] for _ in boxes]
    for rows in _unit_rows(network, k):
        whole = Pulled.through(layers, rows)
        for parts, (low, high) in zip(found, boxes, strict=True):
            parts.append(whole.range(layers, low, high))
    return [
        (np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts]))
        for parts in found
    ]


def leaving(network: Network, k: int, box: Box) -> Box:
    """The box of ReLU layer k's outputs, from the box of its pre-activations."""
    linear = network.linear_units(k)
    low, high = (np.maximum(side, 0.0) for side in box)
    if linear is None:
        return low, high
    return np.where(linear, box[0], low), np.where(linear, box[1], high)


def _one_by_one(layers: tuple[Linear, ...]) -> bool:
    """Whether a stage can be bounded layer by layer: at most one layer mixes entries."""
    mixing = [layer for layer in layers if not isinstance(layer, Scale)]
    return len(mixing) <= 1 and not any(layer.joins for layer in mixing)


def _through_layers(layers: tuple[Linear, ...], low: Floats, high: Floats) -> Box:
    for layer in layers:
        low, high = interval(layer, low, high)
    return low, high


def _unit_rows(network: Network, k: int) -> Iterator[Floats]:
    layers, size = network.stages[k], network.relu_sizes_and_classes[k]
    widest = max([size, *(max(layer.in_size, layer.out_size) for layer in layers)])
    rows = max(1, MOST_ENTRIES // widest)
    for begin in range(0, size, rows):
        yield np.eye(min(rows, size - begin), size, begin)


@dataclass(frozen=True, eq=False)
class Pulled:
    """Rows of coefficients on a stage's outputs, pulled back to its inputs."""

    rows: Floats
    constant: Floats
    spreads: list[Floats]  # the rows on each layer's input, computed with absolute values
    bias_size: Floats  # the sum of the absolute values that were added to the constant
    underflow: Floats  # a bound on what the rows lost to underflow

    @classmethod
    def through(cls, layers: tuple[Linear, ...], rows: Floats) -> Pulled:
        constant, bias_size = np.zeros(len(rows)), np.zeros(len(rows))
        spread, spreads = abs(rows), []
        underflow = np.zeros(rows.shape[1])
        for layer in reversed(layers):
            constant = constant + rows @ layer.bias
            bias_size = bias_size + spread @ abs(layer.bias)
            rows = layer.backward(layer.kernel, rows)
            spread = layer.backward(layer.size, spread)
            spreads.append(spread)
            underflow = 1.01 * layer.backward(layer.size, underflow[None])[0]
            underflow = underflow + UNDERFLOW * (layer.terms + 1)
        return cls(rows, constant, spreads[::-1], bias_size, underflow)

    def range(self, layers: tuple[Linear, ...], low: Floats, high: Floats) -> Box:
        """The least and the largest values of the rows over a box of the stage's inputs."""
        size = np.maximum(abs(low), abs(high))
        room = gamma(len(low) + 16) * (abs(self.rows) @ size)
        for layer, spread in zip(layers, self.spreads, strict=True):
            room = room + gamma(2 * layer.terms + 8) * (spread @ size)
            room = room + UNDERFLOW * (layer.terms + 1) * size.sum()
            size = _reached(layer, size)
        widest = max([0, *(layer.out_size for layer in layers)])
        room = room + gamma(widest + 2 * len(layers) + 8) * self.bias_size
        room = 1.01 * room + 8 * HALF_ULP * abs(self.constant) + TINY
        room = np.where(self._is_nothing(layers, low, high), 0.0, room)
        up, down = np.maximum(self.rows, 0.0), np.minimum(self.rows, 0.0)
        return (
            self.constant + up @ low + down @ high - room,
            self.constant + up @ high + down @ low + room,
        )

    def _is_nothing(self, layers: tuple[Linear, ...], low: Floats, high: Floats) -> Mask:
        """Mark rows that are exactly 0: of one layer, with weights on inputs that are 0 only.

        Their rows on its outputs are units, or differences of two, so that no product underflows
        and a difference is 0 only if its two numbers are equal.
        """
        if len(layers) != 1 or layers[0].joins:
            return np.zeros(len(self.rows), dtype=np.bool_)
        live = ((low != 0) | (high != 0)).astype(np.float64)
        return np.asarray((abs(self.rows) @ live == 0) & (self.constant == 0))

    def room(self, layers: tuple[Linear, ...]) -> Floats:
        """A bound on how far rounding can have moved each entry of the rows."""
        share = sum(gamma(2 * layer.terms + 8) for layer in layers)
        return np.asarray(1.01 * share * self.spreads[0] + self.underflow + TINY)


def _reached(layer: Linear, size: Floats) -> Floats:
    """Bounds on the absolute outputs of a layer, from bounds on its absolute inputs."""
    (reached,) = layer.forward(layer.size, size[None])
    return np.asarray((reached + abs(layer.bias)) * (1 + 1e-9) + TINY)


def directions_of_change(network: Network, k: int, rises: Mask, falls: Mask) -> tuple[Mask, Mask]:
    """Find which outputs of a stage can rise and fall, by the signs of its weights.

    Layer by layer this is free of rounding. If several layers mix entries, the signs of the whole
    matrix tell more, as far as they are certain.
    """
    layers = network.stages[k]
    up, down = _by_layers(layers, rises, falls)
    if _one_by_one(layers):
        return up, down
    found = [_by_rows(layers, rows, rises, falls) for rows in _unit_rows(network, k)]
    return (
        up & np.concatenate([part for part, _ in found]),
        down & np.concatenate([part for _, part in found]),
    )


def _by_layers(layers: tuple[Linear, ...], rises: Mask, falls: Mask) -> tuple[Mask, Mask]:
    for layer in layers:
        up, down = rises.astype(np.float64)[None], falls.astype(np.float64)[None]
        positive = (layer.kernel > 0).astype(np.float64)
        negative = (layer.kernel < 0).astype(np.float64)
        rises = (layer.forward(positive, up) + layer.forward(negative, down))[0] > 0
        falls = (layer.forward(positive, down) + layer.forward(negative, up))[0] > 0
    return rises, falls


def _by_rows(
    layers: tuple[Linear, ...], rows: Floats, rises: Mask, falls: Mask
) -> tuple[Mask, Mask]:
    pulled = Pulled.through(layers, rows)
    reaches = rows
    for layer in reversed(layers):
        # Count paths instead of multiplying weights: underflow cannot hide a path.
        ways = (layer.kernel != 0).astype(np.float64)
        reaches = (layer.backward(ways, reaches) > 0).astype(np.float64)
    connected, room = reaches > 0, pulled.room(layers)
    positive, negative = connected & (pulled.rows > -room), connected & (pulled.rows < room)
    up = (positive & rises) | (negative & falls)
    down = (positive & falls) | (negative & rises)
    return np.asarray(up.any(axis=1)), np.asarray(down.any(axis=1))


def confidence_interval(
    network: Network, low: Floats, high: Floats, label: int
) -> tuple[float, float]:
    """Bounds on the confidence in a class over a box of inputs."""
    box = low, high
    for k in range(len(network.stages) - 1):
        (box,) = entering(network, k, [box])
        box = leaving(network, k, box)
    least, most = _margins(network, *box, label)
    return float(least.min()), float(most.min())


def steepness(network: Network, label: int) -> float:
    """By how much at most the confidence in a class changes for each unit that the inputs do."""
    change = np.ones(math.prod(network.input_shape))
    with np.errstate(all="ignore"):
        for layer in itertools.chain.from_iterable(network.stages):
            (change,) = layer.forward(layer.size, change[None]) * (1 + 1e-9) + TINY
    return float((change[label] + np.delete(change, label).max()) * (1 + 1e-9))


def score_size(network: Network, low: Floats, high: Floats) -> float:
    """A bound on the absolute value of every score over a box of inputs."""
    box = low, high
    for k in range(len(network.stages)):
        (box,) = entering(network, k, [box if k == 0 else leaving(network, k - 1, box)])
    return float(max(abs(side).max() for side in box))


def _margins(network: Network, low: Floats, high: Floats, label: int) -> Box:
    """Bounds on the lead of a class over each other class, from the last stage's inputs."""
    classes, layers = network.classes, network.stages[-1]
    others = [j for j in range(classes) if j != label]
    lead = -np.eye(classes)[others]
    lead[:, label] = 1.0
    return Pulled.through(layers, lead).range(layers, low, high)
