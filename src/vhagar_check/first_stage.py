"""The layers in front of the first ReLU layer as one: its weights and biases, and their errors.

A normalisation of the inputs or of the first layer's outputs is a layer of its own here, and the
search has folded it into another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar_check.exact import Exact
from vhagar_check.layers import UNDERFLOW, Floats, Linear, Mask, gamma


@dataclass(frozen=True, eq=False)
class First:
    """The layers of the first stage, of which there is at least one."""

    layers: tuple[Linear, ...]

    @property
    def in_size(self) -> int:
        return self.layers[0].in_size

    @property
    def widest(self) -> int:
        """The most entries in front of a layer or behind one."""
        return max(max(layer.in_size, layer.out_size) for layer in self.layers)

    @property
    def room(self) -> float:
        """The error of weights and biases by rounding, relative to their sizes."""
        return sum(gamma(layer.terms) for layer in self.layers)

    def rows(self, units: Floats) -> tuple[Floats, Floats, Floats, Mask]:
        """What unit vectors become: the weights, their absolute values before anything cancels,
        bounds on what these lost to underflow, and where there is any way through the layers.

        The first layer multiplies by 1 and by 0, and loses nothing.
        """
        first, *others = self.layers
        values, size = first.forward(first.kernel, units), first.forward(first.size, units)
        lost, ways = np.zeros_like(size), size != 0
        for layer in others:
            values, size = layer.forward(layer.kernel, values), layer.forward(layer.size, size)
            lost = _lost(layer, lost)
            # Not by the products, which may underflow.
            passes = (layer.size != 0).astype(np.float64)
            ways = layer.forward(passes, ways.astype(np.float64)) > 0
        return values, size, lost, ways

    @property
    def products(self) -> int:
        """How many products a vector takes on its way through the layers, at most."""
        return sum(layer.terms * layer.out_size for layer in self.layers)

    def cancels(self, pixel: int) -> Mask:
        """Where the weights of an input are exactly 0, in rational arithmetic."""
        inputs = np.zeros(self.in_size)
        nothing = Exact.of(inputs)
        inputs[pixel] = 1.0
        unit = Exact.of(inputs)
        for layer in self.layers:
            unit, nothing = layer.exact_forward(unit), layer.exact_forward(nothing)
        weight = unit + Exact(-nothing.numerators, nothing.denominator)
        return np.asarray(weight.numerators == 0, dtype=np.bool_)

    def bias(self) -> tuple[Floats, Floats]:
        """The biases and their absolute values before anything cancels, with so much added that
        what underflow takes is within their relative error."""
        first, *others = self.layers
        value, size = first.bias + 0.0, abs(first.bias)  # no number is -0
        lost = np.zeros_like(size)
        for layer in others:
            (value,) = layer.forward(layer.kernel, value[None]) + layer.bias
            (size,) = layer.forward(layer.size, size[None]) + abs(layer.bias)
            (lost,) = _lost(layer, lost[None])
        return value, size + 2.0**60 * lost


def _lost(layer: Linear, before: Floats) -> Floats:
    """Bounds on what underflow has taken behind a layer, from those in front of it."""
    passed: Floats = layer.forward(layer.size, before)
    return 1.01 * passed + UNDERFLOW * (layer.terms + 1)
