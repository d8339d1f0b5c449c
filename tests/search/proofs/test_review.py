"""Certificates are checked before the run ends: what is stated is what they prove."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Result, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.perturbation import Domain, linear_rows
from vhagar.search.branch_and_bound import Bab
from vhagar.search.proofs import review as proof_review
from vhagar_check import Rejected, check, container, verdict
from vhagar_check.container import Block
from vhagar_check.statement import Statement

from ...networks import dense_network
from ...soundness.judge import Finding, run_bab, stored
from ...soundness.numerics import hard_problem

SLOW = pytest.mark.slow
NETWORK = dense_network(6, 5, 3, seed=5)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_bytes(NETWORK))
    return path


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker proves a little less than was computed."""
    evaluate = verdict.evaluate

    def rounded(*arguments: Any, **named: Any) -> Any:
        values, count = evaluate(*arguments, **named)
        return values * (1 + 1e-6), count

    monkeypatch.setattr(verdict, "evaluate", rounded)


def certified(network: Network, path: Path, domain: Domain | None = None) -> Result:
    problem = Problem(network, perturbation="linf(0.15)", source=0, domain=domain)
    engine = Bab(attack=False, slopes=False, inputs=False)
    return verify(problem, engine=engine, workers=0, relative_gap=0.05, certificate=path)


def test_what_is_proved_stays_as_it_is(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "proof.cert"
    result = certified(read_onnx(model), path)
    assert not result.notes
    content = path.read_bytes()
    monkeypatch.setattr(proof_review, "_MOST_PRODUCTS", 0)
    assert certified(read_onnx(model), path).upper == result.upper
    assert path.read_bytes() == content


@pytest.mark.usefixtures("coarse")
def test_a_bound_that_is_not_proved_is_raised(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "proof.cert"
    result = certified(read_onnx(model), path)
    proved = check(path, model=model)
    assert (proved.lower, proved.upper) == (result.lower, result.upper)
    assert proved.uppers == {t: interval.upper for t, interval in result.targets.items()}
    before = max(moment.upper for moment in result.history[:-1] if moment.upper < result.upper)
    assert before < result.upper < before + 1e-5 * result.history[0].upper
    assert any(f"proves the bound {result.upper!r}, not" in note for note in result.notes)


def test_a_certificate_that_proves_nothing_is_not_said_to_prove_a_bound(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: Statement, *_: Any) -> dict[int | None, float]:
        return dict.fromkeys(self.targets, math.inf)

    monkeypatch.setattr(Statement, "upper_bounds", nothing)
    result = certified(read_onnx(model), tmp_path / "proof.cert")
    bounds = [interval.upper for interval in result.targets.values()]
    assert result.notes == tuple(f"the certificate does not prove the bound {v!r}" for v in bounds)


@pytest.mark.usefixtures("coarse")
def test_large_certificates_are_not_checked(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_review, "_MOST_PRODUCTS", 0)
    path = tmp_path / "proof.cert"
    assert not certified(read_onnx(model), path).notes
    with pytest.raises(Rejected, match="is not proved"):
        check(path, model=model)


NODES, BOXES, REGIONS = Block("TREE", 0, 24 * 10_000, 1), Block("BOXS", 0, 10**5, 1), 1000


@pytest.mark.parametrize(
    ("blocks", "rows"),
    [([NODES], 0), ([BOXES], 0), ([Block("REGN", 0, 1, 1)] * REGIONS, 5)],
    ids=["nodes of a small network", "boxes", "rows of a domain"],
)
def test_what_takes_the_checker_long_is_not_checked(
    blocks: list[Block],
    rows: int,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(container, "scan", lambda path: blocks)
    monkeypatch.setattr(verdict, "check", lambda path, model: asked.append(path))
    domain = None
    if rows:
        every = linear_rows(np.eye(rows, NETWORK.input_size), NETWORK.input_size, at_most=0.9)
        domain = Domain(NETWORK.input_shape, rows=every)
    certified(read_onnx(model), tmp_path / "proof.cert", domain)
    assert not asked
    monkeypatch.setattr(container, "scan", lambda path: [Block("TREE", 0, 24, 1)])
    certified(read_onnx(model), tmp_path / "proof.cert", domain)
    assert asked


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("known", [False, True])
def test_without_its_model_nothing_is_checked(known: bool, model: Path, tmp_path: Path) -> None:
    """Neither if the network has no file, nor if the file is another one by then."""
    network = read_onnx(model) if known else NETWORK
    model.write_bytes(onnx_bytes(dense_network(6, 5, 3, seed=6)))
    path = tmp_path / "proof.cert"
    result = certified(network, path)
    assert not result.notes
    assert result.certificate == path


@pytest.mark.parametrize("number", [1903, *(pytest.param(n, marks=SLOW) for n in (1100, 2540))])
def test_weights_of_many_sizes(number: int, tmp_path: Path) -> None:
    """Cases of the campaign whose certificates proved less than was claimed."""
    what, problem = hard_problem(number)
    finding = Finding("numerics", number, what)
    _, proved = run_bab(stored(problem, tmp_path), finding, 5.0, tmp_path / "proof.cert")
    assert proved is not None, finding.facts["refused"]
    assert not finding.wrong
