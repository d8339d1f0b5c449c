"""Graphs that are not understood, contradict themselves, or ask for more than they should."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from vhagar_check.errors import Rejected
from vhagar_check.model import read_model

from .graphs import Build

Case = Callable[[Build], str]
IMAGE = ["batch", 2, 4, 4]


def _of(kind: str, *rest: object, **attributes: object) -> Case:
    """One node on the input, constants made of the rest."""

    def build(b: Build) -> str:
        constants = [b.constant(part) if isinstance(part, float | list) else part for part in rest]
        return b(kind, "x", *constants, **attributes)

    return build


def _softmax_inside(b: Build) -> str:
    return b.dense(b("Softmax", b("Flatten", "x")), 3, 32)


def _sigmoid_inside(b: Build) -> str:
    return b.dense(b("Sigmoid", b("Flatten", "x")), 3, 32)


def _logarithm_of_scores(b: Build) -> str:
    return b("Log", b("Flatten", "x"))


def _exponential_unit_that_falls(b: Build) -> str:
    return b("Elu", b("Flatten", "x"), alpha=-1.0)


def _exponential_unit_inside(b: Build) -> str:
    return b.dense(b("Selu", b("Flatten", "x")), 3, 32)


def _softmax_over_the_image(b: Build) -> str:
    return b("Softmax", "x")


def _two_operands(b: Build) -> str:
    return b("Mul", "x", b("Relu", "x"))


def _batch_sliced(b: Build) -> str:
    return b("Slice", "x", b.integers(0), b.integers(0), b.integers(0))


def _batch_transposed(b: Build) -> str:
    return b("Transpose", "x", perm=[1, 0, 2, 3])


def _batch_reshaped(b: Build) -> str:
    return b("Reshape", "x", b.integers(2, 16))


def _batch_joined(b: Build) -> str:
    return b("Concat", "x", "x", axis=0)


def _batch_squeezed(b: Build) -> str:
    return b("Squeeze", "x", b.integers(0))


def _data_shape(b: Build) -> str:
    return b("Reshape", "x", b("Cast", b("Flatten", "x"), to=7))


def _training(b: Build) -> str:
    return b("Dropout", "x", b.constant(0.5), b.constant(True, np.bool_))


def _places_of_maxima(b: Build) -> str:
    return b("MaxPool", "x", outputs=2, kernel_shape=[2, 2])[0]


def _inexact_constant(b: Build) -> str:
    return b("Add", "x", b("Div", b.constant(1.0), b.constant(3.0)))


def _gather_outside(b: Build) -> str:
    return b("Gather", "x", b.integers(2), axis=1)


REFUSED: dict[str, tuple[Case, str]] = {
    "gelu": (_of("Gelu"), "Gelu"),
    "sigmoid inside": (_sigmoid_inside, "last one alone"),
    "logarithm of scores": (_logarithm_of_scores, "may not be positive"),
    "exponential unit that falls": (_exponential_unit_that_falls, "not positive"),
    "exponential unit inside": (_exponential_unit_inside, "last one alone"),
    "a remainder of numbers that are not whole": (
        lambda b: b("Add", "x", b("Mod", b.constant(5.0), b.constant(3.0))),
        "type that is not understood",
    ),
    "a remainder by a negative number": (
        lambda b: b("Reshape", "x", b("Mod", b.integers(-1), b.integers(-2))),
        "not positive",
    ),
    "a threshold": (_of("ThresholdedRelu"), "jumps"),
    "hard swish": (_of("HardSwish"), "HardSwish"),
    "interpolation": (_of("Resize", "", [1.0, 1.0, 2.0, 2.0], mode="linear"), "nearest"),
    "corners": (
        _of("Resize", "", [1.0, 1.0, 2.0, 2.0], coordinate_transformation_mode="align_corners"),
        "nearest",
    ),
    "a part": (_of("Resize", "", [1.0, 1.0, 1.5, 2.0]), "multiples"),
    "softmax inside": (_softmax_inside, "last one alone"),
    "softmax over an image": (_softmax_over_the_image, "classes"),
    "two operands": (_two_operands, "not linear"),
    "batch sliced": (_batch_sliced, "Slice"),
    "batch transposed": (_batch_transposed, "batch"),
    "batch reshaped": (_batch_reshaped, "batch"),
    "batch joined": (_batch_joined, "Concat"),
    "batch squeezed": (_batch_squeezed, "batch"),
    "a shape from data": (_data_shape, "Cast"),
    "training": (_training, "training"),
    "places of maxima": (_places_of_maxima, "places"),
    "inexact constant": (_inexact_constant, "exactly"),
    "gather outside": (_gather_outside, "entries"),
    "limits crossed": (_of("Clip", 1.0, -1.0), "above the upper"),
    "a limit that is not a number": (_of("Clip", float("nan")), "not a number"),
    "a limit of infinity": (_of("Clip", float("inf")), "not finite"),
    "padded anyhow": (_of("Pad", mode="anyhow"), "anyhow"),
    "an empty slope": (_of("LeakyRelu", alpha=float("nan")), "finite"),
    "an unknown attribute": (_of("MaxPool", kernel_shape=[2, 2], depth=2), "not understood"),
    "a pool's empty window": (
        _of("MaxPool", kernel_shape=[1, 1], strides=[5, 5], pads=[3, 3, 3, 3]),
        "without any entry",
    ),
    "a pool too large": (_of("MaxPool", kernel_shape=[9, 9]), "fit"),
    "a stride of 0": (_of("MaxPool", kernel_shape=[2, 2], strides=[0, 1]), "strides"),
    "negative variance": (
        _of("BatchNormalization", [1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, -1.0]),
        "positive",
    ),
    "a shape of two values": (
        lambda b: b("Reshape", "x", b("Shape", "x", b.constant(0.0))),
        "several values",
    ),
    "a size of two values": (
        lambda b: b("Reshape", "x", b("Size", "x", b.constant(0.0))),
        "several values",
    ),
    "a sum that is too large": (
        lambda b: b("Reshape", "x", b("Add", b.integers(2**62, 1), b.integers(2**62, 1))),
        "too large",
    ),
    "a product that is too large": (
        lambda b: b("Reshape", "x", b("Mul", b.integers(-(2**62), 1), b.integers(4, 1))),
        "too large",
    ),
    "wrong axes": (_of("ReduceMean", axes=[7]), "axis"),
    "a batch reduced away": (_of("ReduceMax", axes=[0], keepdims=0), "batch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_by_name(name: str) -> None:
    case, words = REFUSED[name]
    b = Build(IMAGE)
    out = case(b)
    with pytest.raises(Rejected, match=words):
        read_model(b.model(b("Flatten", out)))


def _doubled(kind: str) -> Case:
    """Sixty nodes, each as large as all before it."""

    def build(b: Build) -> str:
        name = "x"
        for _ in range(60):
            name = b("Concat", name, name, axis=1)
            name = b("Relu", name) if kind == "Relu" else name
        return name

    return build


def _filled(b: Build) -> str:
    huge = b("ConstantOfShape", b.integers(2**20, 2**20))
    return b("Add", "x", huge)


def _filled_up(b: Build) -> str:
    """Constants double too."""
    name = b.constant(np.ones((1, 1024)))
    for _ in range(40):
        name = b("Concat", name, name, axis=1)
    return b("Add", "x", name)


def _carried_far(b: Build) -> str:
    """The input goes past very many layers."""
    name = b("Flatten", "x")
    wide = b("Concat", *[name] * 1000, axis=1)
    narrow = b.dense(name, 2, 32)
    for _ in range(4000):
        narrow = b("Relu", narrow)
    return b("Concat", narrow, wide, axis=1)


def _long(b: Build) -> str:
    """A chain of very many nodes of one stage, beside as many values that wait for the end."""
    names = ["x"]
    for _ in range(3000):
        names.append(b("Neg", names[-1]))
    return b("Concat", *names, axis=1)


def _expanded(b: Build) -> str:
    return b("Expand", "x", b.integers(1, 2, 4, 4 * 2**30))


LARGE: dict[str, Case] = {
    "doubled": _doubled("Concat"),
    "doubled with units": _doubled("Relu"),
    "filled": _filled,
    "filled up": _filled_up,
    "carried far": _carried_far,
    "long": _long,
    "expanded": _expanded,
    "padded": _of("Pad", pads=[0, 0, 0, 0, 0, 0, 2**40, 2**40]),
    "padded and cut": _of("Pad", pads=[0, 0, 0, 2**40, 0, 0, 0, 3 - 2**40]),
    "a convolution's padding": lambda b: b.conv("x", 1, 2, 2, pads=[2**30] * 4),
    "a pool's padding": _of("MaxPool", kernel_shape=[2**20] * 2, pads=[2**20 - 1] * 4),
    "gathered": lambda b: b("Gather", "x", b.constant(np.zeros((2**10, 2**10)), np.int64), axis=1),
    "unsqueezed": lambda b: b("Unsqueeze", "x", b.integers(*range(1, 200))),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_would_be_too_large_is_refused_before_it_is_made(name: str) -> None:
    opset = 10 if name.startswith("padded") else 13
    b = Build(IMAGE, opset=opset)
    data = b.model(b("Flatten", LARGE[name](b)))
    tracemalloc.start()
    try:
        with pytest.raises(Rejected):
            read_model(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**30


def altered(change: Callable[[onnx.ModelProto], None]) -> bytes:
    b = Build(["batch", 4])
    model = onnx.ModelProto.FromString(b.model(b.dense(b("Relu", "x"), 3, 4)))
    change(model)
    return model.SerializeToString()


def test_an_unaltered_model_is_read() -> None:
    assert read_model(altered(lambda model: None)).classes == 3


def _other_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


def _no_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


def _two_names(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = "x"


def _backwards(model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _own_functions(model: onnx.ModelProto) -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    function = helper.make_function("", "Relu", ["a"], ["b"], body, model.opset_import)
    model.functions.append(function)


def _own_scaler(model: onnx.ModelProto) -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    function = helper.make_function("ai.onnx.ml", "Scaler", ["a"], ["b"], body, model.opset_import)
    model.functions.append(function)


def _in_a_circle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = model.graph.node[1].output[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_other_opset, "version"),
        (_no_opset, "version"),
        (_two_names, "same name"),
        (_backwards, "depends|before"),
        (_own_functions, "functions"),
        (_own_scaler, "functions"),
        (_in_a_circle, "before"),
    ],
)
def test_graphs_that_contradict_themselves(
    change: Callable[[onnx.ModelProto], None], words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        read_model(altered(change))


def test_damaged_graphs_are_refused_or_still_networks() -> None:
    from .graphs import GRAPHS

    rng = np.random.default_rng(9)
    for name in ("residual", "bent", "arranged", "largest_and_smallest"):
        data = GRAPHS[name]()
        for _ in range(60):
            damaged = bytearray(data)
            for place in rng.integers(0, min(len(data), 1500), 3):
                damaged[place] = rng.integers(256)
            try:
                network = read_model(bytes(damaged))
            except (Rejected, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
                continue
            assert network.classes >= 2
