"""Windows and reductions: read as a runtime computes them, or refused if one thing is wrong."""

from __future__ import annotations

import pytest

from .forms import IMAGE, ROWS, Form, f32, no, node, yes

FORMS: dict[str, Form] = {
    "conv: a vector": no("two-dimensional", node("Conv", f32(1, 6, 1))),
    "conv: two dimensions": no("two-dimensional", node("Conv", f32(2, 2)), shape=IMAGE),
    "conv: rows over an image": no("two-dimensional", node("Conv", f32(2, 2, 1)), shape=IMAGE),
    "conv: three dimensions": no(
        "two-dim", node("Conv", f32(2, 1, 1, 1, 1)), shape=["batch", 1, 2, 2, 2]
    ),
    "conv: no group": no("do not fit", node("Conv", f32(2, 2, 1, 1), group=0), shape=IMAGE),
    "conv: a bias": no("do not fit", node("Conv", f32(2, 2, 1, 1), f32(3)), shape=IMAGE),
    "conv: a bias for all": no("do not fit", node("Conv", f32(2, 2, 1, 1), f32(1)), shape=IMAGE),
    "conv: no filter": no("do not fit", node("Conv", f32(0, 2, 1, 1)), shape=IMAGE),
    "conv: channels": no("does not fit its input", node("Conv", f32(2, 3, 1, 1)), shape=IMAGE),
    "conv: groups": no("does not fit its", node("Conv", f32(3, 1, 1, 1), group=2), shape=IMAGE),
    "conv: another kernel": no(
        "does not fit its input", node("Conv", f32(2, 2, 1, 1), kernel_shape=[1, 2]), shape=IMAGE
    ),
    "conv: a large kernel": no(
        "does not fit its input", node("Conv", f32(2, 2, 5, 1)), shape=IMAGE
    ),
    "conv: a wide kernel": no("does not fit its input", node("Conv", f32(2, 2, 1, 5)), shape=IMAGE),
    "conv: one stride": no("do not fit", node("Conv", f32(2, 2, 1, 1), strides=[1]), shape=IMAGE),
    "conv: no stride": no("do not fit", node("Conv", f32(2, 2, 1, 1), strides=[1, 0]), shape=IMAGE),
    "conv: no dilation": no(
        "not fit", node("Conv", f32(2, 2, 1, 1), dilations=[0, 1]), shape=IMAGE
    ),
    "conv: one dilation": no("not fit", node("Conv", f32(2, 2, 1, 1), dilations=[1]), shape=IMAGE),
    "conv: two pads": no("do not fit", node("Conv", f32(2, 2, 1, 1), pads=[1, 1]), shape=IMAGE),
    "conv: a negative pad": no(
        "do not fit", node("Conv", f32(2, 2, 1, 1), pads=[0, 0, -1, 0]), shape=IMAGE
    ),
    "conv: dilated and padded": no(
        "automatic padding",
        node("Conv", f32(2, 2, 2, 2), dilations=[1, 2], auto_pad="SAME_UPPER"),
        shape=IMAGE,
    ),
    "conv: padded anyhow": no(
        "unknown auto_pad 'SAME'", node("Conv", f32(2, 2, 2, 2), auto_pad="SAME"), shape=IMAGE
    ),
    "conv: another": no("not understood", node("Conv", f32(2, 2, 1, 1), mode=1), shape=IMAGE),
    "transposed: rows": no("two-dimensional", node("ConvTranspose", f32(2, 2, 1)), shape=ROWS),
    "transposed: a row": no("two-dimensional", node("ConvTranspose", f32(2, 2, 1)), shape=IMAGE),
    "transposed: of rows": no(
        "two-dimensional", node("ConvTranspose", f32(2, 2, 1, 1)), shape=ROWS
    ),
    "transposed: padded": no(
        "given pads", node("ConvTranspose", f32(2, 2, 1, 1), auto_pad="VALID"), shape=IMAGE
    ),
    "transposed: channels": no("does not fit", node("ConvTranspose", f32(3, 2, 2, 2)), shape=IMAGE),
    "transposed: groups": no(
        "not fit", node("ConvTranspose", f32(2, 2, 2, 2), group=3), shape=IMAGE
    ),
    "transposed: a bias": no(
        "bias that", node("ConvTranspose", f32(2, 3, 2, 2), f32(2)), shape=IMAGE
    ),
    "transposed: no kernel": no("do not fit", node("ConvTranspose", f32(2, 3, 0, 2)), shape=IMAGE),
    "pool: of a volume": no(
        "do not fit", node("MaxPool", kernel_shape=[2, 2, 2]), shape=["batch", 1, 2, 2, 2]
    ),
    "mean pool: another": no(
        "not under", node("AveragePool", kernel_shape=[2, 2], axis=1), shape=IMAGE, opset=19
    ),
    "global pool: a vector": no("not over an image", node("GlobalAveragePool")),
    "global pool: another": no("not understood", node("GlobalAveragePool", axis=1), shape=IMAGE),
    "global maximum: a vector": no("not over an image", node("GlobalMaxPool")),
    "reduction: nothing": no(
        "reduces nothing", node("ReduceMean", noop_with_empty_axes=1), shape=IMAGE, opset=18
    ),
    "reduction: the batch": no("batch", node("ReduceMean", axes=[0], keepdims=0), shape=IMAGE),
    "reduction: everything": no("batch dimension", node("ReduceMean", keepdims=0), shape=IMAGE),
    "reduction: beyond": no("is about axis 4 of 4", node("ReduceMean", axes=[4]), shape=IMAGE),
    "reduction: another": no("not understood", node("ReduceMean", axes=[1], mode=1), shape=IMAGE),
    "conv: everything": yes(
        node(
            "Conv",
            f32(4, 1, 2, 3),
            f32(4),
            group=2,
            strides=[1, 2],
            pads=[1, 0, 2, 1],
            dilations=[2, 1],
        ),
        shape=IMAGE,
    ),
    "conv: valid": yes(
        node("Conv", f32(2, 2, 3, 2), auto_pad="VALID", strides=[1, 2]), shape=IMAGE
    ),
    "conv: same": yes(
        node("Conv", f32(2, 2, 2, 3), auto_pad="SAME_UPPER", strides=[1, 2]), shape=IMAGE
    ),
    "conv: same below": yes(
        node("Conv", f32(2, 2, 2, 3), auto_pad="SAME_LOWER", strides=[2, 1]), shape=IMAGE
    ),
    "conv: rows": yes(node("Conv", f32(3, 2, 2), f32(3), pads=[1, 0], strides=[2]), shape=ROWS),
    "transposed: everything": yes(
        node(
            "ConvTranspose",
            f32(2, 3, 2, 3),
            f32(6),
            group=2,
            strides=[3, 2],
            pads=[1, 0, 0, 2],
            dilations=[1, 2],
            output_padding=[2, 1],
        ),
        shape=IMAGE,
    ),
    "transposed: plain": yes(node("ConvTranspose", f32(2, 3, 2, 1)), shape=IMAGE),
    "pool: rounded up": yes(
        node("MaxPool", kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1), shape=["batch", 1, 5, 6]
    ),
    "pool: dilated": yes(
        node("MaxPool", kernel_shape=[2, 2], dilations=[3, 2], pads=[1, 0, 0, 1]),
        shape=["batch", 1, 5, 6],
    ),
    "mean pool: padded": yes(
        node("AveragePool", kernel_shape=[2, 3], pads=[1, 1, 0, 1], count_include_pad=1),
        shape=IMAGE,
    ),
    "mean pool: rounded up": yes(
        node(
            "AveragePool",
            kernel_shape=[2, 3],
            strides=[2, 2],
            pads=[0, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
        shape=["batch", 1, 5, 6],
        opset=19,
    ),
    "reduction: negative axes": yes(node("ReduceSum", [-1, 1], keepdims=0), shape=IMAGE),
    "reduction: all but the batch": yes(
        lambda b: b("Sub", "x", b("ReduceMean", "x", axes=[1, 2, 3], keepdims=1)), shape=IMAGE
    ),
    **{
        f"transposed: {words}": no(
            why, node("ConvTranspose", f32(2, 2, 2, 2), **given), shape=IMAGE
        )
        for words, given, why in (
            ("one stride", {"strides": [1]}, "do not fit"),
            ("no stride", {"strides": [1, 0]}, "do not fit"),
            ("one dilation", {"dilations": [1]}, "do not fit"),
            ("no dilation", {"dilations": [1, 0]}, "do not fit"),
            ("two pads", {"pads": [0, 0]}, "do not fit"),
            ("one more", {"output_padding": [0]}, "do not fit"),
            ("no group", {"group": 0}, "do not fit"),
            ("a negative pad", {"pads": [0, 0, 0, -1]}, "pads that do not fit"),
            ("fewer", {"output_padding": [0, -1]}, "pads that do not fit"),
            ("as many as a stride", {"output_padding": [1, 0]}, "pads that do not fit"),
            ("as many as a step", {"output_padding": [0, 2], "strides": [3, 2]}, "pads that do"),
            ("another kernel", {"kernel_shape": [1, 2]}, "does not fit its input"),
            ("nothing left", {"pads": [3, 0, 2, 0]}, "leave nothing"),
            ("nothing left aside", {"pads": [0, 2, 0, 3]}, "leave nothing"),
            ("another", {"mode": 1}, "not understood"),
        )
    },
    **{
        f"pool: {words}": no(why, node("MaxPool", **{"kernel_shape": [2, 2], **given}), shape=IMAGE)
        for words, given, why in (
            ("no kernel", {"kernel_shape": [0, 1]}, "do not fit"),
            ("a row", {"kernel_shape": [2]}, "as many dimensions"),
            ("three dimensions", {"kernel_shape": [2, 2, 2]}, "as many dimensions"),
            ("one stride", {"strides": [1]}, "do not fit"),
            ("no dilation", {"dilations": [1, 0]}, "do not fit"),
            ("a negative pad", {"pads": [0, 0, -1, 0]}, "do not fit"),
            ("one pad", {"pads": [0]}, "do not fit"),
            ("a high kernel", {"kernel_shape": [5, 1]}, "does not fit its input"),
            ("padded anyhow", {"auto_pad": "SAME"}, "unknown auto_pad"),
            ("dilated and padded", {"dilations": [2, 1], "auto_pad": "SAME_LOWER"}, "automatic"),
            ("another", {"axis": 1}, "not understood"),
        )
    },
    "conv: rows, one by one": yes(node("Conv", f32(3, 2, 2), pads=[1, 0]), shape=ROWS),
    "conv: an empty bias": yes(node("Conv", f32(3, 2, 2), ""), shape=ROWS),
    "transposed: an empty bias": yes(node("ConvTranspose", f32(2, 3, 2, 1), ""), shape=IMAGE),
    "transposed: wide": yes(node("ConvTranspose", f32(2, 3, 1, 3)), shape=["batch", 2, 2, 3]),
    "transposed: one pixel": yes(
        node("ConvTranspose", f32(2, 3, 1, 1), pads=[1, 2, 2, 1]), shape=IMAGE
    ),
    "pool: rounded down": yes(node("MaxPool", kernel_shape=[3, 3], strides=[2, 3]), shape=IMAGE),
    "pool: rounded up, valid": no(
        "in two ways",
        node("MaxPool", kernel_shape=[3, 3], strides=[2, 3], ceil_mode=1, auto_pad="VALID"),
        shape=IMAGE,
    ),
    "pool: rounded up, one by one": yes(
        node("MaxPool", kernel_shape=[3, 3], ceil_mode=1), shape=IMAGE
    ),
    "pool: padded behind": yes(
        node("MaxPool", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1], ceil_mode=1),
        shape=IMAGE,
        opset=22,
    ),
    "mean pool: without the padding": yes(
        node("AveragePool", kernel_shape=[2, 3], pads=[1, 1, 0, 1]), shape=IMAGE
    ),
    "pool: one empty window": no(
        "without any entry",
        node("MaxPool", kernel_shape=[1, 1], pads=[0, 0, 0, 1], strides=[1, 4]),
        shape=IMAGE,
    ),
    "pool: same, an odd total": yes(
        node("MaxPool", kernel_shape=[4, 4], strides=[1, 1], auto_pad="SAME_UPPER"), shape=IMAGE
    ),
    "conv: much padding": no(
        "too large", node("Conv", f32(2, 2, 1, 1), pads=[2000] * 4), shape=IMAGE
    ),
    "conv: many filters": no(
        "too large", node("Conv", f32(300, 2, 1, 1), pads=[60] * 4), shape=IMAGE
    ),
    "transposed: far too large": no(
        "too large", node("ConvTranspose", f32(2, 3, 1, 1), strides=[500, 500]), shape=IMAGE
    ),
    "pool: large kernels": no(
        "too large", node("MaxPool", kernel_shape=[60, 60], pads=[59] * 4), shape=IMAGE
    ),
    "global means": yes(node("GlobalAveragePool"), shape=IMAGE),
    "global means of rows": yes(node("GlobalAveragePool"), shape=ROWS),
    "global maxima": yes(node("GlobalMaxPool"), shape=IMAGE),
    "global maxima of a volume": yes(node("GlobalMaxPool"), shape=["batch", 2, 1, 3, 2]),
    "conv: padding that is skipped": no(
        "too large", node("Conv", f32(2, 2, 1, 1), pads=[748] * 4, strides=[2000] * 2), shape=IMAGE
    ),
    "conv: padding of groups that is skipped": no(
        "too large",
        node("Conv", f32(2, 1, 1, 1), group=2, pads=[748] * 4, strides=[2000] * 2),
        shape=IMAGE,
    ),
    "transposed: all of it is padding": no(
        "too large",
        node("ConvTranspose", f32(2, 3, 1, 1), strides=[700, 700], pads=[1045] * 4),
        shape=IMAGE,
    ),
    "transposed: in groups": yes(node("ConvTranspose", f32(2, 3, 2, 2), group=2), shape=IMAGE),
    "conv: same, an even total": yes(
        node("Conv", f32(2, 2, 3, 3), auto_pad="SAME_UPPER"), shape=IMAGE
    ),
    "pool: the first pixel alone": yes(
        node("MaxPool", kernel_shape=[2, 2], pads=[1, 1, 0, 0]), shape=IMAGE
    ),
    "pool: same, rounded up": yes(
        node("MaxPool", kernel_shape=[1, 1], strides=[3, 3], auto_pad="SAME_UPPER", ceil_mode=1),
        shape=IMAGE,
    ),
    "less its global means": yes(
        lambda b: b("Sub", "x", b("GlobalAveragePool", "x")), shape=["batch", 2, 2, 3]
    ),
    "less its means": yes(lambda b: b("Sub", "x", b("ReduceMean", "x", axes=[2])), shape=ROWS),
    "reduction: by default": yes(
        lambda b: b("Sub", "x", b("ReduceMean", "x", axes=[1])), shape=IMAGE
    ),
    "reduction: no axes, but nothing to do": yes(
        lambda b: b("ReduceMean", "x", b.integers(1), noop_with_empty_axes=1), ROWS, 18
    ),
    "largest": yes(node("ReduceMax", axes=[1], keepdims=0), shape=IMAGE),
    "smallest": yes(node("ReduceMin", axes=[-1]), shape=IMAGE),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    FORMS[name].judge()
