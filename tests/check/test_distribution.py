"""The checker as a distribution of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


def _done(*command: str | Path, **more: object) -> str:
    done = subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _done(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, ROOT / "checker")
    (found,) = folder.glob("*.whl")
    return found


def test_it_checks_with_numpy_alone(wheel: Path, tmp_path: Path) -> None:
    """In a new environment: installed, and right about every test vector."""
    _done(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    _done(python, "-m", "pip", "install", "--no-compile", wheel)
    installed = _done(python, "-m", "pip", "list", "--format=freeze").split()
    names = {line.split("==")[0].replace("_", "-") for line in installed}
    assert names - {"pip", "setuptools", "wheel"} == {"numpy", "vhagar-check"}
    # Not from the checkout, which must not be found.
    said = _done(python, "-m", "vhagar_check_vectors", cwd=tmp_path, env={})
    assert "answers are right" in said
    vectors = ROOT / "checker" / "vectors"
    command = (tmp_path / "venv" / "bin" / "vhagar-check", vectors / "linf.cert")
    assert "PROVED" in _done(*command, "--model", vectors / "dense.onnx", cwd=tmp_path, env={})


def test_both_distributions_ship_the_same_files(wheel: Path, tmp_path: Path) -> None:
    """So that installing one after the other changes nothing."""
    _done(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT)
    (whole,) = tmp_path.glob("*.whl")
    ours, theirs = (_checker_files(path) for path in (wheel, whole))
    assert ours == theirs
    assert len(ours) > 30


def _checker_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("vhagar_check/")]
        return {name: archive.read(name) for name in names}
