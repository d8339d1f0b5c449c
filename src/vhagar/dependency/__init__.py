"""Dependencies: order relations between the neurons of the two copies (the paper's Algorithm 1)."""

from vhagar.dependency.algorithm import Dependencies, DependencyOptions, find_dependencies
from vhagar.dependency.question import Verdict
from vhagar.dependency.ranges import ConcreteBounds, Ranges, ranges_of
from vhagar.dependency.relation import Order, Relations, Rule, no_pairs
from vhagar.dependency.relus import add_relu
from vhagar.dependency.solver import Backend, Maximiser, Watch, highs
from vhagar.dependency.statistics import Kind, LayerStatistics
from vhagar.dependency.twin import Copies, add_copies, add_copy, add_order

__all__ = [
    "Backend",
    "ConcreteBounds",
    "Copies",
    "Dependencies",
    "DependencyOptions",
    "Kind",
    "LayerStatistics",
    "Maximiser",
    "Order",
    "Ranges",
    "Relations",
    "Rule",
    "Verdict",
    "Watch",
    "add_copies",
    "add_copy",
    "add_order",
    "add_relu",
    "find_dependencies",
    "highs",
    "no_pairs",
    "ranges_of",
]
