"""Witnesses beside the nearest input of a data set, in the store and on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar.report.gallery import witness_figure
from vhagar.report.page import page
from vhagar.report.reading import read_store

RNG = np.random.default_rng(2)
DATA, LABELS = RNG.random((20, 1, 4, 4)).astype(np.float32), RNG.integers(0, 3, 20)


@pytest.mark.subprocess
def test_the_nearest_input_stands_beside_a_witness(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=DATA, y=LABELS)
    vhagar.sweep(
        store=tmp_path / "s.db",
        networks=[model],
        perturbations=["linf(0.05)"],
        sources=[2],
        targets="any",
        timeout=20,
        jobs=1,
        dataset=str(tmp_path / "data.npz"),
    ).close()
    study = read_store(tmp_path / "s.db")
    (entry,) = study.entries
    assert entry.witness is not None
    assert entry.neighbour is not None
    apart = np.sqrt(((DATA.astype(float) - entry.witness.x) ** 2).mean(axis=(1, 2, 3)))
    assert entry.neighbour.row == apart.argmin()
    assert entry.neighbour.label == LABELS[apart.argmin()]
    assert entry.neighbour.distance == pytest.approx(apart.min())
    np.testing.assert_array_equal(entry.neighbour.x, DATA[apart.argmin()])
    figure = witness_figure(entry)
    assert figure is not None
    assert [heading for heading, _ in figure.pictures()][-1] == "nearest data"
    drawn = figure.draw().svg()
    assert f"input {entry.neighbour.row}, label" in drawn
    assert f"differs by {100 * entry.neighbour.distance:.3g} %" in drawn  # as in a terminal
    assert "beside the nearest input of the data set" in page(study)


@pytest.mark.subprocess
def test_a_better_witness_is_not_shown_beside_the_neighbour_of_another(
    model: str, tmp_path: Path
) -> None:
    asked = {"networks": [model], "perturbations": ["linf(0.05)"], "sources": [2], "targets": "any"}
    np.savez(tmp_path / "data.npz", x=DATA)
    data = str(tmp_path / "data.npz")
    with vhagar.sweep(store=tmp_path / "s.db", **asked, timeout=20, jobs=1, dataset=data) as store:
        rows = store.plain("neighbours")
        assert rows[0]["label"] is None
        store.write_plain("neighbours", [{**rows[0], "confidence": rows[0]["confidence"] / 2}])
    (entry,) = read_store(tmp_path / "s.db").entries
    assert entry.neighbour is None
    assert "nearest input" not in page(read_store(tmp_path / "s.db"))
