"""What tests of the search have in common."""

from __future__ import annotations

import pytest

from vhagar.search.bounders import size
from vhagar.search.node_search import NodeSearch
from vhagar.search.node_selection import Frontiers


@pytest.fixture
def in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small problem is left to worker processes, and nothing is done beside them."""
    monkeypatch.setattr(size, "_SMALL_PRODUCT", 0)
    monkeypatch.setattr(Frontiers, "split_inputs", lambda *_: False)
    monkeypatch.setattr(NodeSearch, "_bound_by_slopes", lambda *_: False)
