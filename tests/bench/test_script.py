"""What is wrong with a script's input is one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
BENCH = Path(__file__).parents[2] / "bench"
NETWORK = str(EXAMPLES / "mnist_3x10.onnx")
HEAD = "network,perturbation,clip,source,target\n"
# Those that take no input.
GENERATORS = {"constants", "reference"}


def _said(
    script: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> str:
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *words])
    assert importlib.import_module(script).main() == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(f"{script}.py: error: ")
    return said


@pytest.mark.parametrize(
    ("script", "words", "complaint"),
    [
        ("ablation", [".", "--out", "none/a.csv"], "cannot write none/a.csv"),
        ("devices", ["none.onnx", "linf(0.1)", "0", "1"], "none.onnx"),
        ("devices", [NETWORK, "linf(0.1", "0", "1"], "linf(0.1"),
        ("domains", ["none.npz", ".", "--out", "out.csv"], "none.npz: No such file"),
        ("figures", ["draw", ".", "--results", "none", "--out", "o"], "no run to draw in none"),
        ("first_order", ["none.onnx", "linf(0.1)", "0", "1", "--device", "cpu"], "none.onnx"),
        ("guard", ["none.onnx", "--model", NETWORK, "--dataset", "none.npz"], "none.npz"),
        ("memory", ["none.onnx", "linf(0.1)", "0", "1"], "none.onnx"),
        ("public", ["global", "none.csv", "."], "none.csv: No such file"),
        ("public", ["global", "wrong.csv", "."], "wrong.csv has no column network"),
        ("public_local", ["none.npz", NETWORK, "--epsilon", "0.1", "--out", "q"], "none.npz"),
        ("suite", ["none.csv", "."], "none.csv: No such file"),
        ("suite", ["wrong.csv", "."], "wrong.csv has no column network; it needs network, pert"),
        ("suite", ["suite.csv", ".", "--out", "none/a.csv"], "cannot write none/a.csv"),
        ("suite", ["suite.csv", "."], "net.onnx"),
        ("suite", ["classes.csv", "."], "classes.csv: 'two' is not the number of a class"),
    ],
)
def test_wrong_input_is_named(
    script: str,
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    (tmp_path / "suite.csv").write_text(HEAD + "net,linf(0.1),true,0,1\n")
    (tmp_path / "classes.csv").write_text(HEAD + "net,linf(0.1),true,two,1\n")
    assert complaint in _said(script, words, monkeypatch, capsys)


@pytest.mark.subprocess
def test_a_run_in_batches_needs_no_vhagar() -> None:
    """On a machine with a GPU there may be nothing but numpy and torch."""
    hidden = "import runpy, sys; sys.modules['vhagar'] = None; sys.argv = sys.argv[1:]"
    words = [str(BENCH / "quadratic_batch.py"), "run", "--help"]
    command = [sys.executable, "-c", f"{hidden}; runpy.run_path(sys.argv[0], None, '__main__')"]
    said = subprocess.run(
        [*command, *words], capture_output=True, text=True, cwd=BENCH, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "nodes that are branched at once" in said.stdout


def test_every_script_says_in_words_what_is_wrong() -> None:
    scripts = {path.stem for path in BENCH.glob("*.py") if "__main__" in path.read_text()}
    for script in scripts - GENERATORS:
        assert hasattr(importlib.import_module(script).main, "__wrapped__"), script
