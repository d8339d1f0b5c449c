"""Restates a problem as another one, whose answer comes back as an answer to the first.

Two things are done elsewhere. The reader puts a model's input convention (layout, mean, std) before
the model, where a change of layout can cancel against the model's own: problems are about raw
pixels. The question about one given input is reduced by `local/`, which asks it (`fixed_image`).
"""

from vhagar.reduction.base import AbstractReduction, Reduced, reduce_problem
from vhagar.reduction.clipping import Clipping
from vhagar.reduction.contrast import Homogeneous

# What is done to every problem before it is searched, in this order.
REDUCTIONS: tuple[AbstractReduction, ...] = (Clipping(),)
# The same for engines that gain from a linear question: their bounds are linear programs.
LINEAR_REDUCTIONS: tuple[AbstractReduction, ...] = (*REDUCTIONS, Homogeneous())

__all__ = ["LINEAR_REDUCTIONS", "REDUCTIONS", "AbstractReduction", "Reduced", "reduce_problem"]
