"""Selections: read as a runtime computes them, or refused if one thing is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from .forms import IMAGE, ROWS, Case, Form, no, node, yes

TALL = ["batch", 1, 3, 2]
POLICY = {"keep_aspect_ratio_policy": "not_larger"}


def _resized(way: str, rounding: str) -> Case:
    how = {"nearest_mode": rounding, "coordinate_transformation_mode": way}
    return node("Resize", "", [1.0, 1, 3, 4], mode="nearest", **how)


FORMS: dict[str, Form] = {
    "reshape: no shape": no("shape that is not understood", node("Reshape")),
    "reshape: zero": no("not understood", node("Reshape", [0, 6], allowzero=1), opset=14),
    "reshape: beyond": no("axis that there is not", node("Reshape", [1, 6, 0])),
    "reshape: twice the rest": no("does not fit", node("Reshape", [1, -1, -1])),
    "reshape: a part": no("does not fit", node("Reshape", [1, 4, -1])),
    "reshape: less": no("does not fit", node("Reshape", [1, 5])),
    "reshape: negative": no("does not fit", node("Reshape", [-2, -3])),
    "reshape: -2": no("does not fit", node("Reshape", [1, -2, -3])),
    "reshape: inputs": no("batch dimension", node("Reshape", [2, 3])),
    "reshape: a vector": no("batch dimension", node("Reshape", [6])),
    "reshape: another": no("not understood", node("Reshape", [1, 6], axis=1)),
    "reshape: a value": no("constant integers", lambda b: b("Reshape", "x", "x")),
    "flatten: everything": no("axis other than 1", node("Flatten", axis=0), shape=IMAGE),
    "flatten: pixels": no("axis other than 1", node("Flatten", axis=2), shape=IMAGE),
    "flatten: pixels from the end": no("axis other than 1", node("Flatten", axis=-2), shape=IMAGE),
    "flatten: beyond": no("axis other than 1", node("Flatten", axis=3)),
    "flatten: another": no("not understood", node("Flatten", mode=1), shape=IMAGE),
    "squeeze: pixels": no("not of size 1", node("Squeeze", [2]), shape=IMAGE),
    "squeeze: beyond": no("is about axis 4 of 4", node("Squeeze", [4]), shape=IMAGE),
    "squeeze: the batch": no("batch dimension", node("Squeeze", [0, 1]), shape=[1, 1, 6]),
    "squeeze: another": no("not understood", node("Squeeze", [0], mode=1), shape=IMAGE),
    "unsqueeze: no axes": no("which axes", node("Unsqueeze")),
    "unsqueeze: many": no("which axes", node("Unsqueeze", list(range(1, 10)))),
    "unsqueeze: twice": no("an axis twice", node("Unsqueeze", [1, -3])),
    "unsqueeze: beyond": no("is about axis 3 of 3", node("Unsqueeze", [3])),
    "unsqueeze: another": no("not understood", node("Unsqueeze", [1], mode=1)),
    "transpose: twice": no("order of axes", node("Transpose", perm=[0, 1, 1]), shape=ROWS),
    "transpose: less": no("order of axes", node("Transpose", perm=[0, 1]), shape=ROWS),
    "transpose: the batch": no("batch dimension", node("Transpose"), shape=ROWS),
    "transpose: another": no(
        "not understood", node("Transpose", perm=[0, 2, 1], mode=1), shape=ROWS
    ),
    "slice: no ends": no("begins and ends", node("Slice", [0])),
    "slice: no starts": no("begins and ends", node("Slice", ends=[1]), opset=8),
    "slice: fewer ends": no("begins and ends", node("Slice", [0, 0], [1])),
    "slice: fewer axes": no("do not fit", node("Slice", [0, 0], [1, 1], [1])),
    "slice: more steps": no("do not fit", node("Slice", [0], [1], [1], [1, 1])),
    "slice: step 0": no("do not fit", node("Slice", [0], [1], [1], [0])),
    "slice: twice": no("an axis twice", node("Slice", [0, 0], [1, 1], [1, -1])),
    "slice: beyond": no("is about axis 2 of 2", node("Slice", [0], [1], [2])),
    "slice: nothing": no("empty value", node("Slice", [3], [3], [1])),
    "slice: another": no("not understood", node("Slice", [0], [1], [1], mode=1)),
    "gather: beyond": no("that there are not", node("Gather", [6], axis=1)),
    "gather: before": no("that there are not", node("Gather", [-7], axis=1)),
    "gather: floats": no("constant index", node("Gather", [1.0], axis=1)),
    "gather: a value": no("constant index", lambda b: b("Gather", "x", "x", axis=1)),
    "gather: nothing": no("empty value", node("Gather", np.zeros(0, int), axis=1)),
    "gather: an axis beyond": no("is about axis 2 of 2", node("Gather", [0], axis=2)),
    "gather: another": no("not understood", node("Gather", [0], axis=1, mode=1)),
    "expand: no shape": no("shape that is not understood", node("Expand")),
    "expand: zero": no("shape that is not understood", node("Expand", [1, 0])),
    "expand: misfit": no("shape that does not fit", node("Expand", [1, 5])),
    "expand: inputs": no("batch dimension", node("Expand", [2, 6])),
    "expand: another": no("not understood", node("Expand", [1, 6], mode=1)),
    "expand: astronomically": no("not understood", node("Expand", [2**62, 6])),
    "tile: less": no("repeats that do not fit", node("Tile", [1])),
    "tile: none": no("repeats that do not fit", node("Tile", [1, 0])),
    "tile: no repeats": no("repeats that do not fit", node("Tile")),
    "tile: inputs": no("batch dimension", node("Tile", [2, 1])),
    "tile: another": no("not understood", node("Tile", [1, 2], mode=1)),
    "blocks: a vector": no("blocks of an image", node("SpaceToDepth", blocksize=2)),
    "blocks: none": no("blocks of an image", node("SpaceToDepth", blocksize=0), shape=IMAGE),
    "blocks: no size": no("blocks of an image", node("SpaceToDepth"), shape=IMAGE),
    "blocks: large": no("blocks of an image", node("SpaceToDepth", blocksize=5), shape=IMAGE),
    "blocks: rows": no("do not fit", node("SpaceToDepth", blocksize=2), shape=["batch", 1, 3, 4]),
    "blocks: columns": no(
        "do not fit", node("SpaceToDepth", blocksize=2), shape=["batch", 1, 4, 3]
    ),
    "blocks: another": no("understood", node("SpaceToDepth", blocksize=2, mode="DCR"), shape=IMAGE),
    "depth: channels": no(
        "channels that do not fit", node("DepthToSpace", blocksize=2), shape=IMAGE
    ),
    "depth: a mode": no(
        "a mode or channels",
        node("DepthToSpace", blocksize=2, mode="RCD"),
        shape=["batch", 4, 2, 2],
    ),
    "depth: another": no(
        "not understood", node("DepthToSpace", blocksize=2, axis=1), shape=["batch", 4, 2, 2]
    ),
    "resize: nothing said": no("scales or sizes", node("Resize"), shape=IMAGE),
    "upsample: linear": no(
        "nearest", node("Upsample", [1.0, 1, 2, 2], mode="linear"), shape=IMAGE, opset=9
    ),
    "upsample: no scales": no("scales that do not fit", node("Upsample"), shape=IMAGE, opset=8),
    "upsample: no input of scales": no(
        "needs finite float constants", node("Upsample"), shape=IMAGE, opset=9
    ),
    "upsample: another": no(
        "not understood", node("Upsample", [1.0, 1, 2, 2], depth=1), shape=IMAGE, opset=9
    ),
    "reshape: kept": yes(node("Reshape", [0, 0, -1]), shape=ROWS),
    "reshape: the rest": yes(node("Reshape", [1, -1, 2]), shape=ROWS),
    "flatten: 1": yes(node("Flatten", axis=1), shape=IMAGE),
    "flatten: from the end": yes(node("Flatten", axis=-3), shape=IMAGE),
    "flatten: of ones": yes(node("Flatten", axis=2), shape=["batch", 1, 6]),
    "squeeze: two": yes(node("Squeeze", [-1, 1]), shape=["batch", 1, 6, 1]),
    "unsqueeze": yes(node("Unsqueeze", [1, -1])),
    "transpose": yes(node("Transpose", perm=[0, 2, 1]), shape=ROWS),
    "slice: backwards": yes(node("Slice", [3, 0], [-100, 1], [2, 1], [-2, 1]), shape=ROWS),
    "slice: old": yes(node("Slice", starts=[0, 0, 1], ends=[1, 2, 4]), shape=ROWS, opset=8),
    "split: larger parts first": yes(
        lambda b: b("Concat", *b("Split", "x", axis=2, num_outputs=3, outputs=3)[::-1], axis=2),
        shape=ROWS,
        opset=18,
    ),
    "split: sizes": yes(
        lambda b: b("Concat", *b("Split", "x", b.integers(1, 5), axis=-1, outputs=2)[::-1], axis=1)
    ),
    "split: equal": yes(lambda b: b("Concat", *b("Split", "x", axis=1, outputs=3)[::-1], axis=1)),
    "gather": yes(node("Gather", [[-5, 4], [0, -1]], axis=2), shape=ROWS),
    "gather: one": yes(lambda b: b("Gather", "x", b.constant(-2, np.int64), axis=1), shape=ROWS),
    "expand": yes(node("Expand", [1, 3]), shape=["batch", 2, 1]),
    "expand: more axes": yes(node("Expand", [1, 2, 3]), shape=["batch", 2, 1]),
    "tile": yes(node("Tile", [1, 2, 3]), shape=ROWS),
    "space to depth": yes(node("SpaceToDepth", blocksize=2), shape=["batch", 2, 4, 6]),
    "depth to space": yes(node("DepthToSpace", blocksize=2), shape=["batch", 12, 2, 1]),
    "depth to space, rows first": yes(
        node("DepthToSpace", blocksize=2, mode="CRD"), shape=["batch", 12, 2, 1]
    ),
    "resize: axes": yes(node("Resize", "", [2.0, 3.0], axes=[-1, 2]), shape=TALL, opset=18),
    "resize: old": yes(node("Resize", [1.0, 1, 2, 3]), shape=TALL, opset=10),
    "upsample: old": yes(node("Upsample", scales=[1.0, 1, 2, 3]), shape=TALL, opset=8),
    "upsample": yes(node("Upsample", [1.0, 1, 2, 3]), shape=TALL, opset=9),
    **{
        f"split: {words}": no(why, split, opset=18 if words == "outputs" else 13)
        for words, split, why in (
            ("more", lambda b: b("Split", "x", b.integers(2, 5), axis=1, outputs=2)[0], "fit"),
            ("less", lambda b: b("Split", "x", b.integers(2, 3), axis=1, outputs=2)[0], "fit"),
            ("parts", lambda b: b("Split", "x", b.integers(6), axis=1, outputs=2)[0], "fit"),
            ("negative", lambda b: b("Split", "x", b.integers(-1, 7), axis=1, outputs=2)[1], "fit"),
            ("outputs", lambda b: b("Split", "x", axis=1, num_outputs=3, outputs=2)[0], "says"),
            ("uneven", lambda b: b("Split", "x", axis=1, outputs=4)[0], "different sizes"),
            ("beyond", lambda b: b("Split", "x", axis=2, outputs=2)[0], "is about axis 2 of 2"),
            ("another", lambda b: b("Split", "x", axis=1, outputs=2, mode=1)[0], "understood"),
        )
    },
    **{
        f"resize: {words}": no(why, node("Resize", *given, **named), IMAGE, opset)
        for words, opset, given, named, why in (
            ("linear", 13, ["", [1.0, 1, 2, 2]], {"mode": "linear"}, "nearest entry"),
            ("a rounding", 13, ["", [1.0, 1, 2, 2]], {"nearest_mode": "up"}, "nearest entry"),
            ("a part", 13, ["", [1.0, 1, 2, 1.5]], {}, "multiples"),
            ("smaller", 13, ["", [1.0, 1, 2, 0.5]], {}, "multiples"),
            ("three scales", 13, ["", [1.0, 2, 2]], {}, "scales that do not fit"),
            ("sizes", 13, ["", "", [1, 2, 8, 6]], {}, "multiples"),
            ("three sizes", 13, ["", "", [2, 8, 8]], {}, "multiples"),
            ("no size", 13, ["", "", [1, 2, 8, 0]], {}, "multiples"),
            ("an axis twice", 18, ["", [2.0, 2.0]], {"axes": [2, -2]}, "do not fit"),
            ("an axis beyond", 18, ["", [2.0]], {"axes": [4]}, "is about axis 4 of 4"),
            ("a policy", 18, ["", "", [1, 2, 8, 8]], POLICY, "scales or sizes"),
            ("another", 13, ["", [1.0, 1, 2, 2]], {"depth": 1}, "not understood"),
            ("far too large", 13, ["", [1.0, 1, 2.0**21, 1]], {}, "multiples"),
        )
    },
    **{
        f"resize: {way}, {rounding}": yes(_resized(way, rounding), TALL)
        for way in ("half_pixel", "asymmetric", "pytorch_half_pixel")
        for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    },
    "resize: whole sizes": yes(node("Resize", "", "", [1, 1, 6, 2]), TALL),
    "resize: no scales": yes(
        lambda b: b("Resize", "x", "", b.constant(np.zeros(0)), b.integers(1, 1, 3, 4)), TALL
    ),
    "resize: corners": no(
        "nearest entry",
        node("Resize", "", [1.0, 1, 2, 2], coordinate_transformation_mode="align_corners"),
        IMAGE,
    ),
    "resize: linear before": no("nearest", node("Resize", [1.0, 1, 2, 2], mode="linear"), TALL, 10),
    "split: the first axis": yes(node("Split", [1])),
    "split: an empty part": no(
        "empty value", lambda b: b("Split", "x", b.integers(0, 6), axis=1, outputs=2)[1]
    ),
    "gather: from a table": no(
        "too large", node("Gather", np.zeros(2**17, dtype=np.int64), axis=1), ["batch", 6, 64]
    ),
    "tile: astronomically": no("too large", node("Tile", [1, 2**30])),
    "blocks: of one": yes(node("SpaceToDepth", blocksize=1), IMAGE),
    "blocks: one pixel": yes(node("SpaceToDepth", blocksize=4), IMAGE),
    "depth of three, twice": yes(node("DepthToSpace", blocksize=3), ["batch", 18, 1, 2]),
    "resize: eleven": yes(
        node("Resize", np.zeros(0, np.float32), [1.0, 1, 2, 3], mode="nearest"), TALL, 11
    ),
    "resize: far": yes(node("Resize", "", [1.0, 1, 64, 1]), TALL),
    "resize: to nothing": no("multiples", node("Resize", "", [1.0, 1, 0, 1]), TALL),
    "expand: far": yes(node("Expand", [1, 2, 200]), ["batch", 2, 1]),
    "flatten: the end": yes(
        lambda b: b("Concat", "x", b("Flatten", "x", axis=2), axis=1), ["batch", 1]
    ),
    "blocks of three": yes(node("SpaceToDepth", blocksize=3), ["batch", 1, 3, 6]),
    "depth of three": yes(node("DepthToSpace", blocksize=3), ["batch", 9, 1, 2]),
    "reshape: zero, allowed": yes(node("Reshape", [1, 6], allowzero=1), opset=14),
    "reshape: one": no("does not fit", node("Reshape", [1, 0, 7])),
    "reshape: all of it": yes(node("Reshape", [-1, 6])),
    "reshape: nothing": no("does not fit", node("Reshape", [-1, 0, -7])),
    "squeeze: one of two": no("not of size 1", node("Squeeze", [1, 2]), ["batch", 1, 6]),
    "squeeze: by default": yes(lambda b: b("Add", b("Squeeze", "x"), b.drawn(1, 6)), [1, 1, 6, 1]),
    "unsqueeze: eight": yes(node("Unsqueeze", [1, 2, 3, 4, 5, 6, 7, 8])),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    FORMS[name].judge()
