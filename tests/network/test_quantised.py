"""Quantised models in real numbers: exact weights, saturation kept, rounding left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from vhagar.cli.main import main
from vhagar.errors import InvalidNetwork, UnsupportedOperator
from vhagar.network.onnx_reader import read_model
from vhagar.network.quantised import is_quantised, without_rounding

SCALE, ZERO = np.float32(0.02), np.int8(-128)
WEIGHT_SCALES = np.array([0.01, 0.02, 0.005], dtype=np.float32)


class Model:
    """A layer of 4 x 3 and one of 3 x 2, with whatever is quantised in between."""

    def __init__(self, opset: int = 17) -> None:
        rng = np.random.default_rng(5)
        self.opset = opset
        self.first = rng.integers(-128, 128, size=(4, 3)).astype(np.int8)
        self.second = rng.normal(size=(3, 2)).astype(np.float32)
        self.tensors: dict[str, Any] = {
            "w": self.first, "ws": WEIGHT_SCALES, "wz": np.array([0, 3, -2], dtype=np.int8),
            "v": self.second, "s": SCALE, "z": ZERO, "s2": np.float32(0.5),
        }  # fmt: skip
        self.nodes = [
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
            helper.make_node("MatMul", ["x", "wd"], ["a"]),
        ]

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> Model:
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return self

    def made(self, last: str = "r") -> Any:
        self.add("MatMul", [last, "v"], "y")
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
            for name, size in (("x", 4), ("y", 2))
        ]
        tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in self.tensors.items()]
        graph = helper.make_graph(self.nodes, "g", ends[:1], ends[1:], tensors)
        opset = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)

    @property
    def weight(self) -> NDArray[np.float32]:
        zero = np.array([0, 3, -2])
        return (self.first.astype(np.int64) - zero).astype(np.float32) * WEIGHT_SCALES


def _inputs() -> NDArray[np.float32]:
    return np.random.default_rng(7).random((64, 4)).astype(np.float32)


def _rounded(model: Model) -> Any:
    model.add("QuantizeLinear", ["a", "s", "z"], "q").add("DequantizeLinear", ["q", "s", "z"], "r")
    return model.made()


def test_weights_alone_are_the_runtime_s() -> None:
    model = Model().add("Relu", ["a"], "r").made()
    converted = without_rounding(model)
    assert (converted.constants, converted.steps) == (1, ())
    session = onnxruntime.InferenceSession(model.SerializeToString())
    own = onnxruntime.InferenceSession(converted.model.SerializeToString())
    for x in _inputs():
        (theirs,), (ours,) = (s.run(None, {"x": x[None]}) for s in (session, own))
        assert np.allclose(theirs, ours, rtol=1e-5, atol=1e-6)  # they may sum in another order
    (kept,) = (t for t in converted.model.graph.initializer if t.name == "wd")
    alone = Model()
    ends = [helper.make_tensor_value_info("wd", TensorProto.FLOAT, [4, 3])]
    tensors = [numpy_helper.from_array(np.asarray(alone.tensors[k]), k) for k in ("w", "ws", "wz")]
    graph = helper.make_graph(alone.nodes[:1], "g", [], ends, tensors)
    dequantise = helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
    (wanted,) = onnxruntime.InferenceSession(dequantise.SerializeToString()).run(None, {})
    assert (numpy_helper.to_array(kept) == wanted).all()


@pytest.mark.parametrize("opset", [10, 13, 17])
def test_activations_saturate_and_are_not_rounded(opset: int) -> None:
    model = Model(opset)
    if opset < 13:  # one scale for all columns
        model.tensors |= {"ws": np.float32(0.01), "wz": np.int8(0)}
        model.nodes[0] = helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"])
        weight = model.first.astype(np.float32) * np.float32(0.01)
    else:
        weight = model.weight
    converted = without_rounding(_rounded(model))
    assert converted.steps == (float(SCALE),)
    network = read_model(converted.model, "m")
    x = _inputs().astype(np.float64)
    hidden = np.clip(x @ weight.astype(np.float64), 0.0, float(np.float32(255) * SCALE))
    assert np.allclose(network.forward(x), hidden @ model.second, atol=1e-9)
    assert not is_quantised(converted.model)


def test_the_quantised_model_differs_by_its_rounding_alone() -> None:
    model = Model()
    quantised = _rounded(model)
    session = onnxruntime.InferenceSession(quantised.SerializeToString())
    network = read_model(without_rounding(quantised).model, "m")
    reach = float(SCALE) / 2 * abs(model.second).sum(axis=0) + 1e-5
    for x in _inputs():
        (theirs,) = session.run(None, {"x": x[None]})
        assert (abs(theirs - network.forward(x[None].astype(np.float64))) <= reach).all()


def test_constants_that_are_quantised_first_are_rounded() -> None:
    model = Model()
    model.tensors["f"] = np.array([[0.013, -0.4, 9.0]], dtype=np.float32)
    model.add("QuantizeLinear", ["f", "s", "z"], "fq").add(
        "DequantizeLinear", ["fq", "s", "z"], "fd"
    )
    model.add("Add", ["a", "fd"], "sum").add("Relu", ["sum"], "r")
    made = model.made()
    converted = without_rounding(made)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    own = onnxruntime.InferenceSession(converted.model.SerializeToString())
    (theirs,), (ours,) = (s.run(None, {"x": _inputs()[:1]}) for s in (session, own))
    assert np.allclose(theirs, ours, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.tensors.update(s=np.float32(0.0)), "not positive"),
        (lambda m: m.tensors.update(s=np.float16(0.5)), "types float16"),
        (lambda m: m.tensors.update(s=np.full(3, 0.02, np.float32)), "along an axis"),
    ],
)
def test_what_cannot_be_converted_is_refused(change: Any, message: str) -> None:
    model = Model()
    change(model)
    with pytest.raises(InvalidNetwork, match=message):
        without_rounding(_rounded(model))


def test_pairs_must_belong_together() -> None:
    model = Model().add("QuantizeLinear", ["a", "s", "z"], "q")
    with pytest.raises(InvalidNetwork, match="does not undo"):
        without_rounding(model.add("DequantizeLinear", ["q", "s2", "z"], "r").made())
    model = Model().add("QuantizeLinear", ["a", "s", "z"], "q").add("Cast", ["q"], "r", to=1)
    with pytest.raises(InvalidNetwork, match="'q' is used as it is"):
        without_rounding(model.made())


def test_another_format_is_named() -> None:
    model = Model().add("QuantizeLinear", ["a", "s", "z"], "q")
    model.add("QLinearMatMul", ["q", "s", "z", "q", "s", "z", "s", "z"], "p")
    with pytest.raises(InvalidNetwork, match=r"the QLinearMatMul .* unlike the QDQ format"):
        without_rounding(model.add("DequantizeLinear", ["p", "s", "z"], "r").made())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, written = tmp_path / "int8.onnx", tmp_path / "real.onnx"
    onnx.save(_rounded(Model()), given)
    with pytest.raises(UnsupportedOperator, match=r"vhagar convert FILE -o real\.onnx"):
        read_model(onnx.load(given), "m")
    assert main(["convert", str(given), "-o", str(written)]) == 0
    said = capsys.readouterr().out
    assert "1 constant dequantised" in said
    assert "1 rounding of activations left out" in said
    assert "not proven about the quantised model" in said
    assert main(["inspect", str(written)]) == 0
    assert main(["convert", str(written), "-o", str(tmp_path / "again.onnx")]) == 2
    assert "needs no conversion" in capsys.readouterr().err
    assert main(["convert", str(given), "-o", str(given)]) == 2


def test_a_quantisation_that_cannot_be_converted_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "dynamic.onnx"
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
    product = helper.make_node("MatMulInteger", ["q", "w", "zero"], ["y"])
    weights = numpy_helper.from_array(np.ones((3, 2), np.uint8), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [1, 2])
    graph = helper.make_graph([node, product], "g", [x], [y], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), given)
    assert main(["convert", str(given), "-o", str(tmp_path / "real.onnx")]) == 2
    said = capsys.readouterr().err
    assert "MatMulInteger" in said
    assert "export the model before its quantisation" in said


def test_a_program_is_loaded_only_if_it_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    program = torch.export.export(module.eval(), (torch.zeros(1, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    words = ["convert", str(tmp_path / "m.pt2"), "-o", str(tmp_path / "m.onnx")]
    assert main(words) == 2
    assert "--trust" in capsys.readouterr().err
    assert not (tmp_path / "m.onnx").exists()
    assert main([*words, "--trust"]) == 0
    network = read_model(onnx.load(tmp_path / "m.onnx"), "m")
    x = _inputs()
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
    assert np.allclose(network.forward(x.astype(np.float64)), wanted, atol=1e-5)
    (tmp_path / "m.pt2").write_bytes((tmp_path / "m.pt2").read_bytes()[:-400])
    assert main([*words, "--trust"]) == 2


def _no_version(model: Any) -> None:
    del model.opset_import[:]


def _no_parameters(model: Any) -> None:
    del model.graph.node[0].input[1:]


def _no_scales(model: Any) -> None:
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros(0, np.float32), "ws"))


def _unknown_output(model: Any) -> None:
    model.graph.output[0].name = "nowhere"


def _constant_of_nothing(model: Any) -> None:
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"]))


@pytest.mark.parametrize(
    "damage", [_no_version, _no_parameters, _no_scales, _unknown_output, _constant_of_nothing]
)
def test_a_malformed_model_is_refused_in_words(
    damage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model().made("a")
    damage(model)
    path = tmp_path / "damaged.onnx"
    path.write_bytes(model.SerializeToString())
    assert main(["convert", str(path), "-o", str(tmp_path / "real.onnx")]) == 2
    assert "error" in capsys.readouterr().err
    assert not (tmp_path / "real.onnx").exists()
