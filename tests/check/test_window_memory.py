"""Trees of windows with many neurons are followed a few boxes at a time."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation.windows import halving
from vhagar.relaxation.windows.halving import Functions, Halving
from vhagar.relaxation.windows.kinds import windows_of
from vhagar_check import Rejected, window_boxes
from vhagar_check.window_boxes import LEAF, Alike, largest

UNITS, PIXELS = 300, 4
ENDS = np.zeros(PIXELS), np.ones(PIXELS)


def _followed() -> None:
    rng = np.random.default_rng(1)
    weight, bias = rng.normal(size=(UNITS, PIXELS)), rng.normal(size=UNITS)
    tree = bytes([0] * 255 + [LEAF] * 256)
    low, high = np.append(ENDS[0], 0.0), np.append(ENDS[1], 0.5)
    lead, nothing = rng.normal(size=(1, UNITS)), np.zeros((1, PIXELS))
    largest(Alike(weight, bias, low, high, 1.0, lead, nothing, nothing), tree, np.array([-1e9]))


def _grown() -> None:
    rng = np.random.default_rng(1)
    first = Affine(rng.normal(size=(UNITS, PIXELS)), rng.normal(size=UNITS), (4,), (UNITS,))
    last = Affine(rng.normal(size=(2, UNITS)), np.zeros(2), (UNITS,), (2,))
    (piece,) = parse("brightness([0,0.5])").pieces(Domain((4,)), True)
    windows = windows_of(Network((first, Relu((UNITS,)), last), (4,)), piece)
    assert windows is not None
    functions = Functions(rng.normal(size=(1, UNITS)), np.zeros((1, 2 * PIXELS)))
    tree = Halving(windows, windows.kinds[0], functions, 1e-9).grow(np.array([-1e9]), 511)
    assert len(tree.code) > 511


def _peak(work: Callable[[], None]) -> int:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(("work", "module"), [(_followed, window_boxes), (_grown, halving)])
def test_memory_is_bounded(
    work: Callable[[], None], module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak = _peak(work)
    assert peak < 2**28
    monkeypatch.setattr(module, "_MOST_NUMBERS", 2**18)
    assert _peak(work) < 2**24 + peak / 4


def test_windows_of_all_boxes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six windows in a tree of 127 boxes, none of which they leave early."""
    low, high, none = np.zeros(2), np.ones(2), np.zeros((6, 1))
    alike = Alike(np.ones((1, 1)), np.zeros(1), low, high, math.inf, np.ones((6, 1)), none, none)
    tree, limits = bytes([0] * 63 + [LEAF] * 64), np.full(6, -1e9)
    monkeypatch.setattr(window_boxes, "_MOST_KEPT", 6 * 127)
    largest(alike, tree, limits)
    monkeypatch.setattr(window_boxes, "_MOST_KEPT", 6 * 127 - 1)
    with pytest.raises(Rejected, match="too many windows"):
        largest(alike, tree, limits)
