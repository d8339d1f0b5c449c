"""`vhagar sweep` and `vhagar report` from arguments to exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vhagar.cli.main import main
from vhagar.sweep.study import load_models, questions, read_study

from ..sweep.checks import require_sound

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.subprocess
def test_a_study_from_the_command_line_to_its_report(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, report, figures = tmp_path / "s.db", tmp_path / "r.html", tmp_path / "figures"
    words = ["--network", model, "--perturbation", "linf(0.05)", "--source", "0", "--timeout", "20"]
    assert main(["sweep", *words, "--store", str(store)]) == 0
    assert "2 of 2 problems" in capsys.readouterr().out
    require_sound(store)
    arguments = ["report", str(store), "-o", str(report), "--figures", str(figures)]
    assert main([*arguments, "--formats", "csv,svg"]) == 0
    assert report.read_text().startswith("<!doctype html>")
    assert (figures / "results.csv").is_file()
    assert not list(figures.glob("*.png"))
    # Done is done: there is nothing to go on with.
    assert main(["sweep", "--store", str(store), "--resume"]) == 0
    assert "2 of them already done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sweep", "--store", "s.db"], "give a STUDY.toml or --network"),
        (["sweep", "--store", "s.db", "missing.toml"], "no study at missing.toml"),
        (
            ["sweep", "--store", "s.db", "--network", "x.onnx", "--grid", "patch(1,2)"],
            "no model",
        ),
        (["report", "missing.db"], "no store at missing.db"),
        (
            ["report", "s.db", "--figures", "f", "--kinds", "pears"],
            "unknown kind of figures 'pears'; choose from: pairs, spatial",
        ),
        (["report", "s.db", "--figures", "f", "--formats", "bmp"], "choose from: csv, svg, png"),
    ],
)
def test_wrong_input_is_named(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.subprocess
def test_a_page_that_cannot_be_written(model: str, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    words = ["--network", model, "--perturbation", "linf(0.05)", "--source", "0", "--total", "0.01"]
    assert main(["sweep", *words, "--store", str(store)]) == 0
    assert main(["report", str(store), "-o", str(tmp_path / "no" / "r.html")]) == 2


def test_the_bundled_study_can_be_read() -> None:
    study = read_study(DOCS.parent / "examples" / "study.toml")
    asked = questions(study, load_models(study))
    assert len(asked) == 2 * (3 + 16) * 3 * 9
    documented = (DOCS / "sweeps.md").read_text()
    for line in ('targets = "each"', "sources = [2, 3, 7]", "size = 7"):
        assert line in documented


@pytest.mark.subprocess
def test_help_stays_instant() -> None:
    """Nothing heavy is imported before the arguments are understood."""
    script = (
        "import sys; sys.argv = ['vhagar', 'sweep', '--help']\n"
        "from vhagar.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'sqlite3', 'ray', 'rich', 'onnx', 'scipy'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
    )
    assert found.stdout.splitlines()[-1] == "[]"
