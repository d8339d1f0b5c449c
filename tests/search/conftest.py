"""What tests of the search have in common."""

from __future__ import annotations

import pytest

from vhagar.search import search


@pytest.fixture
def in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small problem is left to worker processes, and nothing is done beside them."""
    monkeypatch.setattr(search, "_SMALL", 0)
    monkeypatch.setattr(search.Search, "_split_inputs", lambda *_: False)
