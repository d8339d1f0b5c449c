"""What a block of a convolution depends on: no more is needed for its bounds, and no less."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar_check import neuron_bounds
from vhagar_check.crops import _block_size, convolutions, crop, crops
from vhagar_check.formula import Bounds
from vhagar_check.layers import Conv, Dense, Linear, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain

from ..marks import mostly_slow

SHAPE = (2, 7, 6)
TEXTS = ("linf(0.1)", "occlusion(2,2,3)", "brightness([0,0.2])", "contrast([1.25,2])")
KINDS = {
    "plain": ((1, 1), (0, 0, 0, 0), (1, 1), 1),
    "padded": ((1, 1), (1, 0, 1, 1), (1, 1), 1),
    "strided": ((2, 1), (1, 1, 1, 1), (1, 1), 1),
    "dilated": ((1, 1), (1, 1, 1, 1), (2, 1), 1),
    "grouped": ((1, 2), (0, 1, 0, 1), (1, 1), 2),
}


def network(kind: str, seed: int = 0) -> Network:
    """Two convolutions of that kind, and two dense layers."""
    rng = np.random.default_rng(seed)
    stride, padding, dilation, groups = KINDS[kind]
    stages: list[tuple[Linear, ...]] = []
    shape: tuple[int, ...] = SHAPE
    for filters in (4, 6):
        weight = rng.normal(size=(filters, shape[0] // groups, 2, 2))
        conv = Conv(weight, rng.normal(size=filters), shape, stride, padding, dilation, groups)
        stages.append((conv,))
        shape = conv.out_shape
    size = int(np.prod(shape))
    for out in (5, 3):
        stages.append((Dense(rng.normal(size=(out, size)), rng.normal(size=out)),))
        size = out
    return Network(tuple(stages), SHAPE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", [0, 1])
def test_a_crop_computes_what_the_layer_computes(kind: str, stage: int) -> None:
    net = network(kind)
    layers = convolutions(net, stage)
    assert layers is not None
    z = np.random.default_rng(1).normal(size=(3, int(np.prod(SHAPE))))
    values = [z]
    for layer in layers:
        values.append(np.maximum(layer.forward(layer.kernel, values[-1]) + layer.bias, 0.0))
    seen_outputs = []
    for part in crops(layers):
        value = z[:, part.pixels]
        for k, (layer,) in enumerate(part.network.stages):
            value = np.maximum(layer.forward(layer.kernel, value) + layer.bias, 0.0)
            units = [*part.units, part.outputs][k]
            np.testing.assert_allclose(value, values[k + 1][:, units], rtol=1e-13, atol=1e-13)
        seen_outputs.append(part.outputs)
    assert sorted(np.concatenate(seen_outputs).tolist()) == list(range(layers[-1].out_size))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outside_of_a_crop_matters(kind: str) -> None:
    """Other pixels may be anything: no unit of the block notices."""
    net = network(kind)
    layers = convolutions(net, 1)
    assert layers is not None
    rng = np.random.default_rng(2)
    part = crop(layers, ((1, 2), (0, 2)))
    z = rng.normal(size=(1, int(np.prod(SHAPE))))
    other = rng.normal(size=z.shape)
    other[:, part.pixels] = z[:, part.pixels]
    for layer in layers:
        z, other = (
            np.maximum(layer.forward(layer.kernel, x) + layer.bias, 0.0) for x in (z, other)
        )
    np.testing.assert_array_equal(z[:, part.outputs], other[:, part.outputs])


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_computes_its_part(kind: str) -> None:
    """Blocks that begin and end anywhere, of layers with steps too."""
    layers = convolutions(network(kind), 1)
    assert layers is not None
    z = np.random.default_rng(3).normal(size=(1, int(np.prod(SHAPE))))
    values = z
    for layer in layers:
        values = np.maximum(layer.forward(layer.kernel, values) + layer.bias, 0.0)
    _, height, width = layers[-1].out_shape
    for row in range(height):
        for column in range(width):
            part = crop(layers, ((row, height), (column, min(column + 2, width))))
            value = z[:, part.pixels]
            for (layer,) in part.network.stages:
                value = np.maximum(layer.forward(layer.kernel, value) + layer.bias, 0.0)
            np.testing.assert_allclose(value, values[:, part.outputs], rtol=1e-13, atol=1e-13)


def test_blocks_are_as_large_as_the_cache_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = convolutions(network("plain"), 1)
    assert layers is not None
    assert layers[-1].out_shape == (6, 5, 4)
    assert _block_size(layers) == 5
    for size in range(1, 6):
        rows, columns = min(size, 5), min(size, 4)
        seen = crop(layers, ((0, rows), (0, columns)))
        entries = 6 * rows * columns * max(len(seen.units[0]), len(seen.pixels))
        monkeypatch.setattr("vhagar_check.crops._MOST_ENTRIES", entries)
        assert _block_size(layers) == size
        monkeypatch.setattr("vhagar_check.crops._MOST_ENTRIES", entries - 1)
        assert _block_size(layers) == max(size - 1, 1)


def conv(
    shape: tuple[int, ...],
    padding: tuple[int, ...] = (0, 0, 0, 0),
    kernel: tuple[int, int] = (2, 3),
    dilation: tuple[int, int] = (1, 1),
) -> Conv:
    weight = np.ones((2, shape[0], *kernel))
    return Conv(weight, np.zeros(2), shape, (1, 1), padding, dilation, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("side", range(4))
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1), (1, 2)])
def test_windows_of_nothing_but_padding(side: int, dilation: tuple[int, int]) -> None:
    """On every side, as wide as a window, which is as wide as its steps make it."""
    spans = (dilation[0] * 1 + 1, dilation[1] * 2 + 1)
    for more, fine in ((0, False), (-1, True)):
        padding = [0] * 4
        padding[side] = spans[side % 2] + more
        layer = conv(SHAPE, tuple(padding), dilation=dilation)
        last = Dense(np.ones((3, layer.out_size)), np.zeros(3))
        found = convolutions(Network(((layer,), (last,)), SHAPE), 0)
        assert (found is not None) == fine


def test_linear_units_and_other_shapes_end_a_row_of_convolutions() -> None:
    first = conv(SHAPE)
    second = conv(first.out_shape)
    last = Dense(np.ones((3, second.out_size)), np.zeros(3))
    stages = ((first,), (second,), (last,))
    assert convolutions(Network(stages, SHAPE), 1) == [first, second]
    units = np.zeros(first.out_size, dtype=np.bool_)
    units[0] = True
    linear = Network(stages, SHAPE, (units, None))
    assert convolutions(linear, 1) is None
    assert convolutions(linear, 0) == [first]
    behind = np.zeros(second.out_size, dtype=np.bool_)
    behind[0] = True
    assert convolutions(Network(stages, SHAPE, (None, behind)), 1) == [first, second]
    rows, columns = first.out_shape[1:]
    turned = conv((first.out_shape[0], columns, rows))
    other = ((first,), (turned,), (Dense(np.ones((3, turned.out_size)), np.zeros(3)),))
    assert convolutions(Network(other, SHAPE), 1) is None
    pair = ((first, second), (last,))
    assert convolutions(Network(pair, SHAPE), 0) is None
    third = conv(second.out_shape)
    wrong = conv((2, second.out_shape[2], second.out_shape[1]))
    ends = Dense(np.ones((3, wrong.out_size)), np.zeros(3))
    assert convolutions(Network(((first,), (second,), (wrong,), (ends,)), SHAPE), 2) is None
    ends = Dense(np.ones((3, third.out_size)), np.zeros(3))
    fine = Network(((first,), (second,), (third,), (ends,)), SHAPE)
    assert convolutions(fine, 2) == [first, second, third]


@pytest.mark.parametrize("kind", mostly_slow(list(KINDS), 3))
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("entries", [1, 2**17])
def test_bounds_are_those_of_whole_layers(
    kind: str, text: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vhagar_check.crops._MOST_ENTRIES", entries)
    net = network(kind)
    piece = pieces(text, Domain(SHAPE, 0.0, 1.0), True)[0]
    found = quick_bounds(net, piece)
    monkeypatch.setattr(neuron_bounds, "convolutions", lambda *_: None)
    whole = quick_bounds(net, piece)
    for mine, theirs in zip(found.hexagons, whole.hexagons, strict=True):
        for name in ("low", "high", "low_p", "high_p", "gap_low", "gap_high"):
            one, other = getattr(mine, name), getattr(theirs, name)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_whole_layers_are_taken_where_there_are_no_windows() -> None:
    net = network("plain")
    assert convolutions(net, 2) is None
    far = Conv(np.ones((1, 2, 2, 2)), np.zeros(1), SHAPE, (1, 1), (3, 0, 0, 0), (1, 1), 1)
    last = Dense(np.ones((3, far.out_size)), np.zeros(3))
    padded = Network(((far,), (last,)), SHAPE)
    assert convolutions(padded, 0) is None
    bounds = quick_bounds(padded, pieces("linf(0.1)", Domain(SHAPE, 0.0, 1.0), True)[0])
    assert isinstance(bounds, Bounds)
