"""Two models side by side: what is proven, what overlaps, and what was not asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import InvalidInput
from vhagar.cli.main import main
from vhagar.network import Affine, Relu
from vhagar.report.compare_models import compare_sides
from vhagar.report.data import Entry, StudyData
from vhagar.report.reading import read_store
from vhagar.report.two_models import CoverageVerdict, Side
from vhagar.report.two_models_page import two_page
from vhagar.result import Coverage, CoverageCounts
from vhagar.sweep.class_coverage import ClassCoverage, StudyCoverage

from ..sweep.conftest import small_network
from .conftest import PRINTS

MakeEntry = Callable[..., Entry]
MakeStudy = Callable[..., StudyData]


def _covered(network: str, counts: CoverageCounts, source: int = 0) -> ClassCoverage:
    found = Coverage(100, counts, None, 9.0, 0.1)
    return ClassCoverage(PRINTS[network], "linf(0.1)", True, source, (1, 2), True, found)


@pytest.fixture
def sides(make_entry: MakeEntry, make_study: MakeStudy) -> tuple[Side, Side]:
    """Of 20: network one has bounds of 2 to 3 and of 0 to 9, network two of 4 and nothing."""
    study = make_study(
        make_entry({1: (2.0, 3.0)}),
        make_entry({2: (0.0, 9.0)}),
        make_entry({1: (4.0, 4.001)}, network="two"),
        make_entry({2: (1.0, 2.0)}, network="two"),
        make_entry({0: (1.0, 2.0)}, source=1, network="two"),
    )
    classes = (
        _covered("one", CoverageCounts(50, 40, 1)),
        _covered("two", CoverageCounts(40, 4, 30)),
        _covered("two", CoverageCounts(10, 9, 0), source=1),
    )
    study = replace(study, coverage=StudyCoverage("data.npz", classes))
    return tuple(Side(name, PRINTS[name], study) for name in ("one", "two"))


def test_proven_overlapping_and_not_asked_are_kept_apart(sides: tuple[Side, Side]) -> None:
    found = compare_sides(*sides)
    (pair,) = found.pairs
    words = {(each.source, each.target): each.more_robust for each in pair.verdicts}
    assert words == {(0, 1): "first", (0, 2): "open", (1, 0): "unasked"}
    assert [found.count(what) for what in ("first", "second", "open", "unasked")] == [1, 0, 1, 1]
    data = {each.source: each.more_robust for each in found.coverages}
    # 80 % are proven of A's, and of B's at most 25 % can be robust; in all, at most 40 %.
    assert data == {None: "first", 0: "first", 1: "unasked"}
    assert "A is better, for certain" in "\n".join(found.lines)
    assert found.lines[-1] == (
        "In all: Of the data set, A is better for certain under 1 of 1 perturbations, B under 0. "
        "Of 3 pairs of classes, A is proven more robust for 1, B for 0."
    )


def test_a_comparison_that_proves_nothing_says_so(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    study = make_study(make_entry({1: (0.0, 9.0)}), make_entry({1: (0.0, 8.0)}, network="two"))
    found = compare_sides(*(Side(name, PRINTS[name], study) for name in ("one", "two")))
    assert found.conclusion == "Of 1 pair of classes, none tells the two apart yet."


def test_the_other_way_round_is_the_mirror_image(sides: tuple[Side, Side]) -> None:
    mirror = compare_sides(*reversed(sides))
    assert [mirror.count(what) for what in ("first", "second", "open")] == [0, 1, 1]
    assert {each.source: each.more_robust for each in mirror.coverages}[0] == "second"


def test_two_data_sets_are_not_compared(sides: tuple[Side, Side]) -> None:
    one, two = sides
    assert one.study.coverage is not None
    other = replace(one.study, coverage=replace(one.study.coverage, sha256="another"))
    found = compare_sides(one, replace(two, study=other))
    assert not found.coverages
    assert "for certain" not in "\n".join(found.lines)
    assert compare_sides(one, replace(two, study=replace(one.study, coverage=None))).coverages


def test_two_input_ranges_are_two_questions(sides: tuple[Side, Side]) -> None:
    one, two = sides
    entries = tuple(
        replace(entry, question=replace(entry.question, input_range=(-1.0, 1.0)))
        for entry in two.study.entries
    )
    with pytest.raises(InvalidInput, match="no perturbation in common"):
        compare_sides(one, replace(two, study=replace(two.study, entries=entries)))


def test_shares_that_meet_prove_nothing() -> None:
    half = CoverageCounts(10, 5, 5)
    assert CoverageVerdict("p", 0, half, half).more_robust == "open"
    assert CoverageVerdict("p", 0, half, CoverageCounts(10, 4, 4)).more_robust == "open"
    assert CoverageVerdict("p", 0, half, CoverageCounts(0, 0, 0)).more_robust == "unasked"
    assert CoverageVerdict("p", 0, None, half).more_robust == "unasked"


def test_the_page_and_the_json_say_it(sides: tuple[Side, Side]) -> None:
    found = compare_sides(*sides)
    page = two_page(found)
    assert "one and two" in page
    assert found.conclusion in page
    assert "40 robust, 9 not known, 1 attacked" in page
    assert page.count("<td>A</td>") == 2
    stated = json.loads(json.dumps(found.to_dict()))
    assert stated["pairs"][0]["counts"] == {"first": 1, "second": 0, "open": 1, "unasked": 1}
    assert stated["coverage"][0]["first"] == {"inputs": 50, "robust": 40, "attackable": 1}
    columns = stated["pairs"][0]["columns"]
    assert all(len(row) == len(columns) for row in stated["pairs"][0]["rows"])


@pytest.mark.subprocess
def test_a_rescaled_copy_is_as_robust_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores that are ten times as large change no prediction and no robustness."""
    network = small_network()
    larger = network.layers[-1].mapped(lambda weight: 10 * weight)
    vhagar.write_onnx(network, tmp_path / "old.onnx")
    copy = replace(network, layers=(*network.layers[:-1], larger))
    vhagar.write_onnx(copy, tmp_path / "new.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).random((40, 1, 4, 4)))
    words = [str(tmp_path / "old.onnx"), str(tmp_path / "new.onnx"), "--perturbation", "linf(0.05)"]
    words += ["--dataset", str(tmp_path / "data.npz"), "--timeout", "30", "--source", "2"]
    files = {name: str(tmp_path / name) for name in ("s.db", "c.html", "c.json", "j.xml")}
    words += ["--store", files["s.db"], "-o", files["c.html"], "--json", files["c.json"]]
    demands = ["--require", "not-worse", "--require", "coverage>=0.01", "--junit", files["j.xml"]]
    assert main(["compare", *words, *demands]) == 0
    printed = capsys.readouterr().out
    assert "They are equal to within" in printed
    assert (
        "neither is better for certain. Of 2 pairs of classes, all are equal to within" in printed
    )
    assert "<failure" not in (tmp_path / "j.xml").read_text()
    stated = json.loads((tmp_path / "c.json").read_text())
    counts = stated["pairs"][0]["counts"]
    assert (counts["first"], counts["second"], counts["unasked"]) == (0, 0, 0)
    for each in stated["coverage"]:
        assert each["first"]["robust"] == each["second"]["robust"] > 0
    # The store says the same.
    store = files["s.db"]
    assert main(["compare", f"{store}:old", f"{store}:new", "--require", "not-worse"]) == 0
    assert main(["compare", store, store]) == 2
    assert "choose one of the networks" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="not one of each"):
        vhagar.compare(f"{store}:old", tmp_path / "new.onnx")


@pytest.mark.parametrize(
    ("pair", "code"), [(("one", "two"), 3), (("two", "one"), 4), (("one", "one"), 0)]
)
def test_not_worse_needs_a_proof_either_way(
    pair: tuple[str, str],
    code: int,
    sides: tuple[Side, Side],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_name = {side.name: side for side in sides}
    found = compare_sides(*(by_name[name] for name in pair))
    monkeypatch.setattr("vhagar.report.compare_models.compare", lambda *_, **__: found)
    words = ["compare", "a", "b", "--require", "not-worse", "--junit", str(tmp_path / "j.xml")]
    assert main(words) == code
    printed = capsys.readouterr().out
    text = (tmp_path / "j.xml").read_text()
    assert ("<failure" in text) == (code == 3)
    assert ("<error" in text) == (code == 4)
    reasons = {
        0: "at most 0 percentage points larger",
        3: "in 3 comparisons, one of them by the data in all classes under linf(0.1)",
        4: "not every question was asked of both",
    }
    assert reasons[code] in printed


def test_nothing_in_common_cannot_be_compared(make_entry: MakeEntry, make_study: MakeStudy) -> None:
    study = make_study(
        make_entry({1: (2.0, 3.0)}),
        make_entry({1: (2.0, 3.0)}, network="two", perturbation="linf(0.2)"),
    )
    with pytest.raises(InvalidInput, match="no perturbation in common"):
        compare_sides(*(Side(name, PRINTS[name], study) for name in ("one", "two")))


def test_equal_shares_prove_nothing() -> None:
    """In floats, 1 - 9 / 10 is below 1 / 10."""
    sides = CoverageCounts(10, 1, 0), CoverageCounts(10, 0, 9)
    assert CoverageVerdict("linf(0.1)", 0, *sides).more_robust == "open"
    assert CoverageVerdict("linf(0.1)", 0, *reversed(sides)).more_robust == "open"


def test_what_cannot_be_compared_is_said_before_anything_runs(tmp_path: Path) -> None:
    old, other = tmp_path / "old.onnx", tmp_path / "other.onnx"
    vhagar.write_onnx(small_network(1), old)
    last = Affine(np.ones((2, 3)), np.zeros(2), (3,), (2,))
    network = small_network(1)
    vhagar.write_onnx(replace(network, layers=(*network.layers, Relu((3,)), last)), other)
    with pytest.raises(InvalidInput, match=r"no model file and no store at .*none\.db"):
        vhagar.compare(old, tmp_path / "none.db", perturbations=["linf(0.1)"])
    with pytest.raises(InvalidInput, match="give --perturbation"):
        vhagar.compare(old, old, dataset="data.npz")
    with pytest.raises(InvalidInput, match=r"old\.onnx has 3 and .*other\.onnx has 2 classes"):
        vhagar.compare(old, other, perturbations="linf(0.1)")
    size = network.input_size
    wide = Affine(np.ones((size, 2 * size)), np.zeros(size), (2 * size,), (size,))
    layers = (wide, *network.layers)
    larger = replace(network, input_shape=(1, 2, size), layers=layers)
    vhagar.write_onnx(larger, tmp_path / "larger.onnx")
    with pytest.raises(InvalidInput, match=rf"larger\.onnx has {2 * size} inputs"):
        vhagar.compare(old, tmp_path / "larger.onnx", perturbations="linf(0.1)")


@pytest.fixture
def layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One network as two files: with its channels first, and with its channels last."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    weight, last = rng.normal(size=(4, 3, 4, 4)), rng.normal(size=(3, 4))
    for name, shape, own in (
        ("first", (3, 4, 4), weight),
        ("last", (4, 4, 3), weight.transpose(0, 2, 3, 1)),
    ):
        layers = (
            Affine(own.reshape(4, -1), np.zeros(4), shape, (4,)),
            Relu((4,)),
            Affine(last, np.zeros(3), (4,), (3,)),
        )
        vhagar.write_onnx(vhagar.Network(layers, shape), f"{name}.onnx")


OCCLUDED = ["--perturbation", "occlusion(1,1,2)", "--source", "0", "--timeout", "30"]


def test_images_of_different_shapes_are_not_compared(
    layouts: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "first.onnx", "last.onnx", "--layout", "hwc", *OCCLUDED]) == 2
    said = capsys.readouterr().err
    assert "first.onnx takes images of 4 channels of 3 x 4 pixels" in said
    assert "last.onnx takes images of 3 channels of 4 x 4 pixels" in said
    assert "give both, A's first: --layout chw,hwc" in said


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("hwc,chw", "first.onnx takes images of 4 channels of 3 x 4 pixels"),
        ("chw,hwc,chw", "'chw,hwc,chw' is no layout"),
        ("chw,", "'chw,' is no layout"),
        ("last", "'last' is no layout"),
    ],
)
def test_layouts_that_cannot_be(
    given: str, complaint: str, layouts: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "first.onnx", "last.onnx", "--layout", given, *OCCLUDED]
    with suppress(SystemExit):
        assert main(words) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.subprocess
def test_each_of_two_models_may_have_its_own_layout(
    layouts: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--layout", "chw,hwc", "--store", "both.db", "--require", "not-worse", *OCCLUDED]
    assert main(["compare", "first.onnx", "last.onnx", *words, "--jobs", "1"]) == 0
    assert "In all: Of 2 pairs of classes, all are equal" in capsys.readouterr().out
    study = read_store("both.db")
    for facts, layout in zip(study.networks, ("chw", "hwc"), strict=True):
        assert facts.conventions == (f"--layout={layout}",)


@pytest.mark.slow
@pytest.mark.subprocess
def test_models_with_different_layouts_are_compared_by_their_stores(layouts: None) -> None:
    for name, layout in (("first", "chw"), ("last", "hwc")):
        words = ["--network", f"{name}.onnx", "--layout", layout, "--store", f"{name}.db"]
        assert main(["sweep", *words, *OCCLUDED, "--confidence", "--jobs", "1"]) == 0
    assert main(["compare", "first.db", "last.db", "--require", "not-worse"]) == 0
