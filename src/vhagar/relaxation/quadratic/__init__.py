"""Bounds on the difference of the copies by quadratic constraints with multipliers."""

from vhagar.relaxation.quadratic.ascent import Ascent, ascend
from vhagar.relaxation.quadratic.differences import Differences, are_manageable, differences_of
from vhagar.relaxation.quadratic.dual import Multipliers
from vhagar.relaxation.quadratic.optimise import Schedule, improve, starting_multipliers
from vhagar.relaxation.quadratic.proven import proven_bound

__all__ = [
    "Ascent",
    "Differences",
    "Multipliers",
    "Schedule",
    "are_manageable",
    "ascend",
    "differences_of",
    "improve",
    "proven_bound",
    "starting_multipliers",
]
