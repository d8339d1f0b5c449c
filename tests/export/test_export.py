"""The exported question is the question: point by point, against an evaluation of its own."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from vhagar import InvalidInput, Network, Problem, UserPerturbation, verify
from vhagar.cli.main import main
from vhagar.export.export import export
from vhagar.network import Affine, Convolution, Relu, read_onnx, write_onnx
from vhagar.network.network import confidence
from vhagar.reduction.clipping import clip_of
from vhagar.search.branch_and_bound import Bab

from ..marks import mostly_slow
from ..pairs import related_by
from .queries import assertions, expressions, holds

SHAPE = (1, 3, 4)
SOURCE, TARGETS = 0, (1, 2)
# What float32 may do to a comparison.
NOISE = 1e-4


def network(shape: tuple[int, ...] = SHAPE, seed: int = 1) -> Network:
    rng = np.random.default_rng(seed)
    conv = Convolution(rng.normal(size=(2, shape[0], 2, 2)), rng.normal(size=2), shape)
    weight = rng.normal(size=(4, conv.out_size)) / 3
    layers = (
        conv,
        Relu(conv.out_shape),
        Affine(weight, rng.normal(size=4) / 4, conv.out_shape, (4,)),
    )
    return Network(layers, shape)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_onnx(network(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def asked(
    model: Path, perturbation: str, clip: bool = True, span: tuple[float, float] = (0.0, 1.0)
) -> Problem:
    return Problem(
        read_onnx(model),
        perturbation=perturbation,
        source=SOURCE,
        targets=TARGETS,
        clip=clip,
        input_range=span,
    )


@lru_cache(8)
def session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(path: Path, values: np.ndarray) -> np.ndarray:
    """The outputs of a model for one input, in float64."""
    opened = session(path.read_bytes())
    source = opened.get_inputs()[0]
    image = values.reshape(source.shape if isinstance(source.shape[0], int) else (1, *SHAPE))
    (found,) = opened.run(None, {source.name: image.astype(np.float32)})
    return found.astype(np.float64).reshape(-1)


def points(problem: Problem, k: int, count: int = 40) -> Any:
    """Random inputs and parameters of a piece, the ends of both among them."""
    rng = np.random.default_rng(k)
    piece, domain = problem.pieces[k], problem.domain
    low, high = piece.parameter_bounds
    for _ in range(count):
        x = rng.uniform(domain.lower, domain.upper, (1, domain.size))
        x = np.where(rng.random(x.shape) < 0.3, rng.choice([domain.lower, domain.upper]), x)
        x = x.astype(np.float32).astype(np.float64)
        e = rng.uniform(low, high)[None]
        e = np.where(rng.random(e.shape) < 0.3, high, e)
        yield x, e, piece.apply(x, e)


def is_attack(problem: Problem, x: np.ndarray, x_p: np.ndarray, delta: float) -> bool | None:
    """By the definition; None where float32 may see it otherwise."""
    first, second = problem.network.forward(x), problem.network.forward(x_p)
    sure = confidence(first, problem.source)[0] - delta
    wins = max(confidence(second, target)[0] for target in problem.targets)
    return None if min(abs(sure), abs(wins)) < NOISE else bool(min(sure, wins) > 0)


def satisfies(version: int, place: Any, x: Any, e: Any, x_p: Any, slack: float = 1e-6) -> bool:
    return satisfies_1(place, x, e, slack) if version == 1 else satisfies_2(place, x, x_p, slack)


def satisfies_1(place: Any, x: np.ndarray, e: np.ndarray, slack: float = 1e-6) -> bool:
    values = np.concatenate([x, e], axis=1).reshape(-1)
    outputs = run(place.onnx, values)

    def value(name: str) -> float:
        kind, number = name.split("_")
        return float((values if kind == "X" else outputs)[int(number)])

    return all(holds(one, value, slack) for one in assertions(place.vnnlib))


def satisfies_2(place: Any, x: np.ndarray, x_p: np.ndarray, slack: float = 1e-6) -> bool:
    inputs = {"X": x.reshape(1, *SHAPE), "X_p": x_p.reshape(1, *SHAPE)}
    outputs = {"Y": run(place.onnx, x)[None], "Y_p": run(place.onnx, x_p)[None]}

    def value(name: str) -> float:
        kind, indices = re.fullmatch(r"(\w+)\[([\d,]+)\]", name).groups()
        return float({**inputs, **outputs}[kind][tuple(map(int, indices.split(",")))])

    return all(holds(one, value, slack) for one in assertions(place.vnnlib))


PRODUCTS = (
    ("occlusion(1,2,2)", True),
    ("occlusion([1,2],2,[1,2])", True),
    ("translation(1,-1)", True),
    ("rotation(30)", True),
    ("linf(0.3)", True),
    ("patch([0,0.7],2,[1,2],2)", True),
    ("brightness([-0.4,0.6])", True),
    ("brightness([0.1,0.6])", False),
    ("brightness(0.5)", True),
    ("contrast([0.5,2])", True),
    ("contrast([1.5,2])", False),
    ("contrast(1.7)", True),
    ("contrast(0.5)", True),
    ("occlusion(1,2,2)+linf(0.3)", True),
    ("translation(1,0)+brightness([-0.4,0.6])", True),
    ("translation(1,0)+brightness([-0.4,0.6])", False),
)
NOT_IN_2 = {("brightness([-0.4,0.6])", True), ("contrast([0.5,2])", True)}
NOT_IN_2 |= {("contrast([1.5,2])", False), ("translation(1,0)+brightness([-0.4,0.6])", True)}
RANGES = pytest.mark.parametrize("span", [(0.0, 1.0), (-1.0, 2.0)])


@RANGES
@pytest.mark.parametrize(("perturbation", "clip"), PRODUCTS)
def test_the_product_network_holds_both_copies_and_the_question(
    model: Path, tmp_path: Path, perturbation: str, clip: bool, span: tuple[float, float]
) -> None:
    problem = asked(model, perturbation, clip, span)
    places = export(problem, 0.2, tmp_path / "question.vnnlib")
    assert len(places) == len(problem.pieces)
    seen = set()
    for k, place in enumerate(places):
        for x, choice, unclipped in points(problem, k):
            x_p = clip_of(problem)(unclipped)
            # A parameter that cannot be chosen is no input.
            e = choice[:, : problem.pieces[k].required_formula().map.count]
            outputs = run(place.onnx, np.concatenate([x, e], axis=1))
            first, second = problem.network.forward(x)[0], problem.network.forward(x_p)[0]
            np.testing.assert_allclose(outputs[:4], first[SOURCE] - first, atol=1e-4)
            np.testing.assert_allclose(outputs[4:], second, atol=1e-4)
            expected = is_attack(problem, x, x_p, 0.2)
            seen.add(expected)
            assert expected is None or satisfies_1(place, x, e) == expected
            outside = np.where(np.arange(x.size) == 5, span[1] + 0.1, x)
            assert not satisfies_1(place, outside, e)
    assert seen >= {False}


@RANGES
@pytest.mark.parametrize(("perturbation", "clip"), PRODUCTS)
def test_two_copies_hold_the_question(
    model: Path, tmp_path: Path, perturbation: str, clip: bool, span: tuple[float, float]
) -> None:
    problem = asked(model, perturbation, clip, span)
    if (perturbation, clip) in NOT_IN_2:
        with pytest.raises(InvalidInput, match="--format 1"):
            export(problem, 0.2, tmp_path / "question.vnnlib", version=2)
        return
    places = export(problem, 0.2, tmp_path / "question.vnnlib", version=2)
    for k, place in enumerate(places):
        piece = problem.pieces[k]
        for x, _, unclipped in points(problem, k, 25):
            x_p = clip_of(problem)(unclipped)
            expected = is_attack(problem, x, x_p, 0.2)
            assert expected is None or satisfies_2(place, x, x_p) == expected
            # A pair that the piece does not allow is no answer, whatever the scores.
            other = x_p + 0.02 * np.sign(np.random.default_rng(k).normal(size=x_p.shape))
            if not related_by(piece, x, other) and not clip_of(problem):
                assert not satisfies_2(place, x, other)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("perturbation", ["linf(0.4)", "occlusion(1,1,3)", "patch([0,1],1,2,3)"])
def test_the_exact_bound_divides_the_exports(
    model: Path, tmp_path: Path, perturbation: str, version: int
) -> None:
    problem = asked(model, perturbation)
    result = verify(problem, engine=Bab(attack=False), workers=1, timeout=60)
    assert result.lower > NOISE
    assert result.upper - result.lower < 0.01 * result.upper
    witness = result.witness
    x, e, x_p = (np.reshape(part, (1, -1)) for part in (witness.x, witness.choice, witness.x_p))
    # The witness may win by next to nothing, which float32 does not see.
    (below,) = export(problem, result.lower - NOISE, tmp_path / "below.vnnlib", version=version)
    assert satisfies(version, below, x, e, x_p, NOISE / 2)
    (above,) = export(problem, result.upper + NOISE, tmp_path / "above.vnnlib", version=version)
    assert not satisfies(version, above, x, e, x_p, NOISE / 2)
    for near, change, image in points(problem, 0):
        assert not satisfies(version, above, near, change, image)


def test_conventions_are_in_the_exported_models(tmp_path: Path) -> None:
    inner = network((2, 3, 4))
    write_onnx(inner, tmp_path / "model.onnx")
    ours = read_onnx(tmp_path / "model.onnx", mean=(0.2, 0.6), std=(0.5, 0.25))
    problem = Problem(ours, perturbation="linf(0.3)", source=SOURCE, targets=TARGETS)
    (place,) = export(problem, 0.1, tmp_path / "one.vnnlib")
    (two,) = export(problem, 0.1, tmp_path / "two.vnnlib", tmp_path / "copy.onnx", version=2)
    assert two.onnx == tmp_path / "copy.onnx"
    rng = np.random.default_rng(0)
    x, e = (rng.random((1, 24)).astype(np.float32).astype(float) for _ in range(2))
    e = 0.6 * e - 0.3
    x_p = problem.pieces[0].apply(x, e)
    outputs = run(place.onnx, np.concatenate([x, e], axis=1))
    np.testing.assert_allclose(outputs[4:], ours.forward(x_p)[0], atol=1e-4)
    opened = session(two.onnx.read_bytes())
    (scores,) = opened.run(
        None, {opened.get_inputs()[0].name: x.reshape(1, 2, 3, 4).astype(np.float32)}
    )
    np.testing.assert_allclose(scores, ours.forward(x), atol=1e-4)


def test_ranges_of_angles_are_refused(model: Path, tmp_path: Path) -> None:
    problem = Problem(read_onnx(model), perturbation="rotation([5,9])", source=SOURCE)
    for version in (1, 2):
        with pytest.raises(InvalidInput, match="can neither be exported"):
            export(problem, 0.1, tmp_path / "question.vnnlib", version=version)
    assert list(tmp_path.iterdir()) == [model]


@pytest.mark.parametrize("delta", [-1.0, float("nan"), float("inf")])
def test_a_delta_that_is_no_confidence_is_refused(model: Path, delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        export(
            Problem(read_onnx(model), perturbation="linf(0.1)", source=0), delta, "question.vnnlib"
        )


def test_what_cannot_be_asked_is_refused(model: Path) -> None:
    with pytest.raises(InvalidInput, match="perturbation"):
        export(Problem(read_onnx(model), perturbation=None, source=0), 0.1, "question.vnnlib")
    with pytest.raises(InvalidInput, match="VNN-LIB version 3"):
        export(
            Problem(read_onnx(model), perturbation="linf(0.1)", source=0),
            0.1,
            "question.vnnlib",
            version=3,
        )


def test_the_command_line(model: Path, tmp_path: Path, capsys: Any) -> None:
    text = tmp_path / "q.vnnlib"
    words = ["export", str(model), "--perturbation", "occlusion(1,[1,2],2)", "--source", "0"]
    words += ["--target", "3", "--delta", "0.25", "--vnnlib", str(text)]
    assert main(words) == 0
    assert "0.25-globally robust if and only if all 2 are unsatisfiable" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("model.onnx", "q_1.onnx", "q_1.vnnlib", "q_2.onnx", "q_2.vnnlib")
    ]
    assert main([*words, "--format", "2", "--onnx", str(tmp_path / "copy.onnx")]) == 0
    assert expressions(tmp_path / "q_1.vnnlib")[0] == ["vnnlib-version", "<2.0>"]
    assert main([*words, "--input-range", "0,1", "--vnnlib", str(tmp_path / "no" / "q")]) == 2


def _package() -> Any:
    return pytest.importorskip("vnnlib", reason="the package vnnlib is not installed")


@pytest.mark.parametrize(("perturbation", "clip"), sorted(set(PRODUCTS) - NOT_IN_2))
def test_the_package_vnnlib_reads_version_2(
    model: Path, tmp_path: Path, perturbation: str, clip: bool
) -> None:
    vnnlib = _package()
    if not hasattr(vnnlib, "parse_query_file"):
        pytest.skip("this version of the package vnnlib reads VNN-LIB 1.0 only")
    problem = asked(model, perturbation, clip)
    for place in export(problem, 0.2, tmp_path / "question.vnnlib", version=2):
        query = vnnlib.parse_query_file(str(place.vnnlib))
        assert [one.name for one in query.networks] == ["original", "perturbed"]
        assert len(query.assertions) == len(assertions(place.vnnlib))


# SMT-LIB would have (- 0.25), which few verifiers read; the competition's own files have -0.25.
@pytest.mark.filterwarnings("ignore:literal negation")
@pytest.mark.parametrize("targets", [(1, 2), (3,)])
def test_the_package_vnnlib_reads_version_1(
    model: Path, tmp_path: Path, targets: tuple[int, ...]
) -> None:
    vnnlib = _package()
    if hasattr(vnnlib, "parse_query_file"):
        pytest.skip("this version of the package vnnlib reads VNN-LIB 2.0 only")
    from vnnlib.compat import read_vnnlib_simple

    problem = Problem(read_onnx(model), perturbation="linf(0.25)", source=SOURCE, targets=targets)
    (place,) = export(problem, 0.2, tmp_path / "question.vnnlib")
    cases = read_vnnlib_simple(str(place.vnnlib), 24, 8)
    boxes = [box for box, _ in cases]
    assert boxes[0] == [[0.0, 1.0]] * 12 + [[-0.25, 0.25]] * 12
    rng = np.random.default_rng(0)
    found = [one for _, outputs in cases for one in outputs]
    assert len(found) == len(targets)
    for _ in range(200):
        y = rng.normal(size=8)
        theirs = any((matrix @ y <= bound).all() for matrix, bound in found)
        ours = (np.delete(y[:4], SOURCE) >= 0.2).all() and y[4:].argmax() in targets
        assert theirs == ours


def test_one_parameter_with_many_slopes(model: Path, tmp_path: Path) -> None:
    slopes = np.zeros((12, 1))
    slopes[2:7, 0] = [1.0, -2.0, 0.5, 1.0, 3.0]
    own = UserPerturbation(directions=slopes, offset=0.05, ranges=[(-0.2, 0.3)])
    problem = Problem(
        read_onnx(model), perturbation=own, source=SOURCE, targets=TARGETS, clip=False
    )
    (place,) = export(problem, 0.0, tmp_path / "question.vnnlib", version=2)
    relation = [one for one in assertions(place.vnnlib) if "Y" not in str(one)]
    (piece,) = problem.pieces
    for x, e, x_p in points(problem, 0, 20):
        np.testing.assert_allclose(x_p, x + e * slopes.T + 0.05, atol=1e-12)
        assert related(relation, x, x_p)
        # The last slope as if it were the first one's, and a parameter beyond its range.
        for wrong in (np.where(slopes == 3.0, 1.0, slopes), slopes * 3):
            other = x + e * wrong.T + 0.05
            assert related(relation, x, other) == related_by(piece, x, other)


@pytest.mark.parametrize(("perturbation", "clip"), mostly_slow(sorted(set(PRODUCTS) - NOT_IN_2), 3))
def test_the_conditions_between_two_copies_are_the_perturbation(
    model: Path, tmp_path: Path, perturbation: str, clip: bool
) -> None:
    """Without the scores, which would rule out most wrong images by themselves."""
    problem = asked(model, perturbation, clip)
    places = export(problem, 0.0, tmp_path / "question.vnnlib", version=2)
    refused = 0
    for k, place in enumerate(places):
        relation = [one for one in assertions(place.vnnlib) if "Y" not in str(one)]
        for x, _, x_p in points(problem, k, 6):
            assert related(relation, x, x_p)
            for pixel, change in product(range(x.size), (-0.4, -0.02, 0.02, 0.4)):
                other = x_p.copy()
                other[0, pixel] += change
                expected = related_by(problem.pieces[k], x, other)
                assert related(relation, x, other) == expected
                refused += not expected
    assert refused


def related(relation: list[Any], x: np.ndarray, x_p: np.ndarray) -> bool:
    tensors = {"X": x.reshape(1, *SHAPE), "X_p": x_p.reshape(1, *SHAPE)}

    def value(name: str) -> float:
        kind, indices = re.fullmatch(r"(\w+)\[([\d,]+)\]", name).groups()
        return float(tensors[kind][tuple(map(int, indices.split(",")))])

    return all(holds(one, value, 1e-9) for one in relation)


def test_a_model_is_never_overwritten_by_its_own_export(tmp_path: Path) -> None:
    path, link = tmp_path / "model.onnx", tmp_path / "link.onnx"
    write_onnx(network(), path)
    link.symlink_to(path)
    before = path.read_bytes()
    problem = Problem(read_onnx(path), perturbation="linf(0.1)", source=0)
    for onnx in (None, path, link):
        with pytest.raises(InvalidInput, match="would be overwritten"):
            export(problem, 0.5, tmp_path / "model.vnnlib", onnx)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("first", "second"), [(-2.0, 1.0), (-0.5, -0.5), (1.0, -3.0)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_parameter_that_darkens_has_its_ends_in_order(
    model: Path, tmp_path: Path, shared: bool, first: float, second: float
) -> None:
    """One parameter for both pixels, or one for each; the range is not symmetric."""
    slopes = np.zeros((12, 1 if shared else 2))
    slopes[3, 0], slopes[8, -1] = first, second
    ranges = [(-0.1, 0.3)] * slopes.shape[1]
    own = UserPerturbation(directions=slopes, ranges=ranges)
    problem = Problem(
        read_onnx(model), perturbation=own, source=SOURCE, targets=TARGETS, clip=False
    )
    (place,) = export(problem, 0.0, tmp_path / "question.vnnlib", version=2)
    relation = [one for one in assertions(place.vnnlib) if "Y" not in str(one)]
    x = np.full((1, 12), 0.5)
    for e in (-0.1, 0.0, 0.3):
        assert related(relation, x, x + np.full((1, slopes.shape[1]), e) @ slopes.T)
    for e in (-0.11, -0.3, 0.31):
        assert not related(relation, x, x + np.full((1, slopes.shape[1]), e) @ slopes.T)
