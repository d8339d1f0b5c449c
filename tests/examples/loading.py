"""The examples as modules: they are scripts, which nothing installs."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def example_named(name: str) -> ModuleType:
    """Execute an example as a module of its own."""
    found = spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    sys.modules[found.name] = module  # where dataclasses look their module up
    found.loader.exec_module(module)
    return module
