"""Models that between them use every operator in every form that the reader knows.

Each is a function of a builder over an image (3, 8, 6) that ends with scores; it is built for all
operator sets of its range. Forms that changed with the operator sets are written as each wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

IMAGE = (3, 8, 6)
OPSETS = (8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22)

Builder = Any
Model = Callable[[Builder], Builder]
_RNG = np.random.default_rng(29)


@dataclass(frozen=True)
class Entry:
    """A model, the operator sets it is built for, and the size of its batch."""

    make: Model
    opsets: tuple[int, ...]
    batch: int | str

    def built(self, build: type, opset: int | None = None) -> Builder:
        """The model of an operator set; of the latest, if none is named."""
        return self.make(build(IMAGE, opset or self.opsets[-1], self.batch))


MODELS: dict[str, Entry] = {}


def model(since: int = 8, batch: int | str = "batch") -> Callable[[Model], Model]:
    """Enter a model into the table."""

    def enter(make: Model) -> Model:
        opsets = tuple(opset for opset in OPSETS if opset >= since)
        MODELS[make.__name__] = Entry(make, opsets, batch)
        return make

    return enter


def weights(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 1))


def scores(builder: Builder, size: int) -> Builder:
    return builder.add("Flatten").add("Gemm", weights(size, 5), weights(5))


def conv(builder: Builder, filters: int, channels: int, **attributes: Any) -> Builder:
    """A convolution that keeps the image's size."""
    weight = weights(filters, channels, 3, 3)
    return builder.add("Conv", weight, weights(filters), pads=[1, 1, 1, 1], **attributes)


def normalised(builder: Builder, channels: int) -> Builder:
    means, variances = weights(channels), abs(weights(channels)) + 0.1
    return builder.add(
        "BatchNormalization", weights(channels), weights(channels), means, variances, epsilon=1e-3
    )


@model()
def residual(b: Builder) -> Builder:
    """Two residual blocks, the second with a convolution on its shortcut."""
    start = normalised(conv(b, 4, 3), 4).add("Relu").last
    conv(conv(b, 4, 4).add("Relu"), 4, 4).add("Add", start).add("Relu")
    middle = b.last
    main = normalised(conv(b, 6, 4, strides=[2, 2]).add("Relu"), 6).last
    b.follow(middle).add("Conv", weights(6, 4, 1, 1), strides=[2, 2]).add("Add", main)
    return scores(b.add("Relu").add("GlobalAveragePool"), 6)


@model()
def residual_before_activation(b: Builder) -> Builder:
    """Normalisation and ReLU come first in a block; the skip carries what is not rectified."""
    start = conv(b, 4, 3).last
    conv(normalised(b, 4).add("Relu"), 4, 4).add("Add", start)
    start = b.last
    conv(normalised(b, 4).add("Relu"), 4, 4).add("Add", start)
    return scores(normalised(b, 4).add("Relu").add("GlobalAveragePool"), 4)


@model()
def dense_joins(b: Builder) -> Builder:
    """Every layer sees all before it."""
    for channels in (3, 5, 7):
        before = b.last
        conv(b, 2, channels).add("Relu").add("Concat", before, axis=1)
    return scores(b, 9 * 48)


@model()
def branches_of_unequal_depth(b: Builder) -> Builder:
    deep = conv(conv(conv(b, 2, 3).add("Relu"), 3, 2).add("Relu"), 2, 3).add("Relu").last
    shallow = conv(b.follow("image"), 2, 3).last
    flat = b.follow("image").add("Slice", [0], [2], [1]).last if b.opset >= 10 else shallow
    return scores(b.follow(deep).add("Sum", shallow, flat).add("Concat", shallow, axis=-3), 4 * 48)


@model()
def the_input_added_at_the_end(b: Builder) -> Builder:
    late = b.add("Flatten").add("Gemm", weights(144, 9), weights(9)).add("Relu").last
    b.add("Gemm", weights(9, 5), weights(5)).add("Relu")
    b.add("Gemm", weights(5, 5), weights(5))
    deep = b.last
    early = b.follow("image").add("Flatten").add("MatMul", weights(144, 5)).last
    b.follow(late).add("MatMul", weights(9, 5)).add("Sub", early).add("Add", deep)
    return b


@model()
def max_pool(b: Builder) -> Builder:
    return scores(conv(b, 4, 3).add("Relu").add("MaxPool", kernel_shape=[2, 2], strides=[2, 2]), 48)


@model()
def max_pool_overlapping(b: Builder) -> Builder:
    b.add("MaxPool", kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 1])
    return scores(conv(b, 2, 3).add("Relu"), 2 * 8 * 3)


@model(10)
def max_pool_rounded_up(b: Builder) -> Builder:
    pool = {"kernel_shape": [3, 3], "strides": [3, 2], "ceil_mode": 1}
    return scores(conv(b, 2, 3).add("MaxPool", **pool, pads=[1, 0, 0, 1]), 2 * 3 * 3)


@model(10)
def max_pool_dilated(b: Builder) -> Builder:
    b.add("MaxPool", kernel_shape=[2, 3], dilations=[3, 2], pads=[0, 1, 1, 0])
    return scores(b, 3 * 6 * 3)


@model()
def max_pool_same(b: Builder) -> Builder:
    b.add("MaxPool", kernel_shape=[3, 2], strides=[3, 2], auto_pad="SAME_UPPER")
    b.add("MaxPool", kernel_shape=[2, 2], strides=[1, 2], auto_pad="SAME_LOWER")
    return scores(b.add("MaxPool", kernel_shape=[1, 1], auto_pad="VALID"), 3 * 3 * 2)


@model()
def max_pool_of_rows(b: Builder) -> Builder:
    b.add("Reshape", [0, 6, 24]).add("MaxPool", kernel_shape=[4], strides=[4])
    return scores(b, 36)


@model()
def max_pool_beside_its_relu(b: Builder) -> Builder:
    """The ReLU's result is used twice, so it stays where it is."""
    start = conv(b, 2, 3).add("Relu").last
    pooled = b.add("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]).last
    return scores(b.follow(start).add("Add", pooled), 2 * 48)


@model()
def max_pool_after_a_dropped_relu(b: Builder) -> Builder:
    conv(b, 2, 3).add("Relu").add("Dropout").add("Identity")
    return scores(b.add("GlobalMaxPool"), 2)


@model()
def average_pool(b: Builder) -> Builder:
    b.add("AveragePool", kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 0, 1])
    return scores(conv(b, 2, 3).add("Relu"), 2 * 4 * 6)


@model()
def average_pool_with_its_padding(b: Builder) -> Builder:
    pool = {"kernel_shape": [3, 2], "strides": [2, 2], "count_include_pad": 1}
    return scores(conv(b, 2, 3).add("Relu").add("AveragePool", **pool, pads=[1, 1, 1, 1]), 2 * 16)


@model(11)
def average_pool_rounded_up(b: Builder) -> Builder:
    pool = {"kernel_shape": [3, 2], "strides": [3, 3], "ceil_mode": 1}
    b.add("AveragePool", **pool, pads=[1, 1, 0, 0], count_include_pad=b.opset % 2)
    return scores(b, 3 * 3 * 3)


@model(19)
def average_pool_dilated(b: Builder) -> Builder:
    return scores(b.add("AveragePool", kernel_shape=[2, 2], dilations=[2, 3]), 3 * 6 * 3)


@model()
def average_pool_same(b: Builder) -> Builder:
    b.add("AveragePool", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER")
    return scores(b.add("Relu"), 3 * 4 * 3)


@model()
def global_pools(b: Builder) -> Builder:
    start = conv(b, 4, 3).last
    means = b.add("GlobalAveragePool").last
    b.follow(start).add("GlobalMaxPool").add("Concat", means, axis=1)
    return scores(b, 8)


@model()
def reductions(b: Builder) -> Builder:
    start = conv(b, 4, 3).last
    found = []
    for kind, since in (
        ("ReduceMean", 18),
        ("ReduceSum", 13),
        ("ReduceMax", 18),
        ("ReduceMin", 18),
    ):
        b.follow(start).stated(kind, [2, -1], since=since, names=["axes"])
        found.append(b.last)
        b.follow(start)
        axes = [np.array([1])] if b.opset >= since else []
        b.add(kind, *axes, keepdims=0, **({} if axes else {"axes": [1]}))
        found.append(b.add("Flatten").last)
    flat = [b.follow(name).add("Flatten").last for name in found]
    return scores(b.follow(flat[0]).add("Concat", *flat[1:], axis=1), 4 * (4 + 48))


@model()
def leaky_and_parametric(b: Builder) -> Builder:
    conv(b, 4, 3).add("LeakyRelu", alpha=0.2).add("PRelu", weights(4, 1, 1))
    conv(b, 2, 4).add("LeakyRelu")
    return scores(b.add("PRelu", weights(1)), 96)


@model()
def clips(b: Builder) -> Builder:
    limits = [[-0.3, 0.4], [0.0, 6.0], [-0.2, None], [None, 0.1], [None, None]]
    start = conv(b, 2, 3).last
    found = []
    for limit in limits:
        b.follow(start)
        if b.opset < 11:
            named = zip(("min", "max"), limit, strict=True)
            b.add("Clip", **{name: value for name, value in named if value is not None})
        else:
            b.add("Clip", *("" if value is None else np.array(value) for value in limit))
        found.append(b.last)
    return scores(b.follow(found[0]).add("Concat", *found[1:], axis=1).add("Relu"), 10 * 48)


@model()
def absolute_values(b: Builder) -> Builder:
    return scores(conv(conv(b, 3, 3).add("Abs"), 2, 3).add("Neg").add("Abs"), 96)


@model()
def largest_and_smallest(b: Builder) -> Builder:
    first = conv(b, 2, 3).last
    second = conv(b.follow("image"), 2, 3).add("Relu").last
    third = conv(b.follow("image"), 2, 3).last
    found = []
    for kind in ("Max", "Min"):
        two = b.follow(first).add(kind, second).last
        many = b.follow(first).add(kind, second, third, weights(2, 1, 1), weights(1)).last
        three = b.follow(third).add(kind, second, first).last
        fixed = b.follow(first).add(kind, weights(1, 2, 8, 6)).last
        turned = b.follow(third).add(kind, np.array([0.1]), np.array([-0.1]), first=True).last
        one = b.follow(second).add(kind).last
        found += [two, many, three, fixed, turned, one]
    return scores(b.follow(found[0]).add("Concat", *found[1:], axis=1), 24 * 48)


@model()
def largest_of_another_shape(b: Builder) -> Builder:
    small = b.add("GlobalAveragePool").last
    b.follow("image").add("Max", small).add("Relu").add("Min", small, first=False)
    return scores(b, 144)


@model()
def broadcasts(b: Builder) -> Builder:
    mean = b.add("GlobalAveragePool").last
    b.follow("image").add("Sub", mean).add("Relu").add("Mul", np.array(1.5))
    small = b.follow(mean).add("Mul", weights(1, 3, 8, 6)).add("Add", mean).last
    return scores(b.follow("image").add("Add", small).add("Mean", mean, small), 144)


@model()
def transposed_images(b: Builder) -> Builder:
    """As from TensorFlow: channels last outside, first inside."""
    b.add("Reshape", [0, 8, 6, 3]).add("Transpose", perm=[0, 3, 1, 2])
    conv(b, 4, 3).add("Relu").add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    return scores(b.add("Transpose", perm=[0, 2, 3, 1]), 48)


@model()
def slices(b: Builder) -> Builder:
    b.stated("Slice", [1, 0], [7, -1], [2, 3], since=10, names=["starts", "ends", "axes"])
    b.stated("Slice", [0, -2], [2**31, 99], since=10, names=["starts", "ends"])
    return scores(b.add("Relu"), 2 * 6 * 5)


@model(10)
def slices_with_steps(b: Builder) -> Builder:
    b.add("Slice", [6, 5], [-100, 0], [2, 3], [-2, -3])
    return scores(b.add("Slice", [1], [2**31], [-3], [2]).add("Relu"), 1 * 4 * 2)


@model()
def pads(b: Builder) -> Builder:
    around = [0, 0, 1, 0, 0, 0, 2, 1]
    constants = [np.array(around)] if b.opset >= 11 else []
    settings = {} if constants else {"pads": around}
    b.add("Pad", *constants, **settings).add("Conv", weights(2, 3, 3, 3)).add("Relu")
    b.add("Pad", *constants, mode="reflect", **settings)
    b.add("Pad", *constants, mode="edge", **settings)
    if constants:
        b.add("Pad", *constants, np.array(0.7))
    else:
        b.add("Pad", value=0.7, **settings)
    return scores(b, 2 * (9 + 9) * (5 + 3))


@model(18)
def pads_along_axes(b: Builder) -> Builder:
    b.add("Pad", np.array([1, 2, -1, 0]), "", np.array([3, -2]))
    return scores(b.add("Relu"), 3 * 10 * 6)


@model()
def squeezed_and_back(b: Builder) -> Builder:
    for axes, kind in (([2, -1], "Unsqueeze"), ([5, 2], "Squeeze"), ([1], "Unsqueeze")):
        b.stated(kind, axes, since=13, names=["axes"])
    return scores(b.add("Relu").add("Squeeze"), 144)


@model()
def split_and_joined(b: Builder) -> Builder:
    if b.opset >= 18:
        parts = b.several("Split", 3, axis=1, num_outputs=3)
    else:
        parts = b.several("Split", 3, axis=1)
    first = b.follow(parts[0]).add("Relu").last
    b.follow(parts[2])
    sizes = [5, 3]
    if b.opset >= 13:
        top, _ = b.several("Split", 2, np.array(sizes), axis=2)
    else:
        top, _ = b.several("Split", 2, axis=2, split=sizes)
    return scores(b.follow(top).add("Concat", first, axis=2), 13 * 6)


@model()
def picked_entries(b: Builder) -> Builder:
    b.add("Gather", np.array([2, 0, -1, 2]), axis=1).add("Relu")
    b.add("Gather", np.array([[7, 1]]), axis=2).add("Gather", np.array(3), axis=-1)
    return scores(b, 8)


@model()
def repeated_entries(b: Builder) -> Builder:
    b.add("Relu").add("Tile", np.array([1, 2, 1, 3])).add("Reshape", [0, 6, 1, 8, 18])
    return scores(b.add("Expand", np.array([1, 6, 2, 8, 18])), 6 * 2 * 8 * 18)


@model(11)
def blocks_to_channels(b: Builder) -> Builder:
    b.add("SpaceToDepth", blocksize=2).add("Relu").add("DepthToSpace", blocksize=2)
    b.add("SpaceToDepth", blocksize=2).add("DepthToSpace", blocksize=2, mode="CRD")
    return scores(b, 144)


@model(9)
def chosen_entries(b: Builder) -> Builder:
    condition = _RNG.random((8, 6)) < 0.5
    relu = b.add("Relu").last
    b.follow("image").add("Where", condition, first=True)
    b.nodes[-1].input.append(relu)
    b.add("Where", ~condition, weights(3, 1, 1), first=True)
    return scores(b, 144)


@model()
def matrices_on_both_sides(b: Builder) -> Builder:
    b.add("MatMul", weights(5, 8), first=True).add("Relu").add("MatMul", weights(6, 4))
    return scores(b.add("Add", weights(4)), 3 * 5 * 4)


@model()
def vector_products(b: Builder) -> Builder:
    return scores(b.add("MatMul", weights(6)).add("Relu"), 24)


@model()
def convolutions_of_rows(b: Builder) -> Builder:
    b.add("Reshape", [0, 6, 24])
    b.add("Conv", weights(4, 3, 3), weights(4), group=2, strides=[2], pads=[1, 0]).add("Relu")
    return scores(b.add("Conv", weights(2, 4, 2), dilations=[3], auto_pad="VALID"), 2 * 9)


@model()
def transposed_convolutions(b: Builder) -> Builder:
    spread = {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 0]}
    b.add("ConvTranspose", weights(3, 4, 3, 2), weights(4), **spread).add("Relu")
    return scores(b.add("ConvTranspose", weights(4, 1, 2, 2), group=2), 2 * 16 * 17)


@model()
def convolutions_in_groups(b: Builder) -> Builder:
    conv(b, 4, 3).add("Relu").add("Conv", weights(4, 1, 3, 3), group=4, strides=[2, 1])
    return scores(b.add("Add", weights(4, 1, 1)).add("Relu"), 4 * 3 * 4)


@model()
def softmax(b: Builder) -> Builder:
    return scores(conv(b, 2, 3).add("Relu"), 96).add("Softmax", axis=1)


@model()
def logarithmic_softmax(b: Builder) -> Builder:
    return scores(b, 144).add("LogSoftmax", **({"axis": -1} if b.opset > 8 else {})).add("Identity")


@model()
def shape_of_the_batch(b: Builder) -> Builder:
    """What torch writes for `x.view(x.size(0), -1)`."""
    conv(b, 2, 3).add("Relu")
    data = b.last
    b.add("Shape").add("Gather", np.array(0), axis=0)
    b.stated("Unsqueeze", [0], since=13, names=["axes"])
    shape = b.add("Concat", np.array([-1]), axis=0).last
    return b.follow(data).add("Reshape", shape).add("Gemm", weights(96, 5), weights(5))


@model(9, batch=1)
def shapes_computed_at_length(b: Builder) -> Builder:
    """Arithmetic, casts and fills of constants before a reshape, and a constant summand."""
    b.add("Shape")
    sizes = b.last
    b.stated("Slice", [2], [4], [0], since=10, names=["starts", "ends", "axes"])
    b.add("Cast", to=1).add("Div", np.array([2.0, 3.0])).add("Floor").add("Cast", to=7)
    halves = b.last
    count = b.follow(sizes).add("Gather", np.array(1)).add("Mul", np.array(6)).last
    b.stated("Unsqueeze", [0], since=13, names=["axes"])
    target = b.add("Concat", halves, axis=0).last
    count = b.add("ConstantOfShape").add("Add", np.array([0.5])).last
    flat = b.follow(target).add("Concat", np.array([1]), first=True, axis=0).last
    summand = b.follow(count).add("Squeeze").last
    return scores(b.follow("image").add("Reshape", flat).add("Add", summand).add("Relu"), 144)


@model(11, batch=1)
def ranges_of_indices(b: Builder) -> Builder:
    b.add("Size").add("Div", np.array(36)).add("Sub", np.array(0))
    end = b.last
    b.follow(b.constant(np.array(0))).add("Range", end, b.constant(np.array(2)))
    index = b.add("Min", np.array(7)).last if b.opset >= 12 else b.last
    return scores(b.follow("image").add("Gather", index, axis=2).add("Relu"), 36)


@model()
def casts_and_normalised_input(b: Builder) -> Builder:
    b.add("Cast", to=1).add("Sub", weights(3, 1, 1)).add("Div", abs(weights(3, 1, 1)) + 0.5)
    return scores(normalised(conv(b, 2, 3).add("Relu"), 2), 96)


@model()
def normalised_vectors(b: Builder) -> Builder:
    b.add("Flatten").add("Gemm", weights(144, 7), weights(7))
    return scores(normalised(b, 7).add("Relu"), 7)


@model()
def nothing_but_a_sum(b: Builder) -> Builder:
    return scores(b.add("Add", "image").add("Sum").add("Sub", "image"), 144)
