"""Results made by hand, for tests of how they are shown."""

from ..handmade import make_problem, make_progress, make_result, make_witness

__all__ = ["make_problem", "make_progress", "make_result", "make_witness"]
