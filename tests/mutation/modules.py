"""Which modules are mutated, which tests must notice, and which mutants are known to survive."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.json")
# The tests that answer for each module: its mirror and, where the mirror only holds a part, those
# next to it.
_KEPT = {
    "vhagar.result.interval_keeper": ["tests/result/test_interval_keeper.py"],
    "vhagar.result.witness": ["tests/result/test_witness.py"],
    "vhagar.relaxation.twin_dual": [
        "tests/relaxation/test_twin_dual.py",
        "tests/relaxation/test_one_dual.py",
    ],
    "vhagar.relaxation.pair_hulls": ["tests/relaxation/test_pair_hulls.py"],
    "vhagar.search.proof_tree": ["tests/search/test_proof_tree.py"],
    "vhagar.sweep.store": ["tests/sweep/test_store.py"],
}

# Measured in full: all survivors are known, and a sample is taken in every run of everything.
MEASURED = (
    "vhagar.result.interval_keeper",
    "vhagar.relaxation.pair_hulls",
    "vhagar.sweep.store",
    "vhagar.result.witness",
)


def modules() -> dict[str, list[str]]:
    """Every module that is mutated, with its tests."""
    checker = sorted((ROOT / "src" / "vhagar_check").glob("*.py"))
    names = [f"vhagar_check.{path.stem}" for path in checker if not path.stem.startswith("__")]
    return {**_KEPT, **{name: ["tests/check"] for name in names}}


def source_of(module: str) -> Path:
    """The file that is imported, which need not lie here: the package may have been installed."""
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


def known_survivors() -> dict[str, str]:
    """The mutants that no test notices, each with the reason why it may live."""
    found: dict[str, str] = json.loads(SURVIVORS.read_text())
    return found
