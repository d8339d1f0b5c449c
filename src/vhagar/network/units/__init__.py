"""Piecewise-linear units, one file each: what a unit means, and the ReLU units it is made of."""

from vhagar.network.units.absolute import absolute
from vhagar.network.units.clip import clip
from vhagar.network.units.leaky_relu import leaky_relu
from vhagar.network.units.max_pool import Groups, largest, smallest
from vhagar.network.units.maximum import maximum, minimum

__all__ = [
    "Groups",
    "absolute",
    "clip",
    "largest",
    "leaky_relu",
    "maximum",
    "minimum",
    "smallest",
]
