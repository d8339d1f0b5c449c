"""Plants a fault: a module's source is changed on its way into the interpreter, nothing on disk.

As a plugin of pytest (`-p tests.soundness.planting`) it plants the fault named in the environment
variable `VHAGAR_FAULT` before anything of the verifier is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


class _Changed(SourceFileLoader):
    """Loads a module with some places of its source replaced."""

    def __init__(self, name: str, path: str, changes: Sequence[tuple[str, str]]) -> None:
        super().__init__(name, path)
        self._changes = changes

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        for old, new in self._changes:
            if source.count(old) != 1:
                raise ImportError(f"{fullname} has {source.count(old)} places with {old!r}")
            source = source.replace(old, new)
        return compile(source, self.path, "exec")


class Planter(MetaPathFinder):
    """Finds one module, changed."""

    def __init__(self, module: str, changes: Sequence[tuple[str, str]]) -> None:
        self._module = module
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Changed(fullname, spec.origin, self._changes)
        return spec


def plant(module: str, changes: Sequence[tuple[str, str]]) -> None:
    """From now on the module is imported with the fault; it must not have been imported yet."""
    assert module not in sys.modules, f"{module} is there already"
    sys.meta_path.insert(0, Planter(module, changes))


def _plant_as_told() -> None:
    name = os.environ.get("VHAGAR_FAULT")
    if name:
        from .faults import FAULTS

        plant(FAULTS[name].module, FAULTS[name].changes)


_plant_as_told()
