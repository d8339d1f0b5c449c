"""The operators that make mutants, on a module of a few lines."""

from __future__ import annotations

import pytest

from .modules import ROOT, known_survivors, modules, source_of
from .operators import Mutant, code_of, mutants

SOURCE = '''
"""A text that is left alone."""
LIMIT = 3


def clamp(value: int | None, low=0):
    """Another one."""
    if value is None or value > LIMIT - 1:
        raise ValueError("too large: " + str(value))
    return max(value, low) + 1
'''


def result_of(mutant: Mutant, value: int) -> object:
    namespace: dict[str, object] = {}
    exec(code_of(mutant, SOURCE, "clamp.py"), namespace)
    try:
        return namespace["clamp"](value)  # type: ignore[operator]
    except Exception as error:
        return type(error)


def test_what_is_changed() -> None:
    assert [mutant.change for mutant in mutants("clamp", SOURCE)] == [
        "LIMIT = 3 -> LIMIT = 4",
        "LIMIT = 3 -> LIMIT = 2",
        "if value is None or value > LIMIT - 1 -> if not (value is None or value > LIMIT - 1)",
        "value is None or value > LIMIT - 1 -> value is None and value > LIMIT - 1",
        "value is None or value > LIMIT - 1 -> value > LIMIT - 1",
        "value is None or value > LIMIT - 1 -> value is None",
        "value is None -> value is not None",
        "value > LIMIT - 1 -> value >= LIMIT - 1",
        "value > LIMIT - 1 -> value <= LIMIT - 1",
        "LIMIT - 1 -> LIMIT + 1",
        "LIMIT - 1 -> LIMIT",
        "LIMIT - 1 -> LIMIT - 2",
        "LIMIT - 1 -> LIMIT - 0",
        "raise ValueError('too large: ' + str(value)) -> pass",
        "max(value, low) + 1 -> max(value, low) - 1",
        "max(value, low) + 1 -> max(value, low)",
        "max(value, low) + 1 -> 1",
        "max(value, low) -> min(value, low)",
        "max(value, low) + 1 -> max(value, low) + 2",
        "max(value, low) + 1 -> max(value, low) + 0",
    ]


@pytest.mark.parametrize(
    ("change", "value", "expected"),
    [
        ("value > LIMIT - 1 -> value >= LIMIT - 1", 2, ValueError),
        ("LIMIT = 3 -> LIMIT = 2", 2, ValueError),
        ("max(value, low) -> min(value, low)", 2, 1),
        ("max(value, low) + 1 -> max(value, low)", 2, 2),
        ("raise ValueError('too large: ' + str(value)) -> pass", 5, 6),
    ],
)
def test_a_mutant_does_something_else(change: str, value: int, expected: object) -> None:
    (mutant,) = [each for each in mutants("clamp", SOURCE) if each.change == change]
    assert result_of(mutant, value) == expected


def test_names_are_unique_and_those_of_survivors_are_among_them() -> None:
    """A survivor in code that has changed since is judged anew, and its line is taken out."""
    survivors = set(known_survivors())
    for module, tests in modules().items():
        keys = [mutant.key for mutant in mutants(module, source_of(module).read_text())]
        assert len(set(keys)) == len(keys)
        assert all((ROOT / test).exists() for test in tests)
        survivors -= set(keys)
    assert not survivors
