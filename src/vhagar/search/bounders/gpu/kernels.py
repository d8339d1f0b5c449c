"""A Triton kernel for CUDA. Imported only where there is a GPU."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Entries per block of a Triton kernel.
_BLOCK = 1024


@triton.jit
def _move_kernel(
    x, gradient, lower, upper, ahead, total, columns, size, relaxation, BLOCK: tl.constexpr
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    at = tl.load(x + index, mask=inside, other=0.0)
    step = tl.load(gradient + index, mask=inside, other=0.0)
    low = tl.load(lower + index % columns, mask=inside, other=0.0)
    high = tl.load(upper + index, mask=inside, other=0.0)
    change = tl.minimum(tl.maximum(at - size * step, low), high) - at
    tl.store(x + index, at + relaxation * change, mask=inside)
    tl.store(ahead + index, at + 2.0 * change, mask=inside)


def move(x: Any, gradient: Any, lower: Any, upper: Any, size: float, relaxation: float) -> Any:
    """As `move.move`; all arrays are contiguous."""
    ahead = torch.empty_like(x)
    total = x.numel()
    _move_kernel[(triton.cdiv(total, _BLOCK),)](
        x, gradient.contiguous(), lower, upper.contiguous(), ahead,
        total, x.shape[1], size, relaxation, BLOCK=_BLOCK,
    )  # fmt: skip
    return ahead
