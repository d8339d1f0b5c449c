"""The table of bounds over all images and over a domain: rows come back as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from vhagar import InvalidInput

ROOT = Path(__file__).parents[2]


def test_rows_are_kept_and_shown_in_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import domains

    ends = (0.1 + 0.2, 1.5)
    first = domains.Row("net", "linf(0.02)", "all inputs", "", 5.0, *ends, "closed", 1.2, 3, 9, 9)
    other = domains.Row("net", "linf(0.02)", "twos", "ab", 5.0, *ends, "timeout", 5.0, 2, 8, 9)
    path = tmp_path / "folder" / "rows.csv"
    path.parent.mkdir()
    domains.write(path, [first, other])
    assert domains.read(path) == [first, other]
    assert domains.read(tmp_path / "none.csv") == []
    line = domains.table([first, other]).splitlines()[-1]
    assert line == "| net | `linf(0.02)` | **0.300 to 1.500** | 0.300 to 1.500 | 33.3 % | 22.2 % |"


def test_a_page_gets_the_table_between_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import domains

    page = f"above\n{domains.BEGIN}\nold\n{domains.END}\nbelow\n"
    wanted = f"above\n{domains.BEGIN}\n\nnew\n\n{domains.END}\nbelow\n"
    assert domains.on_page(page, "new") == wanted
    with pytest.raises(InvalidInput, match="needs the lines"):
        domains.on_page("no marks", "new")
    text = (ROOT / "docs" / "domains.md").read_text(encoding="utf-8")
    assert domains.on_page(text, "x") != text
