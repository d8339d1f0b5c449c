"""Small ONNX graphs with branches, pools and units, as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


class Build:
    """Writes a graph node by node; every call gives the new value's name."""

    def __init__(self, shape: list[Any], opset: int = 13, seed: int = 5) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self._shape = shape
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def __call__(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{kind}{len(self._nodes)}_{k}" for k in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype=kind), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def drawn(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape))

    def conv(self, x: str, filters: int, channels: int, size: int = 3, **attributes: Any) -> str:
        weight, bias = self.drawn(filters, channels, size, size), self.drawn(filters)
        return self("Conv", x, weight, bias, **attributes)

    def dense(self, x: str, out: int, into: int) -> str:
        weight = self.constant(self.rng.normal(size=(out, into)) / np.sqrt(into))
        return self("Gemm", x, weight, self.drawn(out), transB=1)

    def model(self, output: str, shape: list[Any] | None = None) -> bytes:
        graph = helper.make_graph(
            self._nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self._shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            self._constants,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


IMAGE = ["batch", 2, 6, 6]


def residual() -> bytes:
    b = Build(IMAGE)
    first = b("Relu", b.conv("x", 3, 2, pads=[1] * 4))
    second = b.conv(b("Relu", b.conv(first, 3, 3, pads=[1] * 4)), 3, 3, pads=[1] * 4)
    joined = b("Relu", b("Add", second, first))
    return b.model(b.dense(b("Flatten", joined), 3, 108))


def pooled() -> bytes:
    """A ReLU that moves behind its pool, and windows cut off by the border."""
    b = Build(IMAGE)
    before = b("Dropout", b("Relu", b.conv("x", 3, 2, pads=[1] * 4)))
    pool = b("MaxPool", before, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0])
    return b.model(b.dense(b("Flatten", pool), 3, 27))


def pooled_unevenly() -> bytes:
    """ONNX's rounding up, and a pool without a ReLU."""
    b = Build(IMAGE)
    pool = b("MaxPool", b.conv("x", 2, 2), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    return b.model(b.dense(b("Flatten", b("Relu", pool)), 3, 8))


def pooled_behind() -> bytes:
    """Rounded up, a last window would begin behind the image; it is none."""
    b = Build(IMAGE, opset=22)
    settings = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1}
    pool = b("MaxPool", "x", **settings)
    mean = b("AveragePool", "x", **settings, count_include_pad=1)
    both = b("Concat", b("Flatten", pool), b("Flatten", mean), axis=1)
    return b.model(b.dense(both, 3, 36))


def averaged() -> bytes:
    b = Build(IMAGE)
    first = b("Relu", b.conv("x", 3, 2))
    plain = b("AveragePool", first, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    counted = b(
        "AveragePool", first, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1
    )
    both = b("Concat", plain, counted, axis=1)
    mean = b("GlobalAveragePool", both)
    other = b("ReduceMean", both, axes=[2, 3], keepdims=0)
    return b.model(b("Sub", b.dense(b("Flatten", mean), 3, 6), b.dense(other, 3, 6)))


def normalised() -> bytes:
    b = Build(IMAGE)
    parts = [b.drawn(3), b.drawn(3), b.drawn(3), b.constant(b.rng.random(3) + 0.5)]
    first = b("BatchNormalization", b.conv("x", 3, 2), *parts, epsilon=1e-3)
    return b.model(b.dense(b("Flatten", b("Relu", first)), 3, 48))


def bent() -> bytes:
    """LeakyRelu, PRelu, Clip and Abs one after the other."""
    b = Build(IMAGE)
    first = b("LeakyRelu", b.conv("x", 3, 2), alpha=0.1)
    second = b("PRelu", first, b.drawn(3, 1, 1))
    flat = b("Flatten", second)
    third = b("Clip", b.dense(flat, 5, 48), b.constant(-0.5), b.constant(1.5))
    fourth = b("Abs", b.dense(third, 5, 5))
    fifth = b("Clip", b.dense(fourth, 5, 5), "", b.constant(0.75))
    sixth = b("Clip", b.dense(fifth, 5, 5), b.constant(0.25))
    return b.model(b.dense(sixth, 3, 5))


def largest_and_smallest() -> bytes:
    b = Build(["batch", 8])
    u, v, w = (b.dense("x", 4, 8) for _ in range(3))
    limit = b.drawn(4)
    parts = [
        b("Max", u, v),
        b("Min", v, w),
        b("Max", u, v, w),
        b("Min", u, limit, v, w),
        b("Max", limit, u),
        b("Min", u, limit),
        b("Max", b("Relu", u), w),
    ]
    return b.model(b.dense(b("Concat", *parts, axis=-1), 3, 28))


def reduced() -> bytes:
    b = Build(IMAGE)
    first = b.conv("x", 3, 2)
    top = b("ReduceMax", b("Relu", first), axes=[3], keepdims=0)
    low = b("ReduceMin", first, axes=[-2, -1], keepdims=1)
    whole = b("GlobalMaxPool", b("Relu", first))
    parts = [b("Flatten", part) for part in (top, low, whole)]
    return b.model(b.dense(b("Concat", *parts, axis=1), 3, 18))


def arranged() -> bytes:
    """Everything that only arranges entries."""
    b = Build(IMAGE)
    pads = b.integers(0, 0, 1, -1, 0, 0, 0, 2)
    padded = b("Pad", "x", pads, b.constant(0.25))
    turned = b("Transpose", padded, perm=[0, 2, 3, 1])
    cut = b(
        "Slice", turned, b.integers(5, 0), b.integers(-100, 6), b.integers(1, 2), b.integers(-2, 1)
    )
    left, right = b("Split", cut, b.integers(2, 4), axis=2, outputs=2)
    chosen = b("Gather", right, b.integers(3, 0, 0), axis=2)
    joined = b("Concat", left, chosen, axis=2)
    lifted = b("Squeeze", b("Unsqueeze", joined, b.integers(1)), b.integers(1))
    mask = b.constant(b.rng.random((3, 5, 1)) < 0.5, np.bool_)
    mixed = b("Where", mask, lifted, b.constant(0.5))
    flat = b("Reshape", mixed, b.integers(0, -1))
    return b.model(b.dense(b("Relu", b.dense(flat, 4, 30)), 3, 4))


def shapes_computed() -> bytes:
    """As exporters write `x.view(x.size(0), -1)`."""
    b = Build(IMAGE)
    first = b("Relu", b.conv("x", 3, 2))
    size = b("Gather", b("Shape", first), b.constant(0, np.int64), axis=0)
    shape = b("Concat", b("Unsqueeze", size, b.integers(0)), b.integers(-1), axis=0)
    weight = b("Transpose", b.drawn(3, 48), perm=[1, 0])
    return b.model(b("MatMul", b("Reshape", first, shape), weight))


def summed() -> bytes:
    b = Build(IMAGE)
    u = b("Relu", b.conv("x", 2, 2, pads=[1] * 4))
    rows = b("ReduceMean", u, axes=[3], keepdims=1)
    total = b("Sum", u, rows, b.drawn(2, 1, 1), "x", b.drawn(1, 6))
    less = b("Sub", b("Neg", total), b("Mul", rows, b.drawn(1, 1, 6)))
    return b.model(b.dense(b("Flatten", b("Relu", less)), 3, 72))


def far_carried() -> bytes:
    """The input goes past three layers, and one value past two."""
    b = Build(["batch", 6])
    first = b("Relu", b.dense("x", 6, 6))
    second = b("Relu", b.dense(first, 6, 6))
    third = b("Relu", b("Add", b.dense(second, 6, 6), first))
    last = b("Concat", third, "x", b("Identity", "x"), axis=1)
    return b.model(b("Softmax", b.dense(last, 3, 18)))


def old_attributes() -> bytes:
    """Opset 8: what became inputs later are attributes."""
    b = Build(IMAGE, opset=8)
    padded = b("Pad", "x", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5)
    cut = b("Slice", padded, starts=[0, 1], ends=[1, 7], axes=[1, 2])
    clipped = b("Clip", b.conv(cut, 2, 1), min=-1.0, max=1.0)
    left, right = b("Split", clipped, axis=1, split=[1, 1], outputs=2)
    lifted = b("Unsqueeze", left, axes=[1])
    flat = b("Flatten", b("Add", b("Squeeze", lifted, axes=[1]), right))
    kept = b("Dropout", flat, ratio=0.3)
    return b.model(b("LogSoftmax", b.dense(kept, 3, 24)))


def new_inputs() -> bytes:
    """Opset 18: axes and parts are inputs."""
    b = Build(IMAGE, opset=18)
    padded = b("Pad", "x", b.integers(1, 1), "", b.integers(-1))
    parts = b("Split", padded, axis=3, num_outputs=3, outputs=3)
    wider = b("Pad", parts[2], b.integers(0, 1), b.constant(-1.0), b.integers(3))
    joined = b("Sum", parts[0], wider)
    mean = b("ReduceMean", joined, b.integers(2, 3), keepdims=0)
    top = b("ReduceMax", joined, b.integers(2, 3), keepdims=0)
    return b.model(b.dense(b("Concat", mean, top, axis=1), 3, 4))


def enlarged() -> bytes:
    """Transposed convolutions, blocks, repeats and sums."""
    b = Build(IMAGE)
    deep = b("SpaceToDepth", "x", blocksize=2)
    first = b("Relu", b.conv(deep, 8, 8, 2))
    wide = b("DepthToSpace", first, blocksize=2)
    other = b("DepthToSpace", first, blocksize=2, mode="CRD")
    both = b("Mean", wide, other, b("Tile", b.drawn(1, 1, 2, 2), b.integers(1, 2, 2, 2)))
    weight, bias = b.drawn(2, 3, 3, 2), b.drawn(3)
    up = b(
        "ConvTranspose",
        both,
        weight,
        bias,
        strides=[2, 3],
        pads=[1, 0, 0, 2],
        output_padding=[1, 2],
        dilations=[1, 2],
    )
    tops = b("ReduceSum", b("Relu", up), b.integers(2), keepdims=0)
    thin = b("ReduceSum", b("Tile", tops, b.integers(1, 2, 1)), b.integers(-1), keepdims=0)
    return b.model(b.dense(thin, 3, 6))


def chosen() -> bytes:
    """Activations written as choices by comparisons, and a limit that is no ReLU."""
    b = Build(["batch", 6])
    x = b.dense("x", 5, 6)
    above, below = b("Greater", x, b.constant(0.0)), b("Less", x, b.constant([0.0] * 5))
    limit = b.drawn(5)
    parts = [
        b("Mul", x, b("Cast", above, to=1)),
        b("Mul", b("Cast", b("Not", above), to=1), b("Neg", x)),
        b("Where", below, b("Div", x, b.constant(7.0)), b("Mul", b.drawn(5), x)),
        b("Where", b("LessOrEqual", limit, x), x, limit),
        b("Where", b("LessOrEqual", limit, x), limit, x),
        b("HardSigmoid", x, beta=0.25),
    ]
    return b.model(b.dense(b("Concat", *parts, axis=1), 3, 30))


def enlarged_by_choice() -> bytes:
    """Entries repeated, each from the nearest one, and products of constants."""
    b = Build(IMAGE)
    scales = b.constant([1.0, 1.0, 3.0, 2.0])
    settings = {"mode": "nearest", "nearest_mode": "ceil"}
    wide = b("Resize", "x", "", scales, **settings)
    other = b("Resize", "x", "", scales, coordinate_transformation_mode="asymmetric", **settings)
    flat = b("Flatten", b("Relu", b("Sub", wide, b("Mul", other, b.drawn(2, 1, 1)))))
    weight = b("MatMul", b.drawn(432, 4), b("MatMul", b.drawn(4, 5), b.drawn(5, 3)))
    return b.model(b("MatMul", flat, weight))


GRAPHS: dict[str, Callable[[], bytes]] = {
    function.__name__: function
    for function in (
        residual,
        pooled,
        pooled_unevenly,
        pooled_behind,
        averaged,
        normalised,
        bent,
        largest_and_smallest,
        reduced,
        arranged,
        shapes_computed,
        summed,
        far_carried,
        old_attributes,
        new_inputs,
        enlarged,
        chosen,
        enlarged_by_choice,
    )
}


def runtime_scores(data: bytes, inputs: np.ndarray) -> np.ndarray:
    """What onnxruntime computes, in float32, one input after the other."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
    (name,) = (item.name for item in session.get_inputs())
    sizes = session.get_inputs()[0].shape
    rows = []
    for x in inputs.astype(np.float32):
        if len(sizes) == x.ndim:  # without a batch
            rows.append(session.run(None, {name: x})[0].reshape(1, -1))
            continue
        batch = sizes[0] if isinstance(sizes[0], int) else 1
        rows.append(session.run(None, {name: np.repeat(x[None], batch, axis=0)})[0][:1])
    return np.concatenate(rows)


# Small enough for exact arithmetic and for whole searches.
SMALL = [1, 1, 4, 4]


def small_residual(seed: int = 0) -> bytes:
    b = Build(SMALL, seed=seed)
    first = b("Relu", b.conv("x", 1, 1, 3, strides=[2, 2], pads=[1] * 4))
    inner = b.conv(b("Relu", b.conv(first, 1, 1, pads=[1] * 4)), 1, 1, pads=[1] * 4)
    joined = b("Relu", b("Add", inner, first))
    return b.model(b.dense(b("Flatten", joined), 3, 4))


def small_pool(seed: int = 0) -> bytes:
    b = Build(SMALL, seed=seed)
    pool = b("MaxPool", b("Relu", b.conv("x", 2, 1, 2)), kernel_shape=[2, 2])
    return b.model(b.dense(b("Flatten", pool), 3, 8))


def small_concat(seed: int = 0) -> bytes:
    b = Build(SMALL, seed=seed)
    left = b("Relu", b.conv("x", 1, 1, 3))
    right = b("AveragePool", "x", kernel_shape=[2, 2], strides=[2, 2])
    hidden = b("Relu", b.dense(b("Flatten", b("Concat", left, right, axis=1)), 4, 8))
    return b.model(b("LogSoftmax", b.dense(hidden, 3, 4)))


def small_leaky(seed: int = 0) -> bytes:
    b = Build(SMALL, seed=seed)
    first = b("LeakyRelu", b.conv("x", 1, 1, 3), alpha=0.2)
    return b.model(b.dense(b("LeakyRelu", b.dense(b("Flatten", first), 4, 4), alpha=0.1), 3, 4))


def small_clip(seed: int = 0) -> bytes:
    b = Build(SMALL, seed=seed)
    first = b("Clip", b.conv("x", 1, 1, 3), b.constant(0.0), b.constant(1.0))
    return b.model(b.dense(b("Abs", b.dense(b("Flatten", first), 3, 4)), 3, 3))


SMALL_GRAPHS: dict[str, Callable[[int], bytes]] = {
    function.__name__: function
    for function in (small_residual, small_pool, small_concat, small_leaky, small_clip)
}


def small_choice(seed: int = 0) -> bytes:
    b = Build([1, 4], seed=seed)
    x = b.dense("x", 3, 4)
    above = b("Greater", x, b.constant(0.0))
    bent = b("Where", above, x, b("Mul", x, b.constant(0.25)))
    limit = b.constant(0.5)
    least = b("Where", b("Less", bent, limit), limit, bent)
    return b.model(b.dense(b("Sub", least, b("Mul", x, b("Cast", above, to=1))), 3, 3))


def small_masked(seed: int = 0) -> bytes:
    b = Build([1, 4], seed=seed)
    x = b("HardSigmoid", b.dense("x", 3, 4), alpha=0.5, beta=0.25)
    y = b("Sub", x, b.constant(0.5))
    masked = b("Mul", b("Cast", b("Less", b.constant(0.0), y), to=1), y)
    return b.model(b.dense(masked, 3, 3))


def small_enlarged(seed: int = 0) -> bytes:
    b = Build([1, 1, 2, 2], seed=seed)
    wide = b("Resize", "x", "", b.constant([1.0, 1.0, 2.0, 3.0]), mode="nearest")
    weight = b("MatMul", b.drawn(24, 2), b.drawn(2, 3))
    return b.model(b("MatMul", b("Relu", b("Flatten", wide)), weight))


def small_vector(seed: int = 0) -> bytes:
    """An input without a batch dimension."""
    b = Build([4], seed=seed)
    first = b("Relu", b("Add", b("MatMul", "x", b.drawn(4, 3)), b.drawn(3)))
    second = b("MatMul", b.drawn(3, 3), first)
    return b.model(b.dense(b("Unsqueeze", second, b.integers(0)), 3, 3))


def small_batch(seed: int = 0) -> bytes:
    """A batch of three, whose size the file has written into a shape."""
    b = Build([3, 1, 2, 2], seed=seed)
    flat = b("Reshape", b("Relu", b.conv("x", 2, 1, 2, pads=[0, 1, 1, 0])), b.integers(3, 8))
    return b.model(b.dense(b("Add", flat, b.drawn(1, 8)), 3, 8), [3, 3])


# For the comparison of readers alone.
FUZZED_GRAPHS = (small_choice, small_masked, small_enlarged, small_vector, small_batch)
