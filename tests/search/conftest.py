"""What tests of the search have in common."""

from __future__ import annotations

import pytest

from vhagar.search import search


@pytest.fixture
def in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small problem is left to worker processes."""
    monkeypatch.setattr(search, "_SMALL", 0)
