"""Search engines: they look for witnesses and prove upper bounds."""

from vhagar.search.engines import ENGINES, engine_named

__all__ = ["ENGINES", "engine_named"]
