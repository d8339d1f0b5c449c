"""No command writes over one of its inputs, whatever names it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import numpy as np
import onnx
import pytest

import vhagar
from vhagar.cli import main as command_line
from vhagar.cli.files import FILLED, READ_BY, WRITTEN, check_files
from vhagar.cli.main import main
from vhagar.network import read_onnx

from ..sweep.conftest import small_network

READ = frozenset(
    [
        "certificates",  # of a guard
        "check",
        "config",
        "data",
        "dataset",
        "domain",
        "features",
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
    monkeypatch.chdir(tmp_path)
    write_inputs(model)
    return tmp_path


def write_inputs(model: str) -> None:
    """Write every kind of input into the working folder."""
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
    Path("dim.toml").write_text('[study]\nnetworks = ["model.onnx"]\ndomain = "domain.toml"\n')
    Path("q_2.vnnlib").write_text("upper = 0.9")
    for name in ("q.onnx", "new.db-wal", "point.proofs"):
        Path(name).write_bytes(Path("model.onnx").read_bytes())
    Path("own.npz").write_bytes(Path("images.npz").read_bytes())
    Path("split.toml").write_text('[study]\nnetworks = ["split.onnx"]\n')
    Path("images").mkdir()
    Path("images/1.png").write_bytes(b"an image")
    Path("link.json").symlink_to("images/1.png")
    Path("images.toml").write_text('[study]\nnetworks = ["model.onnx"]\ndataset = "images"\n')
    Path("hard.onnx").hardlink_to("model.onnx")
    Path("soft.onnx").symlink_to("model.onnx")


VERIFY = ["verify", "model.onnx", *QUESTION]
LOCAL = ["local", "model.onnx", "--image", "image.npy", "--perturbation", "linf(0.1)"]
COMPARE = ["compare", "model.onnx", "other.onnx", *QUESTION]
EXPORT = ["export", "model.onnx", *QUESTION, "--delta", "1"]
OF_TWO = [
    *("export", "model.onnx", "--perturbation", "occlusion([1,2],1,1)", "--source", "0"),
    *("--delta", "1"),
]
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
    ["sweep", "dim.toml", "--store", "new.db", *JUNIT, "ends.npz"],
    ["sweep", "--network", "new.db-wal", *QUESTION, "--store", "new.db"],
    ["verify", "point.proofs", *QUESTION, "--checkpoint", "point"],
    ["verify", "point.proofs", *QUESTION, "--resume", "point"],
    [*VERIFY, "--resume", "point", "--checkpoint", "new", "--certificate", "point.proofs"],
    ["domain", "fit", "own.npz", "-o", "own.toml"],
    ["domain", "fit", "--features", "own.npz", "-o", "own"],
    [*OF_TWO, "--domain", "q_2.vnnlib", "--vnnlib", "q.vnnlib"],
    ["export", "q.onnx", *QUESTION, "--delta", "1", "--vnnlib", "q.vnnlib"],
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


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study's inputs, its store and a certificate."""
    folder = tmp_path_factory.mktemp("studied")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        vhagar.write_onnx(small_network(), "small.onnx")
        write_inputs("small.onnx")
        files = ["--certificates", "proofs", "--dataset", "images.npz", "--domain", "domain.toml"]
        asked = [*QUESTION, "--untargeted", "--timeout", "0.2", "--store", "study.db"]
        assert main(["sweep", "--network", "model.onnx", *asked, *files]) == 0
    return folder


@pytest.fixture
def store(studied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store, in a copy of its folder."""
    copytree(studied, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy" / "study.db"


@pytest.mark.subprocess
@pytest.mark.parametrize("linked", [False, True])
def test_figures_do_not_replace_their_store(
    linked: bool, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("figs").mkdir()
    given = store if linked else Path("figs/results.csv")
    if linked:
        Path("figs/results.csv").symlink_to(store)
    else:
        store.rename(given)
    before = given.read_bytes()
    assert main(["report", str(given), "-o", "page.html", "--figures", "figs"]) == 2
    assert "figs/results.csv is an input and would be overwritten" in capsys.readouterr().err
    assert given.read_bytes() == before
    assert [path.name for path in Path("figs").iterdir()] == ["results.csv"]
    assert not Path("page.html").exists()


@pytest.mark.subprocess
def test_a_file_in_place_of_the_figures_folder_is_seen_before_the_page_is_written(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("figs").write_text("mine")
    assert main(["report", str(store), "-o", "page.html", "--figures", "figs"]) == 2
    assert "figs is no folder, but a file" in capsys.readouterr().err
    assert Path("figs").read_text() == "mine"
    assert not Path("page.html").exists()


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "words",
    [
        ["--csv", "study.html"],
        ["-o", "figs/results.csv", "--figures", "figs"],
        ["--csv", "./figs/results.csv", "--figures", "figs"],
    ],
    ids=" ".join,
)
def test_page_table_and_figures_have_places_of_their_own(
    words: list[str], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(store), *words]) == 2
    assert "is named twice" in capsys.readouterr().err
    assert not Path("figs").exists()
    assert not Path("study.html").exists()


@pytest.mark.subprocess
def test_figures_may_be_written_beside_their_store(store: Path) -> None:
    for _ in range(2):  # and again over those of before
        assert main(["report", str(store), "--figures", ".", "--csv", "all.csv"]) == 0
    assert Path("results.csv").is_file()


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["model.onnx", "images.npz", "domain.toml", "ends.npz"])
def test_what_only_a_store_names_is_not_overwritten(
    name: str, studied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(studied)
    before = Path(name).read_bytes()
    assert main(["sweep", "--store", "study.db", "--resume", *JUNIT, name]) == 2
    assert f"{name} is an input and would be overwritten" in capsys.readouterr().err
    assert Path(name).read_bytes() == before


@pytest.mark.subprocess
def test_a_guard_replaces_neither_models_nor_certificates(
    studied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(studied)
    (proof,) = Path("proofs").iterdir()
    for path in (Path("model.onnx"), proof):
        before = path.read_bytes()
        assert main(["guard", "study.db", "-o", str(path)]) == 2
        assert f"{path} is an input and would be overwritten" in capsys.readouterr().err
        assert path.read_bytes() == before
    assert main(["guard", "study.db", "-o", "guard.onnx"]) == 0


def test_a_question_and_its_model_are_two_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT, "--vnnlib", "both.onnx"]) == 2
    assert "both.onnx cannot hold both the question and the model" in capsys.readouterr().err
    assert not Path("both.onnx").exists()


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
                filled = action.dest in FILLED.get(command.__module__, set())
                assert action.dest in (READ | WRITTEN) or filled, (parser.prog, action.dest)
                assert not (read and action.dest in READ)
    assert not READ & WRITTEN
