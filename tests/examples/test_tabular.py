"""The questions of `examples/tabular.py` are closed, and their certificates are accepted."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from vhagar import Status
from vhagar.perturbation.domain.file import read_domain

from ..marks import mostly_slow
from .loading import example_named


@pytest.fixture(scope="module")
def tabular() -> ModuleType:
    pytest.importorskip("sklearn", reason="the tables come with scikit-learn")
    return example_named("tabular")


@pytest.mark.parametrize("number", mostly_slow([2, 0, 1, 3, 4], 5))
def test_a_question_about_a_table(tabular: ModuleType, number: int, tmp_path: Path) -> None:
    asked = tabular.QUESTIONS[number]
    result, verdict, lines = tabular.answer(asked, tmp_path, timeout=600.0, workers=0)
    assert result.status is Status.CLOSED
    assert result.lower <= verdict.upper
    assert verdict.upper == result.upper
    assert result.witness is not None
    assert result.problem.source_name == asked.source
    assert asked.target == result.problem.target_names
    assert any("change: " in line for line in lines[-1].splitlines())
    domain = read_domain(tmp_path / f"{asked.name}.toml", result.problem.domain.shape)
    assert domain == result.problem.domain
    assert bool(domain.groups.integer) == asked.whole
    whole = result.witness.x[list(domain.groups.integer)]
    assert (whole == whole.round()).all()
    assert len(domain.groups.one_hot) == len(asked.binned)
    for group in domain.groups.one_hot:
        assert sorted(result.witness.x[list(group)]) == [0, 0, 1]
    kept = [domain.entry(name) for name in asked.fixed]
    x, x_p = result.witness.x, result.witness.x_p
    assert (x[kept] == x_p[kept]).all()
