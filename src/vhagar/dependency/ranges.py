"""The concrete bounds of both copies, and the relations that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vhagar.dependency.relation import Relations, Rule
from vhagar.errors import InvalidInput
from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation import Bounds, layer_bounds, network_bounds

# Bounds on the outputs of each layer, in the first copy and in the second.
ConcreteBounds = tuple[Sequence[Bounds], Sequence[Bounds]]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Bounds on the input (index 0) and on the outputs of layer i (index i + 1), in both copies."""

    first: tuple[Bounds, ...]
    second: tuple[Bounds, ...]

    def meet(self, bounds: ConcreteBounds) -> Ranges:
        """Intersect with other bounds on the outputs of each layer."""
        first, second = (
            (own[0], *(_both(one, two) for one, two in zip(own[1:], given, strict=True)))
            for own, given in zip((self.first, self.second), bounds, strict=True)
        )
        return Ranges(first, second)

    @property
    def finite(self) -> bool:
        """Whether all bounds are finite, as a solver needs them."""
        every = (*self.first, *self.second)
        return all(bool(np.isfinite(bounds.magnitude).all()) for bounds in every)

    def compared(self, position: int, pairs: Relations) -> Relations:
        """Order pairs whose ranges do not overlap."""
        one, two = self.first[position], self.second[position]
        can_rise = two.upper[pairs.second] > one.lower[pairs.first]
        can_fall = one.upper[pairs.first] > two.lower[pairs.second]
        return pairs.restricted(can_rise, can_fall, Rule.BOUNDS)


def ranges_of(network: Network, piece: AbstractPiece, bounds: ConcreteBounds | None) -> Ranges:
    """Check the given bounds, or compute them by interval arithmetic."""
    if piece.domain.size != network.input_size:
        raise InvalidInput(
            f"the perturbation is over {piece.domain.size} input values but the network takes "
            f"{network.input_size}; build its pieces over the network's input shape"
        )
    box, image = Bounds.over(piece.domain), Bounds(*piece.image_box)
    if bounds is None:
        bounds = network_bounds(network, box), network_bounds(network, image)
    first, second = (
        (inputs, *_checked(network, given, copy))
        for inputs, given, copy in zip((box, image), bounds, ("first", "second"), strict=True)
    )
    return Ranges(first, second)


def _both(one: Bounds, two: Bounds) -> Bounds:
    return Bounds(np.maximum(one.lower, two.lower), np.minimum(one.upper, two.upper))


def _checked(network: Network, given: Sequence[Bounds], copy: str) -> tuple[Bounds, ...]:
    if len(given) != len(network.layers):
        raise InvalidInput(
            f"the {copy} copy has concrete bounds for {len(given)} layers but the network has "
            f"{len(network.layers)}; give the bounds of what leaves each layer"
        )
    found = []
    for position, (layer, bounds) in enumerate(zip(network.layers, given, strict=True)):
        where = f"the concrete bounds of layer {position} in the {copy} copy"
        if not bounds.lower.shape == bounds.upper.shape == (layer.out_size,):
            raise InvalidInput(
                f"{where} have shapes {bounds.lower.shape} and {bounds.upper.shape}, "
                f"but the layer has {layer.out_size} values"
            )
        if not (bounds.lower <= bounds.upper).all():  # NaN fails as well
            raise InvalidInput(f"{where} hold NaN or a lower bound above the upper bound")
        found.append(layer_bounds(layer, bounds) if isinstance(layer, Relu) else bounds)
    return tuple(found)
