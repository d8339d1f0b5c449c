"""A clip of the perturbed image, moved into the network as layers of ReLUs.

A piece that may lead out of the input range says which of its pixels are to be clipped, and is
itself the map before the clip. The network behind `clip(y) = min(max(y, lower), upper)` takes that
image as it is, so every engine treats a clipped map exactly. Inputs in the range pass unchanged.

Brightness, contrast and L-infinity balls do not come here: the sets of their pixels' pairs are
known with the clip (`perturbation/scalar.py`, `perturbation/linf_ball.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.network import AbstractLayer, Network, Relu, SparseAffine
from vhagar.problem import Problem
from vhagar.reduction.base import AbstractReduction, AbstractRestore, Point, Reduced

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Clip:
    """`below` and `above` `(size,)` mark the pixels clipped to `lower` and to `upper`."""

    lower: float
    upper: float
    below: Mask
    above: Mask

    def __bool__(self) -> bool:
        """Whether anything is clipped."""
        return bool(self.below.any() or self.above.any())

    def __call__(self, image: Array) -> Array:
        """What the network as given sees of an image `(..., size)` that a piece has made."""
        low = np.where(self.below, self.lower, -np.inf)
        return np.clip(image, low, np.where(self.above, self.upper, np.inf))

    def before(self, network: Network) -> Network:
        """The network with its input clipped.

        In real arithmetic it is exactly that: every shift is undone by the same number.
        """
        layers: list[AbstractLayer] = []
        shape, width = network.input_shape, self.upper - self.lower
        # What is not clipped is lifted far above 0, where a ReLU changes nothing.
        floor = np.where(self.below, -self.lower, width - self.lower)
        ceiling = np.where(self.above, self.upper, self.upper + width)
        if self.below.any():
            layers += [_scaled(1.0, floor, shape), Relu(shape)]
        if self.above.any():
            if self.below.any() and floor.any():
                layers.append(_scaled(1.0, -floor, shape))
            layers += [_scaled(-1.0, ceiling, shape), Relu(shape), _scaled(-1.0, ceiling, shape)]
        elif floor.any():
            layers.append(_scaled(1.0, -floor, shape))
        switching = network.hidden_neurons + int(self.below.sum()) + int(self.above.sum())
        return _ClippedNetwork((*layers, *network.layers), shape, network.name, switching=switching)


@dataclass(frozen=True, eq=False)
class _ClippedNetwork(Network):
    """A network behind a clip; `switching` counts the ReLUs that can switch."""

    switching: int = 0

    @property
    def hidden_neurons(self) -> int:
        return self.switching


def clip_of(problem: Problem) -> Clip:
    """The clip of all pixels that some piece asks to have clipped."""
    domain = problem.domain
    nowhere = np.zeros(domain.size, dtype=np.bool_)
    masks = [masks for piece in problem.pieces if (masks := piece.to_clip()) is not None]
    below, above = (np.any(side, axis=0) for side in zip((nowhere, nowhere), *masks, strict=True))
    return Clip(domain.lower, domain.upper, below, above)


@dataclass(frozen=True, eq=False)
class _Restore(AbstractRestore):
    """Inputs, parameters and bounds stay as they are."""

    clip: Clip

    def witness(self, piece_index: int, x: Array, parameters: Array) -> Point:
        return piece_index, x, parameters

    def statement(self) -> dict[str, Any]:
        sides = (self.clip.below, self.clip.above)
        return {"clipped_pixels": [np.flatnonzero(side).tolist() for side in sides]}


@dataclass(frozen=True)
class Clipping(AbstractReduction):
    """Images that are to be clipped, as images that the network clips."""

    name = "clipping"

    def apply(self, problem: Problem) -> Reduced | None:
        clip = clip_of(problem)
        if not clip:
            return None
        reduced = problem.rewritten(clip.before(problem.network), problem.pieces, problem.domain)
        return Reduced(problem, reduced, _Restore(clip), reduced.without_perturbation())


def _scaled(factor: float, bias: Array, shape: Shape) -> SparseAffine:
    weight = sparse.csr_array(factor * sparse.eye_array(len(bias), format="csr"))
    return SparseAffine(weight, bias, shape, shape)
