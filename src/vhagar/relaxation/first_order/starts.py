"""Where the free numbers begin: the quick choice of slopes, in torch."""

from __future__ import annotations

from vhagar.relaxation.first_order.fused import Cells, offset
from vhagar.runtime.devices import Tensor, require_torch


def quick_free(cells: Cells, a: Tensor, b: Tensor) -> Tensor:
    """As `slopes.quick_slopes`, with two zeros: `(6, rows, neurons)`."""
    torch = require_torch()
    bounds = cells.bounds()
    view = (bounds.shape[1], -1, a.shape[1])
    wide_a, wide_b, ratio = a.reshape(view), b.reshape(view), cells.ratio
    low, high, low_p, high_p, gap_low, gap_high = bounds
    kappa = _difference_slope(cells, gap_low, gap_high)
    both = wide_a / ratio + wide_b
    zero = torch.zeros_like(wide_a)
    sum_s, sum_t = _slope(both, low, high), _slope(both, low_p, high_p)
    own_s, own_t = _slope(wide_a, low, high), _slope(wide_b, low_p, high_p)
    best = best_offset = None
    for rule in (
        (own_s, zero, zero, own_t),
        (sum_s, ratio * (sum_s - kappa), zero, zero + kappa),
        (zero + kappa, zero, (sum_t - kappa) / ratio, sum_t),
    ):
        free = torch.stack([*rule, zero, zero]).reshape(6, *a.shape)
        r = offset(a, b, free, cells)[4]
        if best is None:
            best, best_offset = free, r
            continue
        better = r < best_offset
        best = torch.where(better, free, best)
        best_offset = torch.where(better, r, best_offset)
    return best


def _slope(coefficient: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The chord above where the coefficient is positive; below, 0 or 1, whichever is closer."""
    torch = require_torch()
    crossing = (low < 0) & (high > 0)
    stable = (low >= 0).to(low.dtype)
    chord = torch.where(crossing, high / torch.where(crossing, high - low, 1.0), stable)
    below = torch.where(crossing, (high > -low).to(low.dtype), stable)
    return torch.where(coefficient > 0, chord, below)


def _difference_slope(cells: Cells, gap_low: Tensor, gap_high: Tensor) -> Tensor:
    """A slope of `relu(t) - relu(ratio * s)` as a function of the gap: 1 on, 0 off."""
    torch = require_torch()
    bounds = cells.bounds()
    low, high = gap_low.clamp(max=0), gap_high.clamp(min=0)
    span = torch.where(high > low, high - low, 1.0)
    chord = torch.where(high + low > 0, high, -low) / span
    off = (bounds[1] <= 0) & (bounds[3] <= 0)
    on = (bounds[0] >= 0) & (bounds[2] >= 0) & ~off
    chord = torch.where(on, 1.0, torch.where(off, 0.0, chord))
    return chord.clamp(0.0, 1.0)
