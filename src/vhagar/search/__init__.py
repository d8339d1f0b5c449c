"""Search engines: they look for witnesses and prove upper bounds."""

from vhagar.engine import AbstractEngine
from vhagar.search.engines import ATTACKS, ENGINES, engine_named

__all__ = ["ATTACKS", "ENGINES", "AbstractEngine", "engine_named"]
