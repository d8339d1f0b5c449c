"""`--domain` on the command line, in saved results and in VNN-LIB files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem, Result, verify
from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.guard.bounds import of_certificate, of_result
from vhagar.local.problem import LocalProblem
from vhagar.network import onnx_bytes, read_onnx

from ..check.test_verdict import network

ASKED = ["--perturbation", "linf(0.1)", "--source", "0", "--target", "1"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dim.toml").write_text("lower = 0.125\nupper = 0.75\n")
    (tmp_path / "model.onnx").write_bytes(onnx_bytes(network()))
    return tmp_path / "model.onnx"


def test_a_bound_over_a_domain_with_its_certificate(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--domain", "dim.toml", "--timeout", "60", "--json", "out.json", "-w", "1"]
    assert main(["verify", str(model), *ASKED, *options, "--certificate", "proof.cert"]) == 0
    assert "of the domain dim" in capsys.readouterr().out
    found = json.loads(Path("out.json").read_text())
    assert found["problem"]["domain"]["lower"] == [0.125] * 16
    x = np.array(found["witness"]["x"])
    assert ((x >= 0.125) & (x <= 0.75)).all()
    assert main(["check", "proof.cert", "--model", str(model)]) == 0
    assert found["problem"]["domain"]["sha256"] in capsys.readouterr().out
    # Where the verdict sends its reader, even one who has not searched.
    assert main(["domain", "show", "dim.toml", "--image-shape", "1,4,4"]) == 0
    assert found["problem"]["domain"]["sha256"] in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["attack", "MODEL", *ASKED, "--timeout", "2"], marks=pytest.mark.subprocess),
        ["confidence", "MODEL", "--class", "0", "--timeout", "10", "-w", "1"],
        ["baseline", "random", "MODEL", *ASKED, "--timeout", "2"],
    ],
    ids=["attack", "confidence", "baseline"],
)
def test_other_commands_stay_in_the_domain(model: Path, words: list[str]) -> None:
    given = [str(model) if word == "MODEL" else word for word in words]
    assert main([*given, "--domain", "dim.toml", "--json", "out.json"]) == 0
    found = json.loads(Path("out.json").read_text())
    assert found["problem"]["domain"]["upper"] == [0.75] * 16
    if found["witness"] is not None:  # the machine may be slow
        x = np.array(found["witness"]["x"])
        assert ((x >= 0.125) & (x <= 0.75)).all()


@pytest.mark.parametrize("version", ["1", "2"])
def test_vnnlib_files_have_the_ranges_of_the_domain(model: Path, version: str) -> None:
    options = ["--delta", "1", "--vnnlib", "out.vnnlib", "--format", version]
    assert main(["export", str(model), *ASKED, *options, "--domain", "dim.toml"]) == 0
    text = Path("out.vnnlib").read_text()
    assert text.count("0.125)") >= 16
    assert text.count("0.75)") >= 16


def test_an_image_outside_of_the_domain_is_refused(model: Path) -> None:
    net = read_onnx(model)
    inside, outside = np.full(16, 0.5), np.full(16, 0.875)
    label = int(net.forward(inside[None]).argmax())
    asked = {"perturbation": "linf(0.1)", "domain": "dim.toml"}
    assert LocalProblem(net, image=inside, **asked).everywhere.source == label
    with pytest.raises(InvalidInput, match=r"in the domain dim: entry 0,0,0 is 0\.875, not from"):
        LocalProblem(net, image=outside, **asked)


def test_a_saved_result_keeps_its_domain(model: Path) -> None:
    problem = Problem(str(model), perturbation="linf(0.1)", source=0, targets=1, domain="dim.toml")
    result = verify(problem, timeout=20, workers=0)
    result.save("saved.vhagar")
    again = Result.load("saved.vhagar")
    assert again.problem.domain == problem.domain
    assert again.problem.domain.name == "dim"
    assert str(again.problem) == str(problem)


def test_what_a_guard_rests_on_is_about_the_domain(model: Path) -> None:
    problem = Problem(str(model), perturbation="linf(0.1)", source=0, targets=1, domain="dim.toml")
    result = verify(problem, timeout=20, workers=0, certificate="proof.cert")
    proof = Path("proof.cert"), problem.network
    for make, given in ((of_result, (result,)), (of_certificate, proof)):
        assert [bound.domain for bound in make(*given)] == [problem.domain]


def test_an_empty_domain_is_said_to_be_empty(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("dim.toml").write_text("lower = 0.75\nupper = 0.25\n")
    assert main(["verify", str(model), *ASKED, "--domain", "dim.toml"]) != 0
    assert "the domain is empty" in capsys.readouterr().err


def test_the_range_is_stated_once(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("dim.toml").write_text("range = [0, 2]\n")
    given = ["verify", str(model), *ASKED, "--domain", "dim.toml", "--input-range", "0,1"]
    assert main(given) != 0
    assert "leave out one of them" in capsys.readouterr().err
