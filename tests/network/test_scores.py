"""Models with one score, with several outputs, and with labels beside the scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from vhagar import InvalidInput, InvalidNetwork, Problem, Result, UnsupportedOperator, verify
from vhagar.network import read_onnx
from vhagar.network.scores import Scores
from vhagar_check import check
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model
from vhagar_check.scores import Stated

RNG = np.random.default_rng(3)
HIDDEN, WEIGHT = RNG.normal(size=(4, 5)), RNG.normal(size=(5, 1))
WIDE = np.random.default_rng(4).normal(size=(5, 3))


def one_score(build: type, *last: str) -> Any:
    b = build((4,)).add("Gemm", HIDDEN, np.ones(5)).add("Relu").add("MatMul", WEIGHT)
    for kind in last:
        b.add(kind)
    return b


def checker_scores(path: Path, scores: Scores | None, x: np.ndarray) -> np.ndarray:
    network = read_model(path.read_bytes(), Stated.of(None if scores is None else scores.plain()))
    return np.array([
        [float(score) for score in network.exact_scores(Exact.of(row)).fractions()] for row in x
    ])  # fmt: skip


def expected(x: np.ndarray) -> np.ndarray:
    hidden = np.maximum(x @ HIDDEN.astype(np.float32).astype(float) + 1, 0)
    return hidden @ WEIGHT.astype(np.float32).astype(float)


@pytest.mark.parametrize(
    ("last", "threshold", "limit"),
    [
        ((), None, 0.0),
        ((), -0.75, -0.75),
        (("Flatten",), 0.5, 0.5),
        (("Sigmoid",), None, 0.0),
        (("Sigmoid",), 0.5, 0.0),
        (("Sigmoid", "Identity"), 0.8, math.log(0.8) - math.log1p(-0.8)),
        (("Tanh",), 0.5, math.atanh(0.5)),
        (("Softplus",), None, 0.0),
        (("Relu",), 0.25, 0.25),
    ],
)
def test_one_score_divides_two_classes(
    build: type,
    save: Callable,
    onnxruntime_scores: Callable,
    last: tuple[str, ...],
    threshold: float | None,
    limit: float,
) -> None:
    path = save(one_score(build, *last))
    network = read_onnx(path, threshold=threshold)
    assert network.scores == Scores(None, limit)
    said = f"one score: class 1 is a score above {repr(limit).removesuffix('.0')},"
    assert any(said in each for each in network.notes)
    x = RNG.normal(size=(20, 4))
    z = expected(x)
    z = np.maximum(z, 0) if last == ("Relu",) else z
    wanted = np.concatenate([0 * z, z - limit], axis=1)
    np.testing.assert_allclose(network.forward(x), wanted, atol=1e-9)
    np.testing.assert_allclose(checker_scores(path, network.scores, x), wanted, atol=1e-9)
    theirs = onnxruntime_scores(network.model, x)
    np.testing.assert_allclose(theirs, wanted, atol=1e-5)
    # The class is the one that the model's own output says.
    output = onnxruntime_scores(str(path), x)[:, 0]
    after = {"Sigmoid": 0.5, "Softplus": math.log(2)}.get((*last, "")[0], 0.0)
    clear = abs(z[:, 0] - limit) > 1e-4
    above = output > (after if threshold is None else threshold)
    assert (above == (network.forward(x).argmax(axis=1) == 1))[clear].all()


@pytest.mark.parametrize(
    ("last", "threshold", "message"),
    [
        (("Sigmoid",), 1.0, "between 0 and 1"),
        (("Tanh",), -1.5, "between -1 and 1"),
        (("Softplus",), 1.0, "cannot be given after Softplus"),
        (("Tanh", "Sigmoid"), 0.6, "cannot be given after Tanh and Sigmoid"),
        ((), math.inf, "finite"),
    ],
)
def test_thresholds_without_sense_are_refused(
    build: type, save: Callable, last: tuple[str, ...], threshold: float, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_onnx(save(one_score(build, *last)), threshold=threshold)


def test_a_threshold_is_for_one_score(build: type, save: Callable) -> None:
    path = save(build((4,)).add("Gemm", HIDDEN))
    with pytest.raises(InvalidInput, match="this one has 5"):
        read_onnx(path, threshold=0.5)
    with pytest.raises(Rejected, match="several scores"):
        read_model(path.read_bytes(), Stated(None, 0.5))


def test_a_softmax_of_one_score_is_refused(build: type, save: Callable) -> None:
    path = save(one_score(build, "Softmax"))
    with pytest.raises(UnsupportedOperator, match="one score"):
        read_onnx(path)
    with pytest.raises(Rejected, match="not over the classes"):
        read_model(path.read_bytes(), Stated(None, 0.0))


def test_the_checker_wants_the_threshold_stated(build: type, save: Callable) -> None:
    data = save(one_score(build)).read_bytes()
    with pytest.raises(Rejected, match="does not state its threshold"):
        read_model(data)
    for wrong in ({"output": None}, {"output": 3, "threshold": 0.0}, [], {
        "output": None, "threshold": math.nan}, {"output": None, "threshold": True}):  # fmt: skip
        with pytest.raises(Rejected):
            Stated.of(wrong)


def labelled(build: type, zipped: bool = False) -> Any:
    """As scikit-learn's converter writes a classifier: labels, and probabilities."""
    b = build((4,)).add("Gemm", HIDDEN, np.ones(5)).add("Relu").add("Gemm", RNG.normal(size=(5, 3)))
    scores = b.last
    probabilities = b.add("Softmax").last
    b.add("ArgMax", axis=1, keepdims=0)
    model = b.model()
    outputs = [helper.make_tensor_value_info(b.last, TensorProto.INT64, None)]
    if zipped:
        model.graph.node.append(
            helper.make_node(
                "ZipMap", [probabilities], ["shares"], domain="ai.onnx.ml", classlabels_int64s=[0]
            )
        )
        shares = helper.make_value_info(
            "shares",
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(
                    TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
                )
            ),
        )
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
        outputs.append(shares)
    else:
        outputs.append(helper.make_tensor_value_info(probabilities, TensorProto.FLOAT, None))
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    return model, scores, probabilities


@pytest.mark.parametrize("zipped", [False, True])
def test_labels_are_ignored_in_favour_of_scores(
    build: type, save: Callable, onnxruntime_scores: Callable, zipped: bool
) -> None:
    model, scores, probabilities = labelled(build, zipped)
    path = save(model)
    network = read_onnx(path)
    assert network.scores == Scores(probabilities)
    x = RNG.normal(size=(10, 4))
    np.testing.assert_allclose(
        network.forward(x), onnxruntime_scores(network.model, x), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        checker_scores(path, network.scores, x), network.forward(x), atol=1e-9
    )
    # The same scores by another name, without a softmax that is ignored.
    named = read_onnx(path, output=scores)
    assert named.scores == Scores(scores)
    assert not named.notes
    np.testing.assert_array_equal(named.forward(x), network.forward(x))
    labels = onnxruntime_scores(path.read_bytes() if not zipped else network.model, x)
    assert zipped or (labels == network.forward(x).argmax(axis=1)).all()


def two_shares(build: type, *after: str, weight: np.ndarray = WEIGHT, one: float = 1.0) -> Any:
    """As scikit-learn's converter writes a classifier of two classes: `[1 - p, p]`."""
    b = build((4,)).add("Gemm", HIDDEN, np.ones(5)).add("Relu").add("MatMul", weight)
    share = b.add("Sigmoid").last
    b.add("Sub", np.array(one), first=True).add("Concat", share, axis=1)
    for kind in after:
        b.add(kind)
    return b, share


@pytest.mark.parametrize("after", [(), ("Identity",)])
@pytest.mark.parametrize("threshold", [None, 0.7])
def test_two_shares_of_one_score_are_that_score(
    build: type,
    save: Callable,
    onnxruntime_scores: Callable,
    after: tuple[str, ...],
    threshold: float | None,
) -> None:
    b, share = two_shares(build, *after)
    path = save(b)
    network = read_onnx(path, threshold=threshold)
    limit = 0.0 if threshold is None else math.log(0.7) - math.log1p(-0.7)
    assert network.scores == Scores(share, limit)
    x = RNG.normal(size=(40, 4))
    z = expected(x)
    wanted = np.concatenate([0 * z, z - limit], axis=1)
    np.testing.assert_allclose(network.forward(x), wanted, atol=1e-9)
    np.testing.assert_allclose(checker_scores(path, network.scores, x), wanted, atol=1e-9)
    shares = onnxruntime_scores(str(path), x)
    clear = abs(z[:, 0] - limit) > 1e-4
    above = shares[:, 1] > (0.5 if threshold is None else threshold)
    assert (above == (network.forward(x).argmax(axis=1) == 1))[clear].all()
    if threshold is None:
        assert (shares.argmax(axis=1) == network.forward(x).argmax(axis=1))[clear].all()


def test_only_the_shares_of_one_score_are_that_score(build: type, save: Callable) -> None:
    several, _ = two_shares(build, weight=WIDE)
    with pytest.raises(InvalidNetwork, match="of which there are several"):
        read_onnx(save(several))
    with pytest.raises(InvalidNetwork, match="of which there are several"):
        read_onnx(save(several), output=several.last)
    other, _ = two_shares(build, one=2.0)
    with pytest.raises(UnsupportedOperator, match="Sigmoid"):
        read_onnx(save(other))
    # The first of the two is the share: class 0 would be a score above 0.
    b = build((4,)).add("Gemm", HIDDEN[:, :1]).add("Sigmoid")
    share = b.last
    rest = b.add("Sub", np.array(1.0), first=True).last
    with pytest.raises(UnsupportedOperator, match="Sigmoid"):
        read_onnx(save(b.follow(share).add("Concat", rest, axis=1)))


@pytest.mark.parametrize("kind", ["Identity", "Constant"])
def test_operators_of_strangers_have_no_known_meaning(
    build: type, save: Callable, kind: str
) -> None:
    """Of the same names as ONNX's own, behind the two shares or where they come from."""
    b, _ = two_shares(build, "Identity")
    model = b.model()
    if kind == "Constant":
        (rest,) = [node for node in model.graph.node if node.op_type == "Sub"]
        (one,) = [part for part in model.graph.initializer if part.name == rest.input[0]]
        model.graph.initializer.remove(one)
        made = helper.make_node("Constant", [], [one.name], value=one)
        model.graph.node.insert(0, made)
    for node in model.graph.node:
        if node.op_type == kind:
            node.domain = "strange"
    model.opset_import.append(helper.make_opsetid("strange", 1))
    with pytest.raises(UnsupportedOperator):
        read_onnx(save(model))


@pytest.mark.parametrize("kind", ["Identity", "ZipMap"])
def test_outputs_that_go_in_a_circle_are_refused(build: type, save: Callable, kind: str) -> None:
    model = build((4,)).add("Gemm", HIDDEN).model()
    domain = "ai.onnx.ml" if kind == "ZipMap" else ""
    model.graph.node.append(helper.make_node(kind, ["circle"], ["circle"], domain=domain))
    with pytest.raises(InvalidNetwork):
        read_onnx(save(model), output="circle")


@pytest.mark.parametrize(("domain", "name"), [("", "Relu"), ("ai.onnx.ml", "Scaler")])
def test_operators_that_the_file_redefines_are_refused(
    build: type, save: Callable, domain: str, name: str
) -> None:
    model = build((4,)).add("Gemm", HIDDEN).add("Relu").model()
    body = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(
        helper.make_function(domain, name, ["a"], ["b"], body, model.opset_import)
    )
    with pytest.raises(InvalidNetwork, match="redefines"):
        read_onnx(save(model))


def test_one_of_several_outputs_is_chosen(build: type, save: Callable) -> None:
    b = build((4,)).add("Gemm", HIDDEN)
    first = b.last
    model = b.add("Relu").model()
    model.graph.output.append(helper.make_tensor_value_info(first, TensorProto.FLOAT, None))
    path = save(model)
    with pytest.raises(InvalidNetwork, match=f"'{first}'.*--output NAME"):
        read_onnx(path)
    with pytest.raises(InvalidInput, match="no output 'lost'"):
        read_onnx(path, output="lost")
    with pytest.raises(Rejected, match="exactly one input and one output"):
        read_model(path.read_bytes())
    with pytest.raises(Rejected):
        read_model(path.read_bytes(), Stated("lost"))
    x = RNG.normal(size=(5, 4))
    linear, positive = (read_onnx(path, output=name) for name in (first, b.last))
    np.testing.assert_allclose(positive.forward(x), np.maximum(linear.forward(x), 0), atol=1e-12)
    assert checker_scores(path, linear.scores, x) == pytest.approx(linear.forward(x), abs=1e-9)


def test_certificates_state_how_scores_are_taken(
    build: type, save: Callable, tmp_path: Path
) -> None:
    path, proof = save(one_score(build, "Sigmoid")), tmp_path / "proof.cert"
    network = read_onnx(path, threshold=0.6)
    problem = Problem(network, perturbation="linf(0.05)", source=1)
    result = verify(problem, workers=1, timeout=20, certificate=proof)
    verdict = check(proof, model=path)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert repr(network.scores.threshold) in str(verdict)
    assert result.to_dict()["problem"]["scores"] == network.scores.plain()
    result.save(tmp_path / "result.vhagar")
    again = Result.load(tmp_path / "result.vhagar")
    assert again.problem.network.scores == network.scores
    assert again.lower == result.lower


@pytest.mark.parametrize("last", [(), ("Relu",), ("Softmax",)])
def test_with_argmin_the_smallest_output_wins(
    build: type, save: Callable, onnxruntime_scores: Callable, last: tuple[str, ...]
) -> None:
    b = build((4,)).add("Gemm", HIDDEN)
    for kind in last:
        b.add(kind)
    path = save(b)
    network, plain = read_onnx(path, argmin=True), read_onnx(path)
    assert network.scores == Scores(argmin=True)
    assert network.scores.plain()["argmin"] is True
    x = RNG.normal(size=(20, 4))
    np.testing.assert_array_equal(network.forward(x), -plain.forward(x))
    theirs = onnxruntime_scores(network.model, x)
    np.testing.assert_allclose(theirs, network.forward(x), atol=1e-5)
    assert checker_scores(path, network.scores, x) == pytest.approx(network.forward(x), abs=1e-9)
    output = onnxruntime_scores(str(path), x)
    if last != ("Relu",):  # which ties
        np.testing.assert_array_equal(network.forward(x).argmax(axis=1), output.argmin(axis=1))


def test_one_score_has_no_smallest(build: type, save: Callable) -> None:
    path = save(one_score(build))
    with pytest.raises(InvalidInput, match="--argmin"):
        read_onnx(path, argmin=True)
    with pytest.raises(Rejected, match="of one score"):
        read_model(path.read_bytes(), Stated(None, 0.0, argmin=True))


@pytest.mark.parametrize("stated", [False, None, 1, "yes"])
def test_the_checker_wants_argmin_to_be_true(stated: object) -> None:
    with pytest.raises(Rejected, match="argmin"):
        Stated.of({"output": None, "threshold": None, "argmin": stated})


def test_certificates_state_that_the_smallest_wins(
    build: type, save: Callable, tmp_path: Path
) -> None:
    path, proof = (
        save(build((4,)).add("Gemm", HIDDEN).add("Relu").add("MatMul", WIDE)),
        tmp_path / "p",
    )
    problem = Problem(read_onnx(path, argmin=True), perturbation="linf(0.05)", source=1)
    result = verify(problem, workers=1, timeout=20, certificate=proof)
    verdict = check(proof, model=path)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert "smallest output wins" in str(verdict)
    result.save(tmp_path / "result.vhagar")
    again = Result.load(tmp_path / "result.vhagar")
    assert again.problem.network.scores == Scores(argmin=True)
