"""The public API: what it lists, what it is called with, and what it says of itself."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vhagar
from vhagar import InvalidInput, Network, Problem
from vhagar.network import Affine, Relu, save_model

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def network() -> Network:
    weight = np.array([[1.0, -1.0]])
    back = np.array([[1.0], [-1.0]])
    layers = (
        Affine(weight, np.zeros(1), (2,), (1,)),
        Relu((1,)),
        Affine(back, np.array([-0.5, 0.0]), (1,), (2,)),
    )
    return Network(layers, (2,), "tiny")


@pytest.fixture
def model(network: Network, tmp_path: Path) -> Path:
    save_model(network, tmp_path / "tiny.onnx")
    return tmp_path / "tiny.onnx"


def test_dir_lists_the_public_api_and_nothing_else() -> None:
    listed = dir(vhagar)
    assert sorted(listed) == sorted([*vhagar.__all__, "__version__"])
    assert {"verify", "attack", "local", "sweep", "check", "max_confidence"} <= set(listed)
    assert not [name for name in vhagar.__all__ if name.startswith("_")]
    # Type checkers re-export only what keeps its name.
    table = Path(vhagar.__file__).with_suffix(".pyi").read_text()
    assert re.findall(r"import (\w+) as (?!\1\b)", table) == []


@pytest.mark.parametrize("name", vhagar.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(vhagar, name)
    assert not inspect.ismodule(found)
    assert inspect.getdoc(found)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'guess'"):
        _ = vhagar.guess  # type: ignore[attr-defined]


@pytest.mark.subprocess
def test_modules_do_not_hide_functions_of_their_name() -> None:
    script = (
        "import vhagar\n"
        "from vhagar.attack.options import AttackOptions\n"
        "from vhagar.local import run\n"
        "from vhagar.sweep.study import Study\n"
        "import vhagar.verify\n"
        "verbs = (vhagar.attack, vhagar.local, vhagar.sweep, vhagar.verify, vhagar.check)\n"
        "assert all(callable(verb) for verb in verbs), verbs\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


VERBS = ("verify", "max_confidence", "attack", "local", "sweep", "check", "read_onnx", "from_torch")


@pytest.mark.parametrize("name", [*VERBS, "Problem", "affine_map"])
def test_all_but_the_first_argument_are_said_by_name(name: str) -> None:
    _, *rest = inspect.signature(getattr(vhagar, name)).parameters.values()
    assert all(each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in rest)


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_problem_takes_the_path_of_a_model(model: Path, as_path: Any) -> None:
    problem = Problem(as_path(model), perturbation="linf(0.1)", source=0)
    assert problem.network.file is not None
    assert problem.network.file.path == model
    assert problem.targets == (1,)


def test_a_problem_takes_a_module() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.ReLU())
    problem = Problem(module, perturbation="linf(0.1)", source=0, input_shape=(1, 2, 2))
    assert problem.network.input_shape == (1, 2, 2)
    with pytest.raises(InvalidInput, match=r"input_shape=\(1, 28, 28\)"):
        Problem(module, perturbation="linf(0.1)", source=0)


def test_a_problem_takes_nothing_else(network: Network, model: Path) -> None:
    with pytest.raises(InvalidInput, match="not ndarray"):
        Problem(np.zeros(3), perturbation="linf(0.1)", source=0)  # type: ignore[arg-type]
    for given in (network, model):
        with pytest.raises(InvalidInput, match="input_shape is for PyTorch modules"):
            Problem(given, perturbation="linf(0.1)", source=0, input_shape=(2,))
    with pytest.raises(InvalidInput, match="no model file at"):
        Problem("missing.onnx", perturbation="linf(0.1)", source=0)


def test_max_confidence_takes_a_path(model: Path) -> None:
    result = vhagar.max_confidence(model, source=0, timeout=20, workers=0)
    assert result.lower <= 1.5 <= result.upper <= 1.5 * (1 + 1e-3)


def test_the_attack_returns_a_result_with_a_lower_bound(network: Network) -> None:
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    found = vhagar.attack(problem, timeout=2, workers=0)
    assert 0 < found.lower <= found.upper
    assert found.engine == "attack"
    assert found.lower <= vhagar.verify(problem, timeout=20, workers=0).upper


def test_local_takes_arrays_and_files(model: Path, tmp_path: Path) -> None:
    image = np.array([0.9, 0.1])
    np.save(tmp_path / "image.npy", image)
    for given in (image, image.tolist(), tmp_path / "image.npy", str(tmp_path / "image.npy")):
        safe = vhagar.local(model, image=given, perturbation="linf(0.01)")
        assert safe.verdict.name == "ROBUST"
    assert vhagar.local(model, image=image, perturbation="linf(0.4)").verdict.name == "BROKEN"


@pytest.mark.subprocess
def test_a_sweep_by_keywords_and_by_a_study(model: Path, tmp_path: Path) -> None:
    asked = {"networks": [model], "perturbations": [vhagar.Linf(0.1)], "timeout": 20.0}
    with vhagar.sweep(store=tmp_path / "a.db", jobs=1, **asked) as store:
        found = store.intervals()
    assert len(found) == 2
    assert all(upper is not None and lower <= upper for lower, upper in found.values())
    study = vhagar.Study(networks=(str(model),), perturbations=("linf(0.1)",), timeout=20.0)
    with vhagar.sweep(study, store=tmp_path / "b.db", jobs=1) as store:
        assert store.intervals().keys() == found.keys()
    with vhagar.sweep(store=tmp_path / "b.db", resume=True, jobs=1) as store:
        assert store.study() == study
    with pytest.raises(InvalidInput, match="unknown key 'perturbation'"):
        vhagar.sweep(store=tmp_path / "c.db", networks=[model], perturbation="linf(0.1)")


def test_a_local_result_shows_itself(model: Path, tmp_path: Path) -> None:
    image = np.array([0.9, 0.1])
    safe = vhagar.local(model, image=image, perturbation="linf(0.01)")
    assert str(safe).startswith("Proven: every version of the image, classified 0, keeps its class")
    assert repr(safe).startswith("LocalResult(ROBUST, margin [")
    broken = vhagar.local(model, image=image, perturbation="linf(0.4)")
    assert str(broken) == (
        "Counterexample: a version of the image, classified 0, is classified 1 under linf(0.4)."
    )
    for result in (safe, broken):
        assert result.summary().splitlines()[-1] == str(result) == result.to_dict()["message"]
        assert str(result) in result._repr_html_()
        result.plot(tmp_path / "local.png")
        assert (tmp_path / "local.png").read_bytes().startswith(b"\x89PNG")


def test_a_result_plots_itself(network: Network, tmp_path: Path) -> None:
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    result = vhagar.verify(problem, timeout=20, workers=0)
    figure = result.plot(tmp_path / "result.svg")
    assert len(figure.axes) >= 4
    assert (tmp_path / "result.svg").read_text().startswith("<?xml")
    with pytest.raises(InvalidInput, match=r"\.png, \.pdf or \.svg"):
        result.plot(tmp_path / "result.gif")


def test_check_returns_what_was_proved(model: Path, tmp_path: Path) -> None:
    problem = Problem(model, perturbation="linf(0.125)", source=0, targets=1)
    result = vhagar.verify(problem, timeout=20, workers=0, certificate=str(tmp_path / "p.cert"))
    verdict = vhagar.check(tmp_path / "p.cert", model=str(model))
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert str(verdict).startswith("PROVED by")
    (tmp_path / "p.cert").write_bytes(b"VHAGCERT and no more")
    with pytest.raises(vhagar.Rejected):
        vhagar.check(tmp_path / "p.cert", model=model)


ENGINES: list[vhagar.Bab | vhagar.Mip | vhagar.FirstOrder | vhagar.Attack] = [
    vhagar.Bab(),
    vhagar.Mip(),
    vhagar.FirstOrder(),
    vhagar.Attack(),
]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_engines_are_data(engine: Any) -> None:
    assert engine == type(engine)()
    assert repr(engine).startswith(f"{type(engine).__name__}(")
    with pytest.raises(AttributeError):
        engine.name = "other"


@pytest.mark.parametrize(
    ("engine", "given", "complaint"),
    [
        (vhagar.Mip(), {"certificate": "a.cert"}, "no use of the option 'certificate'"),
        (vhagar.FirstOrder(), {"workers": 2}, "no use of the option 'workers'"),
        (vhagar.Bab(attack=False), {"dataset": "a.npz"}, "only the attack uses"),
        (vhagar.FirstOrder(attack=False), {"dataset": "a.npz"}, "only the attack uses"),
        (vhagar.Mip(without=("attack", "hints")), {"device": "cpu"}, "only the attack uses"),
        (vhagar.Bab(), {"workers": -1}, "0 or more"),
        (vhagar.Bab(), {"device": "tpu"}, "unknown device"),
    ],
)
def test_an_option_without_effect_is_an_error(
    network: Network, engine: Any, given: dict[str, Any], complaint: str
) -> None:
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    with pytest.raises(InvalidInput, match=complaint):
        vhagar.verify(problem, engine=engine, timeout=1, **given)


def test_an_engine_is_an_object(network: Network) -> None:
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    with pytest.raises(InvalidInput, match=r"such as vhagar\.Mip\(\), not 'mip'"):
        vhagar.verify(problem, engine="mip")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: vhagar.Mip(solver="abacus"), "choose one of: highs"),
        (lambda: vhagar.Mip(formulation="cubic"), "choose one of: bigm"),
        (lambda: vhagar.Mip(without=("polish",)), "unknown part 'polish'"),
        (lambda: vhagar.Attack(without=("hints",)), "unknown part 'hints'"),
        (lambda: vhagar.Attack(without=("polish",), paper=True), "as published"),
    ],
)
def test_an_engine_s_own_options_are_checked(make: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        make()
