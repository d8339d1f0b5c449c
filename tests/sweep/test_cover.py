"""A study's bounds and a data set: who is covered, in the store, in words, and in what order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vhagar
from vhagar import InvalidInput, Store
from vhagar.cli.main import main
from vhagar.coverage import SeenData, covered
from vhagar.result import BoundKind, Coverage, CoverageCounts, Interval
from vhagar.sweep.class_coverage import ClassCoverage, StudyCoverage, share, total_words
from vhagar.sweep.cover import known_uppers, store_coverage
from vhagar.sweep.runner import open_study
from vhagar.sweep.snapshot import Snapshot
from vhagar.sweep.study import Study, load_models

from .conftest import small_network


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    np.savez(tmp_path / "data.npz", x=rng.random((60, 1, 4, 4)), y=rng.integers(0, 3, 60))
    return tmp_path / "data.npz"


def _filled(study: Study, path: Path, uppers: Mapping[tuple[int, int], float]) -> Store:
    """A store in which these pairs have these upper bounds, and the others none."""
    store, _, _ = open_study(study, path)
    store.begin_run({})
    for number, question in store.problems():
        targets = {
            target: Interval(0.0, uppers[question.source, target], BoundKind.TWIN)
            for target in question.targets
            if (question.source, target) in uppers
        }
        store.improve(number, Snapshot(1.0, targets, {}))
    return store


def test_the_largest_bound_of_all_targets_counts(model: str, data: Path, tmp_path: Path) -> None:
    study = Study((model,), ("linf(0.05)",), sources=(2,))
    store = _filled(study, tmp_path / "s.db", {(2, 0): 2.0, (2, 1): 3.0})
    (uppers,) = known_uppers(store).values()
    assert uppers == {0: 2.0, 1: 3.0}
    (found,) = store_coverage(store, load_models(study), data).classes
    (question,) = known_uppers(store)
    seen = SeenData.read(data, vhagar.read_onnx(model), vhagar.Domain((1, 4, 4)))
    expected = covered(question.problem(seen.network), 3.0, seen, 0.0)
    assert found.coverage.classified == expected.classified
    assert 0 < expected.classified.robust < expected.classified.inputs
    assert found.all_targets
    store.close()


def test_a_folder_of_images_is_a_data_set(model: str, tmp_path: Path) -> None:
    """It is told from others by its images."""
    study = Study((model,), ("linf(0.05)",), sources=(2,))
    store = _filled(study, tmp_path / "s.db", {(2, 0): 2.0, (2, 1): 3.0})
    folder = tmp_path / "images"
    folder.mkdir()
    hashes = []
    for shade in (50, 200):
        Image.fromarray(np.full((4, 4), shade, dtype=np.uint8)).save(folder / f"{shade}.png")
        found = store_coverage(store, load_models(study), folder)
        hashes.append(found.sha256)
        assert found.dataset == "images"
    assert found.classes[0].coverage.inputs == 2
    assert len(set(hashes)) == 2
    store.close()


def test_one_target_without_a_bound_and_nobody_is_robust(
    model: str, data: Path, tmp_path: Path
) -> None:
    study = Study((model,), ("linf(0.05)",), sources=(2,))
    store = _filled(study, tmp_path / "s.db", {(2, 0): 2.0})
    (found,) = store_coverage(store, load_models(study), data).classes
    assert found.coverage.classified.robust == 0
    store.close()


def test_targets_that_were_not_asked_are_told(model: str, data: Path, tmp_path: Path) -> None:
    study = Study((model,), ("linf(0.05)",), sources=(2,), targets=(0,))
    store = _filled(study, tmp_path / "s.db", {(2, 0): 2.0})
    found = store_coverage(store, load_models(study), data)
    assert found.classes[0].targets == (0,)
    assert not found.classes[0].all_targets
    assert "against the targets asked" in total_words(found.classes)
    store.close()


def test_whoever_was_attacked_is_not_robust(model: str, data: Path, tmp_path: Path) -> None:
    """Under a change of one half everybody is in reach."""
    study = Study((model,), ("linf(0.5)",), sources=(2,), targets="any")
    store = _filled(study, tmp_path / "s.db", {(2, 0): 99.0, (2, 1): 99.0})
    (found,) = store_coverage(store, load_models(study), data, 30.0).classes
    counts = found.coverage.classified
    assert counts.attackable > 0
    assert counts.robust == 0
    store.close()


def test_it_is_read_as_it_was_written(model: str, tmp_path: Path) -> None:
    study = Study((model,), ("linf(0.05)",), sources=(2,))
    store = _filled(study, tmp_path / "s.db", {})
    assert store.coverage() is None
    counts = CoverageCounts(10, 4, 1)
    rows = [
        ClassCoverage("f", "linf(0.05)", True, k, (1, 2), True, Coverage(20, counts, own, 3.0, 0.1))
        for k, own in ((0, None), (1, CoverageCounts(9, 4, 1)))
    ]
    given = StudyCoverage("data.npz", tuple(rows))
    store.write_coverage(given)
    assert store.coverage() == given
    assert given.lines({"f": "small"}) == [
        "small, linf(0.05): of 20 inputs 8 (40 %) are proven robust, 2 were attacked with success, "
        "10 are undecided"
    ]
    unclipped = replace(given, classes=tuple(replace(row, clip=False) for row in rows))
    shown = {("linf(0.05)", ""): "linf(1/20)"}
    assert unclipped.lines({"f": "small"}, shown)[0].startswith("small, linf(1/20) unclipped: of")
    both = [replace(row, coverage=replace(row.coverage, correct=counts)) for row in rows]
    assert total_words(both).endswith(
        "10 are undecided; of the 20 classified correctly, 8 (40 %) are proven robust"
    )
    store.close()


def _counted(robust: int, attackable: int, sha256: str = "a", source: int = 0) -> StudyCoverage:
    counts = CoverageCounts(10, robust, attackable)
    coverage = Coverage(20, counts, replace(counts, inputs=9), 3.0, 0.1)
    found = ClassCoverage("f", "linf(0.05)", True, source, (1, 2), True, coverage)
    return StudyCoverage("data.npz", (found,), sha256)


def test_attacks_that_succeeded_earlier_are_not_forgotten() -> None:
    now = _counted(robust=4, attackable=1)
    assert now.with_attacks_of(_counted(2, 5)) == _counted(4, 5)
    assert now.with_attacks_of(_counted(2, 0)) == now


@pytest.mark.parametrize(
    "earlier",
    [
        None,
        _counted(2, 5, sha256="b"),  # another data set of that name
        _counted(2, 5, source=1),  # another class
        _counted(2, 7),  # more than there are
    ],
)
def test_attacks_on_something_else_do_not_count(earlier: StudyCoverage | None) -> None:
    now = _counted(robust=4, attackable=1)
    assert now.with_attacks_of(earlier) == now


def test_shares_are_rounded_down() -> None:
    assert share(CoverageCounts(3, 2, 0)) == "66.6"
    assert share(CoverageCounts(10_000, 9_999, 0)) == "99.9"
    assert share(CoverageCounts(0, 0, 0)) == "0"
    assert share(CoverageCounts(10_000, 2, 0)) == "<0.1"
    assert "no input" in total_words([])


@pytest.mark.subprocess
def test_a_sweep_by_the_command_line(
    model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", "--network", model, "--perturbation", "linf(0.05)", "--untargeted"]
    words += ["--dataset", str(data), "--timeout", "20", "--store", str(tmp_path / "s.db")]
    assert main([*words, "--jobs", "1"]) == 0
    assert "small, linf(0.05): of 60 inputs " in capsys.readouterr().out
    with Store(tmp_path / "s.db") as store:
        found, study = store.coverage(), store.study()
        uppers = {question.source: max(g.values()) for question, g in known_uppers(store).items()}
    assert study.dataset == str(data)
    assert found is not None
    assert sum(each.coverage.classified.inputs for each in found.classes) == 60
    seen = SeenData.read(data, vhagar.read_onnx(model), vhagar.Domain((1, 4, 4)))
    for each in found.classes:
        sure = seen.sure(each.source)
        assert each.coverage.classified.robust == (sure > max(uppers[each.source], 0.0)).sum()


def test_data_that_does_not_fit_is_noticed_before_the_search(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros((3, 1, 5, 5)))
    study = Study((model,), ("linf(0.05)",), dataset=str(tmp_path / "other.npz"))
    with pytest.raises(InvalidInput, match="should hold one array"):
        vhagar.sweep(study, store=tmp_path / "s.db")


def test_a_study_file_names_its_data_relative_to_itself(tmp_path: Path) -> None:
    vhagar.write_onnx(small_network(), tmp_path / "small.onnx")
    text = 'networks = ["small.onnx"]\nperturbations = ["linf(0.1)"]\ndataset = "data.npz"\n'
    (tmp_path / "study.toml").write_text(text)
    from vhagar.sweep.study import read_study

    study = read_study(tmp_path / "study.toml")
    assert study.dataset == str(tmp_path / "data.npz")
    assert Study.from_plain(json.loads(json.dumps(study.plain()))) == study
    (tmp_path / "study.toml").write_text(text.replace('"data.npz"', "3"))
    with pytest.raises(InvalidInput, match="dataset must be"):
        read_study(tmp_path / "study.toml")


def test_networks_take_turns(model: str, tmp_path: Path) -> None:
    vhagar.write_onnx(small_network(9), tmp_path / "second.onnx")
    study = Study((model, str(tmp_path / "second.onnx")), ("linf(0.05)", "linf(0.1)"))
    store, _, models = open_study(study, tmp_path / "s.db")
    asked = [question for _, question in store.problems()]
    store.close()
    assert [each.network for each in asked[:4]] == [model.fingerprint for model in models] * 2
    halves = [[q for q in asked[:12] if q.network == m.fingerprint] for m in models]
    pairs = [[(q.perturbation, q.source, q.targets) for q in half] for half in halves]
    assert pairs[0] == pairs[1]
    assert {perturbation for perturbation, _, _ in pairs[0]} == {"linf(0.05)"}
