"""A study about a domain: its questions, its store, its coverage and its report."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, InvalidInput, Network, Problem, Store
from vhagar.cli.main import main
from vhagar.guard.bounds import of_store
from vhagar.network import Affine, read_onnx, write_onnx
from vhagar.report.compare_models import compare
from vhagar.report.problems import reproduction
from vhagar.report.reading import read_store
from vhagar.report.sentences import answer
from vhagar.sweep.question import Question
from vhagar.sweep.relations import contains
from vhagar.sweep.runner import open_study
from vhagar.sweep.study import Study, read_study

DIM = Domain((1, 4, 4), 0.25, 0.75, range=(0.0, 1.0), name="dim")


@pytest.fixture
def dim(tmp_path: Path) -> Path:
    path = tmp_path / "dim.toml"
    path.write_text("lower = 0.25\nupper = 0.75\n")
    return path


@pytest.mark.subprocess
def test_a_sweep_over_a_domain(
    model: str, dim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).random((60, 1, 4, 4)) / 2 + 0.25)
    store = tmp_path / "s.db"
    asked = ["--network", model, "--perturbation", "linf(0.05)", "--source", "2", "--confidence"]
    given = [*asked, "--timeout", "20", "--jobs", "1", "--dataset", str(tmp_path / "data.npz")]
    assert main(["sweep", *given, "--domain", str(dim), "--store", str(store)]) == 0
    assert "linf(0.05), over dim: of " in capsys.readouterr().out
    data = read_store(store)
    for entry in data.entries:
        assert entry.question.domain == DIM
        assert entry.group.label.endswith(", over dim")
        assert "in the domain dim" in answer(entry)
        assert "--domain dim.toml" in reproduction(entry, data)
        for witness in entry.witnesses.values():
            assert DIM.contains(witness.x.reshape(1, -1)).all()
    page = tmp_path / "report.html"
    assert main(["report", str(store), "-o", str(page)]) == 0
    assert "over dim" in page.read_text()
    found = compare(store, store)
    assert found.lines[2].startswith("linf(0.05), over dim: ")
    with Store(store) as known:
        known.to_csv(tmp_path / "s.csv")
        bounds = of_store(known, data.networks[0].fingerprint, read_onnx(model))
    assert {(bound.domain, bound.source) for bound in bounds} == {(DIM, 2)}
    rows = list(csv.DictReader((tmp_path / "s.csv").read_text().splitlines()))
    assert {row["domain"] for row in rows} == {"dim"}
    assert main(["sweep", "--store", str(store), "--resume"]) == 0


def test_a_study_file_names_a_domain(model: str, dim: Path) -> None:
    path = dim.with_name("study.toml")
    path.write_text(f'networks = ["{model}"]\nperturbations = ["linf(0.1)"]\ndomain = "dim.toml"\n')
    study = read_study(path)
    assert study.domain == str(dim)
    assert Study.from_plain(json.loads(json.dumps(study.plain()))) == study


def test_the_range_of_a_study_is_that_of_its_domain(model: str, dim: Path, tmp_path: Path) -> None:
    dim.write_text("range = [-1, 1]\nlower = 0.25\n")
    store, _, _ = open_study(Study((model,), ("linf(0.1)",), domain=str(dim)), tmp_path / "s.db")
    with store:
        assert {question.input_range for _, question in store.problems()} == {(-1.0, 1.0)}
    other = Study((model,), ("linf(0.1)",), domain=str(dim), input_range=(0.0, 1.0))
    with pytest.raises(InvalidInput, match="leave out one of them"):
        open_study(other, tmp_path / "t.db")


def test_a_domain_that_has_changed_is_another_one(model: str, dim: Path, tmp_path: Path) -> None:
    study = Study((model,), ("linf(0.05)",), domain=str(dim))
    open_study(study, tmp_path / "s.db")[0].close()
    dim.write_text("lower = 0.25\n")
    with pytest.raises(InvalidInput, match="the domain dim has changed"):
        open_study(study, tmp_path / "s.db", resume=True)


def test_one_file_is_another_domain_for_each_shape(model: str, dim: Path, tmp_path: Path) -> None:
    layer = Affine(np.eye(3, 4), np.zeros(3), (4,), (3,))
    write_onnx(Network((layer,), (4,)), tmp_path / "row.onnx")
    models = model, str(tmp_path / "row.onnx")
    study = Study(models, ("linf(0.05)",), domain=str(dim))
    open_study(study, tmp_path / "s.db")[0].close()
    open_study(study, tmp_path / "s.db", resume=True)[0].close()


def test_a_question_about_a_feature_stays_one_where_names_change() -> None:
    names = [f"f{k}" for k in range(16)]
    asked = []
    for order in (names, names[::-1]):
        domain = Domain((16,), 0.25, 0.75, range=(0.0, 1.0), name="dim", features=order)
        network = Network((Affine(np.eye(3, 16), np.zeros(3), (16,), (3,)),), (16,))
        problem = Problem(network, perturbation="features([f1],0.1)", source=0, domain=domain)
        asked.append(Question.of(problem, "f"))
    assert asked[0].domain == asked[1].domain
    assert asked[0].key != asked[1].key
    assert not contains(*asked, Domain((16,)))


def test_questions_differ_by_their_domain() -> None:
    whole = Question("f", "linf(0.1)", 0, (1,))
    over = Question("f", "linf(0.1)", 0, (1,), domain=DIM)
    assert len(json.loads(whole.key)) == 6  # as in stores of earlier versions
    assert whole.key != over.key
    assert over.without_perturbation().domain == DIM


def test_bounds_over_all_inputs_hold_over_a_domain_and_not_the_other_way() -> None:
    whole, over, other = (
        Question("f", "linf(0.1)", 0, (1,), domain=domain)
        for domain in (None, DIM, Domain((1, 4, 4), 0.25, 0.5, range=(0.0, 1.0), name="dim"))
    )
    shape = Domain((1, 4, 4))
    assert contains(whole, over, shape)
    assert contains(over, over, shape)
    assert not contains(over, whole, shape)
    assert not contains(over, other, shape)


@pytest.mark.parametrize("edit", ["remove", "alter", "rename", "break"])
def test_an_edited_domain_is_noticed(model: str, dim: Path, tmp_path: Path, edit: str) -> None:
    path = tmp_path / "s.db"
    open_study(Study((model,), ("linf(0.05)",), domain=str(dim)), path)[0].close()
    with sqlite3.connect(path) as connection:
        query = "SELECT name, value FROM facts WHERE name LIKE 'domain %'"
        ((name, value),) = connection.execute(query).fetchall()
        changed = {
            "remove": None,
            "alter": json.dumps({**json.loads(value), "lower": [0.0] * 16}),
            "rename": json.dumps({**json.loads(value), "name": 3}),
            "break": "[",
        }[edit]
        if changed is None:
            connection.execute("DELETE FROM facts WHERE name = ?", (name,))
        connection.execute("UPDATE facts SET value = ? WHERE name = ?", (changed, name))
    connection.close()
    with pytest.raises(InvalidInput, match="contradicts itself"):
        Store(path)
