"""Dependencies: order relations between the neurons of the two copies (the paper's Algorithm 1)."""

from vhagar.dependency.algorithm import Dependencies, DependencyOptions, find_dependencies
from vhagar.dependency.question import SignStatus
from vhagar.dependency.ranges import ConcreteBounds, Ranges, ranges_of
from vhagar.dependency.relation import Relations, Rule, no_pairs
from vhagar.dependency.twin import add_copies, add_copy

__all__ = [
    "ConcreteBounds",
    "Dependencies",
    "DependencyOptions",
    "Ranges",
    "Relations",
    "Rule",
    "SignStatus",
    "add_copies",
    "add_copy",
    "find_dependencies",
    "no_pairs",
    "ranges_of",
]
