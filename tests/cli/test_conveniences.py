"""Quotients, times with units, JSON on the standard output, quiet and verbose runs, completion."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from argparse import ArgumentTypeError
from pathlib import Path

import numpy as np
import pytest

from vhagar.cli import groups
from vhagar.cli.local import _Lines
from vhagar.cli.main import COMMANDS, main
from vhagar.cli.types import quotient, seconds
from vhagar.errors import InvalidInput
from vhagar.local.known import LocalProgress
from vhagar.network import Affine, Network, write_onnx
from vhagar.options import EXECUTORS, FORMULATIONS
from vhagar.perturbation import parse
from vhagar.search.engines import BOUNDING, ENGINES
from vhagar.solver.backends import BACKENDS


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).normal(size=(3, 4))
    write_onnx(Network((Affine(weight, np.zeros(3), (4,), (3,)),), (4,)), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_quotients() -> None:
    assert str(parse("linf(8/255)")) == str(parse(f"linf({8 / 255!r})"))
    assert str(parse("brightness([-1/4, 1 / 8])")) == str(parse("brightness([-0.25,0.125])"))
    assert quotient("8/255") == 8 / 255
    with pytest.raises(InvalidInput, match="divides by zero"):
        parse("linf(1/0)")
    with pytest.raises(InvalidInput, match="cannot read"):
        parse("linf(1/2/3)")
    for wrong in ("1/0", "a/2", "inf"):
        with pytest.raises(ArgumentTypeError):
            quotient(wrong)


@pytest.mark.parametrize(
    ("text", "value"),
    [("60", 60), ("90s", 90), ("1m", 60), ("1m30s", 90), ("2h", 7200), ("1.5m", 90), ("1e2", 100),
     ("0", 0), ("1h1m1s", 3661), ("0.5s", 0.5)],
)  # fmt: skip
def test_times_have_units(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "m", "-1", "1x", "nan", "1m2m", "1s1m", "1..5", "1 m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="or a time such as"):
        seconds(text)


QUESTION = ["--perturbation", "linf(1/300)", "--source", "0", "--timeout", "10s"]


def test_json_on_the_standard_output_is_alone_there(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(model), *QUESTION, "--json", "-"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["problem"]["perturbation"] == f"linf({1 / 300!r})"
    assert "wrote:" in said.err
    assert "JSON to the standard output" in said.err
    assert "(linf(1/300)" in said.err  # not all digits, where a reader wrote a quotient
    assert main(["inspect", str(model), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == 3
    np.save(model.parent / "x.npy", np.full(4, 0.5))
    words = ["local", str(model), "--image", str(model.parent / "x.npy"), "--epsilon", "1/1000"]
    assert main([*words, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["question"] == "local"
    assert not Path("-").exists()


def test_a_quiet_run_prints_the_answer_alone(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(model), *QUESTION, "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Proven: ")
    assert said.out.count("\n") == 1
    assert not said.err
    assert main(["verify", str(model), *QUESTION, "-v"]) == 0
    assert "interval:" in capsys.readouterr().out
    np.save(model.parent / "x.npy", np.full(4, 0.5))
    words = ["local", str(model), "--image", str(model.parent / "x.npy"), "--epsilon", "0.001"]
    assert main([*words, "-q"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_verbose_local_search_shows_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _Lines(0.0)
    for time, upper in ((0.1, 2.5), (0.2, 2.5 - 1e-9), (0.3, 1.0)):
        lines(LocalProgress(time, -1.0, upper, 5, 3))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["0.1", "0.3"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_know_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    assert "perturbation" in script


@pytest.mark.subprocess
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = "COMP_WORDS=({words}); COMP_CWORD={place}; _vhagar; echo ${{COMPREPLY[@]}}\n"
    asked = [
        ask.format(words="vhagar insp", place=1),
        ask.format(words="vhagar verify --layout ''", place=3),
        ask.format(words="vhagar verify --perc", place=2),
        ask.format(words="vhagar verify --engine f", place=3),
    ]
    found = subprocess.run(
        ["bash", "-c", script + "".join(asked)], capture_output=True, text=True, check=True
    )
    assert found.stdout.split("\n")[:4] == ["inspect", "chw hwc", "--percent", "first-order"]


def test_names_in_the_help_are_those_of_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    tables = {
        "--engine": {**ENGINES, **BOUNDING},
        "--solver": BACKENDS,
        "--formulation": FORMULATIONS,
        "--executor": EXECUTORS,
    }
    assert {name: set(table) for name, table in tables.items()} == {
        name: set(known) for name, known in groups.NAMES.items()
    }
    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for names in groups.NAMES.values():
        assert all(f" {name} " in re.sub(r"[,()]", " ", shown) for name in names)
