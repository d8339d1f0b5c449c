"""A network behind a clip of its input, written as two layers of ReLUs.

`clip(y) = min(max(y, lower), upper)`, pixel by pixel. Inputs in the range pass unchanged, so the
network itself is still what it was for them. Behind the clip every engine treats a clipped
perturbation exactly, whatever it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from vhagar.network.layers import AbstractLayer, Array, Mask, Relu, Shape, SparseAffine
from vhagar.network.network import Network


def _nowhere() -> Mask:
    return np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class ClippedNetwork(Network):
    """`given` behind a clip: `below` and `above` `(size,)` mark the pixels that are clipped."""

    given: Network | None = None
    below: Mask = field(default_factory=_nowhere)
    above: Mask = field(default_factory=_nowhere)

    @property
    def hidden_neurons(self) -> int:
        """Those that can switch."""
        assert self.given is not None
        return self.given.hidden_neurons + int(self.below.sum()) + int(self.above.sum())


def clipped_input(
    network: Network, lower: float, upper: float, below: Mask, above: Mask
) -> ClippedNetwork:
    """The network with these pixels clipped to `[lower, upper]` from below and from above.

    In real arithmetic it is exactly that: every shift is undone by the same number.
    """
    layers: list[AbstractLayer] = []
    shape, width = network.input_shape, upper - lower
    # What is not clipped is lifted far above 0, where a ReLU changes nothing.
    floor = np.where(below, -lower, width - lower)
    ceiling = np.where(above, upper, upper + width)
    if below.any():
        layers += [_scaled(1.0, floor, shape), Relu(shape)]
    if above.any():
        if below.any() and floor.any():
            layers.append(_scaled(1.0, -floor, shape))
        layers += [_scaled(-1.0, ceiling, shape), Relu(shape), _scaled(-1.0, ceiling, shape)]
    elif floor.any():
        layers.append(_scaled(1.0, -floor, shape))
    return ClippedNetwork(
        (*layers, *network.layers),
        shape,
        network.name,
        network.model,
        network.file,
        network.convention,
        network.notes,
        given=network,
        below=below,
        above=above,
    )


def given_network(network: Network) -> Network:
    """What is behind the clip, if there is one."""
    return network.given or network if isinstance(network, ClippedNetwork) else network


def _scaled(factor: float, bias: Array, shape: Shape) -> SparseAffine:
    weight = sparse.csr_array(factor * sparse.eye_array(len(bias), format="csr"))
    return SparseAffine(weight, bias, shape, shape)
