"""What tests of checkpoints have in common."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vhagar import Problem
from vhagar.search import node_search
from vhagar.search.checkpoint import keeper

from ...networks import dense_network

Kept = list[Path]


def small_problem(perturbation: str = "linf(0.3)", seed: int = 53) -> Problem:
    """A problem that takes some dozens of nodes."""
    network = dense_network(10, 8, 3, seed=seed)
    return Problem(network, perturbation=perturbation, source=0, targets=1)


@pytest.fixture
def all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Checkpoints are written all the time. Copies of all of them: a kill leaves any of these."""
    return keep_all(tmp_path, monkeypatch)


def keep_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """The list in which the copies will be."""
    monkeypatch.setattr(keeper, "PAUSES", keeper.Pauses(0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(node_search, "_QUANTUM_NODES", 1)
    kept: Kept = []
    save: Callable[..., None] = keeper.save_checkpoint

    def copying(path: Path, *arguments: Any) -> None:
        save(path, *arguments)
        copy = folder / f"kept{len(kept)}"
        shutil.copy(path, copy)
        kept.append(copy)

    monkeypatch.setattr(keeper, "save_checkpoint", copying)
    return kept
