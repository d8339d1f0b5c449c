"""How a model takes an image: every way must be the same question about raw pixels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import InvalidInput, Problem, read_onnx, verify
from vhagar.cli.main import main
from vhagar.network.conventions import Convention, convention
from vhagar.network.onnx_session import OnnxSession
from vhagar.perturbation import parse
from vhagar.result.certificate import Container
from vhagar.result.witness import Rejection, WitnessCheck
from vhagar.search.branch_and_bound import Bab
from vhagar_check import Rejected, check
from vhagar_check.container import scan, unpack

IMAGE = (3, 4, 5)
MEAN, STD = (0.1, 0.45, 0.7), (0.2, 0.5, 1.5)
Save = Callable[[Any], Path]
RNG = np.random.default_rng(7)
FIRST, SECOND = RNG.normal(size=(8, 60)) / 4, RNG.normal(size=(3, 8))
KERNEL, LAST = RNG.normal(size=(4, 3, 3, 3)) / 3, RNG.normal(size=(3, 4 * 2 * 3)) / 2


def perceptron(build: Any, shape: tuple[int, ...] = (60,)) -> Any:
    """A network on 60 values, in whatever shape they come."""
    model = build(shape)
    if len(shape) > 1:
        model.add("Flatten")
    model.add("Gemm", FIRST, np.linspace(-0.5, 0.5, 8), transB=1).add("Relu")
    return model.add("Gemm", SECOND, transB=1)


def images(count: int = 5) -> np.ndarray:
    """Raw pixels that float32 knows."""
    rng = np.random.default_rng(1)
    return rng.random((count, *IMAGE)).astype(np.float32).astype(np.float64)


def normalised(x: np.ndarray) -> np.ndarray:
    """Spelt out channel by channel, to be sure of the broadcasting."""
    return np.stack([(x[:, k] - MEAN[k]) / STD[k] for k in range(3)], axis=1)


CHANNELS_LAST = pytest.mark.parametrize(
    ("shape", "options", "taken"),
    [
        ((60,), {"image_shape": IMAGE}, lambda x: x.reshape(-1, 60)),
        ((60,), {"image_shape": IMAGE, "mean": MEAN, "std": STD}, normalised),
        (IMAGE, {"mean": MEAN}, lambda x: x - np.array(MEAN)[:, None, None]),
        (IMAGE, {"std": 0.25}, lambda x: x / 0.25),
        ((60,), {"mean": tuple(range(60))}, lambda x: x.reshape(-1, 60) - np.arange(60)),
        ((4, 5, 3), {"layout": "hwc"}, lambda x: x.transpose(0, 2, 3, 1)),
        (
            (60,),
            {"layout": "hwc", "image_shape": IMAGE, "mean": MEAN, "std": STD},
            lambda x: normalised(x).transpose(0, 2, 3, 1),
        ),
        ((1, 60), {"layout": "hwc", "image_shape": IMAGE}, lambda x: x.transpose(0, 2, 3, 1)),
    ],
)


@CHANNELS_LAST
def test_layers_and_second_opinion_agree_with_the_original_model(
    build: Any,
    save: Save,
    onnxruntime_scores: Any,
    shape: tuple[int, ...],
    options: dict[str, Any],
    taken: Callable[[np.ndarray], np.ndarray],
) -> None:
    path = save(perceptron(build, shape))
    network = read_onnx(path, **options)
    x = images()
    theirs = onnxruntime_scores(str(path), taken(x).reshape(-1, *shape))
    np.testing.assert_allclose(network.forward(x), theirs, rtol=1e-5, atol=1e-5)
    assert network.model == path.read_bytes()
    np.testing.assert_array_equal(network.convention.to_model(x), taken(x).reshape(-1, *shape))
    scores = network.forward(x)
    best, label = np.unravel_index(scores.argmax(), scores.shape)
    problem = Problem(network, perturbation=None, source=int(label))
    assert not isinstance(WitnessCheck(problem)(None, x[best].reshape(-1)), Rejection)


def test_a_second_opinion_without_the_convention_objects(build: Any, save: Save) -> None:
    network = read_onnx(save(perceptron(build)), image_shape=IMAGE, mean=MEAN, std=STD)
    x = images(1)
    problem = Problem(network, perturbation=None, source=int(network.forward(x).argmax()))
    for wrong in ({"mean": (0.9, 0.45, 0.7)}, {"std": (0.2, 0.1, 1.5)}, {"layout": "hwc"}):
        other = replace(network, convention=replace(network.convention, **wrong))
        found = WitnessCheck(replace_network(problem, other))(None, x.reshape(-1))
        assert isinstance(found, Rejection)
        assert "onnxruntime" in found.reason


def replace_network(problem: Problem, network: Any) -> Problem:
    return Problem(network, perturbation=problem.perturbation, source=problem.source)


def convolutional(build: Any, channels_last: bool) -> Any:
    """A convolution with padding, whose border does not see the mean."""
    model = build((4, 5, 3) if channels_last else IMAGE)
    if channels_last:
        model.add("Transpose", perm=[0, 3, 1, 2])
    model.add("Conv", KERNEL, np.full(4, 0.1), pads=[1, 1, 1, 1], strides=[2, 2]).add("Relu")
    return model.add("Flatten").add("Gemm", LAST, transB=1)


def test_channels_last_before_a_convolution_stays_a_convolution(
    build: Any, save: Save, onnxruntime_scores: Any
) -> None:
    first = read_onnx(save(convolutional(build, False)), mean=MEAN, std=STD)
    path = save(convolutional(build, True))
    last = read_onnx(path, layout="hwc", mean=MEAN, std=STD)
    assert [type(layer) for layer in last.layers] == [type(layer) for layer in first.layers]
    x = images()
    np.testing.assert_array_equal(first.forward(x), last.forward(x))
    theirs = onnxruntime_scores(str(path), normalised(x).transpose(0, 2, 3, 1))
    np.testing.assert_allclose(last.forward(x), theirs, rtol=1e-5, atol=1e-5)


def test_the_answer_is_that_of_the_model_with_the_normalisation_inside(
    build: Any, save: Save
) -> None:
    inside = build((60,)).add("Reshape", np.array([-1, *IMAGE]))
    inside.add("Sub", np.reshape(MEAN, (3, 1, 1))).add("Div", np.reshape(STD, (3, 1, 1)))
    inside.add("Flatten").add("Gemm", FIRST, np.linspace(-0.5, 0.5, 8), transB=1).add("Relu")
    inside.add("Gemm", SECOND, transB=1)
    options = {"engine": Bab(attack=False), "workers": 1}
    known = read_onnx(save(inside), image_shape=IMAGE)
    ours = read_onnx(save(perceptron(build)), image_shape=IMAGE, mean=MEAN, std=STD)
    results = [
        verify(
            Problem(network, perturbation="occlusion(1,2,3)", source=0, input_range=(-1, 2)),
            **options,
        )
        for network in (known, ours)
    ]
    assert results[0].lower > 0
    assert results[0].lower <= results[1].upper * (1 + 1e-6)
    assert results[1].lower <= results[0].upper * (1 + 1e-6)
    assert results[1].upper <= results[0].upper * 1.01


def certificate_of(path: Path, folder: Path, **options: Any) -> tuple[Any, Path]:
    target = folder / "proof.cert"
    problem = Problem(read_onnx(path, **options), perturbation="linf(0.2)", source=0)
    found = verify(problem, engine=Bab(attack=False), workers=1, certificate=target)
    return found, target


CONVENTIONS = pytest.mark.parametrize(
    "options",
    [
        {"image_shape": IMAGE, "mean": MEAN, "std": STD},
        {"image_shape": IMAGE, "mean": MEAN, "std": STD, "layout": "hwc"},
        {"mean": 0.5},
        {"std": 3},
    ],
)


@CONVENTIONS
def test_certificates_record_the_convention_and_the_checker_applies_it(
    build: Any, save: Save, tmp_path: Path, options: dict[str, Any], capsys: Any
) -> None:
    path = save(perceptron(build))
    result, proof = certificate_of(path, tmp_path, **options)
    assert 0 < result.lower <= result.upper < np.inf
    verdict = check(proof, model=path)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert main(["check", str(proof), "--model", str(path)]) == 0
    said = capsys.readouterr().out
    assert "The model takes an input x" in said
    assert ("channels last" in said) == (options.get("layout") == "hwc")
    assert (repr(MEAN[1]) in said) == (options.get("mean") == MEAN)


def with_skip(build: Any, shape: tuple[int, ...]) -> Any:
    """The input itself is carried past a ReLU layer, then pooled with what leaves it."""
    model = build(shape)
    if shape != IMAGE:
        model.add("Transpose", perm=[0, 3, 1, 2])
        model.add("Add", np.full((1, 1, 1), 0.25))
    start = model.last
    model.add("Conv", KERNEL[:3], np.full(3, -0.1), pads=[1, 1, 1, 1]).add("Relu")
    model.add("Add", start).add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    return model.add("Flatten").add("Gemm", LAST[:, :12], transB=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (IMAGE, {}),
        (IMAGE, {"mean": MEAN, "std": STD}),
        ((4, 5, 3), {"layout": "hwc"}),
        ((4, 5, 3), {"layout": "hwc", "mean": MEAN, "std": STD}),
    ],
)
def test_certificates_of_graphs_with_a_convention(
    build: Any, save: Save, tmp_path: Path, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    path = save(with_skip(build, shape))
    target = tmp_path / "proof.cert"
    problem = Problem(
        read_onnx(path, **options), perturbation="occlusion(2,2,2)", source=0, targets=1
    )
    searching = {
        "engine": Bab(attack=False),
        "workers": 1,
        "certificate": target,
        "relative_gap": 0.1,
    }
    result = verify(problem, **searching, timeout=5)
    assert 0 < result.lower <= result.upper < np.inf
    verdict = check(target, model=path)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


@pytest.mark.parametrize(
    "change",
    [
        {"mean": []},
        {"std": []},
        {"mean": [0.3, 0.45, 0.7]},
        {"std": [0.2, 0.5, 0.1]},
        {"std": [-0.2, 0.5, 1.5]},
        {"std": [0.0, 0.5, 1.5]},
        {"mean": [0.1, 0.45]},
        {"layout": "hwc"},
        {"layout": "wch"},
        {"model_shape": [30, 2]},
        {"extra": 1},
        None,
    ],
)
def test_a_certificate_with_another_convention_is_refused(
    build: Any, save: Save, tmp_path: Path, change: dict[str, Any] | None
) -> None:
    path = save(perceptron(build))
    _, proof = certificate_of(path, tmp_path, image_shape=IMAGE, mean=MEAN, std=STD)
    with proof.open("rb") as file:
        blocks = [(block.tag.ljust(4).encode(), unpack(file, block)) for block in scan(proof)]
    head = json.loads(blocks[0][1])
    if change is None:
        del head["model"]["convention"]
    else:
        head["model"]["convention"].update(change)
    with proof.open("wb") as file:
        container = Container(file)
        container.block(b"HEAD", json.dumps(head).encode())
        for tag, raw in blocks[1:]:
            container.block(tag, raw)
        container.end()
    with pytest.raises(Rejected):
        check(proof, model=path)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((60,), {"image_shape": (3, 4, 4)}, "does not fill"),
        ((60,), {"image_shape": (60,)}, "channels, rows and columns"),
        ((60,), {"image_shape": (3, -4, -5)}, "channels, rows and columns"),
        ((60,), {"image_shape": (3, math.inf, 5)}, "channels, rows and columns"),
        ((60,), {"layout": "hwc"}, "image-shape"),
        ((4, 5, 3), {"layout": "hwc", "image_shape": (3, 5, 4)}, "channels last"),
        (IMAGE, {"layout": "whc"}, "unknown layout 'whc'"),
        (IMAGE, {"mean": (1, 2)}, "one for each channel"),
        ((60,), {"mean": (1, 2)}, "one for each entry"),
        ((4, 15), {"mean": (1, 2, 3, 4)}, "needs one number"),
        (IMAGE, {"std": (1, 0, 1)}, "above 0"),
        (IMAGE, {"std": -1}, "above 0"),
        (IMAGE, {"mean": float("nan")}, "finite"),
        (IMAGE, {"mean": ()}, "a number or a list"),
        (IMAGE, {"mean": "a"}, "a number or a list"),
    ],
)
def test_what_does_not_fit_is_an_error(
    shape: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        convention(shape, **options)


def test_rows_and_columns_alone_are_one_channel() -> None:
    assert convention((784,), image_shape=(28, 28)).input_shape == (1, 28, 28)
    assert convention((28, 28, 1), "hwc").input_shape == (1, 28, 28)
    assert convention(IMAGE).is_plain
    assert str(convention((60,), "hwc", IMAGE, 0.5, STD)) == (
        "(x - 0.5) / [0.2,0.5,1.5], channels last, as 60 values"
    )
    assert str(convention((60,), "chw", IMAGE, 0.1 + 0.2)).startswith("x - 0.30000000000000004,")
    assert str(Convention((2,), (2,))) == "x"


def test_a_feature_vector_has_linf_and_a_clear_error_for_images(build: Any, save: Save) -> None:
    network = read_onnx(save(perceptron(build)))
    options = {"engine": Bab(attack=False), "workers": 0}
    assert (
        verify(Problem(network, perturbation="linf(0.3)", source=0), **options, timeout=5).lower > 0
    )
    for text in ("occlusion(1,1,2)", "translation(1,0)", "rotation(5)", "patch([0,1],1,1,2)"):
        with pytest.raises(InvalidInput, match="--image-shape C,H,W"):
            Problem(network, perturbation=parse(text), source=0)
    shaped = read_onnx(network.file.path, image_shape=IMAGE)
    assert Problem(shaped, perturbation="occlusion(3,4,2)", source=0).pieces


@pytest.mark.subprocess
def test_the_command_line_says_it_and_the_json_records_it(
    build: Any, save: Save, tmp_path: Path, capsys: Any
) -> None:
    path, found = save(perceptron(build)), tmp_path / "found.json"
    words = ["verify", str(path), "--perturbation", "occlusion(1,1,2)", "--source", "0"]
    words += ["--image-shape", "3,4,5", "--mean", "-0.1,0.45,0.7", "--std", "0.2,0.5,1.5"]
    words += ["--layout", "hwc", "--timeout", "60", "--json", str(found)]
    assert main(words) == 0
    written = json.loads(found.read_text())
    assert written["problem"]["convention"] == {
        "layout": "hwc",
        "model_shape": [60],
        "mean": [-0.1, 0.45, 0.7],
        "std": [0.2, 0.5, 1.5],
    }
    assert np.shape(written["witness"]["x"]) == IMAGE
    with pytest.raises(SystemExit):
        main(["verify", str(path), "--image-shape", "3,x"])
    assert "3,32,32" in capsys.readouterr().err


@pytest.mark.parametrize("shape", [(8, 8, 3), (28, 28, 1), (32, 16, 4)])
def test_a_layout_that_may_be_wrong_is_asked_for(
    build: type, save: Callable, shape: tuple[int, ...]
) -> None:
    path = save(build(shape).add("Flatten").add("Gemm", np.ones((int(np.prod(shape)), 2))))
    with pytest.raises(InvalidInput, match="--layout hwc"):
        read_onnx(path)
    assert read_onnx(path, layout="chw").input_shape == shape
    assert read_onnx(path, layout="hwc").input_shape == (shape[2], *shape[:2])


@pytest.mark.parametrize(
    "shape", [(3, 8, 8), (1, 28, 28), (3, 4, 3), (784, 1, 1), (1, 1, 5), (4, 1)]
)
def test_a_layout_that_is_clear_is_not_asked_for(
    build: type, save: Callable, shape: tuple[int, ...]
) -> None:
    path = save(build(shape).add("Flatten").add("Gemm", np.ones((int(np.prod(shape)), 2))))
    assert read_onnx(path).input_shape == shape


def test_no_weight_takes_the_name_of_a_mean(build: type, save: Save) -> None:
    """A model may have the names of the constants that the reader puts in front of it."""
    taken = []
    for name in ("factor", "vhagar_convention_0_constant"):
        b = build((60,)).add("Mul", np.linspace(-1, 1, 60)[None]).add("Gemm", FIRST[:3], transB=1)
        b.tensors[0].name = b.nodes[0].input[1] = name
        network = read_onnx(save(b), mean=0.5)
        taken.append(network.forward(images(1).reshape(1, 60)))
    np.testing.assert_array_equal(*taken)


def test_no_weight_takes_the_name_of_a_threshold(build: type, save: Save) -> None:
    b = build((60,)).add("MatMul", FIRST[:1].T)
    b.tensors[0].name = b.nodes[0].input[1] = "vhagar_scores_weight"
    network, x = read_onnx(save(b)), images(1).reshape(1, 60)
    assert network.model is not None
    theirs = OnnxSession(network.model).outputs(x)
    np.testing.assert_allclose(network.forward(x), theirs, rtol=1e-5, atol=1e-6)
