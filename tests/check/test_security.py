"""What files of others cannot do, as docs/security.md says; and that its tests are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem
from vhagar.dataset import read_dataset, read_image
from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain
from vhagar.sweep.study import Study, load_models, questions, read_study
from vhagar_check.cli import main

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "checker" / "vectors"
EVIL = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"


def test_every_claim_names_a_test_that_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/security.md").read_text())
    assert len(named) > 15
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(), (path, test)


@pytest.mark.parametrize("text", ["{file}:x", "linf(0.1)+{file}:x", "{file}:x+linf(0.1)"])
def test_a_text_in_a_study_is_never_executed(text: str, tmp_path: Path) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text(EVIL)
    asked = text.format(file=evil)
    model = VECTORS / "dense.onnx"
    study = tmp_path / "study.toml"
    study.write_text(f'networks = ["{model}"]\nperturbations = ["{asked}"]\n')
    with pytest.raises(InvalidInput):
        list(questions(read_study(study), load_models(read_study(study))))
    with pytest.raises(InvalidInput):
        list(questions(Study((str(model),), (asked,)), load_models(Study((str(model),), (asked,)))))
    with pytest.raises(InvalidInput):
        Problem(str(model), perturbation=asked, source=0)
    assert not evil.with_suffix(".ran").exists()


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    objects = np.array([Evil()], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", inputs=objects, allow_pickle=True)
    with pytest.raises(InvalidInput):
        read_image(tmp_path / "a.npy", Domain((1, 3, 3)))
    with pytest.raises(InvalidInput):
        read_dataset(tmp_path / "a.npz", Domain((1, 3, 3)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.subprocess
def test_the_checker_writes_nothing_and_imports_little(tmp_path: Path) -> None:
    """In a process that watches itself: no file is opened for writing, nothing foreign imported."""
    program = f"""
import os, sys
written = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        written.append(arguments[0])
    if event.split(".")[0] in ("socket", "subprocess", "urllib", "ftplib", "webbrowser"):
        written.append(event)
sys.dont_write_bytecode = True
sys.addaudithook(watch)
from vhagar_check.cli import main
for name in ("linf", "map", "rotation_range", "cut_off"):
    main([{str(VECTORS)!r} + f"/{{name}}.cert", "--model", {str(VECTORS / "dense.onnx")!r}])
assert not written, written
foreign = {{"vhagar", "torch", "scipy", "onnx", "onnxruntime"}} & set(sys.modules)
assert not foreign, foreign
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vhagar_check.verdict.check", interrupted)
    assert main([str(VECTORS / "linf.cert"), "--model", str(VECTORS / "dense.onnx")]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.subprocess
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_verdict_that_cannot_be_written_is_one_line() -> None:
    command = [sys.executable, "-m", "vhagar_check", str(VECTORS / "linf.cert")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "--model", str(VECTORS / "dense.onnx")],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "cannot write the verdict: No space left on device\n"
