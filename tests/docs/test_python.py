"""The Python that the documents show runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("document", "written"),
    [
        ("README.md", "witness.png"),
        ("docs/python.md", "witness.png"),
        ("docs/coverage.md", None),
        ("docs/sweeps.md", "study.db"),
    ],
)
def test_the_examples_run(
    document: str, written: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
    assert blocks
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    code = re.sub(r"timeout=(5|10)\)", "timeout=2)", "\n".join(blocks))
    exec(compile(code, document, "exec"), {"__name__": "__main__"})
    assert written is None or (tmp_path / written).exists()
