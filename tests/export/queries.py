"""A small reader of VNN-LIB that decides whether a point satisfies a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"\(|\)|<[\d.]+>|\w[\w.-]*(?:\[[\d,]+\])?|\[[\d,]*\]|==|[<>]=|-?\d[\d.]*|[-+*]")
# The grammar of version 2.0: no exponents.
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
Lookup = Callable[[str], float]


def expressions(path: Path) -> list[Any]:
    """The file as nested lists of words."""
    text = re.sub(r";[^\n]*", "", path.read_text())
    assert re.sub(_TOKEN, "", text).strip() == "", "there is something that is no word"
    stack: list[Any] = [[]]
    for word in _TOKEN.findall(text):
        if word == "(":
            stack.append([])
        elif word == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    (result,) = stack
    return result


def assertions(path: Path) -> list[Any]:
    return [one[1] for one in expressions(path) if one[0] == "assert"]


def holds(condition: Any, value: Lookup, slack: float = 0.0) -> bool:
    """Whether a condition holds, up to `slack`."""
    kind, *parts = condition
    if kind == "and":
        return all(holds(part, value, slack) for part in parts)
    if kind == "or":
        return any(holds(part, value, slack) for part in parts)
    left, right = (_number(part, value) for part in parts)
    return {
        "<=": left <= right + slack,
        ">=": left >= right - slack,
        "==": abs(left - right) <= slack,
    }[kind]


def _number(expression: Any, value: Lookup) -> Fraction:
    if isinstance(expression, str):
        if _NUMBER.fullmatch(expression):
            return Fraction(expression)
        return Fraction(value(expression))
    kind, *parts = expression
    first, *rest = (_number(part, value) for part in parts)
    for one in rest:
        first = {"+": first + one, "-": first - one, "*": first * one}[kind]
    return first
