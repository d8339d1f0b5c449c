"""VNN-LIB: what is read, what is refused, and that the answers are true."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest

from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.local.specification import Satisfiability, answer_specification, side_by_side
from vhagar.local.vnnlib import Specification, read_vnnlib
from vhagar.local.vnnlib_2 import Second
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
        ("(assert (<= Y_0 X_0))", "joins .*_0, ._0, and may be about one input or about outputs"),
        ("(assert (<= Y_2 0))", "not declared"),
        ("(assert (<= Y_0 zero))", "neither a number"),
        ("(check-sat)", "check-sat"),
        ("(vnnlib-version <2.0>)", "begins with"),
        ("(declare-const X_7 Real)", "X_0, X_1"),
        ("(declare-const X_2 Real)", r"input 2 \(counted from 0\) has no lower bound"),
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


TWO = SECOND + "(declare-network M (declare-input Z Real [2]) (declare-output W Real [2]))"
SAME = "(assert (and (== images[0,0] Z[0]) (== Z[1] images[0,1])))"


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
        (SECOND + "(declare-network M (equal-to N))", "", "an input and an output"),
        (SECOND, "(assert (<= Y_0 0))", "neither a number"),
        (TWO, "", "must get the same input"),
        (TWO, "(assert (== images[0,0] Z[0]))", "must get the same input"),
        (TWO.replace("Z Real [2]", "Z Real [3]"), SAME, "not an entry|same input"),
        (TWO.replace("Z Real", "images Real"), SAME, "declared twice"),
        (
            TWO.replace("(declare-network M ", "(declare-network M (equal-to K)"),
            SAME,
            "first network",
        ),
        (TWO + "(declare-network L (declare-input V Real [2]))", SAME, "3 networks"),
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
    assert found.answer in (Satisfiability.SATISFIED, Satisfiability.NEVER)
    if found.answer is Satisfiability.NEVER:
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
    assert answer_specification(model, empty).answer is Satisfiability.NEVER
    point = read(tmp_path, "(assert (>= X_0 0.5))(assert (>= X_1 1.0))(assert (<= Y_0 100))")
    found = answer_specification(model, point)
    assert found.answer is Satisfiability.SATISFIED
    assert found.x.tolist() == [0.5, 1.0]
    everything = read(tmp_path, "")
    assert answer_specification(model, everything).answer is Satisfiability.SATISFIED


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
    assert answer_specification(scores, specification).answer is Satisfiability.SATISFIED


IN_BOX = """(assert (and (<= images[0,0] 0.5) (>= Z[0] -0.5)))
(assert (<= images[0,1] 1)) (assert (>= images[0,1] 0))
"""


def test_two_networks_share_their_inputs(tmp_path: Path) -> None:
    found = read_second(tmp_path, SAME + IN_BOX + "(assert (>= W[1] scores[0,0,1]))", TWO)
    assert (found.inputs, found.outputs, found.second) == (2, 4, Second.OTHER)
    (case,) = found.cases
    assert case.lower == (Fraction(-1, 2), 0)
    assert case.upper == (Fraction(1, 2), 1)
    assert case.conditions == ({"Y_1": 1, "Y_3": -1},)
    again = TWO.replace("(declare-network M ", "(declare-network M (equal-to N) ")
    assert read_second(tmp_path, SAME + IN_BOX, again).second is Second.EQUAL


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distance", ["0.01", "1.5", "50"])
def test_equivalence_is_decided_as_a_grid_says(tmp_path: Path, seed: int, distance: str) -> None:
    """Can the first scores of two networks differ by more than a distance?"""
    first, second = network(seed), network(seed + 100)
    close = f"(assert (or (>= (- W[0] scores[0,0,0]) {distance})"
    close += f"(>= (- scores[0,0,0] W[0]) {distance})))"
    specification = read_second(tmp_path, SAME + IN_BOX + close, TWO)
    result = answer_specification(first, specification, 60.0, second)
    grid = np.stack(np.meshgrid(np.linspace(-0.5, 0.5, 41), np.linspace(0, 1, 41)), -1)
    points = grid.reshape(-1, 2)
    largest = abs(first.forward(points)[:, 0] - second.forward(points)[:, 0]).max()
    if largest >= float(distance):
        assert result.answer is Satisfiability.SATISFIED
    elif largest < 0.8 * float(distance):
        assert result.answer is Satisfiability.NEVER
    if result.x is not None:
        assert result.y is not None
        wanted = [scores.forward(result.x[None])[0] for scores in (first, second)]
        assert np.allclose(result.y, np.concatenate(wanted), atol=1e-5)
        assert abs(result.y[0] - result.y[2]) >= float(distance) - 1e-6


def test_a_network_is_equivalent_to_itself(tmp_path: Path) -> None:
    again = TWO.replace("(declare-network M ", "(declare-network M (equal-to N) ")
    different = "(assert (>= (- W[0] scores[0,0,0]) 0.001))"
    specification = read_second(tmp_path, SAME + IN_BOX + different, again)
    assert answer_specification(network(3), specification, 60.0).answer is Satisfiability.NEVER
    with pytest.raises(InvalidInput, match="leave --second out"):
        answer_specification(network(3), specification, 60.0, network(4))
    other = read_second(tmp_path, SAME + IN_BOX + different, TWO)
    with pytest.raises(InvalidInput, match="given with --second"):
        answer_specification(network(3), other, 60.0)


def test_networks_that_do_not_fit_are_refused() -> None:
    wide = Network((Affine(np.ones((2, 3)), np.zeros(2), (3,), (2,)),), (3,))
    with pytest.raises(InvalidInput, match="2 and 3 inputs"):
        side_by_side(network(0), wide)


def test_names_of_two_networks_do_not_meet(tmp_path: Path) -> None:
    networks = []
    for k, name in enumerate(("second_weight", "weight")):
        path = tmp_path / f"{k}.onnx"
        write_onnx(network(k), path)
        model = onnx.load(path)
        (tensor, *_), old = model.graph.initializer, model.graph.initializer[0].name
        tensor.name = name
        for node in model.graph.node:
            node.input[:] = [name if each == old else each for each in node.input]
        onnx.save(model, path)
        networks.append(read_onnx(path))
    x = np.array([[0.25, 0.75]])
    wanted = np.concatenate([each.forward(x) for each in networks], axis=1)
    assert np.allclose(side_by_side(*networks).forward(x), wanted)


def test_two_networks_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for k in (0, 1):
        write_onnx(network(k), tmp_path / f"{k}.onnx")
    (tmp_path / "p.vnnlib").write_text(
        TWO + SAME + IN_BOX + "(assert (>= (- W[0] scores[0,0,0]) 99))"
    )
    words = ["local", str(tmp_path / "0.onnx"), "--second", str(tmp_path / "1.onnx")]
    assert main([*words, "--vnnlib", str(tmp_path / "p.vnnlib"), "--timeout", "60"]) == 0
    assert capsys.readouterr().out == "unsat\n"
    assert main([*words, "--image", "x.npy"]) == 2
