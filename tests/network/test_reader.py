"""The reader against onnxruntime, feature by feature and on random models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar.network import AbstractLinear, read_onnx

from ..marks import slow_if_large

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.onnx"))
IMAGE = (3, 7, 6)

Builder = Any
RNG = np.random.default_rng(11)


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 1))


def conv(builder: Builder, filters: int = 4, **attributes: Any) -> Builder:
    groups = attributes.get("group", 1)
    weight, bias = weights(filters, 3 // groups, 3, 2), weights(filters)
    return builder.add("Conv", weight, bias, **attributes)


def classify(builder: Builder, size: int) -> Builder:
    """ReLU, Flatten and a last layer of five scores."""
    return builder.add("Relu").add("Flatten").add("Gemm", weights(size, 5), weights(5))


# Convolutions of a 3x7x6 image, with the (rows, columns) that they give.
CONVOLUTIONS = [
    ({}, (5, 5)),
    ({"strides": [2, 3]}, (3, 2)),
    ({"pads": [1, 1, 1, 1]}, (7, 7)),
    ({"pads": [2, 0, 1, 3], "strides": [2, 1]}, (4, 8)),
    ({"auto_pad": "SAME_UPPER"}, (7, 6)),
    ({"auto_pad": "SAME_LOWER"}, (7, 6)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 3]}, (4, 2)),
    ({"auto_pad": "SAME_LOWER", "strides": [3, 2]}, (3, 3)),
    ({"auto_pad": "SAME_LOWER", "strides": [5, 4]}, (2, 2)),
    ({"auto_pad": "VALID", "strides": [2, 2]}, (3, 3)),
    ({"auto_pad": "NOTSET", "pads": [0, 1, 2, 0], "kernel_shape": [3, 2]}, (7, 6)),
    ({"dilations": [2, 3]}, (3, 3)),
    ({"dilations": [3, 1], "pads": [3, 0, 3, 1], "strides": [1, 2]}, (7, 3)),
    ({"group": 3, "filters": 6}, (5, 5)),
    ({"group": 3, "filters": 3, "pads": [1, 0, 0, 1]}, (6, 6)),
]

# What a chain may do between an input (3, 7, 6) and a flat vector of 126.
CHANNELS = weights(1, 3, 1, 1)
PIXELS = weights(3, 7, 6)
BEFORE: dict[str, Callable[[Builder], Builder]] = {
    "Sub and Div by channel": lambda b: b.add("Sub", CHANNELS).add("Div", abs(CHANNELS) + 0.3),
    "Sub without the batch dimension": lambda b: b.add("Sub", CHANNELS[0]),
    "Mul and Add by pixel": lambda b: b.add("Mul", PIXELS).add("Add", PIXELS[::-1]),
    "Add by column": lambda b: b.add("Add", PIXELS[0, 0]),
    "scalar Mul": lambda b: b.add("Mul", np.array(-2.5)),
    "Div by a vector of one": lambda b: b.add("Div", np.array([0.25])),
    "Sub from a constant": lambda b: b.add("Sub", CHANNELS, first=True),
    "Add and Mul with the constant first": lambda b: b.add("Add", PIXELS, first=True).add(
        "Mul", CHANNELS, first=True
    ),
    "constants as nodes": lambda b: b.add("Sub", CHANNELS, as_node=True),
    "Identity": lambda b: b.add("Identity"),
    "Dropout": lambda b: b.add("Dropout"),
    "Reshape and back": lambda b: b.add("Reshape", [0, -1, 2]).add("Reshape", [-1, 3, 7, 6]),
    "Flatten and back": lambda b: b.add("Flatten").add("Reshape", [0, 3, 7, -1]),
    "Relu": lambda b: b.add("Relu"),
    "Relu and Mul by pixel": lambda b: b.add("Relu").add("Mul", PIXELS),
    "Sub, Relu, Div": lambda b: b.add("Sub", CHANNELS).add("Relu").add("Div", CHANNELS),
}

FLAT: dict[str, Callable[[Builder], Builder]] = {
    "Gemm": lambda b: b.add("Gemm", weights(126, 5), weights(5)),
    "Gemm, transB": lambda b: b.add("Gemm", weights(5, 126), weights(5), transB=1),
    "Gemm, alpha and beta": lambda b: b.add(
        "Gemm", weights(126, 5), weights(5), alpha=0.5, beta=-3.0
    ),
    "Gemm, scalar bias": lambda b: b.add("Gemm", weights(126, 5), np.array(0.7)),
    "Gemm, bias of one": lambda b: b.add("Gemm", weights(126, 5), np.array([0.7]), beta=2.0),
    "Gemm, bias as a row": lambda b: b.add("Gemm", weights(126, 5), weights(1, 5)),
    "Gemm, no bias": lambda b: b.add("Gemm", weights(126, 5), alpha=2.0),
    "MatMul and Add": lambda b: b.add("MatMul", weights(126, 5)).add("Add", weights(5)),
    "MatMul alone": lambda b: b.add("MatMul", weights(126, 5)),
    "MatMul and Sub": lambda b: b.add("MatMul", weights(126, 5)).add("Sub", weights(1, 5)),
    "MatMul, minus": lambda b: b.add("MatMul", weights(126, 5)).add("Sub", weights(5), first=True),
    "Gemm, Mul, Div": lambda b: (
        b.add("Gemm", weights(126, 5), weights(5)).add("Mul", weights(5)).add("Div", np.array(0.3))
    ),
    "scaled in between": lambda b: (
        b.add("MatMul", weights(126, 8))
        .add("Relu")
        .add("Mul", weights(8))
        .add("Add", weights(8))
        .add("Gemm", weights(8, 5), weights(5))
    ),
    "scores scaled after a ReLU": lambda b: (
        b.add("MatMul", weights(126, 5)).add("Relu").add("Mul", weights(5)).add("Add", weights(5))
    ),
}


# After this line each test draws its weights anew, whatever ran before it.
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_weights_in_any_order() -> None:
    RNG.bit_generator.state = START


def agree(path: Path, shape: tuple[int, ...], scores: Callable[..., np.ndarray]) -> None:
    """The same scores as onnxruntime, to 1e-5 of the largest; and every shape fits the next."""
    network = read_onnx(path)
    assert network.input_shape == shape
    batch = np.random.default_rng(5).uniform(0, 1, (20, *shape)).astype(np.float32)
    expected = scores(str(path), batch)
    found = network.forward(batch.astype(np.float64))
    assert found.shape == (20, network.classes) == expected.shape
    assert abs(found - expected).max() <= 1e-5 * abs(expected).max()
    entering, again = network.preactivations(batch)
    assert (again == found).all()
    units = sum(values.shape[1] for values in entering)
    assert network.hidden_neurons + network.linear_units == units
    values = batch.reshape(20, -1).astype(np.float64)
    for layer in network.layers:
        assert values.shape[1] == layer.in_size
        after = layer.forward(values)
        if isinstance(layer, AbstractLinear):
            by_matrix = (layer.matrix @ values.T).T + layer.flat_bias
            assert by_matrix == pytest.approx(after, abs=1e-12 * max(abs(after).max(), 1))
        values = after
    assert (values == found).all()
    # The bytes kept for a second opinion are the model itself.
    assert (scores(network.model, batch) == expected).all()


@pytest.fixture
def check(save: Callable, onnxruntime_scores: Callable) -> Callable[[Builder], None]:
    return lambda builder: agree(save(builder), builder.shape, onnxruntime_scores)


@pytest.mark.parametrize("path", slow_if_large(EXAMPLES), ids=lambda path: path.stem)
def test_bundled_networks(path: Path, onnxruntime_scores: Callable) -> None:
    agree(path, read_onnx(path).input_shape, onnxruntime_scores)


@pytest.mark.parametrize(("attributes", "extents"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize(
    "shift", ["plain", "shifted by channel", "shifted by pixel", "scaled after"]
)
def test_convolutions(
    build: type, check: Callable, attributes: dict[str, Any], extents: tuple[int, int], shift: str
) -> None:
    builder = build(IMAGE)
    if shift == "shifted by channel":
        builder.add("Sub", CHANNELS).add("Div", abs(CHANNELS) + 0.2)
    if shift == "shifted by pixel":
        builder.add("Mul", PIXELS).add("Sub", PIXELS[::-1])
    conv(builder, **attributes)
    filters = attributes.get("filters", 4)
    if shift == "scaled after":
        builder.add("Mul", weights(filters, 1, 1)).add("Add", weights(1, filters, 1, extents[1]))
        builder.add("Mul", weights(*extents))
    check(classify(builder, filters * extents[0] * extents[1]))


# Gemm's bias became optional with operator set 11.
@pytest.mark.parametrize(
    ("flat", "opset"),
    [
        (flat, opset)
        for flat in FLAT
        for opset in (9, 13, 17)
        if (flat, opset) != ("Gemm, no bias", 9)
    ],
)
def test_fully_connected(build: type, check: Callable, flat: str, opset: int) -> None:
    check(FLAT[flat](build(IMAGE, opset).add("Flatten")))


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("opset", [9, 13, 17])
def test_before_a_convolution_and_before_a_gemm(
    build: type, check: Callable, before: str, opset: int
) -> None:
    check(classify(BEFORE[before](build(IMAGE, opset)), 126))
    padded = conv(BEFORE[before](build(IMAGE, opset)), pads=[1, 1, 1, 0])
    check(classify(padded, 4 * 7 * 6))


@pytest.mark.parametrize("batch", [1, "batch"])
def test_batch_of_one_and_symbolic_batch(build: type, check: Callable, batch: int | str) -> None:
    check(FLAT["Gemm"](build(IMAGE, batch=batch).add("Reshape", [batch == 1 or -1, 126])))


def test_defaults_are_float32_as_all_attributes(build: type, save: Callable) -> None:
    """Written out or left out, 0.01 is the float32 next to it: to the last bit the same network."""
    batch = np.array([[-1.0, -3.0]])
    left_out = read_onnx(save(build((2,)).add("LeakyRelu"))).forward(batch)
    written = read_onnx(save(build((2,)).add("LeakyRelu", alpha=0.01))).forward(batch)
    assert (left_out == written).all()
    assert (written == batch * float(np.float32(0.01))).all()
    normal = [np.ones(2), np.zeros(2), np.zeros(2), np.full(2, 1e-4)]
    left_out = read_onnx(save(build((2,)).add("BatchNormalization", *normal))).forward(batch)
    builder = build((2,)).add("BatchNormalization", *normal, epsilon=1e-5)
    assert (left_out == read_onnx(save(builder)).forward(batch)).all()


@pytest.mark.parametrize("seed", range(40))
def test_random_models(build: type, check: Callable, seed: int) -> None:
    """Everything at once, in random order: two or three convolutions, then one or two Gemms."""
    rng = np.random.default_rng(seed)
    channels, height, width = (int(size) for size in rng.integers((1, 5, 5), (4, 9, 9)))
    builder = build((channels, height, width), int(rng.choice([9, 11, 13, 17])))
    shape = builder.shape
    for _ in range(rng.integers(1, 4)):
        _sprinkle(builder, shape, rng)
        groups = shape[0] if rng.random() < 0.3 else 1
        kernel = rng.integers(1, 4, 2)
        stride, dilation, pads = rng.integers(1, 3, 2), rng.integers(1, 3, 2), rng.integers(0, 3, 4)
        pads[2:] += np.maximum(dilation * (kernel - 1) + 1 - np.array(shape[1:]), 0)
        filters = groups * int(rng.integers(1, 4))
        operands = [rng.normal(size=(filters, shape[0] // groups, *kernel))]
        operands += [rng.normal(size=filters)] * int(rng.random() < 0.7)
        spread = {"strides": stride.tolist(), "dilations": dilation.tolist()}
        builder.add("Conv", *operands, pads=pads.tolist(), group=groups, **spread)
        padded = np.array(shape[1:]) + pads[:2] + pads[2:]
        shape = (filters, *((padded - dilation * (kernel - 1) - 1) // stride + 1).tolist())
        _sprinkle(builder, shape, rng)
        builder.add("Relu")
    builder.add("Flatten")
    size = int(np.prod(shape))
    for out in (int(rng.integers(3, 9)), 4):
        _sprinkle(builder, (size,), rng)
        builder.add("Gemm", rng.normal(size=(out, size)), rng.normal(size=out), transB=1)
        _sprinkle(builder, (out,), rng)
        builder.add("Relu" if out != 4 or rng.random() < 0.2 else "Identity")
        size = out
    check(builder)


def _sprinkle(builder: Builder, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """Up to three element-wise operations whose constants broadcast to `shape`."""
    for _ in range(rng.integers(0, 4)):
        kind = str(rng.choice(["Add", "Sub", "Mul", "Div"]))
        kept = rng.random(len(shape)) < 0.5
        values = rng.uniform(0.5, 2, np.where(kept, shape, 1)) * rng.choice([-1, 1])
        values = values if rng.random() < 0.7 else values[None]
        builder.add(kind, values, first=kind != "Div" and rng.random() < 0.3)


def test_a_cast_to_single_precision_rounds(build: type, save: Callable) -> None:
    """As every runtime does, and the checker."""
    weight = np.random.default_rng(3).normal(size=(4, 3))
    builder = build((4,))
    builder.add("MatMul", np.eye(4))
    model = builder.model()
    node = helper.make_node("Cast", ["double"], ["single"], to=TensorProto.FLOAT)
    product = helper.make_node("MatMul", [model.graph.node[-1].output[0], "single"], ["scores"])
    model.graph.node.extend([node, product])
    model.graph.initializer.append(numpy_helper.from_array(weight, "double"))
    model.graph.output[0].name = "scores"
    network = read_onnx(save(model))
    expected = weight.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(network.forward(np.eye(4)), expected)
