"""What tests of checkpoints have in common."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Relu
from vhagar.search import node_search
from vhagar.search.checkpoint import keeper

Kept = list[Path]


def small_problem(perturbation: str = "linf(0.3)", seed: int = 53) -> Problem:
    """A problem that takes some dozens of nodes."""
    rng = np.random.default_rng(seed)
    layers: list[Affine | Relu] = []
    for into, out in ((12, 10), (10, 8), (8, 3)):
        weight = (rng.normal(size=(out, into)) / np.sqrt(into)).astype(np.float32).astype(float)
        bias = (0.1 * rng.normal(size=out)).astype(np.float32).astype(float)
        shape = (1, 3, 4) if into == 12 else (into,)
        layers += [Affine(weight, bias, shape, (out,)), Relu((out,))]
    network = Network(tuple(layers[:-1]), (1, 3, 4))
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
