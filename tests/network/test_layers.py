"""Layers and networks made by hand: values, shapes, immutability, and what they refuse."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from vhagar.errors import InvalidNetwork
from vhagar.network import AbstractLinear, Affine, Convolution, Network, Relu, confidence

CONVOLUTIONS = [
    {},
    {"stride": (2, 3)},
    {"padding": (1, 0, 2, 3)},
    {"dilation": (2, 1), "padding": (1, 1, 1, 1)},
    {"groups": 2},
    {"groups": 2, "stride": (1, 2), "padding": (2, 2, 0, 0), "dilation": (1, 2)},
]


def slow_convolution(layer: Convolution, image: np.ndarray) -> np.ndarray:
    """The definition, index by index."""
    result = layer.flat_bias.reshape(layer.out_shape).copy()
    filters, channels, height, width = layer.weight.shape
    for f, i, j in np.ndindex(*layer.out_shape):
        for c, k, m in np.ndindex(channels, height, width):
            row = i * layer.stride[0] + k * layer.dilation[0] - layer.padding[0]
            column = j * layer.stride[1] + m * layer.dilation[1] - layer.padding[1]
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                source = f // (filters // layer.groups) * channels + c
                result[f, i, j] += layer.weight[f, c, k, m] * image[source, row, column]
    return result


def convolution(bias_by_place: bool = False, **options: object) -> Convolution:
    rng = np.random.default_rng(2)
    weight = rng.normal(size=(4, 4 // options.get("groups", 1), 3, 2))
    layer = Convolution(weight, rng.normal(size=4), (4, 6, 7), **options)
    if not bias_by_place:
        return layer
    return Convolution(weight, rng.normal(size=layer.out_shape), (4, 6, 7), **options)


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("bias_by_place", [False, True])
def test_convolution_is_its_definition(options: dict[str, object], bias_by_place: bool) -> None:
    layer = convolution(bias_by_place, **options)
    images = np.random.default_rng(3).normal(size=(2, 4, 6, 7))
    found = layer.forward(images.reshape(2, -1))
    for image, flat in zip(images, found, strict=True):
        assert flat == pytest.approx(slow_convolution(layer, image).reshape(-1), abs=1e-12)
    assert layer.matrix.shape == (layer.out_size, layer.in_size)
    assert layer.flat_bias.shape == (layer.out_size,)
    by_matrix = (layer.matrix @ images.reshape(2, -1).T).T + layer.flat_bias
    assert by_matrix == pytest.approx(found, abs=1e-12)
    assert layer.fan_in >= np.diff(layer.matrix.indptr).max()


def test_affine_and_relu_by_hand() -> None:
    layer = Affine(np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([1.0, 0.5]), (2,), (2,))
    assert layer.forward(np.array([[3.0, 4.0]])).tolist() == [[12.0, -3.5]]
    assert layer.matrix.toarray().tolist() == [[1, 2], [0, -1]]
    assert layer.fan_in == 2
    assert Relu((2,)).forward(np.array([[12.0, -3.5]])).tolist() == [[12.0, 0.0]]


@pytest.mark.parametrize(
    "layer",
    [Affine(np.ones((3, 2)), np.ones(3), (2,), (3,)), convolution(), convolution(True)],
    ids=["Affine", "Convolution", "Convolution with a bias by place"],
)
def test_layers_are_frozen(layer: AbstractLinear) -> None:
    for values in (layer.weight, layer.bias, layer.flat_bias):
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0
    with pytest.raises(FrozenInstanceError):
        layer.weight = np.zeros(3)


def test_layers_keep_their_own_copy() -> None:
    weight = np.ones((3, 2), dtype=np.float32)
    layer = Affine(weight, np.ones(3), (2,), (3,))
    weight[...] = 7
    assert (layer.weight == 1).all()
    assert layer.weight.dtype == np.float64


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Affine(np.ones((3, 2)), np.ones(3), (4,), (3,)), r"\(3, 4\), not \(3, 2\)"),
        (lambda: Affine(np.ones((3, 2)), np.ones(2), (2,), (3,)), "3 outputs"),
        (lambda: Affine(np.full((3, 2), np.nan), np.ones(3), (2,), (3,)), "NaN or infinity"),
        (lambda: Affine(np.ones((3, 2)), np.full(3, np.inf), (2,), (3,)), "NaN or infinity"),
        (lambda: Convolution(np.ones((1, 1, 2)), np.ones(1), (1, 4, 4)), "rank 4"),
        (lambda: Convolution(np.ones((0, 1, 2, 2)), np.ones(0), (1, 4, 4)), "rank 4"),
        (lambda: Convolution(np.ones((1, 1, 2, 2)), np.ones(1), (16,)), "two-dimensional"),
        (lambda: Convolution(np.ones((1, 2, 2, 2)), np.ones(1), (1, 4, 4)), "1 channels"),
        (lambda: Convolution(np.ones((1, 1, 5, 1)), np.ones(1), (1, 4, 4)), "does not fit"),
        (lambda: Convolution(np.ones((2, 1, 2, 2)), np.ones(3), (1, 4, 4)), "2 filters"),
        (lambda: Network((), (4,)), "no layers"),
        (lambda: Network((Relu((3,)),), (4,)), "takes 3 values but receives 4"),
        (lambda: Network((Relu((1,)),), (1,)), "at least two scores"),
    ],
)
def test_what_does_not_fit_is_refused(make: object, words: str) -> None:
    with pytest.raises(InvalidNetwork, match=words):
        make()


def test_a_network_by_hand() -> None:
    first = Affine(np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([0.0, -1.0]), (2,), (2,))
    last = Affine(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]]), np.zeros(3), (2,), (3,))
    network = Network((first, Relu((2,)), last), (1, 1, 2))
    batch = np.array([[[[1.0, 3.0]]], [[[1.0, 0.0]]]])
    entering, scores = network.preactivations(batch)
    assert [values.tolist() for values in entering] == [[[-2.0, 1.0], [1.0, 1.0]]]
    assert scores.tolist() == [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
    assert network.forward(batch).tolist() == scores.tolist()
    assert network.forward(batch.reshape(2, 2)).tolist() == scores.tolist()
    assert (network.input_size, network.classes, network.hidden_neurons) == (2, 3, 2)
    assert confidence(scores, 0).tolist() == [-1.0, 0.0]
    assert confidence(scores, 2).tolist() == [0.0, -1.0]
