"""`assert_robust` passes on proof alone, and says what it found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar import InvalidInput, Network
from vhagar.options import Options
from vhagar.testing import assert_robust


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Options, "worker_count", 1)


def test_a_proven_bound_passes_and_a_refuted_one_fails(hidden: Network) -> None:
    """The bound is 1/4: below it everything can be attacked by linf(0.125)."""
    result = assert_robust(hidden, perturbation="linf(0.125)", source=0, upper=0.3, timeout=30)
    assert result.upper <= 0.3
    with pytest.raises(AssertionError, match=r"upper<=0.1: violated \(between 0.2"):
        assert_robust(hidden, perturbation="linf(0.125)", source=0, upper=0.1, timeout=30)


def test_coverage_is_demanded_of_a_data_set(hidden: Network, tmp_path: Path) -> None:
    x = np.array([[1.0, 0.0], [0.75, 0.0], [0.875, 0.5]]).reshape(-1, 1, 1, 2)
    np.savez(tmp_path / "x.npz", x=x)
    asked = {"perturbation": "linf(0.125)", "source": 0, "dataset": tmp_path / "x.npz"}
    assert_robust(hidden, coverage=0.6, timeout=30, **asked)
    with pytest.raises(AssertionError, match=r"coverage>=0\.9: violated"):
        assert_robust(hidden, coverage=0.9, timeout=30, **asked)


def test_something_must_be_demanded(hidden: Network) -> None:
    with pytest.raises(InvalidInput, match="demand something"):
        assert_robust(hidden, perturbation="linf(0.1)", source=0)
    with pytest.raises(InvalidInput, match="give it as `dataset`"):
        assert_robust(hidden, perturbation="linf(0.1)", source=0, coverage=0.5)


@pytest.mark.parametrize(
    "demand", [{"coverage": 60}, {"coverage": -0.1}, {"upper": float("nan")}, {"upper": -1.0}]
)
def test_a_limit_that_cannot_be_is_refused_at_once(
    hidden: Network, demand: dict[str, float]
) -> None:
    with pytest.raises(InvalidInput, match=r"a share from 0 to 1|a number, and not negative"):
        assert_robust(hidden, perturbation="linf(0.1)", source=0, dataset="x.npz", **demand)
