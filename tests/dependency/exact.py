"""Networks that are apt to have relations, and what both copies compute, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from vhagar import Network
from vhagar.dependency import Relations
from vhagar.network import AbstractLinear, Affine, Convolution, Relu
from vhagar.perturbation import AbstractPiece

from ..oracle.exact import rationals
from ..relaxation.samples import Pair
from .orders import orders_of

Rng = np.random.Generator
Exact = list[np.ndarray]


def weights_of(rng: Rng, *shape: int) -> np.ndarray:
    """Coarse numbers, with zeros and ties; half of the rows have one sign only."""
    weights = rng.integers(-4, 5, shape) / 4
    one_sign = rng.random((shape[0], *(1 for _ in shape[1:]))) < 0.5
    sign = rng.choice([-1.0, 1.0], one_sign.shape)
    return np.where(one_sign, sign * abs(weights), weights)


def dense_network(rng: Rng, shape: tuple[int, ...]) -> Network:
    sizes = (math.prod(shape), 5, 4)
    layers: list[AbstractLinear | Relu] = []
    for into, out in itertools.pairwise(sizes):
        inner = shape if not layers else (into,)
        layers += [Affine(weights_of(rng, out, into), weights_of(rng, out), inner, (out,))]
        layers += [Relu((out,))]
    return Network((*layers, Affine(weights_of(rng, 3, 4), np.zeros(3), (4,), (3,))), shape)


def convolutional_network(rng: Rng, shape: tuple[int, ...], stride: int, padding: int) -> Network:
    pads = (padding, padding, padding, padding)
    kernel = weights_of(rng, 2, shape[0], 2, 2)
    first = Convolution(kernel, weights_of(rng, 2), shape, (stride, stride), pads)
    second = Convolution(weights_of(rng, 2, 2, 2, 2), weights_of(rng, 2), first.out_shape)
    last = Affine(weights_of(rng, 3, second.out_size), np.zeros(3), second.out_shape, (3,))
    relus = Relu(first.out_shape), Relu(second.out_shape)
    return Network((first, relus[0], second, relus[1], last), shape)


def values_at(network: Network, x: np.ndarray) -> Exact:
    """The input and what leaves each layer, in rational numbers."""
    found = [x]
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            matrix = rationals(layer.matrix.toarray())
            found.append(matrix @ found[-1] + rationals(layer.flat_bias))
        else:
            passes = np.False_ if layer.linear is None else layer.linear
            found.append(np.where(passes, found[-1], np.maximum(found[-1], Fraction(0))))
    return found


def violations(layers: tuple[Relations, ...], network: Network, pair: Pair) -> Iterator[str]:
    """Relations that a pair breaks."""
    first, second = values_at(network, pair.exact), values_at(network, pair.exact_p)
    for position, (known, z, z_p) in enumerate(zip(layers, first, second, strict=True)):
        gaps = z_p[known.second] - z[known.first]
        for k, gap in enumerate(gaps):
            if not (known.gap_lower[k] <= gap <= known.gap_upper[k]):
                order = orders_of(known)[k]
                yield f"position {position}, pair {k}: {order} but the gap is {float(gap)}"


def the_piece(pieces: tuple[AbstractPiece, ...]) -> AbstractPiece:
    (piece,) = pieces
    return piece
