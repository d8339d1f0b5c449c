"""A bound by windows is the sum of its parts, and its proof says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from vhagar.network import Affine
from vhagar.relaxation.windows import bound as module
from vhagar.relaxation.windows.bound import WindowBounder
from vhagar.relaxation.windows.halving import LEAF, Functions, Halved, Halving, begun_at_most
from vhagar.relaxation.windows.kinds import Kind, Windows
from vhagar.relaxation.windows.multipliers import Multipliers
from vhagar_check import window_boxes

from .nets import SEEN, network_with, piece_of

Array = np.ndarray


class Recorded:
    """In the place of `Halving`: proves what it is told, and notes what it is asked."""

    made: ClassVar[list[Recorded]] = []

    def __init__(self, windows: Windows, kind: Kind, functions: Functions, slack: float) -> None:
        self.kind, self.functions, self.slack = kind, functions, slack
        self.made.append(self)

    def grow(self, limits: Array, most: int, should_stop: Callable[[], bool]) -> Halved:
        self.limits, self.most, self.should_stop = limits, most, should_stop
        return Halved(bytes([0, LEAF, LEAF]), limits, limits - 0.5)


@pytest.mark.parametrize("text", ["brightness([0.125,0.25])", "brightness([-0.25,-0.125])"])
def test_a_bound_is_the_sum_of_its_parts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an allowance for rounding that is large enough to be seen."""
    monkeypatch.setattr(module, "Halving", Recorded)
    monkeypatch.setattr(module, "_ROUNDING", 2.0**-5)
    bias = np.array([1.0, 2.0, 3.0, 4.0, 2.0])
    network, piece = network_with(SEEN, bias), piece_of(text, 4)
    bounder = WindowBounder(network, piece, 2)
    windows = bounder._windows
    assert windows is not None
    rng = np.random.default_rng(1)
    of = tuple(rng.normal(size=(len(k.numbers), 2 * k.width)) for k in windows.kinds)
    values = tuple(3 + rng.random(len(kind.numbers)) for kind in windows.kinds)

    def never() -> bool:
        return False

    def most_of(kind: Kind) -> int:
        count = len(kind.numbers)
        return min(math.ceil(2**16 * count / 3), begun_at_most(module._MOST_KEPT // count))

    assert module._MOST_KEPT == window_boxes._MOST_KEPT == 2**26
    for alone, kept in ((1.0, 2**26), (1000.0, 1001)):
        monkeypatch.setattr(module, "_MOST_KEPT", kept)
        Recorded.made.clear()
        bounder._multipliers[1] = Multipliers(of, values, alone)
        proof = bounder.bound(1, 0.25, never)
        assert proof is not None
        assert (proof.target, proof.windows) == (1, windows)
        reached = sum(float(own.sum()) for own in values)
        slack = 0.25 * max(reached, 0.1 * alone) / 3
        last = network.layers[2]
        assert isinstance(last, Affine)
        lead = last.weight[2] - last.weight[1]
        size = abs(last.weight[2]) + abs(last.weight[1])
        total, weight, left = 0.0, 0.0, np.zeros((2, 1, 4))
        for made_one, kind, own, reach in zip(
            Recorded.made, windows.kinds, of, values, strict=True
        ):
            assert made_one.kind is kind
            assert made_one.slack == pytest.approx(slack)
            assert made_one.should_stop is never
            assert made_one.most == most_of(kind)
            assert (made_one.functions.multipliers == own).all()
            np.testing.assert_allclose(made_one.functions.lead, lead[kind.units])
            np.testing.assert_allclose(made_one.limits, reach + slack)
            pixels, neurons = windows.sizes(kind)
            for units, seen, row, value in zip(
                kind.units, kind.pixels, own, reach + slack - 0.5, strict=True
            ):
                total += value
                weight += 4 * size[units] @ neurons + abs(value)
                weight += 4 * abs(row) @ np.concatenate([pixels, pixels])
                for side in (0, 1):
                    left[side, 0, seen] += windows.sign * np.split(row, 2)[side]
        rest = float(piece.support(left[0], left[1]).value[0])
        expected = total + rest + 2.0**-5 * (weight + abs(rest))
        assert proof.upper == pytest.approx(expected, rel=1e-13)
        assert [tree.code for tree in proof.trees] == [bytes([0, LEAF, LEAF])] * len(of)


def test_a_bound_is_never_negative_and_always_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    for value, expected in ((-1e9, 0.0), (math.inf, None), (math.nan, None)):

        def told(*_: Any, value: float = value) -> Halved:
            return Halved(bytes([LEAF]), np.zeros(1), np.full(1, value))

        monkeypatch.setattr(Halving, "grow", told)
        proof = bounder.bound(1, 0.25)
        assert (proof and proof.upper) == expected


@pytest.mark.parametrize(
    ("reached", "share"),
    [(math.inf, 0.25), (-math.inf, 0.25), (math.nan, 0.25), (1.0, math.inf)],
)
def test_numbers_that_are_too_large_have_no_bound(
    reached: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no tree is grown for them."""
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    windows = bounder._windows
    assert windows is not None
    of = tuple(np.zeros((len(kind.numbers), 2 * kind.width)) for kind in windows.kinds)
    values = tuple(np.full(len(kind.numbers), reached) for kind in windows.kinds)
    bounder._multipliers[1] = Multipliers(of, values, 1.0)
    monkeypatch.setattr(Halving, "grow", None)
    assert bounder.bound(1, share) is None


def test_the_allowances_of_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2.0**-45 <= module._ROUNDING <= 2.0**-35
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    windows = bounder._windows
    assert windows is not None
    none = [np.zeros((len(kind.numbers), 2 * kind.width)) for kind in windows.kinds]
    trees = [Halved(b"", np.zeros(0), np.zeros(len(own))) for own in none]
    monkeypatch.setattr(module, "_ROUNDING", 0.0)
    zeros = np.zeros((1, 4))
    rest = float(bounder._piece.support(zeros, zeros).value[0])
    for size, expected in ((np.zeros(5), 2.0**-900), (np.full(5, 2.0**800), 5 * 2.0**-100)):
        found = bounder._total(windows, Multipliers(tuple(none), (), 0.0), trees, size)
        assert found == pytest.approx(rest + expected, rel=1e-13, abs=0.0)


def test_a_block_says_what_was_proved() -> None:
    bounder = WindowBounder(network_with(SEEN), piece_of("brightness([0,0.25])", 4), 2)
    windows = bounder._windows
    assert windows is not None
    # In another order than the kinds'.
    numbers = {0: [1], 1: [2, 0]}
    own = replace(
        windows,
        kinds=tuple(
            replace(kind, numbers=np.array(numbers[k])) for k, kind in enumerate(windows.kinds)
        ),
    )
    of = np.arange(4.0).reshape(1, 4), np.arange(4.0, 8.0).reshape(2, 2)
    trees = (
        Halved(bytes([LEAF]), np.array([0.5]), np.zeros(1)),
        Halved(bytes([0, LEAF, LEAF]), np.array([0.25, 0.75]), np.zeros(2)),
    )
    proof = module.WindowProof(1.0, 1, own, Multipliers(of, (), 0.0), trees)
    about, data = proof.block()
    assert about == {"target": 1, "windows": 3, "boxes": [1, 3]}
    expected = [
        np.array([1, 0, 1], "<u2").tobytes(),
        np.array([0.75, 0.5, 0.25], "<f8").tobytes(),
        np.array([6, 7, 0, 1, 2, 3, 4, 5], "<f4").tobytes(),
        bytes([LEAF, 0, LEAF, LEAF]),
    ]
    assert data == b"".join(expected)


def test_there_is_none_without_windows_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is begun then."""
    monkeypatch.setattr(WindowBounder, "_lead", None)
    piece = piece_of("brightness([0,0.25])", 4)
    assert WindowBounder(network_with(SEEN), piece, 2).bound(1, 0.25, lambda: True) is None
    assert WindowBounder(network_with(0 * SEEN), piece, 2).bound(1, 0.25) is None
