"""`vhagar inspect`: the facts, their words, and the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vhagar
from vhagar.cli.conventions import CONVENTIONS
from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.network.inspection import inspect
from vhagar.options import Options
from vhagar.result import Run, Status

EXAMPLES = Path(__file__).parents[2] / "examples"


def saved(path: Path, *nodes: tuple[str, list[str], str, dict[str, object]]) -> Path:
    """A model over an input `x` (2, 4, 4), with the constants that the nodes may name."""
    constants = {
        "filters": np.ones((3, 2, 3, 3), dtype=np.float32),
        "matrix": np.ones((48, 5), dtype=np.float32),
    }
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [out], **more) for kind, inputs, out, more in nodes],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 4, 4])],
        [helper.make_tensor_value_info(nodes[-1][2], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="a test"
    )
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def residual(tmp_path: Path) -> Path:
    return saved(
        tmp_path / "residual.onnx",
        ("Conv", ["x", "filters"], "a", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["a"], "b", {}),
        ("Add", ["a", "b"], "c", {}),
        ("Flatten", ["c"], "d", {}),
        ("MatMul", ["d", "matrix"], "e", {}),
        ("Softmax", ["e"], "f", {}),
    )


@pytest.fixture
def unsupported(tmp_path: Path) -> Path:
    return saved(
        tmp_path / "unsupported.onnx",
        ("Sigmoid", ["x"], "a", {}),
        ("Relu", ["a"], "b", {}),
        ("Erf", ["b"], "c", {}),
        ("Mul", ["x", "x"], "m", {}),
        ("Add", ["c", "m"], "d", {}),
    )


def test_facts(residual: Path) -> None:
    found = inspect(residual, (-1.0, 2.0))
    assert found.operators == {
        "Add": 1, "Conv": 1, "Flatten": 1, "MatMul": 1, "Relu": 1, "Softmax": 1,
    }  # fmt: skip
    assert (found.opset, found.producer) == (13, "a test")
    assert (found.input_shape, found.classes, found.input_range) == ((2, 4, 4), 5, (-1.0, 2.0))
    assert found.parameters == 54 + 240
    assert [layer.kind for layer in found.layers] == ["SparseAffine", "Relu", "Affine"]
    network = vhagar.read_onnx(residual)
    assert (found.relu_units, found.linear_units) == (48, 48)
    assert (network.hidden_neurons, network.linear_units) == (48, 48)
    assert found.layers[0].in_shape == (2, 4, 4)
    assert found.layers[0].weights == network.layers[0].weight.nnz + 96
    assert found.unsupported == ()
    assert "confidence is a difference of the scores before it" in found.notes[0]


def test_notes_reach_the_result(residual: Path) -> None:
    network = vhagar.read_onnx(residual)
    problem = vhagar.Problem(network, perturbation="linf(0.1)", source=0, targets=[1])
    assert Run(problem, Options()).result(Status.EXHAUSTED).notes == network.notes


def test_what_is_printed(residual: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(residual), "--input-range", "-1,1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(line.rstrip() for line in lines)
    assert lines == text.splitlines()  # no blanks at the ends
    assert lines[0] == str(residual)
    assert "  input      2 x 4 x 4, every entry in [-1, 1]" in lines
    assert "  operators  Add 1, Conv 1, Flatten 1, MatMul 1, Relu 1, Softmax 1" in lines
    assert "  1 ReLU layer with 48 ReLU units" in lines
    assert "  48 linear units pass values through ReLU layers" in lines
    assert "Softmax at the end is ignored" in text


def test_everything_unsupported_at_once(
    unsupported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "found.json"
    assert main(["inspect", str(unsupported), "--json", str(target)]) == 1
    text = capsys.readouterr().out
    assert "not supported: 3 nodes" in text
    assert "every entry in [0, 1]" in text
    for operator, node in (("Sigmoid", "a"), ("Erf", "c"), ("Mul", "m")):
        assert f"  {operator} at node '{node}':\n" in text
    written = json.loads(target.read_text())
    assert [one["operator"] for one in written["unsupported"]] == ["Sigmoid", "Erf", "Mul"]
    assert written["layers"] == []
    assert written["classes"] is None


def test_one_reason_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [("InstanceNormalization", [f"y{k}"], f"y{k + 1}", {}) for k in range(5)]
    path = saved(tmp_path / "groups.onnx", ("Relu", ["x"], "y0", {}), *nodes)
    assert main(["inspect", str(path)]) == 1
    text = capsys.readouterr().out
    assert "not supported: 5 nodes" in text
    assert "'y1', 'y2', 'y3' and 2 more:" in text
    assert text.count("only piecewise-linear networks") == 1
    assert "exporters write GroupNorm" in text


def test_the_json_is_all_of_it(residual: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    assert main(["inspect", str(residual), "--json", str(target)]) == 0
    written = json.loads(target.read_text())
    found = inspect(residual)
    assert written["schema"] == 1
    assert written["vhagar"] == vhagar.__version__
    assert written["relu_units"] == found.relu_units
    assert written["linear_units"] == found.linear_units
    assert written["layers"][1] == {
        "kind": "Relu", "in_shape": [96], "out_shape": [96], "relu_units": 48,
        "linear_units": 48, "weights": 0, "detail": "",
    }  # fmt: skip
    assert set(written) >= {
        "model", "opset", "producer", "parameters", "operators", "input_range", "input_shape",
        "convention", "classes", "layers", "unsupported", "notes",
    }  # fmt: skip


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("mnist_*.onnx"))[:3], ids=lambda p: p.stem)
def test_bundled_networks(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path)]) == 0
    assert "linear units carry" not in capsys.readouterr().out


def test_the_documentation_is_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = (EXAMPLES.parent / "docs" / "command-line.md").read_text()
    monkeypatch.chdir(EXAMPLES.parent)
    assert main(["inspect", "examples/mnist_conv2.onnx"]) == 0
    assert f"```\n{capsys.readouterr().out}```" in document
    with pytest.raises(SystemExit):
        main(["inspect", "--help"])
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert options >= {"--input-range", "--json", "--layout", "--mean"}
    section = document.split("## `vhagar inspect`")[1].split("\n## ")[0]
    for option in options:
        # How the model takes its input and gives its scores is said once for all commands.
        place = document if option[2:].replace("-", "_") in CONVENTIONS else section
        assert re.search(rf"^\| `{option}[ `]", place, re.MULTILINE), option


def test_bad_input(residual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "lost.onnx")]) == 2
    assert "no model file" in capsys.readouterr().err
    before = residual.read_bytes()
    assert main(["inspect", str(residual), "--json", str(residual)]) == 2
    assert residual.read_bytes() == before
    (tmp_path / "no.onnx").write_bytes(b"no model")
    assert main(["inspect", str(tmp_path / "no.onnx")]) == 2
    for span in ((1.0, 0.0), (0.0, float("inf")), (float("nan"), 1.0)):
        with pytest.raises(InvalidInput, match="input range"):
            inspect(residual, span)


def test_the_accuracy_on_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(
        tmp_path / "plain.onnx",
        ("Conv", ["x", "filters"], "a", {"pads": [1, 1, 1, 1]}),
        ("Flatten", ["a"], "b", {}),
        ("MatMul", ["b", "matrix"], "c", {}),
    )
    images = np.random.default_rng(1).random((600, 2, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=images, y=np.arange(600) % 4)
    words = ["inspect", str(path), "--dataset", str(tmp_path / "data.npz")]
    assert main([*words, "--json", str(tmp_path / "out.json")]) == 0
    # All scores are equal, so that every input is of class 0.
    assert "600 inputs: accuracy 25.00 %; 100 % classified 0" in capsys.readouterr().out
    written = json.loads((tmp_path / "out.json").read_text())["dataset"]
    assert (written["accuracy"], written["share"], written["inputs"]) == (0.25, 1.0, 600)
    assert written["labels"] == [0, 3]
    np.savez(tmp_path / "data.npz", x=images, y=np.arange(600) % 4 + 6)
    assert main(words) == 0
    assert "labels are from 6 to 9, but classes from 0 to " in capsys.readouterr().out
    np.savez(tmp_path / "data.npz", x=images)
    assert main(words) == 0
    assert "no labels" in capsys.readouterr().out
