"""docs/reference.md says what the docstrings of the public API say."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_document_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import reference

    written = reference.DOCUMENT.read_text()
    assert written == reference.page(), "run: python bench/reference.py"
