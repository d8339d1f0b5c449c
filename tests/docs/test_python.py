"""The Python that the documents show runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_the_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
    assert blocks
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks).replace("timeout=10)", "timeout=2)")
    exec(compile(code, document, "exec"), {"__name__": "__main__"})
    assert (tmp_path / "witness.png").exists()
