"""Models that move, pick or repeat entries, and that compute shapes."""

from __future__ import annotations

import numpy as np

from .table import RNG, Builder, conv, model, scores, weights


@model()
def transposed_images(b: Builder) -> Builder:
    """As from TensorFlow: channels last outside, first inside."""
    b.add("Reshape", [0, 8, 6, 3]).add("Transpose", perm=[0, 3, 1, 2])
    conv(b, 4, 3).add("Relu").add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    return scores(b.add("Transpose", perm=[0, 2, 3, 1]), 48)


@model()
def scaled_before_they_move(b: Builder) -> Builder:
    """Scalings with no linear layer before them, at the input and after a ReLU."""
    b.add("Sub", weights(3, 1, 1)).add("Div", abs(weights(3, 1, 1)) + 0.5)
    b.add("Transpose", perm=[0, 2, 3, 1]).add("Relu").add("Mul", weights(8, 1, 3))
    return scores(b.add("Add", weights(6, 1)).add("Gather", np.array([5, 2, 0]), axis=2), 72)


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
    b.add("Relu").stated("Squeeze", [1], since=13, names=["axes"])
    return scores(b, 144)


@model()
def squeezed_scores(b: Builder) -> Builder:
    scores(b.add("Relu"), 144).stated("Unsqueeze", [2, 3], since=13, names=["axes"])
    return b.add("Squeeze")


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


@model(batch=1)
def joined_with_constants(b: Builder) -> Builder:
    b.add("Relu").add("Concat", weights(1, 2, 8, 6), axis=1)
    return scores(b.add("Concat", weights(1, 5, 1, 6), axis=2, first=True), 5 * 9 * 6)


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
    condition = RNG.random((8, 6)) < 0.5
    relu = b.add("Relu").last
    b.follow("image").add("Where", condition, first=True)
    b.nodes[-1].input.append(relu)
    b.add("Where", ~condition, weights(3, 1, 1), first=True)
    b.add("Where", RNG.random((8, 6)) < 0.3, np.array(0.7), first=True).add("Flatten")
    b.add("Where", RNG.random(144) < 0.7)
    b.nodes[-1].input[:] = [b.nodes[-1].input[1], b.nodes[-1].input[0], b.constant([0.4])]
    return scores(b, 144)


@model()
def shape_of_the_batch(b: Builder) -> Builder:
    """What torch writes for `x.view(x.size(0), -1)`."""
    conv(b, 2, 3).add("Relu")
    data = b.last
    b.add("Shape").add("Gather", np.array(0), axis=0)
    b.stated("Unsqueeze", [0], since=13, names=["axes"])
    shape = b.add("Concat", np.array([-1]), axis=0).last
    return b.follow(data).add("Reshape", shape).add("Gemm", weights(96, 5), weights(5))


@model(14)
def literal_shapes(b: Builder) -> Builder:
    """As torch writes them: zeros would be zeros, but there are none."""
    return scores(b.add("Reshape", [-1, 9, 16], allowzero=1).add("Relu"), 144)


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


@model(10, batch=1)
def unflattened(b: Builder) -> Builder:
    """What torch writes for `nn.Unflatten` counts axes modulo their number."""
    b.follow(b.constant(np.array(-2))).add("Mod", np.array(3)).add("Add", np.array(8))
    b.stated("Unsqueeze", [0], since=13, names=["axes"])
    b.add("Concat", np.array([16]), axis=0)
    shape = b.add("Concat", np.array([1]), first=True, axis=0).last
    return scores(b.follow("image").add("Reshape", shape).add("Relu"), 144)


@model(11, batch=1)
def ranges_of_indices(b: Builder) -> Builder:
    b.add("Size").add("Div", np.array(36)).add("Sub", np.array(0))
    end = b.last
    b.follow(b.constant(np.array(0))).add("Range", end, b.constant(np.array(2)))
    index = b.add("Min", np.array(7)).last if b.opset >= 12 else b.last
    return scores(b.follow("image").add("Gather", index, axis=2).add("Relu"), 36)


@model()
def enlarged(b: Builder) -> Builder:
    """Each entry from the nearest one, in every way of counting pixels."""
    start = conv(b, 2, 3).last
    if b.opset < 9:
        b.add("Upsample", mode="nearest", scales=[1.0, 1.0, 2.0, 3.0])
        return scores(b, 96 * 6)
    factors = np.array([1.0, 1.0, 2.0, 3.0])
    if b.opset < 11:
        b.add("Upsample" if b.opset == 9 else "Resize", factors, mode="nearest")
        return scores(b, 96 * 6)
    found, region = [], "" if b.opset >= 13 else np.zeros(0)
    for way in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
        for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
            settings = {"coordinate_transformation_mode": way, "nearest_mode": rounding}
            b.follow(start).add("Resize", region, factors, mode="nearest", **settings)
            found.append(b.last)
    b.follow(found[0]).add("Sum", *found[1:])
    return scores(b, 96 * 6)


@model(11, batch=1)
def enlarged_to_sizes(b: Builder) -> Builder:
    none = "" if b.opset >= 13 else np.zeros(0)
    b.add("Resize", none, none, np.array([1, 3, 16, 18]), mode="nearest")
    if b.opset >= 18:
        b.add("Resize", "", "", np.array([54, 32]), mode="nearest", axes=[3, 2])
        return scores(b, 144 * 36)
    return scores(b, 144 * 6)


@model()
def products_of_constants(b: Builder) -> Builder:
    first, second, third = weights(144, 7), weights(7, 4), weights(4, 5)
    b.add("Flatten")
    flat = b.last
    b.follow(b.constant(first)).add("MatMul", second).add("MatMul", third)
    return b.add("MatMul", flat, first=True)
