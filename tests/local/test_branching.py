"""Branch and bound with tensors does what it does with arrays, and proves as much."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.local.branching import VersionSearch
from vhagar.local.device import CPU, Device, device_named, on_torch
from vhagar.local.dual import Evaluated, Nodes
from vhagar.runtime.devices import has_cuda, require_torch

from ..oracle.exact import rational_forward, rationals
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


def assert_closed_by_proofs(search: VersionSearch) -> None:
    """Every leaf of a row with a bound below 0 has a proof, and the bound is the worst of them."""
    tree, children = search.tree, dict[int, list[int]]()
    for number, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(number)
    for row in np.flatnonzero(search.uppers < 0).tolist():
        waiting = [(search.roots[row], np.zeros((1, search.dual.undecided), dtype=np.int8))]
        bounds = []
        while waiting:
            number, signs = waiting.pop()
            if number in tree.proofs:
                p = tree.proofs[number][None]
                bounds.append(float(search.prove(np.array([row]), p, signs)[0]))
                continue
            assert [tree.signs[child] for child in children[number]] == [-1, 1]
            assert len({tree.neurons[child] for child in children[number]}) == 1
            for child in children[number]:
                decided = signs.copy()
                decided[0, tree.neurons[child]] = tree.signs[child]
                waiting.append((child, decided))
        assert max(bounds) < 0
        assert search.uppers[row] >= max(bounds) - 1e-9 * abs(max(bounds))


@pytest.mark.parametrize("seed", range(4))
def test_a_search_that_just_closes_has_proved_every_leaf(seed: int) -> None:
    """Float32 has values just below 0 then: they are no proofs."""
    network, compact, _ = compact_of(seed, 0.4)
    versions, start = compact.versions, np.array([[1.0, 0.0, -1.0]])
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
    corners = versions.centre + signs * versions.room
    corner = corners[int((network.forward(corners) @ start[0]).argmax())]
    exact = rational_forward(network, rationals(corner))
    lead = exact[0] - exact[2]  # of the best corner: no version of these networks has more
    assert compact.scores is not None
    honest, closed = compact.scores.bias[0], 0
    for ahead in (*np.linspace(-1e-6, 3e-6, 17).tolist(), 1e-3, 0.1):
        shifted = honest - float(lead) - ahead
        compact.scores.bias[0] = shifted
        search = VersionSearch(compact, start)
        search.begin()
        for _ in range(60):
            if not search.open_count or not search.step():
                break
        assert Fraction(search.uppers[0]) >= lead + Fraction(shifted) - Fraction(honest)
        assert_closed_by_proofs(search)
        closed += bool(search.uppers[0] < 0)
    assert closed


@pytest.mark.parametrize("share", [0.1, 0.9, 10.0])
def test_a_value_just_below_0_closes_nothing(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a float32 value compares with where steps end, it is no proof."""
    network, compact, points = compact_of(2, 0.4)
    leads = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 1.0, -1.0]])
    search = VersionSearch(compact, leads)
    search.begin()
    honest, lies = search.dual.evaluate, np.random.default_rng(2)

    def lying(nodes: Nodes) -> Evaluated:
        found = honest(nodes)
        lie = lies.random(len(nodes)) < 0.5
        found.value[lie] = share * search._enough
        return found

    monkeypatch.setattr(search.dual, "evaluate", lying)
    for _ in range(20):
        if not search.open_count or not search.step():
            break
    assert_closed_by_proofs(search)
    assert (search.uppers >= (network.forward(points) @ leads.T).max(axis=0)).all()
