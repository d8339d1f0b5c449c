"""The table of engines."""

from __future__ import annotations

from vhagar.errors import InvalidInput
from vhagar.search.bab.engine import BabEngine
from vhagar.search.base import AbstractEngine
from vhagar.search.mip.engine import MipEngine

# A new engine is one more line.
ENGINES: dict[str, type[AbstractEngine]] = {
    "bab": BabEngine,
    "mip": MipEngine,
}


def engine_named(name: str) -> AbstractEngine:
    """The engine of that name."""
    if name not in ENGINES:
        raise InvalidInput(f"there is no engine {name!r}; choose one of: {', '.join(ENGINES)}")
    return ENGINES[name]()
