"""What the reader cannot translate it refuses, by name, and nothing else happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from vhagar.errors import InvalidInput, InvalidNetwork, UnsupportedOperator, VhagarError
from vhagar.network import SUPPORTED_OPERATORS, read_onnx

Builder = Any
ONES = np.ones((8, 3))
FILTERS = np.ones((2, 2, 1, 1))


# Operators, or uses of operators, that have no translation: the operator at fault, and why.
UNSUPPORTED: dict[str, tuple[Callable[[Builder], Builder], str, str]] = {
    "another operator": (lambda b: b.add("Trilu"), "Trilu", "is not supported"),
    "a smooth activation": (
        lambda b: b.add("Sigmoid").add("Relu"), "Sigmoid", "only piecewise-linear networks",
    ),
    "an exponential unit inside": (
        lambda b: b.add("Elu").add("Relu"), "Elu", "only piecewise-linear networks",
    ),
    "an exponential unit that falls": (
        lambda b: b.add("Elu", alpha=-1.0), "Elu", "not positive",
    ),
    "a logarithm of any number": (lambda b: b.add("Log"), "Log", "only piecewise-linear networks"),
    "a logarithm of a tangent": (
        lambda b: b.add("Tanh").add("Log"), "Tanh", "operator Log at node 'the_log1': is smooth",
    ),
    "a logarithm inside": (
        lambda b: b.add("Sigmoid").add("Log").add("Relu"), "Sigmoid",
        "operator Log at node 'the_log1': is smooth",
    ),
    "a custom domain": (lambda b: b.add("Relu", domain="elsewhere"), "Relu", "is not supported"),
    "a product of data": (lambda b: b.add("Mul", "image"), "Mul", "not linear"),
    "a matrix product of data": (lambda b: b.add("MatMul", "image"), "MatMul", "not linear"),
    "Div by the data": (lambda b: b.add("Div", np.ones(1), first=True), "Div", "not linear"),
    "Gemm, transA": (
        lambda b: b.add("Flatten").add("Gemm", ONES, np.ones(3), transA=1), "Gemm", "transposes",
    ),
    "a matrix on the left": (
        lambda b: b.add("Flatten").add("MatMul", ONES, first=True), "MatMul", "mix the images",
    ),
    "a Scaler of images": (
        lambda b: b.add("Scaler", domain="ai.onnx.ml", offset=[1.0], scale=[2.0]),
        "Scaler", "vector of features",
    ),
    "features of images": (
        lambda b: b.add("ArrayFeatureExtractor", np.array([0]), domain="ai.onnx.ml"),
        "ArrayFeatureExtractor", "vector of features",
    ),
    "attention behind a batch that moves": (
        lambda b: b.add("Transpose", perm=[1, 0, 2, 3]).add("Sqrt").add("Softmax").add("Flatten")
        .add("Gemm", ONES),
        "Transpose", "operator Softmax at node 'the_softmax2': is smooth",
    ),
    "an ensemble of trees": (
        lambda b: b.add("TreeEnsembleRegressor", domain="ai.onnx.ml"),
        "TreeEnsembleRegressor", "decision trees, which jumps",
    ),
    "an encoder of categories": (
        lambda b: b.add("OneHotEncoder", domain="ai.onnx.ml"), "OneHotEncoder", "categories",
    ),
    "an operator of onnxruntime's optimiser": (
        lambda b: b.add("FusedGemm", domain="com.microsoft"), "FusedGemm", "before that",
    ),
    "Flatten over the batch": (lambda b: b.add("Flatten", axis=0), "Flatten", "axis 0"),
    "Flatten of a part": (lambda b: b.add("Flatten", axis=2), "Flatten", "axis 2"),
    "Reshape over the batch": (lambda b: b.add("Reshape", [8, -1]), "Reshape", "batch dimension"),
    "Reshape with allowzero": (
        lambda b: b.add("Reshape", [0, 8], allowzero=1), "Reshape", "allowzero",
    ),
    "Dropout in training": (
        lambda b: b.add("Dropout", np.array(0.5), np.array(True)), "Dropout", "training mode",
    ),
    "a text as constant": (
        lambda b: b.add("Identity", b.constant_node(value_string="x")), "Constant", "dense tensor",
    ),
    "Transpose of the batch": (
        lambda b: b.add("Transpose", perm=[1, 0, 2, 3]), "Transpose", "mix images",
    ),
    "Slice of the batch": (lambda b: b.add("Slice", [0], [1], [0]), "Slice", "mix images"),
    "Gather of the batch": (lambda b: b.add("Gather", np.array([0])), "Gather", "mix images"),
    "Split of the batch": (
        lambda b: b.follow(b.several("Split", 2)[0]), "Split", "mix images",
    ),
    "Tile of the batch": (lambda b: b.add("Tile", [2, 1, 1, 1]), "Tile", "mix images"),
    "Pad of the batch": (lambda b: b.add("Pad", [1, 0, 0, 0] * 2), "Pad", "batch dimension"),
    "Concat of batches": (lambda b: b.add("Concat", "image", axis=0), "Concat", "mix images"),
    "a sum of the batch": (
        lambda b: b.add("ReduceSum", np.array([0, 1])), "ReduceSum", "mix images",
    ),
    "a mean of everything": (lambda b: b.add("ReduceMean"), "ReduceMean", "mix images"),
    "Squeeze of the batch": (lambda b: b.add("Squeeze", [0]), "Squeeze", "batch dimension"),
    "Unsqueeze before the batch": (
        lambda b: b.add("Unsqueeze", [0]), "Unsqueeze", "batch dimension",
    ),
    "Gather by the data": (lambda b: b.add("Gather", "image", axis=1), "Gather", "depends on"),
    "Where by the data": (
        lambda b: b.add("Where", np.ones(1), np.ones(1)), "Where", "depends on",
    ),
    "Clip by the data": (lambda b: b.add("Clip", "image"), "Clip", "depends on"),
    "the places of maxima": (
        lambda b: b.follow(b.several("MaxPool", 2, kernel_shape=[2, 2])[0]), "MaxPool", "indices",
    ),
    "BatchNormalization in training": (
        lambda b: b.add("BatchNormalization", *[np.ones(2)] * 4, training_mode=1),
        "BatchNormalization", "training mode",
    ),
    "a jump": (
        lambda b: b.add("Greater", np.array(0.0)).add("Where", np.ones(1), "image"), "Where",
        "continuous",
    ),
    "a jump beside the limit": (
        lambda b: b.add("Greater", np.array(0.5)).add("Cast", to=1).add("Mul", "image"), "Mul",
        "continuous",
    ),
    "a choice of other data": (
        lambda b: b.add("Relu").follow("image").add("Greater", np.array(0.0))
        .add("Where", "relu0", "image"), "Where", "continuous",
    ),
    "a comparison of data": (lambda b: b.add("Less", "image"), "Less", "both depend"),
    "a comparison alone": (
        lambda b: b.add("Less", np.array(0.0)).add("Cast", to=1).add("Relu"), "Relu", "jumps",
    ),
    "a comparison added": (
        lambda b: b.add("Less", np.array(0.0)).add("Cast", to=1).add("Add", "image"), "Add",
        "depends on the model's input",
    ),
    "a comparison as a whole number": (
        lambda b: b.add("Less", np.array(0.0)).add("Cast", to=7), "Cast", "float, double or bool",
    ),
    "ThresholdedRelu": (lambda b: b.add("ThresholdedRelu"), "ThresholdedRelu", "jumps"),
    "HardSwish": (lambda b: b.add("HardSwish"), "HardSwish", "only piecewise-linear"),
    "Gelu": (lambda b: b.add("Gelu"), "Gelu", "is smooth"),
    "InstanceNormalization": (
        lambda b: b.add("InstanceNormalization", np.ones(2), np.ones(2)), "InstanceNormalization",
        "deviation of the data",
    ),
    "GroupNormalization": (
        lambda b: b.add("GroupNormalization", np.ones(2), np.ones(2), num_groups=1),
        "GroupNormalization", "deviation of the data",
    ),
    "QuantizeLinear": (
        lambda b: b.add("QuantizeLinear", np.array(0.1), np.array(0, dtype=np.uint8)),
        "QuantizeLinear", "quantised",
    ),
    "Resize by interpolation": (
        lambda b: b.add("Resize", "", np.array([1.0, 1, 2, 2]), mode="linear"), "Resize", "linear",
    ),
    "Resize to a part": (
        lambda b: b.add("Resize", "", np.array([1.0, 1, 1.5, 2])), "Resize", "whole numbers",
    ),
    "Resize by corners": (
        lambda b: b.add("Resize", "", np.array([1.0, 1, 2, 2]),
                        coordinate_transformation_mode="align_corners"), "Resize", "align_corners",
    ),
    "Resize of the batch": (
        lambda b: b.add("Resize", "", "", np.array([2, 2, 2, 2])), "Resize", "batch dimension",
    ),
    "Softmax inside": (lambda b: b.add("Softmax").add("Relu"), "Softmax", "last node"),
    "Softmax of a part": (
        lambda b: b.add("Softmax").add("Flatten"), "Softmax", "not the axis of the scores",
    ),
    "Cast to integers": (lambda b: b.add("Cast", to=7), "Cast", "another type"),
    "Conv in three dimensions": (
        lambda b: b.add("Conv", np.ones((1, 2, 1, 1, 1))), "Conv", "rank 5",
    ),
    "ConvTranspose, auto_pad": (
        lambda b: b.add("ConvTranspose", FILTERS, auto_pad="SAME_UPPER"), "ConvTranspose",
        "explicit pads",
    ),
    "ceil_mode with auto_pad": (
        lambda b: b.add("MaxPool", kernel_shape=[2, 2], ceil_mode=1, auto_pad="VALID"), "MaxPool",
        "explicit pads",
    ),
    "an old broadcast": (lambda b: b.add("Add", np.ones(2), axis=1), "Add", "'axis'"),
    "auto_pad of a pool with dilations": (
        lambda b: b.add("MaxPool", kernel_shape=[2, 2], auto_pad="SAME_LOWER", dilations=[1, 2]),
        "MaxPool", "dilations beside auto_pad",
    ),
    "auto_pad with dilations": (
        lambda b: b.add("Conv", np.ones((2, 2, 2, 2)), auto_pad="SAME_UPPER", dilations=[2, 2]),
        "Conv", "explicit pads",
    ),
}  # fmt: skip

# Models that make no sense: what the error must say.
INVALID: dict[str, tuple[Callable[[Builder], Builder], str]] = {
    "a Split of another number": (
        lambda b: b.follow(b.several("Split", 2, axis=1, num_outputs=1)[0]), "as it says",
    ),
    "a cast beyond the type": (
        lambda b: b.add("Add", b.follow(b.constant([2.0**40])).add("Cast", to=6).last), "hold it",
    ),
    "the least whole number divided": (
        lambda b: b.follow(b.constant(np.array([-(2**63)]))).add("Div", np.array([-1])),
        "does not hold",
    ),
    "Gemm without Flatten": (lambda b: b.add("Gemm", ONES, np.ones(3)), "Flatten missing"),
    "Gemm of another size": (lambda b: b.add("Flatten").add("Gemm", np.ones((7, 3))), "7 values"),
    "Gemm, rank 1": (lambda b: b.add("Flatten").add("Gemm", np.ones(8)), "rank 1"),
    "MatMul, rank 3": (lambda b: b.add("Flatten").add("MatMul", np.ones((1, 8, 3))), "rank 3"),
    "Gemm, other bias": (lambda b: b.add("Flatten").add("Gemm", ONES, np.ones(4)), "(4,)"),
    "Gemm, bias for a batch": (
        lambda b: b.add("Flatten").add("Gemm", ONES, np.ones((3, 1))), "(3, 1)",
    ),
    "Scaler, other size": (
        lambda b: b.add("Flatten").add(
            "Scaler", domain="ai.onnx.ml", offset=[1.0], scale=[2.0] * 7
        ),
        "for 8 features",
    ),
    "features that there are not": (
        lambda b: b.add("Flatten").add(
            "ArrayFeatureExtractor", np.array([0, 8]), domain="ai.onnx.ml"
        ),
        "some of 8 features",
    ),
    "features counted from the end": (
        lambda b: b.add("Flatten").add(
            "ArrayFeatureExtractor", np.array([-1]), domain="ai.onnx.ml"
        ),
        "some of 8 features",
    ),
    "Scaler, no scale": (
        lambda b: b.add("Flatten").add("Scaler", domain="ai.onnx.ml", offset=[1.0]),
        "for 8 features",
    ),
    "Scaler, NaN": (
        lambda b: b.add("Flatten").add(
            "Scaler", domain="ai.onnx.ml", offset=[float("nan")], scale=[0.0]
        ),
        "NaN or infinity",
    ),
    "Gemm, no weight": (lambda b: b.add("Flatten").add("Gemm", "lost"), "initialiser missing"),
    "Gemm, NaN": (lambda b: b.add("Flatten").add("Gemm", ONES * np.nan), "NaN or infinity"),
    "Gemm, infinity": (
        lambda b: b.add("Flatten").add("Gemm", ONES, np.full(3, np.inf)), "NaN or infinity",
    ),
    "Gemm, empty": (lambda b: b.add("Flatten").add("Gemm", np.ones((8, 0))), "is empty"),
    "Gemm, integers": (lambda b: b.add("Flatten").add("Gemm", ONES.astype(int)), "int64"),
    "Gemm, infinite alpha": (
        lambda b: b.add("Flatten").add("Gemm", ONES, alpha=float("inf")), "NaN or infinity",
    ),
    "Gemm, whole alpha": (lambda b: b.add("Flatten").add("Gemm", ONES, alpha=2), "wrong type"),
    "Conv, rank 3": (lambda b: b.add("Conv", np.ones((2, 2, 1))), "one-dimensional"),
    "Conv of a vector": (lambda b: b.add("Flatten").add("Conv", FILTERS), "two-dimensional"),
    "Conv of a vector, padded": (
        lambda b: b.add("Flatten").add("Conv", FILTERS, auto_pad="SAME_UPPER"), "two-dimensional",
    ),
    "Conv, other channels": (lambda b: b.add("Conv", np.ones((2, 3, 1, 1))), "2 channels"),
    "Conv, groups": (lambda b: b.add("Conv", np.ones((3, 1, 1, 1)), group=2), "2 group(s)"),
    "Conv, bias": (lambda b: b.add("Conv", FILTERS, np.ones(3)), "(3,)"),
    "Conv, kernel": (lambda b: b.add("Conv", FILTERS, kernel_shape=[2, 2]), "kernel_shape"),
    "Conv, too large": (lambda b: b.add("Conv", np.ones((1, 2, 3, 3))), "does not fit an image"),
    "Conv, stride 0": (lambda b: b.add("Conv", FILTERS, strides=[0, 1]), "strides"),
    "Conv, 1-D pads": (lambda b: b.add("Conv", FILTERS, pads=[1, 1]), "pads"),
    "Conv, negative pads": (lambda b: b.add("Conv", FILTERS, pads=[-1, 0, 1, 0]), "does not fit"),
    "Conv, endless pads": (
        lambda b: b.add("Sub", np.ones(1)).add("Conv", FILTERS, pads=[2**40, 0, 0, 0]), "too large",
    ),
    "Conv, unknown padding": (lambda b: b.add("Conv", FILTERS, auto_pad="SOME"), "auto_pad"),
    "Div by zero": (lambda b: b.add("Div", np.zeros(1)), "divides by zero"),
    "Mod of fractions": (
        lambda b: b.follow(b.constant(1.5)).add("Mod", np.ones(1)).add("Add", "image"),
        "not whole",
    ),
    "Mod by zero": (
        lambda b: b.follow(b.constant(7)).add("Mod", np.array(0)).add("Reshape", "image"),
        "divides by zero",
    ),
    "Add of another shape": (lambda b: b.add("Add", np.ones(3)), "(3,)"),
    "Add for a batch": (lambda b: b.add("Add", np.ones((4, 2, 2, 2))), "(4, 2, 2, 2)"),
    "Mul to infinity": (
        lambda b: b.add("Flatten").add("Gemm", ONES * 1e38).add("Div", np.full(3, 1e-38))
        .add("Div", np.full(3, 1e-38)).add("Mul", np.full(3, 1e38)).add("Mul", np.full(3, 1e38))
        .add("Mul", np.full(3, 1e38)).add("Mul", np.full(3, 1e38)).add("Mul", np.full(3, 1e38))
        .add("Mul", np.full(3, 1e38)), "NaN or infinity",
    ),
    "Reshape to another size": (lambda b: b.add("Reshape", [0, 7]), "does not fit"),
    "Reshape, below -1": (lambda b: b.add("Reshape", [0, -2, -4]), "list of sizes"),
    "Reshape, no integers": (lambda b: b.add("Reshape", [0.0, 8.0]), "list of sizes"),
    "Reshape, zero too far": (lambda b: b.add("Reshape", [0, 8, 1, 1, 0]), "does not have"),
    "MaxPool, no kernel": (lambda b: b.add("MaxPool"), "kernel_shape"),
    "MaxPool, too large": (lambda b: b.add("MaxPool", kernel_shape=[3, 3]), "do not fit an image"),
    "MaxPool, 1-D": (lambda b: b.add("MaxPool", kernel_shape=[2]), "do not fit data"),
    "MaxPool, stride 0": (
        lambda b: b.add("MaxPool", kernel_shape=[2, 2], strides=[0, 1]), "are invalid",
    ),
    "MaxPool in the padding": (
        lambda b: b.add("MaxPool", kernel_shape=[1, 1], pads=[1, 0, 0, 0]), "outside of the image",
    ),
    "AveragePool, endless": (
        lambda b: b.add("AveragePool", kernel_shape=[1, 1], pads=[2**40, 0, 0, 0]), "too large",
    ),
    "Clip upside down": (
        lambda b: b.add("Clip", np.array(1.0), np.array(0.0)), "no value between",
    ),
    "Clip to NaN": (lambda b: b.add("Clip", np.array(np.nan)), "no value between"),
    "Clip by two": (lambda b: b.add("Clip", np.ones(2)), "not one number"),
    "LeakyRelu, infinite": (lambda b: b.add("LeakyRelu", alpha=float("inf")), "not finite"),
    "PRelu, other shape": (lambda b: b.add("PRelu", np.ones(3)), "(3,)"),
    "BatchNormalization, other channels": (
        lambda b: b.add("BatchNormalization", *[np.ones(3)] * 4), "(3,)",
    ),
    "BatchNormalization, negative": (
        lambda b: b.add("BatchNormalization", *[np.ones(2)] * 3, -np.ones(2)), "negative",
    ),
    "Concat of other shapes": (
        lambda b: b.add("Concat", np.ones((1, 2, 3, 3)), axis=1), "malformed",
    ),
    "Concat along no axis": (lambda b: b.add("Concat", "image", axis=4), "axis 4"),
    "Slice in steps of 0": (lambda b: b.add("Slice", [0], [1], [1], [0]), "do not fit each other"),
    "Slice to nothing": (lambda b: b.add("Slice", [1], [1], [1]), "has no entries"),
    "Gather outside": (lambda b: b.add("Gather", np.array([2]), axis=1), "out of range"),
    "Split in other parts": (lambda b: b.add("Split", [1], axis=1), "parts"),
    "Tile without end": (lambda b: b.add("Tile", [1, 2**20, 2**20, 1]), "too large"),
    "Expand without end": (
        lambda b: b.add("Reshape", [0, 8, 1]).add("Expand", [1, 8, 2**30]), "too large",
    ),
    "Pad without end": (lambda b: b.add("Pad", [0, 2**40, 0, 0, 0, 0, 0, 0]), "too large"),
    "a constant without end": (
        lambda b: b.follow(b.constant([2**40])).add("ConstantOfShape").add("Add", "image"),
        "too large",
    ),
    "a range without end": (
        lambda b: b.follow(b.constant(0)).add("Range", np.array(2**40), np.array(1))
        .add("Cast", to=1).add("Add", "image"), "too large",
    ),
    "Max of other shapes": (lambda b: b.add("Max", np.ones(3)), "do not fit each other"),
    "MatMul from the left": (
        lambda b: b.add("MatMul", np.ones((2, 3)), first=True), "does not fit data",
    ),
    "DepthToSpace, odd": (lambda b: b.add("DepthToSpace", blocksize=2), "does not fit 2 channels"),
    "no scores": (lambda b: b.add("Relu"), "vector of scores"),
    "no layers": (lambda b: b.add("Flatten"), "no layers"),
    "a loose end": (lambda b: b.add("Relu").follow("nowhere"), "does not depend on the input"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operators_are_named(build: type, save: Callable, name: str) -> None:
    make, operator, reason = UNSUPPORTED[name]
    builder = make(build((2, 2, 2)))
    with pytest.raises(UnsupportedOperator, match=re.escape(reason)) as caught:
        read_onnx(save(builder))
    assert caught.value.operator == operator
    at_fault = {node.name or node.output[0] for node in builder.nodes if node.op_type == operator}
    assert caught.value.node in at_fault
    message = str(caught.value)
    assert operator in message
    assert caught.value.node in message
    assert caught.value.supported == SUPPORTED_OPERATORS
    # A list of sixty operators hides the reason, and names those that are refused here.
    assert "ArrayFeatureExtractor" not in message.replace(operator, "")


def test_all_that_is_unsupported_is_named_at_once(build: type, save: Callable) -> None:
    b = build((2, 2, 2)).add("Sigmoid").add("Relu").add("Round").add("Tanh").add("Flatten")
    b.add("Gemm", ONES)
    left = b.last
    # A swish: what follows the sigmoid is looked at, too.
    b.follow("image").add("Sigmoid").add("Mul", "image").add("Flatten").add("Gemm", ONES)
    b.add("Add", left).add("Gemm", ONES)
    with pytest.raises(UnsupportedOperator, match="5 nodes are not supported") as caught:
        read_onnx(save(b))
    found = [one.operator for one in caught.value.refusals]
    assert found == ["Sigmoid", "Round", "Tanh", "Sigmoid", "Mul"]
    for refusal in caught.value.refusals:
        assert refusal.node in str(caught.value)
        assert refusal.reason in str(caught.value)


@pytest.mark.parametrize("name", INVALID)
def test_models_without_sense_are_explained(build: type, save: Callable, name: str) -> None:
    make, reason = INVALID[name]
    with pytest.raises(InvalidNetwork, match=re.escape(reason)) as caught:
        read_onnx(save(make(build((2, 2, 2)))))
    assert not isinstance(caught.value, UnsupportedOperator)


def test_scales_that_are_missing_are_named(build: type, save: Callable) -> None:
    with pytest.raises(InvalidNetwork, match="its scales is missing"):
        read_onnx(save(build((2, 2, 2), opset=9).add("Upsample")))


@pytest.mark.parametrize(
    ("kind", "operands"), [("BatchNormalization", [np.ones(2)] * 4), ("Dropout", [])]
)
def test_old_nodes_train_unless_they_say_otherwise(
    build: type, save: Callable, kind: str, operands: list[Any]
) -> None:
    def read(**attributes: int) -> Any:
        b = build((2, 2, 2), opset=6).add(kind, *operands, **attributes)
        return read_onnx(save(b.add("Flatten").add("MatMul", ONES)))

    with pytest.raises(UnsupportedOperator, match="training mode"):
        read()
    with pytest.raises(UnsupportedOperator, match="training mode"):
        read(is_test=0)
    assert read(is_test=1).classes == 3


def value(name: str, shape: list[Any], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


# A good model spoilt outside of its nodes: what the error must say.
SPOILT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "two inputs": (lambda m: m.graph.input.append(value("more", [1, 2])), "one input"),
    "no input": (lambda m: m.graph.input.pop(), "one input"),
    "two outputs": (lambda m: m.graph.output.append(value("more", [1, 2])), "--output NAME"),
    "no output": (lambda m: m.graph.output.pop(), "one output"),
    "no nodes": (lambda m: m.graph.ClearField("node"), "does not depend"),
    "a batch of seven": (lambda m: m.graph.input[0].CopyFrom(value("image", [7, 8])), "batch"),
    "an unknown size": (lambda m: m.graph.input[0].CopyFrom(value("image", [1, "n"])), "fixed"),
    "no batch": (lambda m: m.graph.input[0].CopyFrom(value("image", [8])), "batch"),
    "a huge input": (
        lambda m: m.graph.input[0].CopyFrom(value("image", [1, 2**50])), "too large",
    ),
    "operators of the future": (
        lambda m: setattr(m.opset_import[0], "version", 27), "version 27 of ONNX's operators",
    ),
    "operators of no version": (
        lambda m: setattr(m.opset_import[0], "version", 0), "version 0 of ONNX's operators",
    ),
    "integers as input": (
        lambda m: m.graph.input[0].CopyFrom(value("image", [1, 8], TensorProto.INT64)), "float",
    ),
    "short data": (lambda m: setattr(m.graph.initializer[0], "raw_data", b"abc"), "decoded"),
    "missing initialisers": (lambda m: m.graph.ClearField("initializer"), "initialiser missing"),
    "sparse constants": (
        lambda m: m.graph.sparse_initializer.add().dims.append(3), "export it with dense ones",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_models_are_explained(build: type, save: Callable, name: str) -> None:
    change, reason = SPOILT[name]
    model = build((8,)).add("Gemm", ONES, np.ones(3)).model()
    assert read_onnx(save(model)).classes == 3
    change(model)
    with pytest.raises(InvalidNetwork, match=re.escape(reason)):
        read_onnx(save(model))


@pytest.mark.parametrize("spoil", ["two inputs", "an unknown size", "no output"])
def test_what_can_never_be_read_is_named_first(build: type, save: Callable, spoil: str) -> None:
    model = build((8,)).add("Gelu").add("Gemm", ONES).model()
    SPOILT[spoil][0](model)
    with pytest.raises(UnsupportedOperator, match="Gelu"):
        read_onnx(save(model))


def test_nodes_off_the_way_do_not_matter(build: type, save: Callable) -> None:
    builder = build((8,)).add("Gemm", ONES, np.ones(3))
    builder.nodes.append(helper.make_node("Sigmoid", [builder.last], ["unused", ""]))
    builder.nodes.append(helper.make_node("Dropout", [builder.last], ["kept", ""]))
    builder.last = "kept"
    assert read_onnx(save(builder)).classes == 3


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08", bytes(1000), b"\xff" * 50])
def test_files_that_are_no_models(save: Callable, content: bytes) -> None:
    with pytest.raises(InvalidNetwork) as caught:
        read_onnx(save(content))
    # The parser's words say nothing to whoever gave the wrong file.
    assert "parsing message" not in str(caught.value)
    assert "Wire format" not in str(caught.value)
    assert ("is empty" in str(caught.value)) == (not content)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "lost.onnx", "no\0name"):
        with pytest.raises(InvalidInput, match="no model file"):
            read_onnx(path)
    with pytest.raises(InvalidInput, match="is a folder"):
        read_onnx(tmp_path)
    assert issubclass(InvalidInput, VhagarError)
