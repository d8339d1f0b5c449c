"""Reads VNN-LIB 1.0 and 2.0: conditions on the inputs X and the outputs Y of a network, or of two.

Version 2.0 declares tensors, whose entries are numbered here as version 1.0 numbers them. A file
asks whether some input satisfies all its assertions, which usually describe what must never happen.
They are brought into disjunctive normal form: a list of cases, each a box of inputs and linear
conditions on the outputs. Numbers are kept as exact fractions.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.local.vnnlib_2 import Second, Unreadable, as_version_1, head_of

# A linear form: the coefficient of every variable, and the constant under "".
Form = dict[str, Fraction]
_TOKEN = re.compile(r"\s+|;[^\n]*|([()]|[^\s();]+)")
# An index or a shape of version 2.0; spaces may separate it from the tensor's name.
_INDEX = re.compile(r"\s*\[([^][()]*)\]")
# Most cases that a file may contain.
_MOST_CASES = 100_000


@dataclass(frozen=True)
class Case:
    """Inputs between `lower` and `upper` whose outputs make every form at most 0."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    conditions: tuple[Form, ...]


@dataclass(frozen=True)
class Specification:
    """The cases of a file: it is satisfiable if one of them is.

    If it is about two networks, they share their inputs, and the outputs of the `second` follow
    those of the first.
    """

    inputs: int
    outputs: int
    cases: tuple[Case, ...]
    second: Second = Second.NONE


def read_vnnlib(path: Path) -> Specification:
    """Read a VNN-LIB file, which may be compressed with gzip."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        text = content.decode()
    except FileNotFoundError:
        raise InvalidInput(f"no file at {path}; check the path of --vnnlib") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from None
    try:
        expressions = list(_expressions(text))
        second = Second.NONE
        if expressions and head_of(expressions[0]) == "vnnlib-version":
            expressions, second = as_version_1(expressions)
        return replace(_specification(expressions), second=second)
    except Unreadable as error:
        raise InvalidInput(f"{path} cannot be read as a VNN-LIB question: {error}") from None


def _expressions(text: str) -> Iterator[Any]:
    """The expressions of a file, as nested lists of words."""
    text = re.sub(r";[^\n]*", "", text)
    text = _INDEX.sub(lambda match: f"[{''.join(match[1].split())}]", text)
    stack: list[list[Any]] = [[]]
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unreadable(f"{text[place : place + 20]!r}")
        place, word = match.end(), match[1]
        if word == "(":
            stack.append([])
        elif word == ")":
            if len(stack) == 1:
                raise Unreadable("a bracket is closed that was not opened")
            done = stack.pop()
            stack[-1].append(done)
        elif word:
            stack[-1].append(word)
    if len(stack) != 1:
        raise Unreadable("a bracket is not closed")
    yield from stack[0]


def _specification(expressions: list[Any]) -> Specification:
    declared: dict[str, int] = {"X": 0, "Y": 0}
    formulas = []
    for expression in expressions:
        head = head_of(expression)
        if head in ("vnnlib-version", "declare-network"):
            raise Unreadable("a file of version 2.0 begins with (vnnlib-version <2.0>)")
        if head == "declare-const" and len(expression) == 3:
            match = re.fullmatch(r"([XY])_(\d+)", str(expression[1]))
            if match is None or int(match[2]) != declared[match[1]] or expression[2] != "Real":
                raise Unreadable(f"the declaration {expression[1:]} is not X_0, X_1, ... or Y_0")
            declared[match[1]] += 1
        elif head == "assert" and len(expression) == 2:
            formulas.append(_cases_of(expression[1]))
        else:
            raise Unreadable(f"the command {head!r} is not known")
    if not declared["X"] or not declared["Y"]:
        raise Unreadable("it declares no inputs or no outputs")
    sizes = declared["X"], declared["Y"]
    return Specification(*sizes, tuple(_case(forms, *sizes) for forms in _all(formulas)))


def _cases_of(formula: Any) -> list[list[Form]]:
    """Bring a formula into disjunctive normal form; each condition is a form that is at most 0."""
    if not isinstance(formula, list) or not formula:
        raise Unreadable(f"{formula!r} is not a condition")
    head, *rest = formula
    if head == "and":
        return _all([_cases_of(part) for part in rest])
    if head == "or":
        found = [case for part in rest for case in _cases_of(part)]
        _check_count(len(found))
        return found
    if head in ("<=", ">=") and len(rest) == 2:
        left, right = (_form(part) for part in rest)
        return [[_sum(left, right, -1) if head == "<=" else _sum(right, left, -1)]]
    if head == "==" and len(rest) == 2:
        left, right = (_form(part) for part in rest)
        return [[_sum(left, right, -1), _sum(right, left, -1)]]
    raise Unreadable(f"the operator {head!r} is not known")


def _all(parts: list[list[list[Form]]]) -> list[list[Form]]:
    count = 1
    for part in parts:
        count *= max(len(part), 1)
        _check_count(count)
    return [[form for chosen in each for form in chosen] for each in product(*parts)]


def _check_count(cases: int) -> None:
    if cases > _MOST_CASES:
        raise Unreadable(f"it has more than {_MOST_CASES} cases")


def _form(term: Any) -> Form:
    if isinstance(term, str):
        if re.fullmatch(r"[XY]_\d+", term):
            return {term: Fraction(1)}
        return {"": _number(term)}
    if not term:
        raise Unreadable("an empty term")
    head, *rest = term
    forms = [_form(part) for part in rest]
    if head == "+" and forms:
        total: Form = {}
        for form in forms:
            total = _sum(total, form, 1)
        return total
    if head == "-" and len(forms) == 1:
        return _sum({}, forms[0], -1)
    if head == "-" and len(forms) == 2:
        return _sum(forms[0], forms[1], -1)
    if head == "*" and len(forms) == 2:
        for factor, form in (forms, forms[::-1]):
            if set(factor) <= {""}:
                return _sum({}, form, factor.get("", Fraction(0)))
    raise Unreadable(f"the term {head!r} is not linear")


def _number(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Unreadable(f"{text!r} is neither a number nor a variable") from None


def _sum(left: Form, right: Form, factor: Fraction | int) -> Form:
    found = dict(left)
    for name, value in right.items():
        found[name] = found.get(name, Fraction(0)) + factor * value
    return {name: value for name, value in found.items() if value or name == ""}


def _case(forms: list[Form], inputs: int, outputs: int) -> Case:
    """Sort the conditions into bounds on inputs and conditions on outputs."""
    lower: list[Fraction | None] = [None] * inputs
    upper: list[Fraction | None] = [None] * inputs
    conditions = []
    for form in forms:
        variables = [name for name in form if name]
        for name in variables:
            if int(name[2:]) >= (inputs if name[0] == "X" else outputs):
                raise Unreadable(f"{name} is not declared")
        if not any(name[0] == "X" for name in variables):
            conditions.append(form)
            continue
        if len(variables) != 1:
            raise Unreadable(
                f"a condition joins {', '.join(variables)}, and may be about one input or about "
                "outputs alone"
            )
        (name,), place = variables, int(variables[0][2:])
        limit = -form.get("", Fraction(0)) / form[name]
        ends, best = (upper, min) if form[name] > 0 else (lower, max)
        known = ends[place]
        ends[place] = limit if known is None else best(known, limit)
    for side, ends in (("lower", lower), ("upper", upper)):
        if None in ends:
            raise Unreadable(
                f"input {ends.index(None)} (counted from 0) has no {side} bound; every input needs "
                "both"
            )
    least, most = (tuple(end for end in ends if end is not None) for ends in (lower, upper))
    return Case(least, most, tuple(conditions))
