"""Models with branches and joins, with all sorts of weights, and with a softmax."""

from __future__ import annotations

import numpy as np

from .table import INCREASING, Builder, conv, model, normalised, scores, weights


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
def broadcasts(b: Builder) -> Builder:
    mean = b.add("GlobalAveragePool").last
    b.follow("image").add("Sub", mean).add("Relu").add("Mul", np.array(1.5))
    small = b.follow(mean).add("Mul", weights(1, 3, 8, 6)).add("Add", mean).last
    return scores(b.follow("image").add("Add", small).add("Mean", mean, small), 144)


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


def _ending_with(kind: str, since: int) -> None:
    """Enter a model that ends with a strictly increasing function, which is ignored."""

    def make(b: Builder) -> Builder:
        return scores(conv(b, 2, 3).add("Relu"), 96).add(kind)

    make.__name__ = f"{kind.lower()}_last"
    model(since)(make)


for _kind, _since in INCREASING.items():
    _ending_with(_kind, _since)


@model()
def logarithm_of_a_softmax(b: Builder) -> Builder:
    return scores(conv(b, 2, 3).add("Relu"), 96).add("Softmax", axis=1).add("Log")


@model()
def logarithm_of_a_sigmoid(b: Builder) -> Builder:
    return scores(conv(b, 2, 3).add("Relu"), 96).add("Sigmoid").add("Log")


@model()
def casts_and_normalised_input(b: Builder) -> Builder:
    b.add("Cast", to=1).add("Sub", weights(3, 1, 1)).add("Div", abs(weights(3, 1, 1)) + 0.5)
    return scores(normalised(conv(b, 2, 3).add("Relu"), 2), 96)


@model()
def normalised_vectors(b: Builder) -> Builder:
    b.add("Flatten").add("Gemm", weights(144, 7), weights(7))
    return scores(normalised(b, 7).add("Relu"), 7)


@model()
def standardised_features(b: Builder) -> Builder:
    """As scikit-learn's converter writes StandardScaler, and one number for all features."""
    each = {"offset": weights(144).tolist(), "scale": (abs(weights(144)) + 0.5).tolist()}
    b.add("Flatten").add("Scaler", domain="ai.onnx.ml", **each)
    b.add("Scaler", domain="ai.onnx.ml", offset=[0.3], scale=[-1.7])
    b.add("ArrayFeatureExtractor", np.arange(143, 23, -1), domain="ai.onnx.ml")
    return scores(b.add("Relu"), 120)


@model()
def nothing_but_a_sum(b: Builder) -> Builder:
    return scores(b.add("Add", "image").add("Sum").add("Sub", "image"), 144)
