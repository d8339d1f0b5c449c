"""Models with pools, reductions and piecewise-linear units."""

from __future__ import annotations

import numpy as np

from .table import Builder, conv, model, scores, weights


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
def pools_that_end_inside(b: Builder) -> Builder:
    """Rounded up, a last window would begin outside of the image: there is none.

    Nothing with a size of its own follows, as ONNX's inference of shapes miscounts here.
    """
    pool = {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}
    means = b.add("AveragePool", **pool).last
    return b.follow("image").add("MaxPool", **pool).add("Concat", means, axis=1).add("Flatten")


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


@model(10)
def hard_sigmoids(b: Builder) -> Builder:
    conv(b, 4, 3).add("HardSigmoid", alpha=0.7, beta=0.3).add("Sub", weights(4, 1, 1))
    b.add("ThresholdedRelu", alpha=0.0).add("Sub", abs(weights(4, 1, 1))).add("HardSigmoid")
    return scores(b, 4 * 48)


@model(9)
def choices(b: Builder) -> Builder:
    """ReLUs, leaky ReLUs and limits, written as choices."""
    x = conv(b, 2, 3).last
    half = b.follow(x).add("Mul", np.array([[[0.5]], [[-1.5]]])).last
    third = b.follow(x).add("Div", np.array(3.0)).last
    above = b.follow(x).add("Greater", np.array(0.0)).last
    below = b.follow(x).add("Less", np.zeros((2, 1, 1))).last
    mask = b.follow(above).add("Cast", to=1).last
    other = b.follow(above).add("Not").add("Cast", to=1).last
    limit = abs(weights(2, 1, 1))
    beyond = b.follow(x).add("Less", limit, first=True).last  # limit < x
    found = [
        b.follow(x).add("Mul", mask).last,
        b.follow(other).add("Mul", half).last,
        b.follow(above).add("Where", x, half).last,
        b.follow(below).add("Where", third, x).last,
        b.follow(above).add("Where", np.array(0.0), x).last,
        b.follow(below).add("Where", half, third).last,
        b.follow(beyond).add("Where", x, limit).last,
        b.follow(beyond).add("Where", limit, x).last,
    ]
    if b.opset >= 12:
        least = b.follow(x).add("GreaterOrEqual", np.array(0.0)).add("Cast", to=1).last
        most = b.follow(x).add("LessOrEqual", limit).last
        found[0] = b.follow(x).add("Mul", least, first=True).last
        found[7] = b.follow(most).add("Where", x, limit).last
    return scores(b.follow(found[0]).add("Concat", *found[1:], axis=1), 8 * 96)
