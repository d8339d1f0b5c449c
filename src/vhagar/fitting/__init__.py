"""Domains made from data, and domains in words and pictures."""

from vhagar.fitting.fit import Fit, box_around, fit_box, fit_components
from vhagar.table import Table, read_table

__all__ = ["Fit", "Table", "box_around", "fit_box", "fit_components", "read_table"]
