"""The two element-wise parts of a first-order step: one kernel each.

On CUDA they are Triton kernels (`kernels`). On a CPU the rows are taken in blocks that stay in the
cache, and every operation writes into the same few buffers: memory is read and written once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from vhagar.runtime.devices import Tensor, require_torch

# Entries of a block: some twenty buffers of this many float32 numbers fit into a core's cache.
_BLOCK_ENTRIES = 2**14


@dataclass(frozen=True)
class Adam:
    """Numbers of one step: its size, both memories and the corrections of their start."""

    size: float
    first: float
    second: float
    fix_first: float
    fix_second: float

    @classmethod
    def at(cls, step: int, size: float, first: float = 0.8, second: float = 0.95) -> Adam:
        return cls(size, first, second, 1 - first ** (step + 1), 1 - second ** (step + 1))


@dataclass(eq=False)
class Free:
    """The six free numbers of each row and neuron, `(6, rows, neurons)`, and what Adam remembers.

    `kept` are those that gave the best bound of each row so far.
    """

    now: Tensor
    mean: Tensor
    square: Tensor
    kept: Tensor

    @classmethod
    def of(cls, numbers: Tensor) -> Free:
        torch = require_torch()
        return cls(
            numbers.contiguous(),
            torch.zeros_like(numbers),
            torch.zeros_like(numbers),
            numbers.clone(),
        )


class Cells:
    """A layer's hexagons in torch, `(groups, 6, neurons)`: rows of a group share them.

    `codes` `(rows, neurons)`, where given, hold decided signs as in `kernels`.
    """

    def __init__(self, hexagons: Tensor, ratio: float, codes: Tensor | None = None) -> None:
        self.hexagons = hexagons.contiguous()
        self.ratio = float(ratio)
        self.codes = None if codes is None else codes.contiguous()

    @property
    def groups(self) -> int:
        return len(self.hexagons)

    @property
    def magnitude(self) -> Tensor:
        """The largest absolute pre-activation, `(groups, 1, neurons)`."""
        size = self.hexagons[:, :4].abs().amax(dim=1, keepdim=True)
        return size * max(self.ratio, 1.0 / self.ratio)

    def bounds(self, rows: slice | None = None) -> Tensor:
        """The six bounds, `(6, groups, 1, neurons)`; with codes `(6, 1, rows, neurons)`."""
        torch = require_torch()
        wide = self.hexagons.transpose(0, 1)[:, :, None]
        if self.codes is None:
            return wide
        codes = self.codes if rows is None else self.codes[rows]
        each = len(self.codes) // self.groups
        index = torch.arange(len(self.codes), device=codes.device)[rows or slice(None)] // each
        low, high, low_p, high_p, gap_low, gap_high = wide[:, index, 0]
        low = torch.where((codes & 1) != 0, low.clamp(min=0), low)
        high = torch.where((codes & 2) != 0, high.clamp(max=0), high)
        low_p = torch.where((codes & 4) != 0, low_p.clamp(min=0), low_p)
        high_p = torch.where((codes & 8) != 0, high_p.clamp(max=0), high_p)
        high, high_p = torch.maximum(high, low), torch.maximum(high_p, low_p)
        return torch.stack([low, high, low_p, high_p, gap_low, gap_high])[:, None]

    @cached_property
    def corners(self) -> list[tuple[Tensor, ...]]:
        """`s, t, relu(s), relu(t)` of the corners; each `(groups, 1, neurons)`, without codes."""
        return list(_corners(self.bounds(), self.ratio))

    def linear(self, rows: slice | None = None) -> Tensor:
        """Where a neuron is on, or off, in both copies."""
        low, high, low_p, high_p, _, _ = self.bounds(rows)
        return ((low >= 0) & (low_p >= 0)) | ((high <= 0) & (high_p <= 0))


def _corners(bounds: Tensor, ratio: float) -> Iterator[tuple[Tensor, ...]]:
    torch = require_torch()
    low, high, low_p, high_p, gap_low, gap_high = bounds
    for s in (low, low.clamp(min=0).minimum(high), high):
        t_low = torch.maximum(low_p, ratio * s + gap_low)
        t_high = torch.maximum(torch.minimum(high_p, ratio * s + gap_high), t_low)
        for t in (t_low, t_low.clamp(min=0).minimum(t_high), t_high):
            yield s, t, s.clamp(min=0), t.clamp(min=0)
    for t in (low_p, low_p.clamp(min=0).minimum(high_p), high_p):
        s_low = torch.maximum(low, (t - gap_high) / ratio)
        s_high = torch.maximum(torch.minimum(high, (t - gap_low) / ratio), s_low)
        for s in (s_low, s_high):
            yield s, t, s.clamp(min=0), t.clamp(min=0)


def offset(a: Tensor, b: Tensor, free: Tensor, cells: Cells) -> tuple[Tensor, ...]:
    """`p, q`, the best corner `s, t` and the offset `r`, each `(rows, neurons)`."""
    if a.is_cuda:
        from vhagar.relaxation.first_order import kernels

        return kernels.offset(a, b, free, cells.hexagons, cells.codes, cells.ratio)
    torch = require_torch()
    p, q, s, t, r = (torch.empty_like(a) for _ in range(5))
    for rows, corners in _blocks(a, cells):
        # Rows of several groups at once have a dimension more.
        shape = torch.broadcast_shapes(corners[0][0].shape, (1, 1, a.shape[1]))
        view = (shape[0], -1, a.shape[1])
        c = [part[rows].reshape(view) for part in free]
        part_a, part_b = a[rows].reshape(view), b[rows].reshape(view)
        part_p = torch.addcmul(c[4], c[0], part_a).addcmul_(c[1], part_b)
        part_q = torch.addcmul(c[5], c[2], part_a).addcmul_(c[3], part_b)
        best_s, best_t = torch.empty_like(part_a), torch.empty_like(part_a)
        best = torch.full_like(part_a, -torch.inf)
        value, better = torch.empty_like(part_a), torch.empty_like(part_a, dtype=torch.bool)
        for corner_s, corner_t, z, z_p in corners:
            torch.mul(part_a, z, out=value)
            value.addcmul_(part_b, z_p)
            value.addcmul_(part_p, corner_s, value=-1)
            value.addcmul_(part_q, corner_t, value=-1)
            torch.gt(value, best, out=better)
            torch.maximum(best, value, out=best)
            torch.where(better, corner_s, best_s, out=best_s)
            torch.where(better, corner_t, best_t, out=best_t)
        parts = ((p, part_p), (q, part_q), (s, best_s), (t, best_t), (r, best))
        for whole, part in parts:
            whole[rows] = part.reshape(-1, a.shape[1])
    return p, q, s, t, r


def _blocks(a: Tensor, cells: Cells) -> Iterator[tuple[slice, list[tuple[Tensor, ...]]]]:
    """Blocks of rows, and the corners that go with them."""
    rows, neurons = a.shape
    each = rows // cells.groups
    if cells.codes is not None:
        at_once = max(1, _BLOCK_ENTRIES // neurons)
        for begin in range(0, rows, at_once):
            part = slice(begin, min(begin + at_once, rows))
            yield part, list(_corners(cells.bounds(part), cells.ratio))
        return
    corners = cells.corners
    if cells.groups == 1:
        at_once = max(1, _BLOCK_ENTRIES // neurons)
        for begin in range(0, rows, at_once):
            yield slice(begin, min(begin + at_once, rows)), corners
        return
    at_once = max(1, _BLOCK_ENTRIES // (neurons * each))
    for begin in range(0, cells.groups, at_once):
        end = min(begin + at_once, cells.groups)
        block = [tuple(part[begin:end] for part in corner) for corner in corners]
        yield slice(begin * each, end * each), block


def step(
    coefficients: tuple[Tensor, Tensor, Tensor, Tensor],
    values: tuple[Tensor, Tensor],
    free: Free,
    better: Tensor,
    cells: Cells,
    adam: Adam,
) -> tuple[Tensor, Tensor]:
    """Move the free numbers by the slopes; returns what a unit of `a` and of `b` is worth.

    `coefficients` are `a, b` and the best corner `s, t`; `values` what the layers below make of the
    pre-activations. Rows that are `better` than ever keep their numbers.
    """
    numbers = (adam.size, adam.first, adam.second, adam.fix_first, adam.fix_second)
    if better.is_cuda:
        from vhagar.relaxation.first_order import kernels

        state = (free.now, free.mean, free.square, free.kept)
        found = kernels.step(
            coefficients, values, state, better.to(require_torch().int8), cells.hexagons,
            cells.codes, numbers,
        )  # fmt: skip
        return found[0], found[1]
    return _step_cpu(coefficients, values, free, better, cells, adam)


def _step_cpu(
    coefficients: tuple[Tensor, Tensor, Tensor, Tensor],
    values: tuple[Tensor, Tensor],
    free: Free,
    better: Tensor,
    cells: Cells,
    adam: Adam,
) -> tuple[Tensor, Tensor]:
    torch = require_torch()
    whole_a = coefficients[0]
    x, x_p = torch.empty_like(whole_a), torch.empty_like(whole_a)
    rows, neurons = whole_a.shape
    each = rows // cells.groups
    fixed = None if cells.codes is not None else cells.linear()[:, 0]
    at_once = max(1, _BLOCK_ENTRIES // neurons)
    for begin in range(0, rows, at_once):
        part = slice(begin, min(begin + at_once, rows))
        a, b, s, t = (whole[part] for whole in coefficients)
        g_p, g_q = values[0][part] - s, values[1][part] - t
        c = free.now[:, part]
        taken = better[part]
        if taken.any():
            chosen = torch.arange(part.start, part.stop)[taken]
            free.kept[:, chosen] = free.now[:, chosen]
        torch.addcmul(s.clamp(min=0), c[0], g_p, out=x[part]).addcmul_(c[2], g_q)
        torch.addcmul(t.clamp(min=0), c[1], g_p, out=x_p[part]).addcmul_(c[3], g_q)
        if fixed is None:
            linear = cells.linear(part)[0]
        else:
            linear = fixed[torch.arange(part.start, part.stop) // each]
        g_p.masked_fill_(linear, 0.0)
        g_q.masked_fill_(linear, 0.0)
        slopes = (g_p * a, g_p * b, g_q * a, g_q * b, g_p, g_q)
        for k, slope in enumerate(slopes):
            mean, square = free.mean[k, part], free.square[k, part]
            mean.lerp_(slope, 1 - adam.first)
            square.mul_(adam.second).addcmul_(slope, slope, value=1 - adam.second)
            size = torch.div(square, adam.fix_second).sqrt_().add_(1e-12)
            c[k].addcdiv_(mean, size, value=-adam.size / adam.fix_first)
    return x, x_p
