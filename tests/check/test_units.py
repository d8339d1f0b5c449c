"""Piecewise linear operators: read as a runtime computes them, or refused if one thing is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from .forms import IMAGE, Case, Form, f32, no, node, yes
from .graphs import Build


def _extreme(kind: str, sizes: list[int], limits: int) -> Case:
    """Of values of these sizes and as many constants."""

    def build(b: Build) -> str:
        values = [b("Gemm", "x", b.drawn(6, size)) for size in sizes]
        return str(b(kind, *values, *(b.drawn(4) for _ in range(limits))))

    return build


def _both(b: Build, name: str) -> str:
    """A value beside what a pool makes of it."""
    pool = b("Flatten", b("MaxPool", name, kernel_shape=[2, 2]))
    return str(b("Concat", pool, b("Flatten", name), axis=1))


def _in_doubles(low: float, high: float) -> Case:
    """Clipped in double precision, with limits in double precision."""

    def build(b: Build) -> str:
        limits = (b.constant(end, np.float64) for end in (low, high))
        return str(
            b(
                "Cast",
                b("Clip", b("Cast", "x", to=TensorProto.DOUBLE), *limits),
                to=TensorProto.FLOAT,
            )
        )

    return build


ENDS = float(np.finfo(np.float32).max)
FORMS: dict[str, Form] = {
    "relu: another": no("not understood", node("Relu", alpha=1.0)),
    "leaky: infinite": no("slope that is not finite", node("LeakyRelu", alpha=np.inf)),
    "leaky: another": no("not understood", node("LeakyRelu", beta=0.1)),
    "slopes: more inputs": no("slopes of another shape", node("PRelu", f32(2, 6))),
    "slopes: misfit": no("constant of another shape", node("PRelu", f32(5))),
    "slopes: another": no("not understood", node("PRelu", f32(6), alpha=1.0)),
    "absolute: another": no("not understood", node("Abs", alpha=1.0)),
    "clip: from infinity": no("not finite", node("Clip", np.inf)),
    "clip: to less than all": no("not finite", node("Clip", "", -np.inf)),
    "clip: two numbers": no("constant number", node("Clip", [0.0, 1.0])),
    "clip: crossed": no("above the upper", node("Clip", min=0.5, max=0.25), opset=8),
    "clip: another": no("not understood", node("Clip", 0.0, alpha=1.0)),
    "hard sigmoid: a slope": no("not finite", node("HardSigmoid", alpha=np.inf)),
    "hard sigmoid: an offset": no("not finite", node("HardSigmoid", beta=np.nan)),
    "hard sigmoid: another": no("not understood", node("HardSigmoid", gamma=1.0)),
    "threshold: another": no("understood", node("ThresholdedRelu", alpha=0.0, beta=1.0)),
    "threshold: a jump": no("jumps", node("ThresholdedRelu", alpha=-1.0)),
    "extreme: more inputs": no("batch dimension", node("Max", f32(2, 6))),
    "extreme: misfit": no("another shape", node("Min", f32(5))),
    "extreme: whole numbers": no("finite float constants", node("Max", [1])),
    "extreme: another": no("not understood", node("Max", f32(6), axis=1)),
    "leaky: by default": yes(node("LeakyRelu")),
    "leaky: beyond 1": yes(lambda b: b("LeakyRelu", b("Neg", "x"), alpha=1.5)),
    "slopes": yes(lambda b: b("PRelu", b("Neg", "x"), b.drawn(6))),
    "absolute": yes(lambda b: b("Abs", b("Sub", "x", b.constant(0.5)))),
    "clip": yes(node("Clip", 0.25, 0.5)),
    "clip: below": yes(node("Clip", "", 0.5)),
    "clip: above": yes(node("Clip", 0.5)),
    "clip: one point": yes(node("Clip", 0.5, 0.5)),
    "clip: everything": yes(
        lambda b: b("Clip", "x", b.constant(-3.4028235e38), b.constant(3.4028235e38))
    ),
    "hard sigmoid: by default": yes(lambda b: b("HardSigmoid", b("Mul", "x", b.constant(6.0)))),
    "threshold": yes(lambda b: b("ThresholdedRelu", b("Sub", "x", b.constant(0.5)), alpha=0.0)),
    **{
        f"{kind}: {len(sizes)}, {limits} constants": yes(_extreme(kind, sizes, limits))
        for kind in ("Max", "Min")
        for sizes in ([4], [4, 4], [4, 1], [1, 4], [4, 1, 4])
        for limits in (0, 1, 2)
    },
    "pool after a dropped relu": yes(
        lambda b: b(
            "GlobalMaxPool",
            b("Dropout", b("Relu", b("Sub", "x", b.constant(0.5))), outputs=2)[0],
        ),
        IMAGE,
    ),
    "pool after a relu and more": yes(
        lambda b: b("GlobalMaxPool", b("Neg", b("Relu", b("Sub", "x", b.constant(0.5))))), IMAGE
    ),
    "pool: another": no("not understood", node("MaxPool", kernel_shape=[1, 1], axis=1), IMAGE),
    "clip: from beyond float32": no("beyond the range", node("Clip", np.array(1e39))),
    "clip: to beyond float32": no("beyond the range", node("Clip", "", np.array(-1e39))),
    "clip: to all of float32": no("beyond the range", node("Clip", "", np.array(ENDS))),
    "clip: doubles": yes(_in_doubles(0.25, 0.5)),
    "clip: all doubles": yes(_in_doubles(-np.finfo(float).max, np.finfo(float).max)),
    "clip: from all there is": no("not finite", node("Clip", ENDS)),
    "extreme: of each channel": yes(
        lambda b: b(
            "Max", b("ReduceMean", "x", axes=[2, 3]), b.constant(np.full((1, 2, 4, 4), 0.5))
        ),
        IMAGE,
    ),
    "pool after its relu": yes(
        lambda b: b("MaxPool", b("Relu", b("Sub", "x", b.constant(0.5))), kernel_shape=[2, 3]),
        IMAGE,
    ),
    "pool after a passed relu": yes(
        lambda b: b("GlobalMaxPool", b("Identity", b("Relu", b("Sub", "x", b.constant(0.5))))),
        IMAGE,
    ),
    "pool beside its relu": yes(
        lambda b: _both(b, b("Relu", b("Sub", "x", b.constant(0.5)))), IMAGE
    ),
    "pool of another": no(
        "places", lambda b: b("MaxPool", "x", kernel_shape=[1, 1], outputs=2)[0], IMAGE
    ),
    "slopes of each channel": yes(lambda b: b("PRelu", b("Neg", "x"), b.drawn(2, 1, 1)), IMAGE),
    "leaky: by default, below": yes(lambda b: b("LeakyRelu", b("Mul", "x", b.constant(-999.0)))),
    "clip: attributes": yes(node("Clip", min=0.25, max=0.5), opset=8),
    "clip: an attribute": yes(node("Clip", max=0.5), opset=8),
    "hard sigmoid": yes(node("HardSigmoid", alpha=0.75, beta=0.125)),
    "threshold: by default": no("jumps", node("ThresholdedRelu")),
    "extreme: far too large": no("too large", lambda b: b("Max", *["x"] * 3), ["batch", 2**21]),
    "pool: uneven": yes(node("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 0, 0]), IMAGE),
    "pool: one each": yes(node("MaxPool", kernel_shape=[1, 1], strides=[2, 1]), IMAGE),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    FORMS[name].judge()
