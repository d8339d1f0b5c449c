"""Everything that names the version or the paper names the same."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import vhagar
from vhagar.errors import documentation

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


def messages(path: Path) -> list[str]:
    """The texts of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings
    ]


def test_messages_name_pages_in_one_way_and_no_file_that_wheels_lack() -> None:
    found = {
        (path.relative_to(ROOT / "src").as_posix(), text)
        for path in (ROOT / "src").rglob("*.py")
        for text in messages(path)
        if re.search(r"\b(docs|examples|bench|tests)/|\w\.md\b", text)
    }
    assert {name for name, _ in found} == {"vhagar/errors.py"}, found
    assert "docs/networks.md in the sources" in documentation("networks")
    address = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert address.get("Documentation", "") in documentation("networks")


def test_pages_in_messages_exist() -> None:
    texts = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"documentation\([\"'](\w+)[\"']\)", texts))
    assert {"domains", "networks", "perturbations"} <= named
    assert all((ROOT / "docs" / f"{page}.md").is_file() for page in named)


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
