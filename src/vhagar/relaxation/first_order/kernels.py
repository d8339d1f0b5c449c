"""Triton kernels for CUDA: the offset with its maximiser, and the step of the free numbers.

Imported only where there is a GPU. Both work on flat `(rows, neurons)` arrays; `hexagons` is
`(groups, 6, neurons)`, and `rows_each` consecutive rows share a group.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Entries per block of a Triton kernel.
_BLOCK = 256


@triton.jit
def _consider(s, t, a, b, p, q, best, best_s, best_t):
    value = a * tl.maximum(s, 0.0) + b * tl.maximum(t, 0.0) - p * s - q * t
    better = value > best
    best = tl.where(better, value, best)
    best_s = tl.where(better, s, best_s)
    best_t = tl.where(better, t, best_t)
    return best, best_s, best_t


@triton.jit
def _at_s(s, low_p, high_p, gap_low, gap_high, ratio, a, b, p, q, best, best_s, best_t):
    """Consider the three corners at one s."""
    t_low = tl.maximum(low_p, ratio * s + gap_low)
    t_high = tl.maximum(tl.minimum(high_p, ratio * s + gap_high), t_low)
    t_zero = tl.minimum(tl.maximum(t_low, 0.0), t_high)
    best, best_s, best_t = _consider(s, t_low, a, b, p, q, best, best_s, best_t)
    best, best_s, best_t = _consider(s, t_zero, a, b, p, q, best, best_s, best_t)
    best, best_s, best_t = _consider(s, t_high, a, b, p, q, best, best_s, best_t)
    return best, best_s, best_t


@triton.jit
def _at_t(t, low, high, gap_low, gap_high, ratio, a, b, p, q, best, best_s, best_t):
    """Consider the two corners at one t."""
    s_low = tl.maximum(low, (t - gap_high) / ratio)
    s_high = tl.maximum(tl.minimum(high, (t - gap_low) / ratio), s_low)
    best, best_s, best_t = _consider(s_low, t, a, b, p, q, best, best_s, best_t)
    best, best_s, best_t = _consider(s_high, t, a, b, p, q, best, best_s, best_t)
    return best, best_s, best_t


@triton.jit
def _bounds(hexagons, row, column, neurons, rows_each, inside):
    """The hexagon of a neuron."""
    start = hexagons + (row // rows_each) * 6 * neurons + column
    low = tl.load(start, mask=inside, other=0.0)
    high = tl.load(start + neurons, mask=inside, other=0.0)
    low_p = tl.load(start + 2 * neurons, mask=inside, other=0.0)
    high_p = tl.load(start + 3 * neurons, mask=inside, other=0.0)
    gap_low = tl.load(start + 4 * neurons, mask=inside, other=0.0)
    gap_high = tl.load(start + 5 * neurons, mask=inside, other=0.0)
    return low, high, low_p, high_p, gap_low, gap_high


@triton.jit
def _offset_kernel(
    a_in, b_in, free, hexagons,
    p_out, q_out, s_out, t_out, r_out,
    total, neurons, rows_each, ratio, BLOCK: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    row, column = index // neurons, index % neurons
    a = tl.load(a_in + index, mask=inside, other=0.0)
    b = tl.load(b_in + index, mask=inside, other=0.0)
    c0 = tl.load(free + index, mask=inside, other=0.0)
    c1 = tl.load(free + total + index, mask=inside, other=0.0)
    c2 = tl.load(free + 2 * total + index, mask=inside, other=0.0)
    c3 = tl.load(free + 3 * total + index, mask=inside, other=0.0)
    d0 = tl.load(free + 4 * total + index, mask=inside, other=0.0)
    d1 = tl.load(free + 5 * total + index, mask=inside, other=0.0)
    low, high, low_p, high_p, gap_low, gap_high = _bounds(
        hexagons, row, column, neurons, rows_each, inside
    )
    p = c0 * a + c1 * b + d0
    q = c2 * a + c3 * b + d1
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    s = low
    t = low_p
    zero = tl.minimum(tl.maximum(low, 0.0), high)
    zero_p = tl.minimum(tl.maximum(low_p, 0.0), high_p)
    best, s, t = _at_s(low, low_p, high_p, gap_low, gap_high, ratio, a, b, p, q, best, s, t)
    best, s, t = _at_s(zero, low_p, high_p, gap_low, gap_high, ratio, a, b, p, q, best, s, t)
    best, s, t = _at_s(high, low_p, high_p, gap_low, gap_high, ratio, a, b, p, q, best, s, t)
    best, s, t = _at_t(low_p, low, high, gap_low, gap_high, ratio, a, b, p, q, best, s, t)
    best, s, t = _at_t(zero_p, low, high, gap_low, gap_high, ratio, a, b, p, q, best, s, t)
    best, s, t = _at_t(high_p, low, high, gap_low, gap_high, ratio, a, b, p, q, best, s, t)
    tl.store(p_out + index, p, mask=inside)
    tl.store(q_out + index, q, mask=inside)
    tl.store(s_out + index, s, mask=inside)
    tl.store(t_out + index, t, mask=inside)
    tl.store(r_out + index, best, mask=inside)


@triton.jit
def _moved(free, mean, square, place, gradient, inside, size, first, second, fix1, fix2):
    """Take Adam's step for one of a neuron's six numbers; returns its value before the step."""
    value = tl.load(free + place, mask=inside, other=0.0)
    m = tl.load(mean + place, mask=inside, other=0.0)
    v = tl.load(square + place, mask=inside, other=0.0)
    m = first * m + (1 - first) * gradient
    v = second * v + (1 - second) * gradient * gradient
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)
    tl.store(free + place, value - size * (m / fix1) / (tl.sqrt(v / fix2) + 1e-12), mask=inside)
    return value


@triton.jit
def _step_kernel(
    a_in, b_in, s_in, t_in, z_in, z_p_in, free, mean, square, kept, better,
    hexagons, x_out, x_p_out,
    total, neurons, rows_each, size, first, second, fix1, fix2, BLOCK: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    row, column = index // neurons, index % neurons
    a = tl.load(a_in + index, mask=inside, other=0.0)
    b = tl.load(b_in + index, mask=inside, other=0.0)
    s = tl.load(s_in + index, mask=inside, other=0.0)
    t = tl.load(t_in + index, mask=inside, other=0.0)
    g_p = tl.load(z_in + index, mask=inside, other=0.0) - s
    g_q = tl.load(z_p_in + index, mask=inside, other=0.0) - t
    low, high, low_p, high_p, _gap_low, _gap_high = _bounds(
        hexagons, row, column, neurons, rows_each, inside
    )
    linear = ((low >= 0) & (low_p >= 0)) | ((high <= 0) & (high_p <= 0))
    step = tl.where(linear, 0.0, size)
    take = inside & (tl.load(better + row, mask=inside, other=0) != 0)
    c0 = _moved(free, mean, square, index, g_p * a, inside, step, first, second, fix1, fix2)
    tl.store(kept + index, c0, mask=take)
    place = index + total
    c1 = _moved(free, mean, square, place, g_p * b, inside, step, first, second, fix1, fix2)
    tl.store(kept + place, c1, mask=take)
    place += total
    c2 = _moved(free, mean, square, place, g_q * a, inside, step, first, second, fix1, fix2)
    tl.store(kept + place, c2, mask=take)
    place += total
    c3 = _moved(free, mean, square, place, g_q * b, inside, step, first, second, fix1, fix2)
    tl.store(kept + place, c3, mask=take)
    place += total
    d0 = _moved(free, mean, square, place, g_p, inside, step, first, second, fix1, fix2)
    tl.store(kept + place, d0, mask=take)
    place += total
    d1 = _moved(free, mean, square, place, g_q, inside, step, first, second, fix1, fix2)
    tl.store(kept + place, d1, mask=take)
    tl.store(x_out + index, tl.maximum(s, 0.0) + c0 * g_p + c2 * g_q, mask=inside)
    tl.store(x_p_out + index, tl.maximum(t, 0.0) + c1 * g_p + c3 * g_q, mask=inside)


def offset(a: Any, b: Any, free: Any, hexagons: Any, ratio: float) -> tuple[Any, ...]:
    """Compute `p, q`, the best corner `s, t` and the offset `r`, each `(rows, neurons)`."""
    a, b = a.contiguous(), b.contiguous()
    p, q, s, t, r = (torch.empty_like(a) for _ in range(5))
    total, neurons = a.numel(), a.shape[1]
    _offset_kernel[(triton.cdiv(total, _BLOCK),)](
        a, b, free, hexagons, p, q, s, t, r,
        total, neurons, len(a) // len(hexagons), ratio, BLOCK=_BLOCK,
    )  # fmt: skip
    return p, q, s, t, r


def step(
    coefficients: tuple[Any, ...],
    values: tuple[Any, Any],
    state: tuple[Any, ...],
    better: Any,
    hexagons: Any,
    numbers: tuple[float, ...],
) -> tuple[Any, Any]:
    """Move the free numbers in place; return the bound's derivatives along `a` and `b`."""
    a, b, s, t = (part.contiguous() for part in coefficients)
    z, z_p = (part.contiguous() for part in values)
    x, x_p = torch.empty_like(a), torch.empty_like(a)
    total, neurons = a.numel(), a.shape[1]
    _step_kernel[(triton.cdiv(total, _BLOCK),)](
        a, b, s, t, z, z_p, *state, better.to(torch.int8),
        hexagons, x, x_p, total, neurons, len(a) // len(hexagons), *numbers, BLOCK=_BLOCK,
    )  # fmt: skip
    return x, x_p
