"""VNN-LIB: what is read, what is refused, and that the answers are true."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.local.specification import Answer, answer_specification
from vhagar.local.vnnlib import Specification, read_vnnlib
from vhagar.network import AbstractLayer, Affine, Network, Relu, read_onnx, write_onnx
from vhagar.network.onnx_graph import OnnxGraph

DECLARED = "".join(f"(declare-const {name}_{k} Real)" for name in "XY" for k in range(2))
BOX = "(assert (<= X_0 0.5))(assert (>= X_0 -0.5))(assert (<= X_1 1))(assert (>= X_1 0))"


def read(tmp_path: Path, text: str) -> Specification:
    path = tmp_path / "property.vnnlib"
    path.write_text(DECLARED + BOX + text)
    return read_vnnlib(path)


def test_cases_are_in_normal_form(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """; a comment
        (assert (or (and (<= Y_0 Y_1) (>= Y_1 0.1)) (>= (- (* 2 Y_0) (+ Y_1 1)) 3e-1)))
        (assert (or (<= X_0 0.25) (>= X_0 (- 0.25))))""",
    )
    assert (found.inputs, found.outputs, len(found.cases)) == (2, 2, 4)
    first = found.cases[0]
    assert first.lower == (Fraction(-1, 2), Fraction(0))
    assert first.upper == (Fraction(1, 4), Fraction(1))
    assert first.conditions[0] == {"Y_0": 1, "Y_1": -1}
    assert first.conditions[1] == {"": Fraction(1, 10), "Y_1": -1}
    assert found.cases[2].conditions == ({"": Fraction(13, 10), "Y_0": -2, "Y_1": 1},)
    packed = tmp_path / "packed.vnnlib.gz"
    packed.write_bytes(gzip.compress((tmp_path / "property.vnnlib").read_bytes()))
    assert read_vnnlib(packed) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(assert (<= Y_0 Y_1)", "not closed"),
        (")", "not opened"),
        ("(assert (< Y_0 Y_1))", "'<'"),
        ("(assert (<= (* Y_0 Y_1) 0))", "not linear"),
        ("(assert (<= Y_0 X_0))", "inputs and outputs"),
        ("(assert (<= Y_2 0))", "not declared"),
        ("(assert (<= Y_0 zero))", "neither a number"),
        ("(check-sat)", "check-sat"),
        ("(vnnlib-version <2.0>)", "begins with"),
        ("(declare-const X_7 Real)", "X_0, X_1"),
        ("(declare-const X_2 Real)", "bounded on both sides"),
        ("(assert (or " + "(<= Y_0 0)" * 400 + "))" + "(assert (or " + "(<= Y_1 0)" * 400 + "))",
         "cases"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, text)


SECOND = """(vnnlib-version <2.0>) ; a comment
(declare-network N (declare-input images Real [1, 2]) (declare-output scores float32 [1,1,2]))
"""


def read_second(tmp_path: Path, text: str, declared: str = SECOND) -> Specification:
    path = tmp_path / "second.vnnlib"
    path.write_text(declared + text)
    return read_vnnlib(path)


def test_version_2_means_the_same_in_other_words(tmp_path: Path) -> None:
    first = read(tmp_path, "(assert (or (<= Y_0 Y_1) (and (<= Y_1 2) (>= Y_1 2))))")
    second = read_second(
        tmp_path,
        """(assert (and (<= images[0,0] 0.5) (>= images [0, 0] -0.5)))
        (assert (<= images[0,1] 1)) (assert (>= images[0,1] 0))
        (assert (or (<= scores[0,0,0] scores[0,0,1]) (== scores[0,0,1] 2)))""",
    )
    assert second.inputs == second.outputs == 2
    assert [(case.lower, case.upper) for case in second.cases] == [
        (case.lower, case.upper) for case in first.cases
    ]
    assert [case.conditions for case in second.cases] == [case.conditions for case in first.cases]


@pytest.mark.parametrize(
    ("declared", "text", "message"),
    [
        (SECOND, "(assert (<= scores[0,1,0] 0))", "not an entry"),
        (SECOND, "(assert (<= scores[0,0] 0))", "not an entry"),
        (SECOND, "(assert (<= others[0] 0))", "neither a number"),
        (SECOND, "(assert (< scores[0,0,0] 0))", "'<'"),
        (SECOND + "(declare-network M (equal-to N))", "", "2 networks"),
        (SECOND.replace("2.0", "3.0"), "", "version"),
        (SECOND.replace("[1, 2]", "[1, 0]"), "", "no entries"),
        (SECOND.replace("Real", "String"), "", "type"),
        (SECOND.replace("declare-output", "declare-hidden"), "", "declare-hidden"),
        (SECOND.replace("declare-output", "declare-input"), "", "several inputs"),
    ],
)
def test_what_version_2_cannot_say_is_refused(
    tmp_path: Path, declared: str, text: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_second(tmp_path, text, declared)


def network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    layers = (
        Affine(rng.normal(size=(5, 2)), rng.normal(size=5), (2,), (5,)),
        Relu((5,)),
        Affine(rng.normal(size=(2, 5)), rng.normal(size=2), (5,), (2,)),
    )
    return Network(layers, (2,))


CONDITIONS = (
    "(assert (<= Y_0 Y_1))",
    "(assert (>= Y_0 1.5))(assert (<= Y_1 0.3))",
    "(assert (or (and (>= Y_0 2) (>= Y_1 2)) (and (<= Y_0 -3) (<= Y_1 0.1) (>= Y_1 -0.1))))",
    "(assert (or (<= (+ Y_0 (* 0.3 Y_1)) -2.5) (and (>= Y_1 4))))",
)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("conditions", CONDITIONS)
def test_answers_are_true(tmp_path: Path, seed: int, conditions: str) -> None:
    write_onnx(network(seed), tmp_path / "model.onnx")
    model = read_onnx(tmp_path / "model.onnx")
    specification = read(tmp_path, conditions)
    found = answer_specification(model, specification, timeout=30)
    steps = np.linspace(0, 1, 60)
    grid = np.stack(np.meshgrid(steps - 0.5, steps), axis=-1).reshape(-1, 2)

    def holds(outputs: np.ndarray, slack: float) -> bool:
        return any(
            all(
                sum(
                    float(part) * (outputs[int(name[2:])] if name else 1.0)
                    for name, part in form.items()
                )
                <= slack
                for form in case.conditions
            )
            for case in specification.cases
        )

    reached = any(holds(outputs, 0.0) for outputs in model.forward(grid))
    assert found.answer in (Answer.SATISFIED, Answer.NEVER)
    if found.answer is Answer.NEVER:
        assert not reached
        return
    x = found.x
    assert (x >= [-0.5, 0]).all()
    assert (x <= [0.5, 1]).all()
    assert holds(model.forward(x[None])[0], 0.0)
    assert holds(found.y, 0.0)
    assert found.text().startswith("sat\n((X_0 ")
    assert found.text().endswith(f"(Y_1 {float(found.y[1])!r}))\n")


def test_both_answers_occur(tmp_path: Path) -> None:
    write_onnx(network(0), tmp_path / "model.onnx")
    model = read_onnx(tmp_path / "model.onnx")
    values = model.forward(np.random.default_rng(1).random((500, 2)) - [0.5, 0])
    for limit, answer in ((values[:, 0].max() + 50, "unsat"), (values[:, 0].max() - 0.01, "sat")):
        specification = read(tmp_path, f"(assert (>= Y_0 {limit}))")
        assert answer_specification(model, specification, timeout=30).answer.value == answer


def test_an_empty_box_and_a_point(tmp_path: Path) -> None:
    write_onnx(network(0), tmp_path / "model.onnx")
    model = read_onnx(tmp_path / "model.onnx")
    empty = read(tmp_path, "(assert (>= X_0 0.6))")
    assert answer_specification(model, empty).answer is Answer.NEVER
    point = read(tmp_path, "(assert (>= X_0 0.5))(assert (>= X_1 1.0))(assert (<= Y_0 100))")
    found = answer_specification(model, point)
    assert found.answer is Answer.SATISFIED
    assert found.x.tolist() == [0.5, 1.0]
    everything = read(tmp_path, "")
    assert answer_specification(model, everything).answer is Answer.SATISFIED


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(network(0), tmp_path / "model.onnx")
    read(tmp_path, "(assert (>= Y_0 1000))")
    words = ["local", str(tmp_path / "model.onnx"), "--vnnlib", str(tmp_path / "property.vnnlib")]
    assert main([*words, "--timeout", "1m"]) == 0
    assert capsys.readouterr().out == "unsat\n"
    for wrong in (["--epsilon", "0.1"], ["--argmin"], ["--mean", "0.5"], ["--threshold", "1"]):
        assert main([*words, *wrong]) == 2
        assert "no effect" in capsys.readouterr().err
    assert main(["local", str(tmp_path / "model.onnx"), "--epsilon", "0.1"]) == 2
    assert "--image" in capsys.readouterr().err


def test_sizes_must_fit(tmp_path: Path) -> None:
    write_onnx(network(0), tmp_path / "model.onnx")
    path = tmp_path / "property.vnnlib"
    path.write_text("(declare-const X_0 Real)(declare-const Y_0 Real)"
                    "(assert (<= X_0 1))(assert (>= X_0 0))(assert (<= Y_0 0))")  # fmt: skip
    with pytest.raises(InvalidInput, match="1 inputs"):
        answer_specification(read_onnx(tmp_path / "model.onnx"), read_vnnlib(path))


def test_a_single_score_is_the_output(tmp_path: Path) -> None:
    layers = (*network(3).layers[:2], Affine(np.ones((1, 5)), np.zeros(1), (5,), (1,)))
    model = build_one_score(layers, tmp_path / "model.onnx")
    path = tmp_path / "property.vnnlib"
    declared = DECLARED.replace("(declare-const Y_1 Real)", "")
    highest = float(model.forward(np.array([[0.5, 1.0], [-0.5, 0.0], [0.0, 0.5]]))[:, 1].max())
    for limit, answer in ((highest - 0.001, "sat"), (highest + 100, "unsat")):
        path.write_text(declared + BOX + f"(assert (>= Y_0 {limit}))")
        found = answer_specification(model, read_vnnlib(path), timeout=30)
        assert found.answer.value == answer
        assert found.y is None or (len(found.y) == 1 and found.y[0] >= limit)
    with pytest.raises(InvalidInput, match="leave argmin and threshold out"):
        answer_specification(
            read_onnx(tmp_path / "model.onnx", threshold=0.5), read_vnnlib(path), timeout=30
        )


def build_one_score(layers: tuple[AbstractLayer, ...], path: Path) -> Network:
    first, _, last = layers
    graph = OnnxGraph()
    hidden = graph.add("Gemm", "x", graph.constant(first.weight.T), graph.constant(first.bias))
    positive = graph.add("Relu", hidden)
    graph.add("Gemm", positive, graph.constant(last.weight.T), output="y")
    model = graph.model("one", ("x", ["batch", 2]), ("y", ["batch", 1]))
    path.write_bytes(model.SerializeToString())
    return read_onnx(path)


def test_outputs_behind_a_softmax_are_refused(tmp_path: Path) -> None:
    graph = OnnxGraph()
    graph.add("Softmax", graph.add("Gemm", "x", graph.constant(np.eye(2))), output="y")
    model = graph.model("soft", ("x", ["batch", 2]), ("y", ["batch", 2]))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    specification = read(tmp_path, "(assert (<= Y_0 Y_1))")
    with pytest.raises(InvalidInput, match="--output NAME"):
        answer_specification(read_onnx(tmp_path / "model.onnx"), specification)
    scores = read_onnx(tmp_path / "model.onnx", output="gemm0")
    assert answer_specification(scores, specification).answer is Answer.SATISFIED
