"""Everything that names the version or the paper names the same."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import vhagar

ROOT = Path(__file__).parents[2]
DOI = "10.1145/3649847"


def test_one_version_everywhere() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert headings[0] == vhagar.__version__
    assert cited is not None
    assert cited[1] == vhagar.__version__
    assert f'"vhagar": "{vhagar.__version__}"' in (ROOT / "docs" / "json.md").read_text()


def test_one_reference_everywhere() -> None:
    for name in ("CITATION.cff", "README.md", "docs/faq.md"):
        assert DOI in (ROOT / name).read_text(), name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Paper"] == f"https://doi.org/{DOI}"


def test_the_same_pythons_everywhere() -> None:
    """Metadata, the site's first page and the check of the wheel name the same versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        kind.rpartition(" ")[2]
        for kind in project["classifiers"]
        if kind.startswith("Programming Language :: Python :: 3.")
    ]
    assert project["requires-python"] == f">={named[0]}"
    first = f"{', '.join(named[:-1])} or {named[-1]}"
    assert f"You need Python {first} " in (ROOT / "docs" / "index.md").read_text()
    assert f"for version in {' '.join(named)}; do" in (ROOT / ".ci" / "run").read_text()


def test_the_container_runs_the_first_example() -> None:
    """The Dockerfile's command is the second line of the README, with the image's paths."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    parts = [re.search(rf"^{name} (\[.*\])$", text, re.MULTILINE) for name in ("ENTRYPOINT", "CMD")]
    command = [word for part in parts if part is not None for word in json.loads(part[1])]
    block = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[0]
    assert [word.removeprefix("/vhagar/") for word in command] == shlex.split(block.splitlines()[1])
    torch = next(
        one
        for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        if one.startswith("torch")
    )
    assert f'"{torch}"' in text


def test_extras_in_messages_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {
        (extra.strip(), str(path))
        for path in files
        for found in re.findall(r"vhagar\[([a-z, ]+)\]", path.read_text())
        for extra in found.split(",")
    }
    assert named
    assert {pair for pair in named if pair[0] not in extras} == set()
