"""Models that between them use every operator in every form that the reader knows.

Each is a function of a builder over an image (3, 8, 6) that ends with scores; it is built for all
operator sets of its range. Forms that changed with the operator sets are written as each wants it.
"""

from . import graphs, shapes, units
from .table import IMAGE, MODELS, OPSETS, Entry

__all__ = ["IMAGE", "MODELS", "OPSETS", "Entry", "graphs", "shapes", "units"]
