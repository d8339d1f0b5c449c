"""Local robustness against versions of the image that were looked at one by one."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vhagar import InvalidInput, Network
from vhagar.cli.main import main
from vhagar.dataset import read_image
from vhagar.local import engine_search
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalVerdict
from vhagar.local.run import verify_local
from vhagar.network import Affine, Convolution, Relu, read_onnx, write_onnx
from vhagar.network.network import confidence
from vhagar.perturbation import Domain, Zonotope
from vhagar.reduction.clipping import clip_of
from vhagar.reduction.fixed_image import behind, fixed_images
from vhagar.search import engine_named

from ..marks import mostly_slow

SHAPE = (1, 3, 4)
# What float32 changes of the witness check's image, and the gap at which a search ends.
LOOSE = 5e-3

PERTURBATIONS = (
    ("patch([0,0.6],1,2,1)", True),
    ("patch([0,1],[1,2],3,1)", True),
    ("brightness([-0.6,0.7])", True),
    ("brightness([-0.2,0.3])", False),
    ("contrast([0.3,3])", True),
    ("contrast([1.1,2])", False),
    ("occlusion([1,2],[1,3],2)", True),
    ("translation([-1,1],[0,1])", True),
    ("rotation(40)", True),
    ("brightness(0.5)", True),
    ("contrast(2.5)", True),
    ("occlusion(1,2,2)+brightness([-0.5,0.6])", True),
    ("translation(1,0)+brightness([-0.5,0.6])", False),
)


def network(seed: int, shape: tuple[int, ...] = SHAPE) -> Network:
    rng = np.random.default_rng(seed)
    conv = Convolution(rng.normal(size=(3, shape[0], 2, 2)), rng.normal(size=3) / 2, shape)
    weight = rng.normal(size=(3, conv.out_size)) / 2
    layers = (conv, Relu(conv.out_shape), Affine(weight, np.zeros(3), conv.out_shape, (3,)))
    return Network(layers, shape)


def image(seed: int, span: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
    rng = np.random.default_rng(seed + 100)
    return rng.uniform(*span, 12).astype(np.float32).astype(np.float64)


def versions(problem: LocalProblem) -> np.ndarray:
    """Perturbed versions, close together: parameters of every piece on a grid."""
    found = []
    for piece in problem.everywhere.pieces:
        low, high = piece.parameter_bounds
        steps = 2001 if len(low) <= 1 else 41
        axes = [np.linspace(a, b, steps) for a, b in zip(low, high, strict=True)]
        choices = np.array(list(product(*axes))) if axes else np.zeros((1, 0))
        found.append(piece.apply(np.tile(problem.image, (len(choices), 1)), choices))
    every, domain = np.concatenate(found), problem.everywhere.domain
    return np.clip(every, domain.lower, domain.upper) if problem.everywhere.clip else every


def margins(problem: LocalProblem, images: np.ndarray) -> np.ndarray:
    """How far each version is from the nearest target."""
    scores = problem.everywhere.network.forward(images)
    return -np.max([confidence(scores, t) for t in problem.everywhere.targets], axis=0)


@pytest.mark.parametrize("span", [(0.0, 1.0), (-1.0, 2.0)])
@pytest.mark.parametrize(("perturbation", "clip"), mostly_slow(PERTURBATIONS, 3))
def test_the_margin_encloses_that_of_every_version(
    perturbation: str, clip: bool, span: tuple[float, float]
) -> None:
    verdicts = set()
    for seed in range(6):
        net, x = network(seed), image(seed, span)
        targets = None if seed % 2 else [(int(net.forward(x).argmax()) + 1) % 3]
        problem = LocalProblem(
            net,
            perturbation=perturbation,
            image=x,
            source=None,
            targets=targets,
            clip=clip,
            input_range=span,
        )
        result = verify_local(problem, relative_gap=1e-3)
        smallest = margins(problem, versions(problem)).min()
        # Exactly on the sound side: no version beats the proven end.
        assert result.lower <= smallest
        assert result.upper <= smallest + LOOSE * max(1, abs(smallest))
        assert result.lower <= result.upper
        assert result.lower >= smallest - LOOSE * max(1, abs(smallest))
        assert result.verdict is (LocalVerdict.ROBUST if smallest > 0 else LocalVerdict.BROKEN)
        assert (result.witness is not None) == (result.verdict is LocalVerdict.BROKEN)
        if result.witness is not None:
            flat = result.witness.x_p.reshape(1, -1)
            pieces, at = problem.everywhere.pieces, result.witness.piece_number
            choice = np.array([result.witness.choice])
            again = clip_of(problem.everywhere)(pieces[at].apply(problem.image[None], choice))
            np.testing.assert_array_equal(flat, again)
            assert margins(problem, flat)[0] <= 0
            np.testing.assert_array_equal(result.witness.x.reshape(-1), problem.image)
        verdicts.add(result.verdict)
        # Without a gap the search ends with the answer, and its bounds hold.
        answer = verify_local(problem)
        assert answer.verdict is result.verdict
        assert answer.lower <= smallest
        assert smallest - 1e-6 <= answer.upper
    assert verdicts


@pytest.mark.parametrize(
    "engine",
    [
        "bab",
        "mip",
        pytest.param("first-order", marks=pytest.mark.slow),
        pytest.param("attack", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("limit", [0.01, 0.4])
def test_every_engine_answers(engine: str, limit: float) -> None:
    for seed in range(2):
        problem = LocalProblem(network(seed), perturbation=f"linf({limit})", image=image(seed))
        result = verify_local(
            problem,
            engine=engine_named(engine),
            timeout=3 if engine == "attack" else 20,
            relative_gap=1e-3,
        )
        rng = np.random.default_rng(seed)
        (piece,) = problem.everywhere.pieces
        choices = limit * rng.choice([-1.0, 1.0], (4000, 12))
        images = piece.apply(np.tile(problem.image, (4000, 1)), choices)
        smallest = margins(problem, images).min()
        assert result.lower <= smallest
        assert result.engine == engine
        if engine in ("bab", "mip"):
            assert result.upper - result.lower <= 0.01 * max(1, abs(result.upper))
            assert result.upper <= smallest + 1e-6
            assert result.verdict is not LocalVerdict.UNKNOWN


def test_the_network_of_the_parameters_is_the_network_of_the_images() -> None:
    net, x = network(1), image(1)
    for text in ("linf(0.3)", "brightness([-0.6,0.7])", "contrast([0.3,3])", "patch([0,1],1,1,2)"):
        for piece in LocalProblem(net, perturbation=text, image=x).everywhere.pieces:
            images = fixed_images(piece, x)
            u = np.random.default_rng(0).random((50, images.parameters))
            x_p = piece.apply(np.tile(x, (50, 1)), images.choice(u))
            expected = net.forward(x_p)
            expected[:, 1] += 0.75
            np.testing.assert_allclose(
                behind(net, images, 1, 0.75).forward(u), expected, atol=1e-12
            )


def test_a_time_that_is_too_short_leaves_an_honest_interval() -> None:
    problem = LocalProblem(network(3), perturbation="linf(0.2)", image=image(3))
    with pytest.raises(InvalidInput, match="number of seconds"):
        verify_local(problem, timeout="5")  # type: ignore[arg-type]
    result = verify_local(problem, timeout=0)
    assert result.lower <= margins(problem, problem.image[None])[0]
    assert result.lower <= result.upper
    assert result.verdict is LocalVerdict.UNKNOWN or result.lower > 0 or result.witness is not None


@pytest.mark.parametrize(("given", "expected"), [({}, 0), ({"workers": 2}, 2)])
def test_the_engine_has_as_many_workers_as_it_is_given(
    given: dict[str, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []
    honest = engine_search.EngineSearch.__init__

    def init(self: Any, known: Any, engine: Any, options: Any, *others: Any) -> None:
        seen.append(options.workers)
        honest(self, known, engine, options, *others)

    monkeypatch.setattr(engine_search.EngineSearch, "__init__", init)
    monkeypatch.setattr(engine_search.EngineSearch, "run", lambda self: None)
    problem = LocalProblem(network(0), perturbation="linf(0.02)", image=image(0))
    verify_local(problem, relative_gap=1e-3, **given)
    assert seen == [expected]


def test_the_engine_tells_how_far_it_is() -> None:
    problem = LocalProblem(network(0), perturbation="linf(0.3)", image=image(0))
    seen: list[Any] = []
    result = verify_local(
        problem, engine=engine_named("mip"), relative_gap=1e-3, on_progress=seen.append
    )
    assert seen
    assert all(each.lower <= result.upper and result.lower <= each.upper for each in seen)
    assert "open nodes" not in seen[-1].words()[1]


def test_an_interruption_returns_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_search, "run_engine", interrupt)
    problem = LocalProblem(network(0), perturbation="linf(0.3)", image=image(0))
    result = verify_local(problem, engine=engine_named("mip"), relative_gap=1e-3)
    assert result.interrupted
    assert result.lower <= result.upper < np.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": np.zeros(5)}, "does not fit"),
        ({"image": np.full(12, 1.5)}, "leaves the input range"),
        ({"image": np.full(12, np.nan)}, "not finite"),
        ({"perturbation": "rotation([1,9])"}, "can neither be exported|a range"),
    ],
)
def test_wrong_questions_are_refused(arguments: dict[str, Any], message: str) -> None:
    given = {"perturbation": "linf(0.1)", "image": image(0), **arguments}
    with pytest.raises(InvalidInput, match=message):
        verify_local(LocalProblem(network(0), **given))


def test_the_source_is_the_image_s_class() -> None:
    net, x = network(0), image(0)
    found = int(net.forward(x).argmax())
    assert LocalProblem(net, perturbation="linf(0.1)", image=x).everywhere.source == found
    with pytest.raises(InvalidInput, match=f"classified {found}, not {(found + 1) % 3}"):
        LocalProblem(net, perturbation="linf(0.1)", image=x, source=(found + 1) % 3)


def test_images_come_from_files(tmp_path: Path) -> None:
    domain, x = Domain(SHAPE), image(0).reshape(SHAPE)
    np.save(tmp_path / "one.npy", x)
    np.save(tmp_path / "batch.npy", x[None])
    np.savez(tmp_path / "many.npz", inputs=np.stack([x, 1 - x]))
    np.testing.assert_array_equal(read_image(tmp_path / "one.npy", domain), x.reshape(-1))
    np.testing.assert_array_equal(read_image(tmp_path / "batch.npy", domain), x.reshape(-1))
    np.testing.assert_array_equal(read_image(tmp_path / "many.npz", domain, 1), 1 - x.reshape(-1))
    grey = (x[0] * 255).astype(np.uint8)
    Image.fromarray(grey).save(tmp_path / "one.png")
    np.testing.assert_allclose(
        read_image(tmp_path / "one.png", domain), grey.reshape(-1) / 255, atol=1e-12
    )
    (tmp_path / "text.txt").write_text("no image")
    np.save(tmp_path / "words.npy", np.array(["a"]))
    for name, index, message in (
        ("many.npz", None, "--index"),
        ("many.npz", 2, "--index"),
        ("nothing.npy", None, "no image"),
        ("text.txt", None, "not an image"),
        ("words.npy", None, "not numbers"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_image(tmp_path / name, domain, index)


@pytest.mark.parametrize("limit", [0.001, 0.9])
def test_the_command_line(tmp_path: Path, capsys: Any, limit: float) -> None:
    write_onnx(network(1, (3, 2, 2)), tmp_path / "model.onnx")
    x = np.random.default_rng(8).random((2, 2, 3))
    np.save(tmp_path / "image.npy", x)  # channels last, as images are stored
    words = ["local", str(tmp_path / "model.onnx"), "--image", str(tmp_path / "image.npy")]
    words += ["--epsilon", str(limit), "--mean", "0.4,0.5,0.6", "--std", "0.25"]
    words += ["--json", str(tmp_path / "out.json"), "--plot", str(tmp_path / "out.png")]
    assert main(words) == 0
    said = capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())
    broken = found["verdict"] == "broken"
    assert found["message"] in said
    assert broken == (limit == 0.9)
    assert ("Counterexample: " in said) == broken
    net = read_onnx(tmp_path / "model.onnx", mean=(0.4, 0.5, 0.6), std=0.25)
    np.testing.assert_allclose(found["image"], x.transpose(2, 0, 1), atol=1e-7)
    assert found["source"] == net.forward(np.array(found["image"])).argmax()
    assert found["margin"][0] <= found["margin"][1]
    if broken:
        scores = net.forward(np.array(found["witness"]["x_p"]))[0]
        assert scores.argmax() == found["witness"]["target"] != found["source"]
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_epsilon_or_perturbation(tmp_path: Path, capsys: Any) -> None:
    write_onnx(network(1), tmp_path / "model.onnx")
    np.save(tmp_path / "image.npy", image(1))
    words = ["local", str(tmp_path / "model.onnx"), "--image", str(tmp_path / "image.npy")]
    assert main(words) == 2
    assert main([*words, "--epsilon", "0.1", "--perturbation", "linf(0.1)"]) == 2
    assert "either --epsilon or --perturbation" in capsys.readouterr().err
    assert main([*words, "--perturbation", "linf(0.1)", "--timeout", "10"]) == 0


def test_the_domain_of_an_image_has_its_names_and_its_border() -> None:
    layers = (Affine(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 0.5]), (2,), (2,)),)
    zonotope = Zonotope([0.75, 0.25], [[1.0, 1.0]], [0.5], [0.0625, 0.25])
    domain = Domain((2,), zonotope=zonotope, features=["age", "pulse"])
    x = np.array([0.75, 0.0])  # least squares do not show it inside
    problem = LocalProblem(
        Network(layers, (2,)), perturbation="features([pulse],0.1)", image=x, domain=domain
    )
    assert (problem.image == x).all()
    assert str(problem.everywhere.perturbation) == "features([pulse],0.1)"


def test_a_domain_of_perturbed_inputs_is_refused() -> None:
    """An attack that leaves it would count otherwise."""
    domain = Domain(SHAPE, 0.25, 0.75, range=(0.0, 1.0), perturbed_inside=True)
    with pytest.raises(InvalidInput, match="perturbed_inside"):
        LocalProblem(
            network(0), perturbation="linf(0.5)", image=image(0, (0.25, 0.75)), domain=domain
        )


def test_an_image_with_two_best_classes_has_none_to_keep(hidden: Network) -> None:
    with pytest.raises(InvalidInput, match="another score is as high as that of class 0"):
        LocalProblem(hidden, perturbation="linf(0.1)", image=[[[0.5, 0.25]]])
