"""Piecewise-linear units, one file each, expressed by ReLU units and linear operations."""

from vhagar.network.units.absolute import absolute
from vhagar.network.units.clip import NO_LIMIT, clip
from vhagar.network.units.leaky_relu import leaky_relu
from vhagar.network.units.max_pool import EntryGroups, largest, smallest
from vhagar.network.units.maximum import maximum, minimum

__all__ = [
    "NO_LIMIT",
    "EntryGroups",
    "absolute",
    "clip",
    "largest",
    "leaky_relu",
    "maximum",
    "minimum",
    "smallest",
]
