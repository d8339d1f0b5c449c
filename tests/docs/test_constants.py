"""docs/constants.md lists the constants of the source as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))


def test_the_document_is_up_to_date() -> None:
    import constants

    written, expected = constants.DOCUMENT.read_text(), constants.page(constants.constants())
    assert written == expected, "run: python bench/constants.py"


def test_what_is_read_of_a_module() -> None:
    import constants

    text = (
        "# How many.\n# Measured: by\n# hand.\n_MOST = 2**10\n"
        "_STEPS, STEP = 3, 0.5  # a share\n_NAMES = ('a',)\n_TABLE = {1: 2}\nlower = 3\n"
    )
    assert list(constants.constants_of(text)) == [
        ("_MOST", "2 ** 10", "How many. Measured: by hand."),
        ("_STEPS", "3", "a share"),
        ("STEP", "0.5", "a share"),
    ]
    one = constants.Constant("a.py", "_MOST", "2 ** 10", "How many. Measured: by hand.")
    assert (one.reason, one.evidence, one.section) == ("How many.", "by hand.", "Tuning")
    assert constants.Constant("a.py", "_MOST", "1", "").evidence == "guess"
    assert constants.Constant("a.py", "_HALF_ULP", "1", "").section != "Tuning"


def test_every_pattern_of_a_section_has_a_constant() -> None:
    """Otherwise a constant that has moved counts as one for tuning, and nobody notices."""
    import constants

    found = constants.constants()
    patterns = [pattern for own in constants.SECTIONS.values() for pattern in own]
    idle = [each for each in patterns if not any(one.matches([each]) for one in found)]
    assert idle == []


def test_constants_with_one_comment_have_one_row() -> None:
    import constants

    two = [constants.Constant("a.py", name, "1", "How many.") for name in ("_LEAST", "_MOST")]
    other = constants.Constant("b.py", "_MOST", "2", "How many.")
    rows = [line for line in constants.page([*two, other]).splitlines() if "How many" in line]
    assert rows == [
        "| `_LEAST = 1`<br>`_MOST = 1` | `a.py` | How many. | guess |",
        "| `_MOST = 2` | `b.py` | How many. | guess |",
    ]
