"""No command writes over one of its inputs, whatever names it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from vhagar.cli import main as command_line
from vhagar.cli.files import READ_BY, WRITTEN, check_files
from vhagar.cli.main import main
from vhagar.network import read_onnx

READ = frozenset(
    [
        "certificates",
        "check",
        "config",
        "data",
        "dataset",
        "domain",
        "features",
        "figures",
        "image",
        "like",
        "model",
        "resume",
        "second",
        "sources",
        "study",
    ]
)
FAR = 40 * "long" + ".bin"
QUESTION = ["--perturbation", "linf(0.1)", "--source", "0"]


@pytest.fixture
def folder(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every kind of input."""
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "other.onnx"):
        if not Path(name).exists():
            Path(name).write_bytes(Path(model).read_bytes())
    shape = read_onnx(model).input_shape
    np.save("image.npy", np.full(shape, 0.5, dtype=np.float32))
    np.savez("ends.npz", upper=np.full(shape, 0.7))
    np.savez("images.npz", x=np.random.default_rng(0).random((9, *shape)).astype(np.float32))
    Path("domain.toml").write_text('upper = "ends.npz:upper"\n')
    Path("settings.toml").write_text("timeout = 1\n")
    Path("own.py").write_text("import vhagar\nown = vhagar.UserPerturbation(matrix=None)\n")
    Path("study.toml").write_text('[study]\nnetworks = ["model.onnx"]\n')
    for name, weights in (("split.onnx", "w.bin"), ("split.ONNX", "v.bin"), ("far.onnx", FAR)):
        whole = onnx.load("model.onnx")
        onnx.save(whole, name, save_as_external_data=True, location=weights, size_threshold=0)
    Path("split.toml").write_text('[study]\nnetworks = ["split.onnx"]\n')
    Path("images").mkdir()
    Path("images/1.png").write_bytes(b"an image")
    Path("link.json").symlink_to("images/1.png")
    Path("images.toml").write_text('[study]\nnetworks = ["model.onnx"]\ndataset = "images"\n')
    Path("hard.onnx").hardlink_to("model.onnx")
    Path("soft.onnx").symlink_to("model.onnx")
    return tmp_path


VERIFY = ["verify", "model.onnx", *QUESTION]
LOCAL = ["local", "model.onnx", "--image", "image.npy", "--perturbation", "linf(0.1)"]
COMPARE = ["compare", "model.onnx", "other.onnx", *QUESTION]
EXPORT = ["export", "model.onnx", *QUESTION, "--delta", "1"]
JUNIT = ["--require", "closed", "--junit"]
OVER_INPUTS = [
    [*VERIFY, "--domain", "domain.toml", "--certificate", "domain.toml"],
    [*VERIFY, "--domain", "domain.toml", "--json", "ends.npz"],
    [*VERIFY, "--domain", "domain.toml", "--plot", "./missing/../ends.npz"],
    [*VERIFY, "--config", "settings.toml", "--json", "settings.toml"],
    [*VERIFY, "--dataset", "image.npy", "--checkpoint", "image.npy"],
    [*VERIFY, "--certificate", "hard.onnx"],
    [*VERIFY, "--certificate", "soft.onnx"],
    [*VERIFY, *JUNIT, "model.onnx"],
    ["verify", "split.onnx", *QUESTION, "--certificate", "w.bin"],
    ["verify", "far.onnx", *QUESTION, "--certificate", FAR],
    ["verify", "split.ONNX", *QUESTION, "--certificate", "v.bin"],
    [*VERIFY, "--dataset", "images", "--json", "images/1.png"],
    [*VERIFY, "--dataset", "images", "--plot", "link.json"],
    ["local", "model.onnx", "--image", "images", "--index", "0", "--json", "images/1.png"],
    ["inspect", "model.onnx", "--dataset", "images", "--json", "images/1.png"],
    ["domain", "fit", "images", "-o", "new.toml", "--plot", "images/1.png"],
    ["sweep", "images.toml", "--store", "new.db", *JUNIT, "images/1.png"],
    ["export", "split.onnx", *QUESTION, "--delta", "1", "--vnnlib", "w.bin"],
    ["sweep", "split.toml", "--store", "new.db", *JUNIT, "w.bin"],
    ["verify", "model.onnx", "--perturbation", "own.py:own", "--source", "0", "--json", "own.py"],
    ["domain", "fit", "images.npz", "-o", "images.toml"],
    ["domain", "fit", "images.npz", "-o", "new.toml", "--plot", "images.npz"],
    [*LOCAL, "--json", "image.npy"],
    [*LOCAL, "--certificate", "image.npy"],
    [*COMPARE, "-o", "other.onnx"],
    [*EXPORT, "--domain", "domain.toml", "--vnnlib", "domain.toml"],
    ["sweep", "study.toml", "--store", "study.toml"],
    ["sweep", "study.toml", "--store", "new.db", *JUNIT, "model.onnx"],
    ["sweep", "--network", "model.onnx", *QUESTION, "--store", "new.db", *JUNIT, "model.onnx"],
]
TWICE = [
    [*VERIFY, "--certificate", "new", "--json", "new"],
    [*VERIFY, "--certificate", "new", *JUNIT, "new"],
    [*COMPARE, "-o", "new", "--store", "new"],
]


@pytest.mark.parametrize("words", OVER_INPUTS, ids=" ".join)
def test_no_input_is_overwritten(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(words) == 2
    assert "is an input and would be overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_other_files_of_a_folder_of_images_may_be_replaced(folder: Path) -> None:
    (folder / "images" / "answer.json").write_text("{}")
    words = [*VERIFY, "--dataset", "images", "--json", "images/answer.json"]
    check_files(command_line._parser().parse_args(words))


def test_texts_that_are_no_files_name_no_weights(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "+".join(40 * ["linf(0.1)"])
    words = ["verify", "model.onnx", "--perturbation", long, "--source", "0", "--json", "new.json"]
    assert main(words) == 2
    assert "too long" not in capsys.readouterr().err


@pytest.mark.parametrize("words", TWICE, ids=" ".join)
def test_no_two_outputs_are_one_file(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "is named twice" in capsys.readouterr().err
    assert not (folder / "new").exists()


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_domain_is_written_as_toml_only(
    suffix: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["domain", "fit", "images.npz", "-o", f"new{suffix}"]) == 2
    assert f"a domain is a .toml file, not {suffix}" in capsys.readouterr().err
    assert not (folder / f"new{suffix}").exists()


def test_a_checkpoint_may_take_the_place_of_the_one_that_is_resumed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "point").write_text("none")
    assert main([*VERIFY, "--resume", "point", "--checkpoint", "point"]) == 2
    assert "overwritten" not in capsys.readouterr().err


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from parsers(choice)


def test_every_file_is_known_to_be_read_or_written() -> None:
    """A new argument that names a file goes into one of the two lists."""
    for parser in parsers(command_line._parser()):
        command = parser.get_default("command")
        for action in parser._actions:
            if action.type is Path:
                read = action.dest in READ_BY.get(command.__module__, set())
                assert action.dest in (READ | WRITTEN), (parser.prog, action.dest)
                assert not (read and action.dest in READ)
    assert not READ & WRITTEN
