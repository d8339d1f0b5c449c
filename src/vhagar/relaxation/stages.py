"""A network as linear stages with a ReLU layer between each two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network import AbstractLinear, Affine, Network


@dataclass(frozen=True, eq=False)
class Stage:
    """The linear layers between two ReLU layers (or the input, or the scores).

    They are the network's own layers, or the same ones in torch (`first_order.torch_layers`): all
    have `flat_bias`, `pull`, `absolute` and `forward`.
    """

    layers: tuple[Any, ...]

    @property
    def in_size(self) -> int:
        return int(self.layers[0].in_size)

    @property
    def out_size(self) -> int:
        return int(self.layers[-1].out_size)

    def forward(self, values: Any) -> Any:
        """Map inputs `(rows, in_size)` to outputs `(rows, out_size)`, biases included."""
        for layer in self.layers:
            values = layer.forward(values)
        return values

    def matrix(self) -> sparse.csr_array:
        """The product of the layers' matrices; rounded, so for proposals only."""
        product = self.layers[0].matrix
        for layer in self.layers[1:]:
            product = sparse.csr_array(layer.matrix @ product)
        return product

    def bias(self) -> Array:
        """The composed bias; rounded where there are several layers."""
        return np.asarray(self.forward(np.zeros((1, self.in_size)))[0])

    def magnitudes(self, entering: Array) -> tuple[Array, ...]:
        """Bounds on the absolute inputs of each layer, from those on the stage's input."""
        found = [entering]
        for layer in self.layers[:-1]:
            (reached,) = layer.absolute.times(found[-1][None])
            found.append((reached + abs(layer.flat_bias)) * (1 + 1e-9))
        return tuple(found)


# Bounds on the absolute inputs of each layer of each stage, for both copies.
Magnitudes = Sequence[tuple[Any, ...]]


def magnitudes_of(stages: Sequence[Stage], entering: Sequence[Array]) -> Magnitudes:
    """The magnitudes of every stage's layers; `entering` bounds the inputs of the stages."""
    return [stage.magnitudes(size) for stage, size in zip(stages, entering, strict=True)]


def stages_of(network: Network) -> tuple[Stage, ...]:
    """The network as linear stages with a ReLU layer between each two."""
    groups: list[list[AbstractLinear]] = [[]]
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            groups[-1].append(layer)
        else:
            groups.append([])
    filled = [
        _identity(network, k) if not group else tuple(group) for k, group in enumerate(groups)
    ]
    return tuple(Stage(group) for group in filled)


def _identity(network: Network, position: int) -> tuple[AbstractLinear, ...]:
    """An identity for a place without linear layers: between two ReLU layers, or at an end."""
    sizes = [network.input_size]
    sizes += [layer.out_size for layer in network.layers if not isinstance(layer, AbstractLinear)]
    size = sizes[position]
    return (Affine(np.eye(size), np.zeros(size), (size,), (size,)),)
