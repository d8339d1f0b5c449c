"""Options from a file: the command line wins, and nothing in the file is overlooked."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from vhagar.cli import config
from vhagar.cli.main import _parser, main
from vhagar.errors import InvalidInput

QUESTION = """
model = "m.onnx"
perturbation = "linf(1/100)"
source = 2
target = [3, 5]
timeout = "1m30s"
input-range = [-1, 1]
mean = 0.5
clip = false
require = ["closed", "upper<=5"]
json = "answer.json"
quiet = true
layout = "hwc"
image_shape = [3, 8, 8]
"""


def _parsed(folder: Path, text: str, *words: str) -> argparse.Namespace:
    (folder / "question.toml").write_text(text)
    return config.parse(_parser(), ["verify", "--config", str(folder / "question.toml"), *words])


def test_a_file_says_what_the_command_line_could(tmp_path: Path) -> None:
    found = vars(_parsed(tmp_path, QUESTION))
    words = (
        f"verify {tmp_path}/m.onnx --perturbation linf(1/100) --source 2 --target 3,5 --no-clip "
        "--timeout 1m30s --input-range=-1,1 --mean 0.5 --require closed --require upper<=5 "
        f"--json {tmp_path}/answer.json -q --layout hwc --image-shape 3,8,8"
    )
    said = vars(_parser().parse_args(words.split()))
    for ends in (found, said):
        for own in ("config", "parser", "command"):
            del ends[own]
    assert found == said


def test_the_command_line_wins(tmp_path: Path) -> None:
    found = _parsed(
        *(tmp_path, QUESTION, "other.onnx", "--source", "0", "--target", "1", "-v"),
        *("--timeout", "5", "--require", "closed", "--json", "-", "--layout", "chw"),
    )
    assert (found.model, found.source, found.target) == (Path("other.onnx"), 0, [1])
    assert (found.timeout, found.require, found.json) == (5.0, ["closed"], Path("-"))
    assert (found.verbose, found.quiet, found.layout) == (True, False, "chw")
    assert found.input_range == (-1.0, 1.0)


def test_a_class_0_on_the_command_line_counts(tmp_path: Path) -> None:
    found = _parsed(tmp_path, "source = 2\ntimeout = 9\nseed = 4", "m", "--perturbation", "x",
                    "--source", "0", "--timeout", "0", "--seed", "0")  # fmt: skip
    assert (found.source, found.timeout, found.seed) == (0, 0.0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sorce = 2", r"unknown key 'sorce'; valid keys: argmin, .*source"),
        ('config = "x"', "unknown key 'config'"),
        ("source = 2.5", "source cannot be 2.5: write the number of a class, or its name"),
        ("source = true", "source cannot be True"),
        ("clip = 1", "clip cannot be 1: write true or false"),
        ("model = 3", "model cannot be 3: write a text in quotes"),
        ('timeout = "soon"', "timeout cannot be 'soon': 'soon' is not a number of seconds"),
        ('device = "tpu"', "device cannot be 'tpu': choose from auto, cpu, cuda"),
        ("[source]\nx = 1", "source cannot be"),
        ("input-range = [0, 1]\ninput_range = [0, 2]", "is given twice"),
        ("source = ", "not a readable TOML file"),
        ("source = " + 5000 * "[" + 5000 * "]", "not a readable TOML file"),
        ("source = " + 5000 * "9", "not a readable TOML file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        _parsed(tmp_path, text)


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="gives the perturbation; add a line `perturbation ="):
        _parsed(tmp_path, 'model = "m.onnx"\nsource = 1')
    with pytest.raises(InvalidInput, match="gives the model and the source; add a line `model ="):
        _parsed(tmp_path, "", "--perturbation", "linf(0.1)")
    assert main(["verify", "--config", str(tmp_path / "nothing.toml")]) == 2
    assert "no file at" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["verify", "--config"])
    assert "expected one argument" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["evil.py:x", "linf(0.1)+evil.py:x", "evil.py:x+linf(0.1)"])
def test_a_file_makes_nobody_execute_python(text: str, tmp_path: Path, model: Path) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text("from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n")
    question = tmp_path / "question.toml"
    question.write_text(f'model = "{model}"\nsource = 0\nperturbation = "{text}"\n')
    assert main(["verify", "--config", str(question)]) == 2
    assert not evil.with_suffix(".ran").exists()
    found = _parsed(tmp_path, question.read_text().replace(text, "linf(1)"), "--perturbation", text)
    assert found.perturbation == text  # the command line may


@pytest.mark.parametrize("name", ["../else.json", "/else.json", "linked/else.json", "a/../../b"])
def test_a_file_writes_in_its_own_folder_only(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path)
    for key in ("json", "certificate", "plot", "junit", "verdicts"):
        with pytest.raises(InvalidInput, match="in its own folder only"):
            _parsed(folder, f'{key} = "{name}"')
    assert _parsed(folder, QUESTION).json == folder / "answer.json"


def test_a_file_names_no_machine(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown key 'address'"):
        _parsed(tmp_path, 'address = "10.0.0.1:6379"')


def test_a_question_in_a_file_is_answered(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "question.toml").write_text(
        f'model = "{model}"\nperturbation = "linf(0.01)"\nsource = 0\nworkers = 1\n'
        'timeout = "10s"\njson = "answer.json"\nquiet = true\n'
    )
    assert main(["verify", "--config", str(tmp_path / "question.toml")]) == 0
    assert (tmp_path / "answer.json").is_file()
    assert "Proven" in capsys.readouterr().out
