"""A guard: a model that says, for each prediction, whether it is proven robust."""

from vhagar.guard.guard import Answer, Guard
from vhagar.guard.make import guard

__all__ = ["Answer", "Guard", "guard"]
