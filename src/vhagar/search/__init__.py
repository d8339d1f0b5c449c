"""Search engines: they look for witnesses and prove upper bounds."""

from vhagar.search.engines import ATTACKS, ENGINES, engine_for, engine_named

__all__ = ["ATTACKS", "ENGINES", "engine_for", "engine_named"]
