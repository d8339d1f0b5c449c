"""Networks written to ONNX: they come back the same, and onnxruntime agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vhagar.network import Affine, Convolution, Network, Relu, onnx_bytes, read_onnx, write_onnx

Rng = np.random.Generator


def affine(rng: Rng, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Affine:
    weight = rng.normal(size=(np.prod(outputs), np.prod(inputs)))
    return Affine(weight, rng.normal(size=np.prod(outputs)), inputs, outputs)


def convolution(
    rng: Rng, shape: tuple[int, int, int], by_place: bool = False, **options: object
) -> Convolution:
    weight = rng.normal(size=(4, shape[0] // options.get("groups", 1), 2, 3))
    layer = Convolution(weight, rng.normal(size=4), shape, **options)
    if not by_place:
        return layer
    return Convolution(weight, rng.normal(size=layer.out_shape), shape, **options)


def plain(rng: Rng) -> Network:
    return Network((affine(rng, (5,), (4,)), Relu((4,)), affine(rng, (4,), (3,))), (5,))


def image_first(rng: Rng) -> Network:
    return Network((affine(rng, (2, 3, 3), (4,)), Relu((4,)), affine(rng, (4,), (3,))), (2, 3, 3))


def convolutional(rng: Rng) -> Network:
    first = convolution(rng, (2, 6, 7), stride=(2, 1), padding=(1, 0, 2, 1), groups=2)
    second = convolution(rng, first.out_shape, dilation=(1, 2))
    flat = (second.out_size,)
    layers = (first, Relu(first.out_shape), second, Relu(second.out_shape), affine(rng, flat, (3,)))
    return Network(layers, (2, 6, 7))


def bias_by_place(rng: Rng) -> Network:
    first = convolution(rng, (1, 5, 5), by_place=True, padding=(1, 1, 1, 1))
    return Network((first, Relu(first.out_shape), affine(rng, (first.out_size,), (3,))), (1, 5, 5))


def image_again(rng: Rng) -> Network:
    """A fully connected layer whose output is an image, for a convolution and its scores."""
    first = affine(rng, (6,), (2, 3, 4))
    second = convolution(rng, (2, 3, 4))
    return Network((first, Relu((2, 3, 4)), second), (6,))


NETWORKS = [plain, image_first, convolutional, bias_by_place, image_again]


@pytest.mark.parametrize("make", NETWORKS)
def test_round_trip(
    make: Callable[[Rng], Network], tmp_path: Path, onnxruntime_scores: Callable
) -> None:
    rng = np.random.default_rng(9)
    network = make(rng)
    path = tmp_path / "some name.onnx"
    write_onnx(network, path)
    again = read_onnx(path)
    assert again.name == "some name"
    assert again.input_shape == network.input_shape
    assert [type(layer) for layer in again.layers] == [type(layer) for layer in network.layers]
    for old, new in zip(network.layers, again.layers, strict=True):
        assert old.out_size == new.out_size
        if isinstance(old, Relu):
            continue
        assert (new.weight == old.weight.astype(np.float32)).all()
        assert (new.flat_bias == old.flat_bias.astype(np.float32)).all()
    batch = rng.uniform(0, 1, (10, *network.input_shape)).astype(np.float32)
    expected = onnxruntime_scores(str(path), batch)
    assert abs(network.forward(batch) - expected).max() <= 1e-5 * abs(expected).max()
    # What was read and is written again is the same to the last bit.
    assert (read_onnx(_rewritten(again, tmp_path)).forward(batch) == again.forward(batch)).all()


def _rewritten(network: Network, folder: Path) -> Path:
    path = folder / "again.onnx"
    path.write_bytes(onnx_bytes(network))
    return path
