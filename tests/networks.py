"""Small random networks that several tests share."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from vhagar import Network
from vhagar.network import Affine, Relu

IMAGE = (1, 3, 4)


def dense_network(*widths: int, seed: int, single: bool = True) -> Network:
    """Dense layers of these widths on images of 3 x 4 pixels, in `single` precision unless told."""
    rng = np.random.default_rng(seed)
    layers: list[Affine | Relu] = []
    for into, out in pairwise((12, *widths)):
        weight, bias = rng.normal(size=(out, into)) / np.sqrt(into), 0.1 * rng.normal(size=out)
        if single:
            weight, bias = (part.astype(np.float32).astype(float) for part in (weight, bias))
        layers += [Affine(weight, bias, (into,) if layers else IMAGE, (out,)), Relu((out,))]
    return Network(tuple(layers[:-1]), IMAGE)


def flat_network(rng: np.random.Generator) -> Network:
    """Twelve inputs, two layers of twenty neurons and three scores, in double precision."""
    layers: list[Affine | Relu] = []
    for into, out in pairwise((12, 20, 20, 3)):
        weight = rng.normal(size=(out, into)) / np.sqrt(into)
        layers += [Affine(weight, rng.normal(size=out) / 4, (into,), (out,)), Relu((out,))]
    return Network(tuple(layers[:-1]), (12,))
