"""A guard as a PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vhagar.attack.model import TorchNetwork
from vhagar.guard.base import AbstractGuard
from vhagar.relaxation.rounding import FLOAT64
from vhagar.runtime.devices import Tensor, require_torch

if TYPE_CHECKING:
    from torch.nn import Module


def guard_module(guard: AbstractGuard) -> Module:
    """A module from a batch of inputs to `(scores, class, confidence, robust)`.

    It computes in float64 on the CPU, and is not differentiable. A convolution by Fourier or
    Winograd transforms, as GPU libraries have it, is not covered by the bound on rounding.
    """
    torch = require_torch()
    network = TorchNetwork(guard.network, torch.device("cpu"), double=True)
    thresholds = torch.tensor(guard.thresholds(FLOAT64), dtype=torch.float64)
    low, high = guard.input_range
    size = guard.network.input_size

    class GuardModule(torch.nn.Module):  # type: ignore[misc, name-defined]
        """What `Guard.module` returns."""

        def forward(self, inputs: Tensor) -> tuple[Any, Any, Any, Any]:
            guard.check_shape(inputs.shape)
            with torch.no_grad():
                x = inputs.detach().to("cpu", torch.float64).reshape(-1, size)
                scores = network.scores(x)
                best, labels = scores.topk(2, dim=1)
                confidence = best[:, 0] - best[:, 1]
                # NaN counts as the largest score for `topk`, and is above nothing.
                inside = ((x >= low) & (x <= high)).all(dim=1, keepdim=True)
                robust = (confidence[:, None] > thresholds[labels[:, 0]]) & inside
                if guard.domains:
                    robust = torch.from_numpy(guard.inside(x.numpy(), robust.numpy()))
            return scores, labels[:, 0], confidence, robust

    return GuardModule()
