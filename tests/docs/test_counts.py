"""Numbers of things in the repository that the documents state."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.mutation.modules import MEASURED
from tests.soundness.faults import FAULTS

ROOT = Path(__file__).parents[2]


def _stated(document: str, what: str) -> int:
    """`N` of "more than N faults" in a document."""
    found = re.search(rf"[Mm]ore than (\d+) {what}", (ROOT / document).read_text())
    assert found is not None, (document, what)
    return int(found[1])


def test_planted_faults_are_counted() -> None:
    stated = _stated("docs/soundness.md", "faults")
    assert stated < len(FAULTS) < stated + 30


def test_test_vectors_are_counted() -> None:
    manifest = json.loads((ROOT / "checker" / "vectors" / "manifest.json").read_text())
    for document, what in (
        ("CHANGELOG.md", "test vectors"),
        ("docs/certificate.md", "small certificates"),
    ):
        stated = _stated(document, what)
        assert stated < len(manifest["cases"]) < stated + 30


def test_modules_whose_mutants_are_not_measured_are_named() -> None:
    """The table says "the other modules"."""
    modules = (path.stem for path in (ROOT / "src" / "vhagar_check").glob("[!_]*.py"))
    missing = {name for name in modules if f"vhagar_check.{name}" not in MEASURED}
    text = (ROOT / "docs" / "soundness.md").read_text()
    _, _, named = text.partition("Not measured in full yet, of the checker:")
    assert set(re.findall(r"`(\w+)\.py`", named)) == missing
