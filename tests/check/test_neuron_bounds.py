"""The bounds of all neurons, against the same steps without any shortcut."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar_check import neuron_bounds
from vhagar_check.formula import Bounds, directions, from_sides
from vhagar_check.hexagon import Hexagons
from vhagar_check.intervals import directions_of_change, entering, leaving
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.neuron_bounds import _batches, quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece

SHAPE = (1, 2, 2)
TEXTS = (
    "linf(0.25)",
    "patch([0,0.5],1,1,1)",
    "occlusion(2,2,1)",
    "brightness([0,0.25])",
    "brightness([-0.25,-0.125])",
    "contrast([1.25,2])",
)


def dense(seed: int, linear: bool) -> Network:
    """Some units see a pixel alone, some weights have one sign, some units are on or off."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(6, 4)), rng.normal(size=(5, 6))
    first[[0, 5], 1:], first[1], first[2] = 0.0, abs(first[1]), -abs(first[2])
    second[0], second[1], second[2, 1:] = abs(second[0]), 0.0, 0.0
    second[1, 3] = -1.0  # it sees a unit alone that is off
    stages = (
        (Dense(first, np.array([0.0, -0.1, 0.9, -9.0, 9.0, 0.1])),),
        (Dense(second, rng.normal(size=5) / 4),),
        (Dense(rng.normal(size=(4, 5)), rng.normal(size=4) / 4),),
        (Dense(rng.normal(size=(2, 4)), np.zeros(2)),),
    )
    masks = (
        np.arange(6) >= 4,
        np.arange(5) >= 3,
        np.arange(4) >= 2,
    )
    return Network(stages, SHAPE, masks if linear else ())


def without_shortcuts(network: Network, piece: Piece) -> Bounds:
    """All six sides of every ReLU unit in one batch, and signs of changes where copies compare."""
    bounds = Bounds(network, piece)
    boxes = [piece.inputs, piece.image_box]
    rises, falls = piece.rises, piece.falls
    for k, size in enumerate(network.relu_sizes_and_classes[:-1]):
        mask = network.linear_units(k)
        linear = np.zeros(size, dtype=np.bool_) if mask is None else mask
        boxes = entering(network, k, boxes)
        open_ended = np.full(size, np.inf)
        sides = [open_ended.copy() for _ in range(6)]
        rows = np.eye(size)[~linear]
        for side, (on_s, on_t) in zip(sides, directions(piece.ratio), strict=True):
            side[~linear] = bounds.upper(k, on_s * rows, on_t * rows, bounds.quick)[0]
        found = Hexagons(*boxes[0], *boxes[1], -open_ended, open_ended, piece.ratio, mask)
        found = found.meet(from_sides(sides, piece.ratio))
        if k and linear.any():
            below = bounds.hexagons[-1]
            inputs = [(below.low, below.high), (below.low_p, below.high_p)]
            step = entering(network, k, [leaving(network, k - 1, box) for box in inputs])
            ends = [
                np.where(linear, end, far)
                for box in step
                for end, far in zip(box, (-np.inf, np.inf), strict=True)
            ]
            found = found.meet(Hexagons(*ends, -open_ended, open_ended, piece.ratio, mask))
        if piece.ratio == 1.0:
            rises, falls = directions_of_change(network, k, rises, falls)
            found = found.with_signs(rises, falls)
        bounds.append(found.tightened())
        boxes = [leaving(network, k, box) for box in boxes]
        last = bounds.hexagons[-1]
        rises, falls = (last.gap_high > 0) & ~last.off, (last.gap_low < 0) & ~last.off
    return bounds


def compare(found: Bounds, expected: Bounds) -> None:
    assert len(found.hexagons) == len(expected.hexagons)
    for h, g in zip(found.hexagons, expected.hexagons, strict=True):
        for name in ("low", "high", "low_p", "high_p", "gap_low", "gap_high"):
            one, other = getattr(h, name), getattr(g, name)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
            assert ((one == 0) == (other == 0)).all(), "what is exactly 0 has no rounding"


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(3))
def test_shortcuts_lose_nothing(seed: int, text: str, linear: bool) -> None:
    network = dense(seed, linear)
    (piece,) = pieces(text, Domain(SHAPE, 0.0, 1.0), True)
    found = quick_bounds(network, piece)
    compare(found, without_shortcuts(network, piece))
    assert type(found) is Bounds


@pytest.mark.parametrize("text", TEXTS)
def test_windows_of_convolutions_lose_nothing(text: str) -> None:
    rng = np.random.default_rng(5)
    shape = (1, 3, 4)
    conv = Conv(
        rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2), shape, (1, 1), (0,) * 4, (1, 1), 1
    )
    last = Dense(rng.normal(size=(2, 12)), rng.normal(size=2))
    network = Network(((conv,), (last,)), shape)
    (piece,) = pieces(text, Domain(shape, 0.0, 1.0), True)
    compare(quick_bounds(network, piece), without_shortcuts(network, piece))


def test_only_sides_that_can_differ_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of units that are the same in both copies, those of the first; of linear units none."""
    asked = []

    class Watched(Bounds):
        def sides(self, stage: int, neurons: np.ndarray, choose, count: int) -> list[np.ndarray]:
            asked.append((stage, neurons.argmax(axis=1).tolist(), count))
            return super().sides(stage, neurons, choose, count)

    network = dense(1, linear=True)
    (piece,) = pieces("patch([0,0.5],2,2,1)", Domain(SHAPE, 0.0, 1.0), True)
    quick_bounds(network, piece, Watched)
    # Units 0 and 5 see the first pixel alone, which does not change; units 4 and 5 are linear.
    assert asked[:2] == [(0, [0], 2), (0, [1, 2, 3], 6)]
    # Unit 2 of the next layer sees unit 0 alone, and unit 1 one that is off; 3 and 4 are linear.
    assert asked[2:4] == [(1, [1, 2], 2), (1, [0], 6)]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (30, [[0, 1, 3, 4, 5]]),
        (18, [[0, 1, 3], [4, 5]]),
        (12, [[0, 1], [3, 4], [5]]),
        (5, [[0], [1], [3], [4], [5]]),
    ],
)
def test_units_come_in_batches(
    most: int, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The widest layer has six entries."""
    monkeypatch.setattr(neuron_bounds, "MOST_ENTRIES", most)
    network = dense(1, linear=False)
    (piece,) = pieces("linf(0.25)", Domain(SHAPE, 0.0, 1.0), True)
    wanted = np.arange(6) != 2
    found = list(_batches(Bounds(network, piece), 0, wanted))
    assert [units.tolist() for _, _, units in found] == expected
    assert [places.tolist() for _, places, _ in found] == expected
