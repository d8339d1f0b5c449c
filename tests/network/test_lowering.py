"""Graphs to chains of layers: which unit comes where, and that nothing changes on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar.errors import InvalidNetwork
from vhagar.network import (
    AbstractLinear,
    Affine,
    Convolution,
    Network,
    Relu,
    SparseAffine,
    read_onnx,
)

Builder = Any


def stages(network: Network) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every linear stage as one matrix and one bias."""
    found = [(np.eye(network.input_size), np.zeros(network.input_size))]
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            matrix, bias = found[-1]
            found[-1] = (layer.matrix @ matrix, layer.matrix @ bias + layer.flat_bias)
        else:
            found.append((np.eye(layer.out_size), np.zeros(layer.out_size)))
    return found


def masks(network: Network) -> list[list[int]]:
    """For every ReLU layer a 1 for a linear unit and a 0 for a ReLU."""
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    nothing = [np.zeros(layer.in_size, dtype=bool) for layer in relus]
    marks = [layer.linear for layer in relus]
    return [
        (none if mark is None else mark).astype(int).tolist()
        for mark, none in zip(marks, nothing, strict=True)
    ]


def test_the_order_of_units_and_of_what_is_carried(build: type, save: Callable) -> None:
    """The checker of certificates has to find the same layers, unit by unit."""
    b = build((2,)).add("Gemm", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0]))
    a = b.last
    c = b.add("Clip", np.array(-1.0), np.array(1.0)).last
    b.follow(a).add("Relu").add("Add", "image").add("Relu").add("Sum", c, a)
    network = read_onnx(save(b))
    first, second, last = stages(network)
    rows = [[1, 3], [2, 4]]  # a, as Gemm multiplies from the right
    # The clip's blocks (node 2), the Relu's (node 3); then the input, then a (node 1).
    assert masks(network) == [[0] * 6 + [1] * 4, [0] * 2 + [1] * 4]
    assert first[0].tolist() == [*rows, *rows, *rows, [1, 0], [0, 1], *rows]
    assert first[1].tolist() == [6, 7, 4, 5, 5, 6, 0, 0, 5, 6]
    # relu(a) + image; then a, of an earlier node than c.
    one = np.eye(10)
    assert second[0].tolist() == [
        *(one[4:6] + one[6:8]).tolist(),
        *one[8:10].tolist(),
        *(one[0:2] - one[2:4]).tolist(),
    ]
    assert second[1].tolist() == [0, 0, 0, 0, -1, -1]
    assert last[0].tolist() == [[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]]
    assert not last[1].any()


def test_the_order_of_a_pool_s_rounds(build: type, save: Callable) -> None:
    """Groups (0, 1, 2) and (2, 3, 4): each has a pair and an odd entry."""
    b = build((5,)).add("Reshape", [0, 1, 5]).add("MaxPool", kernel_shape=[3], strides=[2])
    network = read_onnx(save(b.add("Flatten")))
    first, second, last = stages(network)
    assert masks(network) == [[0, 0, 1, 1, 1, 1], [0, 0, 1, 1]]
    one = np.eye(5)
    units = [one[0] - one[1], one[2] - one[3]]
    assert first[0].tolist() == np.array([*units, one[1], one[2], one[3], one[4]]).tolist()
    one = np.eye(6)
    left, right = one[0] + one[2], one[1] + one[4]
    assert second[0].tolist() == np.array([left - one[3], right - one[5], one[3], one[5]]).tolist()
    assert last[0].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_groups_that_are_done_wait_for_the_others(build: type, save: Callable) -> None:
    """At the border (0) and (1, 2, 3) inside: the single entry is carried through two rounds."""
    b = build((4,)).add("Reshape", [0, 1, 4])
    b.add("MaxPool", kernel_shape=[3], strides=[3], pads=[2, 0]).add("Flatten")
    network = read_onnx(save(b))
    assert masks(network) == [[0, 1, 1, 1], [0, 1, 1]]
    first = stages(network)[0][0]
    assert first.tolist() == [[0, 1, -1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_minima_carry_the_first_of_a_pair(build: type, save: Callable) -> None:
    b = build((2, 2)).add("ReduceMin", axes=[1], keepdims=0)
    network = read_onnx(save(b))
    first, last = stages(network)
    assert first[0].tolist() == [[1, 0, -1, 0], [0, 1, 0, -1], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert last[0].tolist() == [[-1, 0, 1, 0], [0, -1, 0, 1]]


def test_of_two_maxima_carry_the_second_itself(build: type, save: Callable) -> None:
    b = build((2,)).add("Mul", np.array([2.0, 3.0]))
    network = read_onnx(save(b.add("Max", "image").add("Add", "image")))
    assert masks(network) == [[0, 0, 1, 1]]  # the image once, though it is used twice
    assert stages(network)[0][0].tolist() == [[1, 0], [0, 2], [1, 0], [0, 1]]
    assert stages(network)[1][0].tolist() == [[1, 0, 2, 0], [0, 1, 0, 2]]


def test_a_relu_before_a_pool_is_applied_after_it(build: type, save: Callable) -> None:
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    b = build((1, 4, 4)).add("Relu").add("Dropout").add("MaxPool", **pool).add("Flatten")
    assert read_onnx(save(b)).hidden_neurons == 8 + 4 + 4
    b = build((1, 4, 4)).add("Relu")
    relu = b.last
    b.add("MaxPool", **pool).add("Flatten")
    pooled = b.last
    b.follow(relu).add("Flatten").add("Gemm", np.ones((16, 4)), np.ones(4)).add("Add", pooled)
    assert read_onnx(save(b)).hidden_neurons == 16 + 8 + 4


def test_what_only_a_shape_needs_is_not_there(build: type, save: Callable) -> None:
    b = build((2, 3)).add("Relu").add("Shape")
    shape = b.last
    b.follow("image").add("Reshape", shape).add("Flatten").add("Gemm", np.ones((6, 3)), np.ones(3))
    assert [type(layer) for layer in read_onnx(save(b)).layers] == [Affine]


def test_reshaped_values_are_carried_once(build: type, save: Callable) -> None:
    b = build((2, 2)).add("Flatten")
    flat = b.last
    b.add("Relu").add("Add", flat).add("Reshape", [0, 2, 2]).add("Add", "image").add("Flatten")
    network = read_onnx(save(b))
    assert masks(network) == [[0] * 4 + [1] * 4]
    assert stages(network)[1][0].tolist() == np.hstack([np.eye(4), 2 * np.eye(4)]).tolist()


def test_plain_chains_keep_their_layers(build: type, save: Callable) -> None:
    b = build((1, 6, 6)).add("Sub", np.ones(1)).add("Conv", np.ones((2, 1, 3, 3)), np.ones(2))
    b.add("Mul", np.array([2.0])).add("Relu").add("Conv", np.ones((1, 2, 2, 2))).add("Relu")
    network = read_onnx(save(b.add("Flatten").add("MatMul", np.ones((9, 2)))))
    kinds = [type(layer) for layer in network.layers]
    assert kinds == [Convolution, Relu, Convolution, Relu, Affine]
    assert network.layers[1].shape == (2, 4, 4)
    assert network.linear_units == 0


def test_sparse_layers_join_their_neighbours_while_small(build: type, save: Callable) -> None:
    def pooled(size: int) -> list[type]:
        b = build((1, size, size)).add("Conv", np.ones((4, 1, 3, 3)), np.ones(4))
        b.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2]).add("Relu")
        b.add("GlobalAveragePool").add("Flatten").add("Gemm", np.ones((4, 2)), np.ones(2))
        return [type(layer) for layer in read_onnx(save(b)).layers]

    assert pooled(10) == [SparseAffine, Relu, Affine]
    # A large convolution stays one: written out it would fill the memory.
    assert pooled(400)[:3] == [Convolution, SparseAffine, Relu]


def test_networks_beyond_all_measure_are_refused(build: type, save: Callable) -> None:
    b = build((3, 600, 600)).add("Conv", np.ones((64, 3, 3, 3)), pads=[1, 1, 1, 1])
    left = b.last
    b.follow("image").add("Conv", np.ones((64, 3, 3, 3)), pads=[1, 1, 1, 1]).add("Relu")
    b.add("Add", left).add("GlobalAveragePool").add("Flatten")
    with pytest.raises(InvalidNetwork, match="too large for its branches"):
        read_onnx(save(b))


SIZE = 5


class RandomGraph:
    """A random graph of vectors, written node by node and computed beside it in float64."""

    def __init__(self, builder: Builder, rng: np.random.Generator, batch: np.ndarray) -> None:
        self.builder, self.rng = builder, rng
        self.values = {"image": batch}

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape).astype(np.float32).astype(np.float64)

    def pick(self) -> str:
        """Any value, but rather a late one."""
        names = list(self.values)
        return names[min(int(self.rng.exponential(3.0)), len(names) - 1) * -1 - 1]

    def keep(self, name: str, values: np.ndarray) -> None:
        """Enter a value, brought back to the one size by a random matrix where it has another."""
        if values.shape[1] != SIZE:
            weight = self.numbers(values.shape[1], SIZE)
            name = self.builder.follow(name).add("MatMul", weight).last
            values = values @ weight
        self.values[name] = values

    def step(self) -> None:
        """One random operation."""
        kinds = [self.unary, self.binary, self.several, self.linear, self.pooled]
        kinds[self.rng.integers(len(kinds))]()

    def unary(self) -> None:
        name, b = self.pick(), self.builder
        value, slope = self.values[name], float(np.float32(self.rng.uniform(-0.5, 1.5)))
        low, high = np.sort(self.numbers(2))
        kind = self.rng.choice(["Relu", "LeakyRelu", "Clip", "Abs", "Neg"])
        b.follow(name)
        if kind == "LeakyRelu":
            b.add("LeakyRelu", alpha=slope)
        elif kind == "Clip":
            b.add("Clip", low, high)
        else:
            b.add(str(kind))
        result = {
            "Relu": np.maximum(value, 0),
            "LeakyRelu": np.where(value > 0, value, slope * value),
            "Clip": np.clip(value, low, high),
            "Abs": abs(value),
            "Neg": -value,
        }[str(kind)]
        self.keep(b.last, result)

    def binary(self) -> None:
        one, two = self.pick(), self.pick()
        kind = str(self.rng.choice(["Add", "Sub", "Max", "Min"]))
        work = {"Add": np.add, "Sub": np.subtract, "Max": np.maximum, "Min": np.minimum}[kind]
        result = work(self.values[one], self.values[two])
        self.keep(self.builder.follow(one).add(kind, two).last, result)

    def several(self) -> None:
        names = [self.pick() for _ in range(self.rng.integers(1, 5))]
        kind = str(self.rng.choice(["Max", "Min", "Sum", "Concat"]))
        values = [self.values[name] for name in names]
        extra: list[Any] = (
            [self.numbers(SIZE)] if kind != "Concat" and self.rng.random() < 0.4 else []
        )
        self.builder.follow(names[0])
        self.builder.add(kind, *names[1:], *extra, **({"axis": 1} if kind == "Concat" else {}))
        work = {
            "Max": lambda parts: np.max(np.broadcast_arrays(*parts), axis=0),
            "Min": lambda parts: np.min(np.broadcast_arrays(*parts), axis=0),
            "Sum": lambda parts: np.sum(np.broadcast_arrays(*parts), axis=0),
            "Concat": lambda parts: np.concatenate(parts, axis=1),
        }[kind]
        self.keep(self.builder.last, work([*values, *extra]))

    def linear(self) -> None:
        name = self.pick()
        value, weight, bias = self.values[name], self.numbers(SIZE, SIZE), self.numbers(SIZE)
        kind = self.rng.integers(3)
        b = self.builder.follow(name)
        if kind == 0:
            self.keep(b.add("Gemm", weight, bias).last, value @ weight + bias)
        elif kind == 1:
            self.keep(b.add("Mul", bias).add("Dropout").last, value * bias)
        else:
            index = self.rng.integers(SIZE, size=self.rng.integers(1, 8))
            self.keep(b.add("Gather", index, axis=1).last, value[:, index])

    def pooled(self) -> None:
        name, b = self.pick(), self.builder
        width, stride = (int(number) for number in self.rng.integers(1, 4, 2))
        before = int(self.rng.integers(width))
        b.follow(name).add("Reshape", [0, 1, SIZE])
        b.add("MaxPool", kernel_shape=[width], strides=[stride], pads=[before, 0]).add("Flatten")
        padded = np.pad(self.values[name], ((0, 0), (before, 0)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)[:, ::stride]
        self.keep(b.last, windows.max(axis=-1))


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_stay_what_they_are(build: type, save: Callable, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = rng.normal(size=(30, SIZE))
    graph = RandomGraph(build((SIZE,), 13), rng, batch)
    for _ in range(rng.integers(4, 16)):
        graph.step()
    # The scores see several values at once, so that most of the graph matters.
    names = list({graph.pick() for _ in range(4)})
    graph.builder.follow(names[0]).add("Concat", *names[1:], axis=1)
    graph.keep(graph.builder.last, np.concatenate([graph.values[name] for name in names], axis=1))
    name, expected = list(graph.values.items())[-1]
    network = read_onnx(save(graph.builder.follow(name).add("Mul", np.array(1.0))))
    found = network.forward(batch)
    assert abs(found - expected).max() <= 1e-12 * max(abs(expected).max(), 1.0)
