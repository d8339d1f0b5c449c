"""Dependencies: order relations between the neurons of the two copies (the paper's Algorithm 1)."""

from vhagar.dependency.algorithm import Dependencies, DependencyOptions, find_dependencies
from vhagar.dependency.question import SignStatus
from vhagar.dependency.ranges import ConcreteBounds, Ranges, ranges_of
from vhagar.dependency.relation import Relations, Rule, no_pairs
from vhagar.dependency.relus import add_relu
from vhagar.dependency.twin import Copies, add_copies, add_copy, add_order

__all__ = [
    "ConcreteBounds",
    "Copies",
    "Dependencies",
    "DependencyOptions",
    "Ranges",
    "Relations",
    "Rule",
    "SignStatus",
    "add_copies",
    "add_copy",
    "add_order",
    "add_relu",
    "find_dependencies",
    "no_pairs",
    "ranges_of",
]
