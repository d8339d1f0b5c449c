"""The documents and the source speak the field's language, and the glossary defines its terms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_commands import DOCUMENTS, ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCE = sorted((ROOT / "src" / "vhagar").rglob("*.py"))

# Terms that the glossary must define.
TERMS = """
    confidence, minimal globally robust bound, global robustness, perturbation, source class,
    target class, attackable, robust, maximal confidence, input range, clipping, problem, study,
    store, interval, closed, gap, lower bound, upper bound, witness, incumbent, margin, tie, kind of
    bound, certificate, network, linear unit, hidden neuron, stable, undecided, pre-activation,
    input convention, twin copies, neuron pair, hexagon, twin dual bound, multipliers, support,
    lambda-LP, lazy rows, interval arithmetic, first-order steps, dependency, big-M, reduction,
    engine, branch and bound, nodes, frontier, bounder, decision, piece, pseudocost,
    strong branching, primal heuristic, polish, region, hyper-adversarial attack, hints, baseline
"""
# Words that this project once used for what the field has a word for, and that word.
PRIVATE = {
    "promise": "predicted gain",
    "experience": "pseudocosts",
    "loose": "lazy (rows), undecided (neurons)",
    "carry": "transfer (results), pass through (values)",
    "carried": "transfer (results), pass through (values)",
    "crew": "pool",
    "workplace": "worker",
    "workbench": "worker",
    "finder": "primal heuristic",
    "explorer": "node solver",
    "ledger": "bounds store",
    "shortfall": "infeasibility check",
    "tracker": "interval keeper, run",
}
# Phrases that documents must not use, and better ones.
PHRASES = {
    "non-robust bound": "minimal globally robust bound",
    "gone on with": "resumed",
    "wide frontier": "batches of nodes",
}


def test_the_glossary_has_its_terms() -> None:
    defined = {term.lower() for term in re.findall(r"\*\*(.+?)\*\*", _unwrapped(GLOSSARY))}
    needed = {" ".join(term.split()).lower() for term in TERMS.split(",")}
    assert needed <= defined, sorted(needed - defined)


def test_confidence_comes_first() -> None:
    first = re.search(r"\*\*(.+?)\*\*", GLOSSARY.read_text())
    assert first is not None
    assert first[1] == "Confidence"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_use_no_private_words(document: Path) -> None:
    if document == GLOSSARY:
        return  # it says what the paper calls things
    text = _unwrapped(document).lower()
    found = [word for word in PRIVATE if re.search(rf"\b{word}(s|d|ing)?\b", text)]
    found += [phrase for phrase in PHRASES if phrase in text]
    assert found == [], {word: {**PRIVATE, **PHRASES}[word] for word in found}


def test_names_in_the_source_are_no_private_words() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}": word
        for path in SOURCE
        for name in _names(path)
        for word in _words(name)
        if word.removesuffix("s") in PRIVATE
    }
    assert found == {}, "use: " + "; ".join(f"{name} for {word}" for word, name in PRIVATE.items())


def _unwrapped(path: Path) -> str:
    return " ".join(path.read_text().split())


def _names(path: Path) -> Iterator[str]:
    """Every name that a module defines, and its own."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def _words(name: str) -> list[str]:
    """`LazyRows` and `_lazy_rows` are `lazy` and `rows`."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
