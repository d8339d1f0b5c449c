"""Where branch and bound about one image computes: numpy on the CPU, or torch on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.runtime.devices import cuda_is_likely, require_torch, torch_device


@dataclass(frozen=True, eq=False)
class Device:
    """Where the search computes: `place` puts an array there, `host` brings one back."""

    place: Callable[[Any], Any]
    host: Callable[[Any], Any]


CPU = Device(lambda values: _narrow(np.asarray(values)), np.asarray)


def device_named(name: str) -> Device:
    """The device of that name: numpy on the CPU, or torch on a GPU (`auto`: if there is one)."""
    if name == "cpu" or (name == "auto" and not cuda_is_likely()):
        return CPU
    where = torch_device(name)
    return CPU if where.type == "cpu" else on_torch(where)


def on_torch(where: Any) -> Device:
    """Compute with float32 tensors on a device of torch."""
    torch = require_torch()

    def place(values: Any) -> Any:
        return torch.as_tensor(_narrow(np.asarray(values)), device=where)

    return Device(place, lambda values: values.cpu().numpy())


def _narrow(values: Any) -> Any:
    return values.astype(np.float32) if values.dtype == np.float64 else values
