"""Small networks with optima that are known by hand."""

from __future__ import annotations

import pytest

from vhagar import Network, Problem


@pytest.fixture
def problem(hidden: Network) -> Problem:
    """Both pixels may come 1/8 closer: the optimum is 1/4."""
    return Problem(hidden, "linf(0.125)", 0, 1)
