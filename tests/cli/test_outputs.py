"""Outputs that cannot be written, and numbers that no clock knows: one line each, no traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from vhagar import Problem, read_onnx, verify
from vhagar.cli.main import main
from vhagar.sweep.runner import open_study
from vhagar.sweep.study import Study

FULL = Path("/dev/full")
needs_a_full_device = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
ASKED = ["--perturbation", "linf(0.05)", "--source", "0", "--target", "1"]
# Every option that names an output, and what else its command needs; {} is the output.
OUTPUTS = {
    "inspect --json": ["inspect", "MODEL", "--json", "{}"],
    "export --vnnlib": ["export", "MODEL", *ASKED, "--delta", "1", "--vnnlib", "{}"],
    "export --onnx": [
        *("export", "MODEL", *ASKED, "--delta", "1", "--vnnlib", "question.vnnlib"),
        *("--onnx", "{}"),
    ],
    "report -o": ["report", "STORE", "-o", "{}"],
    "report --figures": ["report", "STORE", "-o", "page.html", "--figures", "{}"],
    "verify --json": ["verify", "MODEL", *ASKED, "--timeout", "0.2", "--json", "{}"],
    "verify --plot": ["verify", "MODEL", *ASKED, "--timeout", "0.2", "--plot", "{}"],
    "verify --certificate": ["verify", "MODEL", *ASKED, "--timeout", "0.2", "--certificate", "{}"],
    "sweep --store": ["sweep", "STUDY", "--store", "{}"],
}


@pytest.fixture
def folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    study = Study(networks=(str(model),), perturbations=("linf(0.05)",), sources=(0,))
    open_study(study, tmp_path / "study.db")[0].close()
    (tmp_path / "study.toml").write_text(
        f'networks = ["{model}"]\nperturbations = ["linf(0.05)"]\nsources = [0]\ntimeout = 1\n'
    )
    return tmp_path


def words(name: str, folder: Path, model: Path, output: str) -> list[str]:
    places = {
        "MODEL": str(model),
        "STORE": str(folder / "study.db"),
        "STUDY": str(folder / "study.toml"),
        "{}": output,
    }
    return [places.get(word, word) for word in OUTPUTS[name]]


@needs_a_full_device
@pytest.mark.subprocess
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_is_one_line(
    name: str, folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = "/dev/full"
    if name == "verify --plot":  # its ending says the format
        (folder / "full.png").symlink_to(FULL)
        output = str(folder / "full.png")
    assert main(words(name, folder, model, output)) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint.startswith("vhagar: error: ")
    assert "full" in complaint
    assert not list(folder.glob(".*.tmp"))


@needs_a_full_device
@pytest.mark.subprocess
def test_a_standard_output_that_is_full(model: Path) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vhagar", "inspect", str(model)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    complaint = "vhagar: error: cannot write the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, complaint)


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "1e400", "1e18", "-inf", "soon", ""])
@pytest.mark.parametrize("command", ["verify", "attack", "local", "sweep --total"])
def test_a_timeout_that_is_none(
    command: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *option = command.split()
    with pytest.raises(SystemExit) as ended:
        main([name, "model.onnx", f"{(option or ['--timeout'])[0]}={text}"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "seconds" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("ends", [(0, 1e308), (-1e300, 1e300), (1e30, 1e38)], ids=str)
@pytest.mark.parametrize("perturbation", ["linf(0.05)", "contrast([0.5,2])", "occlusion(1,1,2)"])
def test_a_huge_input_range_is_no_reason_to_warn(
    perturbation: str, ends: tuple[float, float], model: Path
) -> None:
    """Warnings are errors in tests."""
    problem = Problem(
        read_onnx(model), perturbation=perturbation, source=0, targets=1, input_range=ends
    )
    result = verify(problem, timeout=0.5, workers=0)
    assert 0.0 <= result.lower <= result.upper


@pytest.mark.parametrize("output", ["/", ""])
@pytest.mark.parametrize(
    "command",
    [
        ["export", "MODEL", *ASKED, "--delta", "1", "--vnnlib"],
        ["domain", "fit", "images.npz", "-o"],
    ],
)
def test_a_folder_without_a_name_is_one_line(
    command: list[str],
    output: str,
    folder: Path,
    model: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez("images.npz", x=np.random.default_rng(0).random((9, 4)))
    given = [str(model) if word == "MODEL" else word for word in command]
    assert main([*given, output]) == 2
    assert "it is a directory" in capsys.readouterr().err


def test_inputs_without_an_end_are_one_line(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "loop").symlink_to("loop")
    assert main(["verify", str(model), *ASKED, "--resume", "loop"]) == 2
    assert "loop" in capsys.readouterr().err
    (folder / "deep.toml").write_text("a = " + "[" * 3000 + "]" * 3000)
    assert main(["sweep", "deep.toml", "--store", "new.db"]) == 2
    assert "deep.toml is not a readable TOML file" in capsys.readouterr().err


def test_what_an_error_quotes_commands_no_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Evil\x1b[2J", ["x"], ["y"])],
        "graph",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 2])],
        [onnx.helper.make_tensor_value_info("y", 1, [1, 2])],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), "evil.onnx")
    assert main(["verify", "evil.onnx", *ASKED]) == 2
    complaint = capsys.readouterr().err
    assert "Evil?[2J" in complaint
    assert "\x1b" not in complaint


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_what_a_model_calls_itself_commands_no_terminal(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd, evil = Path("m\x1b[2J\n  9 scores.onnx"), "maker\x1b]0;title\x07\n  output     9 scores"
    changed = onnx.load(model)
    changed.producer_name = evil
    onnx.save(changed, odd)
    changed.graph.node[0].op_type = evil
    onnx.save(changed, "unsupported.onnx")
    assert main(["inspect", str(odd)]) == 0
    assert main(["inspect", "unsupported.onnx"]) == 1
    assert main(["verify", str(odd), *ASKED, "--timeout", "0.2"]) == 0
    said = capsys.readouterr()
    assert "maker?]0;title? output 9 scores" in said.out
    assert not {"\x1b", "\x07"} & set(said.out + said.err)
    assert not any(line.strip() == "9 scores" for line in said.out.splitlines())
    assert "\n  output     9 scores" not in said.out


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_names_that_are_no_utf8(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = os.fsdecode(b"m\xff.onnx")
    shutil.copyfile(model, odd)
    assert main(["export", odd, *ASKED, "--delta", "1", "--vnnlib", "question.vnnlib"]) == 0
    assert main(["verify", odd, *ASKED, "--timeout", "0.2", "--plot", "plot.svg"]) == 0
    for words in (
        ["sweep", "--network", odd, *ASKED, "--store", "new.db"],
        ["sweep", "study.toml", "--store", "new.db", "--certificates", os.fsdecode(b"c\xff")],
        ["compare", odd, str(model), *ASKED],
    ):
        assert main(words) == 2
        assert "is not valid UTF-8" in capsys.readouterr().err
        assert not (folder / "new.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows refuses such names itself")
def test_names_with_control_characters_enter_no_store(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(model, "a\x07b.onnx")
    shutil.copyfile("study.toml", "a\x07b.toml")
    for words in (
        ["sweep", "--network", "a\x07b.onnx", *ASKED, "--store", "new.db"],
        ["sweep", "a\x07b.toml", "--store", "new.db"],
        ["sweep", "study.toml", "--store", "new.db", "--certificates", "c\x07"],
    ):
        assert main(words) == 2
        assert "has control characters; rename it" in capsys.readouterr().err
        assert not (folder / "new.db").exists()
