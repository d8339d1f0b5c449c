"""The site of the documents: every page is in its navigation, and it builds without a warning."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().split("nav:\n")[-1]
    listed = re.findall(r": (\S+\.md)$", navigation, flags=re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_tutorial_is_stored_with_its_outputs() -> None:
    """The site shows them as they are, because building it executes nothing."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert _pictures() >= 2
    assert [cell["id"] for cell in cells] == [f"cell-{k}" for k in range(1, len(cells) + 1)]
    for cell in code:
        assert "execution" not in cell["metadata"]  # when it ran says nothing
        assert cell["outputs"] or "print(" not in "".join(cell["source"])
        assert all(output["output_type"] != "error" for output in cell["outputs"])


def _pictures() -> int:
    """How many pictures the outputs of the tutorial hold."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("material", "mkdocs_jupyter"))),
    reason="needs the extra docs",
)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "index.html").exists()
    assert (tmp_path / "site.css").exists()
    tutorial = (tmp_path / "tutorial" / "index.html").read_text()
    assert "PROVED by" in tutorial  # what its cells print, and the pictures that they draw
    assert tutorial.count("data:image/png") >= _pictures()


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_tutorial_runs(tmp_path: Path) -> None:
    """All of its cells, one after the other, with less time for each answer."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    script = re.sub(r"timeout=\d+", "timeout=3", "\n".join(code))
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "PROVED" in done.stdout
    assert "of all predictions are proven robust" in done.stdout
    assert (tmp_path / "guard.onnx").exists()


def test_links_of_notebooks_lead_to_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from site_links import on_page_content

    def page(uri: str) -> SimpleNamespace:
        return SimpleNamespace(file=SimpleNamespace(src_uri=uri))

    text = '<a href="sweeps.md">a</a> <a href="coverage.md#a-gate">b</a>'
    found = on_page_content(text, page("tutorial.ipynb"))
    assert found == '<a href="../sweeps/">a</a> <a href="../coverage/#a-gate">b</a>'
    assert on_page_content(text, page("python.md")) == text
