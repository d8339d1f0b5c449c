"""Damaged model files: any of our errors may come out, and nothing else may happen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vhagar.errors import VhagarError
from vhagar.network import read_onnx


def convolutional(build: type, rng: np.random.Generator) -> bytes:
    builder = build((2, 3, 3)).add("Sub", rng.normal(size=(2, 1, 1)))
    attributes = {"group": 2, "pads": [1, 0, 0, 1], "strides": [1, 1], "auto_pad": "NOTSET"}
    builder.add("Conv", rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2), **attributes)
    builder.add("Mul", [2.0]).add("Relu").add("Reshape", [0, -1])
    builder.add("Gemm", rng.normal(size=(3, 18)), rng.normal(size=3), transB=1, alpha=0.5)
    return builder.model().SerializeToString()


def fully_connected(build: type, rng: np.random.Generator) -> bytes:
    builder = build((2, 3), opset=17).add("Div", [2.0], as_node=True).add("Flatten", axis=1)
    builder.add("MatMul", rng.normal(size=(6, 3))).add("Add", rng.normal(size=3)).add("Relu")
    builder.add("Dropout", np.array(0.5), np.array(False)).add("Identity")
    return builder.add("Sub", rng.normal(size=3), first=True).model().SerializeToString()


def padded(build: type, rng: np.random.Generator) -> bytes:
    attributes = {"auto_pad": "SAME_UPPER", "strides": [2, 1]}
    builder = build((1, 3, 3)).add("Conv", rng.normal(size=(2, 1, 2, 2)), **attributes)
    builder.add("Reshape", [0, -1], as_node=True).add("Gemm", rng.normal(size=(12, 2)))
    return builder.model().SerializeToString()


def branching(build: type, rng: np.random.Generator) -> bytes:
    builder = build((2, 4, 4)).add("Conv", rng.normal(size=(2, 2, 3, 3)), pads=[1, 1, 1, 1])
    start = builder.add("BatchNormalization", *rng.uniform(0.5, 1, (4, 2))).last
    builder.add("Clip", np.array(-0.5), np.array(0.5)).add("Concat", start, axis=1)
    builder.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1).add("LeakyRelu")
    pooled = builder.last
    builder.add("Shape").add("Gather", np.array(0)).add("Unsqueeze", [0])
    shape = builder.add("Concat", [-1], axis=0).last
    builder.follow(pooled).add("Slice", [0], [1], [2]).add("Max", pooled).add("Reshape", shape)
    builder.add("Gemm", rng.normal(size=(16, 3)), rng.normal(size=3)).add("Softmax")
    return builder.model().SerializeToString()


def pooled(build: type, rng: np.random.Generator) -> bytes:
    builder = build((2, 4, 4)).add("Transpose", perm=[0, 2, 3, 1]).add("Pad", [0, 0, 1, 0] * 2)
    first, second = builder.several("Split", 2, [1, 3], axis=1)
    builder.follow(first).add("Tile", [1, 3, 1, 1]).add("Sub", second).add("Abs")
    builder.add("AveragePool", kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1)
    builder.add("ReduceMax", axes=[3], keepdims=0).add("Flatten")
    return builder.add("MatMul", rng.normal(size=(18, 3))).model().SerializeToString()


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Cut off, bits flipped, bytes replaced, or a stretch repeated somewhere else."""
    data = bytearray(whole)
    kind = rng.integers(4)
    if kind == 0:
        return bytes(data[: rng.integers(len(data))])
    for place in rng.integers(len(data), size=rng.integers(1, 4)):
        if kind == 1:
            data[place] ^= 1 << rng.integers(8)
        elif kind == 2:
            data[place] = rng.integers(256)
        else:
            source = rng.integers(len(data))
            data[place:place] = data[source : source + rng.integers(1, 8)]
    return bytes(data)


@pytest.mark.parametrize("make", [convolutional, fully_connected, padded, branching, pooled])
def test_damage_is_an_error_of_ours_or_harmless(
    build: type, save: Callable, make: Callable[[type, np.random.Generator], bytes]
) -> None:
    rng = np.random.default_rng(7)
    whole = make(build, rng)
    shape = read_onnx(save(whole)).input_shape
    refused = 0
    for _ in range(250):
        path = save(damaged(whole, rng))
        try:
            network = read_onnx(path)
        except VhagarError:
            refused += 1
        else:
            # Such as a changed name or weight: still a network with finite scores.
            if network.input_shape == shape:
                assert np.isfinite(network.forward(np.zeros((1, *shape)))).all()
    assert refused > 125
