"""Branch and bound with tensors does what it does with arrays, and proves as much."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.local.branching import VersionSearch
from vhagar.local.device import CPU, Device, device_named, on_torch
from vhagar.runtime.devices import has_cuda, require_torch

from .test_compact import compact_of


def searched(seed: int, device: Device) -> VersionSearch:
    network, compact, _ = compact_of(seed, 0.4)
    start = np.zeros((network.classes - 1, network.classes))
    start[:, 0] = -1.0
    start[np.arange(network.classes - 1), np.arange(1, network.classes)] = 1.0
    search = VersionSearch(compact, start, device)
    search.begin()
    for _ in range(12):
        if not search.open_count or not search.step():
            break
    return search


@pytest.mark.parametrize("seed", range(3))
def test_tensors_prove_what_arrays_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Batches grow alike, however long each took.
    monkeypatch.setattr(import_module(VersionSearch.__module__), "_SECONDS", math.inf)
    expected = searched(seed, CPU)
    found = searched(seed, on_torch(require_torch().device("cpu")))
    np.testing.assert_allclose(found.uppers, expected.uppers, atol=1e-2)


def test_devices_by_name() -> None:
    assert device_named("cpu") is CPU
    if has_cuda():
        assert device_named("auto") is not CPU
        return
    assert device_named("auto") is CPU
    with pytest.raises(InvalidInput, match="no CUDA GPU"):
        device_named("cuda")


def test_a_search_is_promising_once_its_worst_value_has_halved() -> None:
    """Until then its box may be divided, which begins the search anew."""
    network, compact, _ = compact_of(0, 0.4)
    start = np.zeros((1, network.classes))
    start[0, :2] = 1.0, -1.0
    search = VersionSearch(compact, start)
    search.begin()
    assert not search.is_promising
    assert search._open is not None
    worst = search._open.values.max()
    assert worst > 0
    for share, promising in ((0.6, False), (0.4, True)):
        search._open.values[:] = share * worst
        assert search.is_promising is promising
