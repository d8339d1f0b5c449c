"""The domain of a problem: which inputs it is about, as an object, a file, and in words."""

from vhagar.perturbation.domain.domain import Domain, Shape
from vhagar.perturbation.domain.support import UNDERFLOW

__all__ = ["UNDERFLOW", "Domain", "Shape"]
