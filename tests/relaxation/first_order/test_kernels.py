"""The fused element-wise parts against plain float64, on the CPU and as Triton kernels."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vhagar.relaxation import arrays
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.first_order import fused
from vhagar.relaxation.first_order.build import hexagon_tensors
from vhagar.relaxation.first_order.fused import AdamStep, Free
from vhagar.relaxation.first_order.hulls import Hulls
from vhagar.relaxation.hexagon import Hexagons

ROWS_EACH, NEURONS = 5, 37
Case = tuple[list[Hexagons], Hulls, torch.Tensor, torch.Tensor, torch.Tensor]


def random_hexagons(rng: np.random.Generator, ratio: float) -> Hexagons:
    ends = np.sort(rng.normal(size=(2, 2, NEURONS)), axis=1)
    width = abs(rng.normal(size=(2, NEURONS)))
    middle = rng.normal(size=NEURONS) * 0.1
    # Around the gap at a point of both ranges, so that no hexagon is empty.
    gap = ends[1].mean(axis=0) - ratio * ends[0].mean(axis=0) + middle * width[0]
    ends[:, :, :3] = 0.0  # never there
    gap[:3], width[:, :3] = 0.0, 0.0
    ends[:, :, 3:6] += 5.0  # always on
    gap[3:6] = ends[1, :, 3:6].mean(axis=0) - ratio * ends[0, :, 3:6].mean(axis=0)
    return Hexagons(
        ends[0, 0], ends[0, 1], ends[1, 0], ends[1, 1], gap - width[0], gap + width[1], ratio
    ).tightened()


def case(seed: int, groups: int, ratio: float) -> Case:
    rng = np.random.default_rng([41, seed])
    hexagons = [random_hexagons(rng, ratio) for _ in range(groups)]
    rows = groups * ROWS_EACH
    sides = zip(*(hexagon_tensors(h, torch.device("cpu")).sides for h in hexagons), strict=True)
    stacked = Hexagons.of((torch.stack(side)[:, None] for side in sides), ratio)
    a, b = (torch.as_tensor(rng.normal(size=(rows, NEURONS)), dtype=torch.float32) for _ in "ab")
    free = torch.as_tensor(rng.normal(size=(6, rows, NEURONS)), dtype=torch.float32)
    return hexagons, Hulls(stacked), a, b, free


def check_offset(offset: Callable[..., tuple[Any, ...]], given: Case) -> None:
    hexagons, hulls, a, b, free = given
    p, q, s, t, r = (part.double().numpy() for part in offset(a, b, free, hulls))
    wide_a, wide_b, c = a.double().numpy(), b.double().numpy(), free.double().numpy()
    np.testing.assert_allclose(p, c[0] * wide_a + c[1] * wide_b + c[4], atol=1e-5)
    np.testing.assert_allclose(q, c[2] * wide_a + c[3] * wide_b + c[5], atol=1e-5)
    # The maximiser is a corner that attains the offset.
    value = wide_a * np.maximum(s, 0) + wide_b * np.maximum(t, 0) - p * s - q * t
    np.testing.assert_allclose(value, r, atol=1e-4)
    for row in range(len(a)):
        h = hexagons[row // ROWS_EACH]
        exact = Corners.of(h).offset(*(part[row : row + 1] for part in (wide_a, wide_b, p, q)))
        np.testing.assert_allclose(r[row], exact[0], rtol=1e-4, atol=1e-4)


every_case = pytest.mark.parametrize(("groups", "ratio"), [(1, 1.0), (3, 1.0), (2, 1.7), (4, 0.6)])


@every_case
@pytest.mark.parametrize("block", [1, 60, 10**6])
def test_the_offset_is_the_largest_over_the_corners(
    groups: int, ratio: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_BLOCK_ENTRIES", block)
    check_offset(fused.offset, case(1, groups, ratio))


def run_step(step: Callable[..., tuple[Any, Any]], given: Case) -> tuple[Free, Any, Any]:
    _, hulls, a, b, numbers = given
    rng = np.random.default_rng(43)
    z, z_p, s, t = (
        torch.as_tensor(rng.normal(size=a.shape), dtype=torch.float32) for _ in range(4)
    )
    free = Free.of(numbers.clone())
    free.mean += 0.1
    free.square += 0.2
    free.kept.zero_()
    better = torch.arange(len(a)) % 3 == 0
    x, x_p = step((a, b, s, t), (z, z_p), free, better, hulls, AdamStep.at(2, 0.05))
    return free, (x, x_p), (a, b, s, t, z, z_p, numbers, better)


def check_step(step: Callable[..., tuple[Any, Any]], given: Case) -> None:
    free, worth, inputs = run_step(step, given)
    a, b, s, t, z, z_p, c, better = (part.double() for part in inputs)
    g_p, g_q = z - s, z_p - t
    np.testing.assert_allclose(worth[0], s.clamp(min=0) + c[0] * g_p + c[2] * g_q, atol=1e-4)
    np.testing.assert_allclose(worth[1], t.clamp(min=0) + c[1] * g_p + c[3] * g_q, atol=1e-4)
    hulls = given[1]
    linear = hulls.stable(slice(None), len(a)).expand(a.shape)
    adam = AdamStep.at(2, 0.05)
    slopes = torch.stack([g_p * a, g_p * b, g_q * a, g_q * b, g_p, g_q])
    mean = 0.1 * adam.first + (1 - adam.first) * slopes
    square = 0.2 * adam.second + (1 - adam.second) * slopes**2
    moved = c - adam.size * (mean / adam.fix_first) / (square / adam.fix_second).sqrt()
    loose = (~linear).expand(6, *a.shape)
    np.testing.assert_allclose(free.now[loose], moved[loose].numpy(), atol=1e-4)
    kept = torch.where(better.bool()[:, None], c, 0.0)
    np.testing.assert_allclose(free.kept, kept.numpy(), atol=1e-6)


@every_case
@pytest.mark.parametrize("block", [1, 60, 10**6])
def test_a_step_follows_the_slopes(
    groups: int, ratio: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_BLOCK_ENTRIES", block)
    check_step(fused.step, case(2, groups, ratio))


@pytest.mark.parametrize(("groups", "ratio"), [(1, 1.0), (3, 1.0), (4, 0.6)])
def test_numpy_and_torch_take_the_same_step(groups: int, ratio: float) -> None:
    hexagons, _, *given = case(3, groups, ratio)
    sides = [np.stack(side)[:, None] for side in zip(*(h.sides for h in hexagons), strict=True)]
    rng, found = np.random.default_rng(44), []
    values = rng.normal(size=(2, *given[0].shape))
    for array in (np.asarray, torch.as_tensor):
        hulls = Hulls(Hexagons.of(map(array, sides), ratio))
        a, b, numbers = (array(part.double().numpy()) for part in given)
        p, q, s, t, r = fused.offset(a, b, numbers, hulls)
        free, better = Free.of(numbers), array(np.arange(len(a)) % 3 == 0)
        x, x_p = fused.step(
            (a, b, s, t), tuple(map(array, values)), free, better, hulls, AdamStep.at(0, 0.05)
        )
        found.append((p, q, s, t, r, x, x_p, free.now, free.mean, free.square, free.kept))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-9, atol=1e-9)


def triton_offset(a: Any, b: Any, free: Any, hulls: Hulls) -> tuple[Any, ...]:
    from vhagar.relaxation.first_order import kernels

    found: tuple[Any, ...] = kernels.offset(a, b, free, hulls.stacked, hulls.ratio)
    return found


def triton_step(
    coefficients: Any, values: Any, free: Free, better: Any, hulls: Hulls, adam: AdamStep
) -> tuple[Any, Any]:
    from vhagar.relaxation.first_order import kernels

    state = (free.now, free.mean, free.square, free.kept)
    return kernels.step(coefficients, values, state, better, hulls.stacked, adam.numbers)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton comes with PyTorch for CUDA only"
)
def test_the_kernels_agree_in_tritons_interpreter() -> None:
    """In a process of its own: the interpreter is chosen when the kernels are imported."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    for number, settings in enumerate([(1, 1.0), (2, 1.7), (4, 0.6)]):
        check_offset(triton_offset, case(number, *settings))
        check_step(triton_step, case(number, *settings))
