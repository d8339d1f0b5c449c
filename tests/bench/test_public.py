"""Questions about networks that others made, from the command line to a row of a table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from vhagar.network import write_onnx

from ..relaxation.samples import network_of

BENCH = Path(__file__).parents[2] / "bench"
pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(BENCH))
    sys.modules.pop("public", None)
    import public

    return public


def test_a_global_question(tmp_path: Path, public: object, capsys: pytest.CaptureFixture) -> None:
    write_onnx(network_of("plain", np.random.default_rng(0)), tmp_path / "small.onnx")
    questions = tmp_path / "global.csv"
    questions.write_text('network,flags,perturbation,source,target\nsmall,,"linf(0.1)",0,1\n')
    public.main(["global", str(questions), str(tmp_path), "--timeout", "20", "--repeats", "1"])
    heads, _, row = capsys.readouterr().out.splitlines()
    assert len(row.split(" | ")) == len(heads.split(" | "))
    assert "small" in row
    assert "`linf(0.1)` 0 to 1" in row


def test_a_local_question(tmp_path: Path, public: object, capsys: pytest.CaptureFixture) -> None:
    write_onnx(network_of("plain", np.random.default_rng(0)), tmp_path / "small.onnx")
    np.save(tmp_path / "one.npy", np.full((1, 2, 3), 0.5))
    questions = tmp_path / "local.csv"
    questions.write_text("network,image,epsilon,flags,published\nsmall,one,0.001,,robust\n")
    given = ["local", str(questions), str(tmp_path), "--images", str(tmp_path), "--repeats", "1"]
    public.main(given)
    row = capsys.readouterr().out.splitlines()[-1]
    assert "robust | robust" in row
