"""Multipliers of the pixels that windows share."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from vhagar.relaxation.adam import Adam
from vhagar.relaxation.windows import multipliers as module
from vhagar.relaxation.windows.boxes import at_points
from vhagar.relaxation.windows.kinds import Kind, Windows, windows_of
from vhagar.relaxation.windows.multipliers import multipliers

from .nets import SEEN, network_with, piece_of

Array = np.ndarray


def shared(seed: int = 2) -> tuple[Windows, Array]:
    """Windows of two and of one pixel, some of which share pixels."""
    rng = np.random.default_rng(seed)
    seen = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    windows = windows_of(
        network_with(seen * rng.normal(size=seen.shape), rng.normal(size=5) / 2),
        piece_of("brightness([0,0.3])", 4),
    )
    assert windows is not None
    return windows, rng.normal(size=5)


def sampled(windows: Windows, kind: Kind, lead: Array, own: Array) -> tuple[Array, Array]:
    """Values at all combinations of the sample points of pixels, with the strongest shift."""
    axes = []
    for low, high in zip(kind.low, kind.high, strict=True):
        places = {low + k * (high - low) / 4 for k in range(5)}
        turn = windows.end - windows.most
        axes.append(sorted(places | ({turn} if low < turn < high else set())))
    x = np.array(list(itertools.product(*axes)))
    terms = at_points(windows, kind, x, np.full(len(x), windows.most))
    return np.concatenate([lead[kind.units], -own], axis=1) @ terms.T, terms


def test_multipliers_say_what_windows_reach() -> None:
    windows, lead = shared()
    found = multipliers(windows, lead)
    left = np.zeros((2, 4))
    alone = 0.0
    for kind, own, values in zip(windows.kinds, found.of, found.values, strict=True):
        assert (own == own.astype(np.float32)).all()
        at, _ = sampled(windows, kind, lead, own)
        np.testing.assert_allclose(values, at.max(axis=1), rtol=1e-5, atol=1e-5)
        alone += abs(sampled(windows, kind, lead, 0 * own)[0]).max(axis=1).sum()
        for side in (0, 1):
            np.add.at(left[side], kind.pixels, np.split(own, 2, axis=1)[side])
    assert found.alone == pytest.approx(alone, rel=1e-5)
    assert abs(left).max() < 1e-4  # what is shared is taken from some and given to others


@pytest.mark.parametrize("seed", range(4))
def test_multipliers_are_nearly_the_best(seed: int) -> None:
    """As good as those of a linear program over the sample points."""
    windows, lead = shared(seed)
    found = multipliers(windows, lead)
    reached = sum(float(own.sum()) for own in found.values)
    sizes = [len(kind.numbers) * 2 * kind.width for kind in windows.kinds]
    count = sum(sizes)
    # Columns: the multipliers, then a value for each window.
    rows, limits, sums = [], [], np.zeros((8, count + windows.count))
    begin = 0
    for kind, own in zip(windows.kinds, found.of, strict=True):
        at, terms = sampled(windows, kind, lead, 0 * own)
        width = 2 * kind.width
        for k, number in enumerate(kind.numbers.tolist()):
            first = begin + k * width
            for value, term in zip(at[k], terms[:, -width:], strict=True):
                row = np.zeros(count + windows.count)
                row[first : first + width] = -term
                row[count + number] = -1.0
                rows.append(row)
                limits.append(-value)
            for side in (0, 1):
                for j, pixel in enumerate(kind.pixels[k]):
                    sums[4 * side + pixel, first + side * kind.width + j] = 1.0
        begin += len(kind.numbers) * width
    cost = np.append(np.zeros(count), np.ones(windows.count))
    best = linprog(cost, rows, limits, sums, np.zeros(8), bounds=(None, None))
    assert best.fun - 1e-4 <= reached <= best.fun + 0.02 * found.alone


def test_multipliers_without_time_or_leads_are_none() -> None:
    windows, lead = shared(4)
    for found in (multipliers(windows, lead, lambda: True), multipliers(windows, 0 * lead)):
        assert not any(own.any() for own in found.of)
    asked = iter([False] * 20 + [True])
    early = multipliers(windows, lead, lambda: next(asked))
    assert next(asked, None) is None
    assert any(own.any() for own in early.of)
    assert sum(map(np.sum, multipliers(windows, lead).values)) < sum(map(np.sum, early.values))


def test_multipliers_of_shared_pixels_are_balanced() -> None:
    pixels = [np.array([[0, 1], [1, 3]]), np.array([[3]])]
    own = module._Shared(pixels)
    before = [np.zeros((2, 4), np.float32), np.zeros((1, 2), np.float32)]
    step = np.arange(10.0) ** 2
    rows, single = own.moved(before, step)
    # In the order of the pixels 0, 1, 1, 3, 3 and of their images.
    assert rows[0].tolist() == [0.0, -(1 - 16) / 2, 0.0, -(9 - 36) / 2]
    assert rows[1].tolist() == [-(16 - 1) / 2, -(25 - 64) / 2, -(36 - 9) / 2, -(49 - 81) / 2]
    assert single.tolist() == [[-(64 - 25) / 2, -(81 - 49) / 2]]
    assert rows.dtype == single.dtype == np.float32
    numbers = module._Shared([np.array([[0, 3]])])
    assert numbers._at.tolist() == [0, 3, 4, 7]
    assert len(numbers._count) == 8


def test_steps_become_smaller_and_colder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both in shares of what windows contribute on average."""
    windows, lead = shared()
    heats: list[float] = []
    steps: list[Array] = []
    step, moved = module._Samples.step, module._Shared.moved

    def warm(self: module._Samples, own: Any, heat: float) -> Any:
        heats.append(heat)
        return step(self, own, heat)

    def noted(self: module._Shared, before: Any, by: Array) -> Any:
        steps.append(by)
        return moved(self, before, by)

    monkeypatch.setattr(module._Samples, "step", warm)
    monkeypatch.setattr(module._Shared, "moved", noted)
    monkeypatch.setattr(Adam, "direction", lambda _, gradient: np.ones_like(gradient))
    each = multipliers(windows, lead).alone / windows.count
    parts = np.arange(module._STEPS) / module._STEPS
    expected = each * module._WARM * (module._COLD / module._WARM) ** parts
    assert heats[:: len(windows.kinds)] == pytest.approx(expected.tolist())
    assert [float(by[0]) for by in steps] == pytest.approx(
        (each * module._STEP * (1 - 0.9 * parts)).tolist()
    )


def test_gradients_are_those_of_a_smoothed_maximum() -> None:
    windows = windows_of(network_with(SEEN), piece_of("brightness([0,0.3])", 4))
    assert windows is not None
    rng = np.random.default_rng(1)
    lead = rng.normal(size=5)
    for kind in windows.kinds:
        own, heat = rng.normal(size=(len(kind.numbers), 2 * kind.width)), 0.3
        samples = module._Samples(windows, kind, lead)
        largest, gradient = samples.step(own.astype(np.float32), heat)
        at, terms = sampled(windows, kind, lead, own)
        weights = np.exp((at - at.max(axis=1, keepdims=True)) / heat)
        weights /= weights.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(largest, at.max(axis=1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            gradient, -weights @ terms[:, -2 * kind.width :], rtol=1e-4, atol=1e-5
        )
    assert {len(kind.numbers) for kind in windows.kinds} == {1, 2}
