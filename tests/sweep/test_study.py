"""What a study asks, from its description."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from vhagar.cli.conventions import CONVENTIONS
from vhagar.cli.main import _parser
from vhagar.cli.sweep import described_study
from vhagar.errors import InvalidInput, InvalidNetwork
from vhagar.network import read_onnx, write_onnx
from vhagar.perturbation import Domain
from vhagar.report.problems import reproduction
from vhagar.report.reading import read_store
from vhagar.sweep import study as study_module
from vhagar.sweep.grid import Grid
from vhagar.sweep.runner import open_study, run_sweep
from vhagar.sweep.settings import Settings
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study, load_models, questions, read_study

from .conftest import small_network

IMAGE = Domain((1, 28, 28))


def _asked(study: Study) -> list[tuple[str | None, int, tuple[int, ...]]]:
    found = questions(study, load_models(study))
    return [(question.perturbation, question.source, question.targets) for question in found]


def test_each_pair(model: str) -> None:
    asked = _asked(Study((model,), ("linf(0.1)",)))
    assert asked == [("linf(0.1)", s, (t,)) for s in range(3) for t in range(3) if s != t]


def test_all_targets_at_once(model: str) -> None:
    asked = _asked(Study((model,), ("linf(0.1)",), targets="any"))
    assert asked == [("linf(0.1)", s, tuple(t for t in range(3) if t != s)) for s in range(3)]


def test_some_classes_and_the_confidence(model: str) -> None:
    asked = _asked(Study((model,), ("linf(0.1)",), sources=(1, 2), targets=(0, 2), confidence=True))
    assert asked == [
        (None, 1, ()),
        (None, 2, ()),
        ("linf(0.1)", 1, (0,)),
        ("linf(0.1)", 1, (2,)),
        ("linf(0.1)", 2, (0,)),
    ]


def test_the_same_network_twice_is_asked_once(model: str, tmp_path: Path) -> None:
    other = tmp_path / "copy.onnx"
    other.write_bytes(Path(model).read_bytes())
    assert len(_asked(Study((model, str(other)), ("linf(0.1)",)))) == 6


@pytest.mark.parametrize("resumed", [False, True])
def test_what_is_refused_is_in_no_store(model: str, tmp_path: Path, resumed: bool) -> None:
    """A store of it could only be resumed with the same mistake, or removed."""
    path, plain = tmp_path / "s.db", Study((model,), ("linf(0.1)",))
    np.savez(tmp_path / "wide.npz", np.zeros((5, 1, 4, 5)))
    two = str(tmp_path / "two.onnx")
    onnx.save(
        onnx.load(model), two, save_as_external_data=True, location="weights", size_threshold=0
    )
    if resumed:
        open_study(plain, path)[0].close()
    certified = Settings(certificates=tmp_path / "new" / "proofs")
    for study, settings, message in (
        (replace(plain, networks=(two,)), certified, "save it as one file"),
        (replace(plain, dataset=str(tmp_path / "wide.npz")), Settings(), "one array of inputs"),
    ):
        with pytest.raises(InvalidInput, match=message):
            run_sweep(study, path, resume=resumed, settings=settings)
        assert path.exists() == resumed
        assert not (tmp_path / "new").exists()
        if resumed:
            with Store(path) as store:
                assert store.study() == plain


def test_the_network_that_cannot_be_read_is_named(model: str, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(b"\x80\x04")
    with pytest.raises(InvalidNetwork, match=r"other\.onnx is not an ONNX model") as caught:
        load_models(Study((model, str(tmp_path / "other.onnx")), ("linf(0.1)",)))
    assert str(caught.value).count("other.onnx") == 1
    with pytest.raises(InvalidInput, match=f"^{re.escape(model)}: an image of shape"):
        load_models(Study((model,), ("linf(0.1)",), image_shape=(9, 9, 9)))


@pytest.mark.parametrize("size", [1, 5, 7, 9, 28])
@pytest.mark.parametrize("step", [None, 1, 4])
def test_the_squares_of_a_grid_cover_the_image(size: int, step: int | None) -> None:
    if size == 1 and step == 4:
        return  # then there are gaps, on purpose
    covered = set()
    for square in Grid("occlusion", size, min(step or size, size)).perturbations(IMAGE):
        (row, _), (column, _) = square.row, square.column  # type: ignore[attr-defined]
        cells = {(i, j) for i in range(row, row + size) for j in range(column, column + size)}
        assert all(1 <= i <= 28 and 1 <= j <= 28 for i, j in cells)
        covered |= cells
    assert len(covered) == 28 * 28


def test_a_grid_of_patches() -> None:
    texts = [str(square) for square in Grid("patch", 14, limit=0.5).perturbations(IMAGE)]
    assert texts == [f"patch([0,0.5],{row},{column},14)" for row in (1, 15) for column in (1, 15)]


@pytest.mark.parametrize(
    ("grid", "complaint"),
    [
        (Grid("rotation", 3), "occlusion or patch"),
        (Grid("patch", 29), "1 to 28"),
        (Grid("patch", 0), "1 to 28"),
        (Grid("patch", 3, 0), "at least 1"),
    ],
)
def test_grids_that_cannot_be(grid: Grid, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        grid.perturbations(IMAGE)


TOML = """
networks = ["small.onnx"]
perturbations = ["linf(0.1)"]
sources = [0]
targets = "any"
timeout = 5

[[grids]]
kind = "occlusion"
size = 2
"""


def test_from_a_file(model: str) -> None:
    path = Path(model).parent / "mine.toml"
    path.write_text(TOML)
    study = read_study(path)
    assert study.name == "mine"
    assert study.networks == (model,)
    assert study.grids == (Grid("occlusion", 2),)
    assert len(_asked(study)) == 5
    assert Study.from_plain(study.plain()) == study


def test_a_study_says_how_its_networks_take_an_image(model: str) -> None:
    path = Path(model).parent / "mine.toml"
    path.write_text(TOML + "\n")
    plain = load_models(read_study(path))[0]
    shape = list(plain.network.input_shape)
    lines = f"image_shape = {shape}\nmean = 0.5\nstd = [0.25]\nlayout = 'hwc'\n"
    path.write_text(lines + TOML)
    study = read_study(path)
    assert (study.image_shape, study.mean, study.std) == (tuple(shape), (0.5,), (0.25,))
    assert Study.from_plain(study.plain()) == study
    (changed,) = load_models(replace(study, layout="chw"))
    assert changed.fingerprint != plain.fingerprint
    x = np.random.default_rng(0).random((3, *shape))
    np.testing.assert_allclose(
        changed.network.forward(x), plain.network.forward((x - 0.5) / 0.25), atol=1e-9
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("nonsense = 1", "unknown key 'nonsense'"),
        ("networks = 'a.onnx'", "list of strings"),
        ("networks = []", "at least one network"),
        ("networks = true", "list of strings"),
        ("networks = {a = 1}", "list of strings"),
        ("grids = 0", "list of grids"),
        ("mean = " + 400 * "9", "mean must be numbers"),
        ("input_range = [0, " + 400 * "9" + "]", "two numbers"),
        ("mean = " + 5000 * "[" + 5000 * "]", "not a readable TOML file"),
        ("mean = " + 5000 * "9", "not a readable TOML file"),
        ("sources = 'none'", "sources must be"),
        ("sources = [0.5]", "sources must be"),
        ("targets = 'all'", "targets must be"),
        ("timeout = 'long'", "timeout"),
        ("timeout = -1", "above 0"),
        ("total = nan", "above 0"),
        ("clip = 1", "clip"),
        ("argmin = 1", "argmin"),
        ("input_range = 3", "two numbers"),
        ("layout = 3", "layout"),
        ("layout = [3]", "layout must be a list of strings"),
        ("layout = ['chw', 'hwc']", "there are 2 layouts, but 1 network; give one"),
        ("mean = 'a'", "mean must be numbers"),
        ("std = []", "std must be numbers"),
        ("grids = [{size = 3}]", "kind, size"),
        ("grids = [{kind = 'patch', size = 1.5}]", "whole numbers"),
        ("= what", "not a readable TOML file"),
    ],
)
def test_a_wrong_file_is_named_and_explained(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "wrong.toml"
    name = line.partition(" ")[0]
    good = [text for text in TOML.splitlines() if not text.startswith(name or "?")]
    path.write_text("\n".join([line, *good[: 6 if name == "grids" else None]]))
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read_study(path)
    assert "wrong.toml" in str(caught.value)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no study at"):
        read_study(tmp_path / "missing.toml")


def _described(*words: str) -> Study | None:
    return described_study(_parser().parse_args(["sweep", *words]))


def test_from_flags(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    study = _described(
        *("--store", store, "--network", "a.onnx", "--perturbation", "linf(0.1)"),
        *("--grid", "patch(0.5,7,2)", "--grid", "occlusion(5)", "--source", "1,2"),
        *("--untargeted", "--timeout", "5", "--no-clip", "--confidence"),
    )
    assert study is not None
    assert study.grids == (Grid("patch", 7, 2, 0.5), Grid("occlusion", 5))
    assert (study.sources, study.targets, study.clip) == ((1, 2), "any", False)
    assert study.timeout == 5.0
    assert study.confidence


def test_flags_count_more_than_the_file(model: str) -> None:
    path = Path(model).parent / "mine.toml"
    path.write_text(TOML)
    study = _described(str(path), "--store", "s.db", "--timeout", "60", "--all-pairs")
    assert study is not None
    assert (study.timeout, study.targets, study.sources) == (60.0, "each", (0,))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--network", "a.onnx", "--perturbation", "linf(1)", "--target", "1", "--all-pairs"),
        ("--network", "a.onnx"),
    ],
)
def test_flags_that_do_not_describe_a_study(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        _described("--store", "nowhere.db", *words)


@pytest.mark.parametrize("text", ["occlusion", "rotation(3)", "patch(3)", "occlusion(1,2,3)"])
def test_a_grid_that_cannot_be_read(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _described("--store", "s.db", "--network", "a.onnx", "--grid", text)
    assert "is not a grid" in capsys.readouterr().err


def test_a_command_says_how_the_networks_take_an_image(model: str, tmp_path: Path) -> None:
    study = Study((model,), ("linf(0.1)",), sources=(0,), mean=(-0.5,), std=(0.25,), layout="chw")
    open_study(study, tmp_path / "s.db")[0].close()
    data = read_store(tmp_path / "s.db")
    words = reproduction(data.entries[0], data)
    for option in ("--layout=chw", "--mean=-0.5", "--std=0.25"):
        assert option in words


def test_a_file_has_one_layout() -> None:
    """A store knows a network by its file."""
    files, asked = ("a.onnx", "b.onnx", "a.onnx"), ("linf(0.1)",)
    with pytest.raises(InvalidInput, match=r"a\.onnx is given two layouts: chw and hwc"):
        Study(files, asked, layout=("chw", "chw", "hwc"))
    assert Study(files, asked, layout=("chw", "hwc", "chw")).layouts == ("chw", "hwc", "chw")


def test_a_command_keeps_the_conventions_of_earlier_networks(model: str, tmp_path: Path) -> None:
    """A resumed study may be about other networks, which take images in other ways."""
    other = tmp_path / "other.onnx"
    write_onnx(small_network(4), other)
    study = Study((model,), ("linf(0.1)",), sources=(0,), layout="chw")
    open_study(study, tmp_path / "s.db")[0].close()
    later = replace(study, networks=(str(other),), layout=None, mean=(0.5,))
    open_study(later, tmp_path / "s.db", resume=True)[0].close()
    data = read_store(tmp_path / "s.db")
    assert {facts.name: facts.conventions for facts in data.networks} == {
        "small": ("--layout=chw",),
        "other": ("--mean=0.5",),
    }
    for entry in data.entries:
        own = entry.group.network == "small"
        assert ("--layout=chw" in reproduction(entry, data)) == own
        assert ("--mean=0.5" in reproduction(entry, data)) != own


def test_a_store_of_an_earlier_version_has_its_studys_conventions(
    model: str, tmp_path: Path
) -> None:
    """Such a store does not say how its networks take an image, nor does one that is resumed."""
    other = tmp_path / "other.onnx"
    write_onnx(small_network(4), other)
    study = Study((model,), ("linf(0.1)",), sources=(0,), layout="chw", std=(0.5,))
    open_study(study, tmp_path / "s.db")[0].close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("DELETE FROM facts WHERE name = 'conventions'")
    data = read_store(tmp_path / "s.db")
    expected = {"small": ("--layout=chw", "--std=0.5")}
    assert {facts.name: tuple(sorted(facts.conventions)) for facts in data.networks} == expected
    later = replace(study, networks=(str(other),), layout=None, std=None)
    open_study(later, tmp_path / "s.db", resume=True)[0].close()
    data = read_store(tmp_path / "s.db")
    expected["other"] = ()
    assert {facts.name: tuple(sorted(facts.conventions)) for facts in data.networks} == expected


def test_a_study_has_all_conventions_of_a_command() -> None:
    assert CONVENTIONS == study_module.CONVENTIONS
    given: dict[str, Any] = {"image_shape": (1, 2, 2), "mean": (0.0,), "std": (1.0,)}
    given |= {"output": "scores", "threshold": 0.0, "argmin": True}
    study = Study(("a.onnx", "b.onnx"), ("linf(0.1)",), layout=("chw", "hwc"), **given)
    assert study.conventions_of("b.onnx") == given | {"layout": "hwc"}
    assert set(study.conventions_of("b.onnx")) == set(CONVENTIONS)
    assert Study(("a.onnx",), ("linf(0.1)",)).conventions_of("a.onnx") == {}


def test_the_smallest_output_may_win(model: str, tmp_path: Path) -> None:
    words = ["--network", model, "--perturbation", "linf(0.1)", "--source", "0", "--argmin"]
    study = _described("--store", str(tmp_path / "s.db"), *words)
    assert study is not None
    assert Study.from_plain(study.plain()).argmin
    (loaded,) = load_models(study)
    x = np.full((1, *loaded.network.input_shape), 0.25)
    assert (loaded.network.forward(x) == -read_onnx(model).forward(x)).all()
    open_study(study, tmp_path / "s.db")[0].close()
    data = read_store(tmp_path / "s.db")
    assert "--argmin" in reproduction(data.entries[0], data)
