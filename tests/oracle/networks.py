"""Tiny random networks of several flavours. Every weight is a number of float32."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vhagar import Network
from vhagar.network import AbstractLayer, Affine, Convolution, Relu, SparseAffine

Shape = tuple[int, ...]
Pair = tuple[np.ndarray, np.ndarray]
Layers = list[Pair]


@dataclass(frozen=True)
class Wish:
    """What a network is drawn for."""

    rng: np.random.Generator
    shape: Shape
    classes: int
    scale: float
    source: int
    targets: list[int]

    @property
    def inputs(self) -> int:
        return int(np.prod(self.shape))

    def sixteenths(self, *size: int) -> np.ndarray:
        """Normal numbers of few bits: quick for rational arithmetic."""
        return np.round(16 * self.rng.normal(size=size)) / 16

    def layers(self, sizes: list[int], draw: Callable[..., np.ndarray] | None = None) -> Layers:
        """Weights of the wished scale; biases keep up with what the layers before make of it."""
        draw = draw or self.sixteenths
        return [
            (self.scale * draw(out, into), 0.5 * self.scale ** (depth + 1) * draw(out))
            for depth, (into, out) in enumerate(itertools.pairwise(sizes))
        ]

    def random_layers(self) -> Layers:
        """One or two hidden layers, now and then none; at most 8 hidden neurons."""
        choices = ([], [3], [5], [7], [8], [3, 2], [4, 4], [2, 5])
        hidden = choices[self.rng.integers(len(choices))]
        return self.layers([self.inputs, *hidden, self.classes])

    def network(self, layers: Layers, relu_last: bool = False) -> Network:
        found: list[Affine | Relu] = []
        for weight, bias in layers:
            shape = found[-1].out_shape if found else self.shape
            found += [Affine(_float32(weight), _float32(bias), shape, bias.shape), Relu(bias.shape)]
        return Network(tuple(found if relu_last else found[:-1]), self.shape)


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def plain(wish: Wish) -> Network:
    return wish.network(wish.random_layers())


def full_precision(wish: Wish) -> Network:
    """All bits of float32 in use."""
    hidden = int(wish.rng.integers(2, 5))
    draw = lambda *size: wish.rng.normal(size=size)  # noqa: E731
    return wish.network(wish.layers([wish.inputs, hidden, wish.classes], draw))


def stable(wish: Wish) -> Network:
    """Hidden neurons that are always active or always off."""
    layers = wish.random_layers()
    reach = 8.0  # of the inputs
    for weight, bias in layers[:-1]:
        sums = np.abs(weight).sum(axis=1) * reach
        bias[:] = np.where(wish.rng.random(len(bias)) < 0.7, sums, -sums)
        reach = 2 * float(sums.max())
    return wish.network(layers)


def twin_outputs(wish: Wish) -> Network:
    """Two classes with the same scores: source and target, target and another, or two others."""
    layers = wish.random_layers()
    weight, bias = layers[-1]
    first, second = wish.rng.choice(wish.classes, 2, replace=False)
    weight[first], bias[first] = weight[second], bias[second]
    return wish.network(layers)


def lattice(wish: Wish) -> Network:
    """Weights -1, 0 and 1 and no biases: exact ties and degenerate corners everywhere."""
    sizes = [wish.inputs, int(wish.rng.integers(2, 6)), wish.classes]
    layers = wish.layers(sizes, lambda *size: wish.rng.integers(-1, 2, size).astype(float))
    return wish.network([(weight, 0 * bias) for weight, bias in layers])


def relu_output(wish: Wish) -> Network:
    """A ReLU on the scores: all inputs whose scores are 0 tie."""
    sizes = [wish.inputs, int(wish.rng.integers(2, 5)), wish.classes]
    return wish.network(wish.layers(sizes), relu_last=True)


def infeasible(wish: Wish) -> Network:
    """The targets never win, or the source never does, or nothing depends on the input."""
    layers = wish.random_layers()
    weight, bias = layers[-1]
    way = wish.rng.integers(3)
    if way == 2:
        weight[:] = 0
    else:
        losers = [wish.source] if way else wish.targets
        bias[losers] = -1000 * wish.scale ** len(layers)
    return wish.network(layers)


def convolutional(wish: Wish) -> Network:
    """A convolution with a padded border, where the input is an image."""
    if len(wish.shape) != 3:
        return plain(wish)
    channels, height, width = wish.shape
    first = Convolution(
        _float32(wish.scale * wish.sixteenths(2, channels, min(height, 2), min(width, 2))),
        _float32(wish.scale * wish.sixteenths(2) / 2),
        wish.shape,
        stride=(1, 2),
        padding=(0, 1, 0, 0),
    )
    weight, bias = wish.layers([first.out_size, wish.classes])[0]
    last = Affine(_float32(weight), _float32(bias * wish.scale), first.out_shape, (wish.classes,))
    return Network((first, Relu(first.out_shape), last), wish.shape)


def residual(wish: Wish) -> Network:
    """Values of either sign are carried past a layer, and some past the next one."""
    units, carried, later = (int(wish.rng.integers(1, high)) for high in (5, 3, 4))
    (first, second, last) = wish.layers(
        [wish.inputs, units + carried, later + carried, wish.classes]
    )
    # The last carried values go on as they are.
    second[0][later:] = np.eye(units + carried)[units:]
    second[1][later:] = 0.0
    return _with_linear_units(wish, (first, second, last), (carried, carried))


def larger_of_pairs(wish: Wish) -> Network:
    """The maximum of four values, as a pooling layer has it: two layers of `b + relu(a - b)`."""
    (first, last) = wish.layers([wish.inputs, 4, wish.classes])
    apart = np.array([[1.0, -1, 0, 0], [0, 0, 1, -1], [0, 1, 0, 0], [0, 0, 0, 1]])
    again = np.array([[1.0, -1, 1, -1], [0, 1, 0, 1], [1, 0, 1, 0]])
    largest = np.array([[1.0, 1, 0], [0, 0, 1]])
    weight, bias = last
    layers = (
        (apart @ first[0], apart @ first[1]),
        (again, np.zeros(3)),
        (weight[:, :2] @ largest, bias),
    )
    return _with_linear_units(wish, layers, (2, 2))


def _with_linear_units(wish: Wish, layers: Sequence[Pair], carried: tuple[int, ...]) -> Network:
    """The last units of each hidden layer are linear."""
    found: list[AbstractLayer] = []
    for k, (weight, bias) in enumerate(layers):
        shape = found[-1].out_shape if found else wish.shape
        found.append(SparseAffine(_float32(weight), _float32(bias), shape, bias.shape))
        if k < len(carried):
            linear = np.arange(len(bias)) >= len(bias) - carried[k]
            found.append(Relu(bias.shape, linear))
    return Network(tuple(found), wish.shape)


def uneven(network: Network, rng: np.random.Generator) -> Network:
    """A network of affine layers with weights of very different sizes: hard on a solver."""
    first_gain, gain = 2.0 ** int(rng.integers(5, 25)), 1.0
    found: list[AbstractLayer] = []
    for layer in network.layers:
        if not isinstance(layer, Affine):
            found.append(layer)
            continue
        last = layer is network.layers[-1]
        factor = 2.0**15 / gain if last else first_gain
        weight = factor * layer.weight * np.exp2(rng.integers(-22, 3, layer.weight.shape))
        bias = layer.bias * (1.0 if last else factor * gain)
        found.append(Affine(_float32(weight), _float32(bias), layer.in_shape, layer.out_shape))
        gain *= factor
    return Network(tuple(found), network.input_shape)


FLAVOURS: dict[str, Callable[[Wish], Network]] = {
    "plain": plain,
    "full precision": full_precision,
    "stable": stable,
    "twin outputs": twin_outputs,
    "lattice": lattice,
    "relu output": relu_output,
    "infeasible": infeasible,
    "convolutional": convolutional,
}

# Networks with branches have numbers of their own.
BRANCHED: dict[str, Callable[[Wish], Network]] = {
    "residual": residual,
    "larger of pairs": larger_of_pairs,
}
