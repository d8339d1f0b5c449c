"""The two element-wise parts of a first-order step, each fused into one pass over memory.

On CUDA each is a Triton kernel (`kernels`). On a CPU, in numpy or in torch, the rows are processed
in blocks that stay in the cache, and every operation writes into the same few buffers, so that
memory is read and written once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.relaxation.arrays import (
    AnyArray,
    add_product,
    buffer,
    contiguous,
    namespace,
    put,
    row_blocks,
)
from vhagar.relaxation.corners import largest
from vhagar.relaxation.first_order.hulls import Hulls
from vhagar.relaxation.quick_multipliers import RelaxationSlopes, best_rule


@dataclass(frozen=True)
class AdamStep:
    """The constants of one Adam step: its size, both decay rates and both bias corrections."""

    size: float
    first: float
    second: float
    fix_first: float
    fix_second: float

    @classmethod
    def at(cls, step: int, size: float, first: float = 0.8, second: float = 0.95) -> AdamStep:
        return cls(size, first, second, 1 - first ** (step + 1), 1 - second ** (step + 1))

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.size, self.first, self.second, self.fix_first, self.fix_second

    def move(self, value: AnyArray, mean: AnyArray, square: AnyArray, gradient: AnyArray) -> None:
        """Move values `(rows, neurons)` one step against their gradients, all in place."""
        factor = -self.size / self.fix_first
        if not isinstance(value, np.ndarray):
            mean.lerp_(gradient, 1 - self.first)
            square.mul_(self.second).addcmul_(gradient, gradient, value=1 - self.second)
            value.addcdiv_(
                mean, square.div(self.fix_second).sqrt_().add_(1e-12), value=factor
            )  # fmt: skip
            return
        with np.errstate(all="ignore"):  # gradients beyond float64 give no useful step
            mean += (1 - self.first) * (gradient - mean)
            square *= self.second
            square += (1 - self.second) * gradient * gradient
            length = np.sqrt(square / self.fix_second) + 1e-12
            value += factor * mean / length


@dataclass(eq=False)
class Free:
    """The six free numbers of each row and neuron, `(6, rows, neurons)`, and Adam's moments.

    `kept` holds the numbers that gave each row's best bound so far.
    """

    now: AnyArray
    mean: AnyArray
    square: AnyArray
    kept: AnyArray

    @classmethod
    def of(cls, numbers: AnyArray) -> Free:
        now, zeros_like = contiguous(numbers), namespace(numbers).zeros_like
        return cls(now, zeros_like(now), zeros_like(now), now + 0.0)


def quick_free(hulls: Hulls, a: AnyArray, b: AnyArray) -> AnyArray:
    """The free numbers of the quick multipliers: their four slopes, and two zeros."""
    xp, hexagons = namespace(a), hulls.hexagons
    view = (hexagons.lower.shape[0], -1, a.shape[1])
    wide_a, wide_b = a.reshape(view), b.reshape(view)
    zero = xp.zeros_like(wide_a)

    def price(slopes: RelaxationSlopes) -> tuple[AnyArray, ...]:
        free = xp.stack([*(zero + slope for slope in slopes), zero, zero])
        r = offset(a, b, free.reshape(6, *a.shape), hulls)[4]
        return r.reshape(view), free

    best = best_rule(hexagons, hexagons.magnitude, wide_a, wide_b, price)[1]
    return best.reshape(6, *a.shape)


def offset(a: AnyArray, b: AnyArray, free: AnyArray, hulls: Hulls) -> tuple[AnyArray, ...]:
    """Compute `p, q`, the best corner `s, t` and the offset `r`, each `(rows, neurons)`."""
    if hulls.on_gpu:
        from vhagar.relaxation.first_order import kernels

        return kernels.offset(a, b, free, hulls.stacked, hulls.ratio)
    xp = namespace(a)
    p, q, s, t, r = (xp.empty_like(a) for _ in range(5))
    for rows, corners in hulls.blocks(a):
        # With several groups at once, there is one more dimension.
        view = (corners.magnitude.shape[0], -1, a.shape[1])
        part_a, part_b, *c = (part[rows].reshape(view) for part in (a, b, *free))
        spare = buffer(part_a)
        part_p, part_q = c[0] * part_a, c[2] * part_a
        add_product(part_p, c[1], part_b, spare)
        add_product(part_q, c[3], part_b, spare)
        part_p += c[4]
        part_q += c[5]
        point = xp.zeros_like(part_a), xp.zeros_like(part_a)
        best = largest(corners, part_a, part_b, part_p, part_q, point=point)
        parts = ((p, part_p), (q, part_q), (s, point[0]), (t, point[1]), (r, best))
        for whole, part in parts:
            whole[rows] = part.reshape(-1, a.shape[1])
    return p, q, s, t, r


def step(
    coefficients: tuple[AnyArray, AnyArray, AnyArray, AnyArray],
    values: tuple[AnyArray, AnyArray],
    free: Free,
    better: AnyArray,
    hulls: Hulls,
    adam: AdamStep,
) -> tuple[AnyArray, AnyArray]:
    """Move the free numbers along the gradient; return the bound's derivatives along `a` and `b`.

    `coefficients` are `a, b` and the best corner `s, t`; `values` are the pre-activations computed
    from the layers below. The numbers of rows that are `better` than ever are saved in `free.kept`.
    """
    if hulls.on_gpu:
        from vhagar.relaxation.first_order import kernels

        state = (free.now, free.mean, free.square, free.kept)
        return kernels.step(coefficients, values, state, better, hulls.stacked, adam.numbers)
    whole = coefficients[0]
    x, x_p = (namespace(whole).empty_like(whole) for _ in "xx")
    for rows in row_blocks(whole):
        a, b, s, t = (part[rows] for part in coefficients)
        g_p, g_q = values[0][rows] - s, values[1][rows] - t
        c, taken, spare = free.now[:, rows], better[rows], buffer(a)
        if taken.any():
            free.kept[:, rows][:, taken] = c[:, taken]
        x[rows], x_p[rows] = hulls.after(s), hulls.after(t)
        for total, first, second in ((x, c[0], c[2]), (x_p, c[1], c[3])):
            add_product(total[rows], first, g_p, spare)
            add_product(total[rows], second, g_q, spare)
        stable = hulls.stable(rows, len(whole))
        put(g_p, 0.0, stable)
        put(g_q, 0.0, stable)
        gradients = (g_p * a, g_p * b, g_q * a, g_q * b, g_p, g_q)
        for k, gradient in enumerate(gradients):
            adam.move(c[k], free.mean[k, rows], free.square[k, rows], gradient)
    return x, x_p
