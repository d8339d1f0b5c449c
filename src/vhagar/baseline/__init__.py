"""Methods that VHAGaR is compared with: Marabou, and sampling.

Each baseline is an engine: `vhagar.verify(problem, engine=MarabouEngine())` gives the same kind of
result as ours, and whatever it finds goes through the same witness check. Names are imported
lazily, so that `vhagar --help` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vhagar.baseline.dataset_sampling import DatasetEngine
    from vhagar.baseline.marabou import MarabouEngine
    from vhagar.baseline.random_sampling import RandomEngine, hoeffding_half_width

_HOMES = {
    "DatasetEngine": "vhagar.baseline.dataset_sampling",
    "MarabouEngine": "vhagar.baseline.marabou",
    "RandomEngine": "vhagar.baseline.random_sampling",
    "hoeffding_half_width": "vhagar.baseline.random_sampling",
}

__all__ = ["DatasetEngine", "MarabouEngine", "RandomEngine", "hoeffding_half_width"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vhagar.baseline' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
