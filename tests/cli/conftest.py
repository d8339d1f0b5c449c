"""Results made by hand, for tests of how they are shown, and small models on disk."""

from ..handmade import make_problem, make_progress, make_result, make_witness
from ..sweep.conftest import hard_model, model

__all__ = ["hard_model", "make_problem", "make_progress", "make_result", "make_witness", "model"]
