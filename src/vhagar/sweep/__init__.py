"""Many problems at once: a study, the store that keeps its results, and who works on it.

Names are imported when first asked for, so that `vhagar --help` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vhagar.sweep.runner import run_sweep
    from vhagar.sweep.settings import Settings
    from vhagar.sweep.store import Store
    from vhagar.sweep.study import Grid, Study, read_study

_HOMES = {
    "Grid": "vhagar.sweep.study",
    "Settings": "vhagar.sweep.settings",
    "Store": "vhagar.sweep.store",
    "Study": "vhagar.sweep.study",
    "read_study": "vhagar.sweep.study",
    "run_sweep": "vhagar.sweep.runner",
}

__all__ = ["Grid", "Settings", "Store", "Study", "read_study", "run_sweep"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vhagar.sweep' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
