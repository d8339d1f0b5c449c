"""Translate VNN-LIB 2.0 to version 1.0: entries of tensors become X_0, X_1, ... and Y_0, Y_1, ...

A file may be about two networks if it asserts that their inputs are equal, entry by entry: they are
then one network, and the outputs of the second are numbered after those of the first.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

# Most entries that a tensor may contain.
_MOST_ENTRIES = 10_000_000


class Unreadable(Exception):
    """A file cannot be read; the message says why."""


class Second(Enum):
    """The second network of a file."""

    NONE = "there is none"
    EQUAL = "it is the first one again"
    OTHER = "it has a file of its own"


@dataclass(frozen=True)
class _Tensor:
    """A declared tensor, whose entry k is called `kind_(first + k)`."""

    kind: str
    first: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        size = math.prod(self.shape)
        if not 0 < size <= _MOST_ENTRIES:
            raise Unreadable(f"a tensor of shape {list(self.shape)} has no entries, or too many")
        return size


def head_of(expression: Any) -> Any:
    """The first word of a command."""
    return expression[0] if isinstance(expression, list) and expression else expression


def as_version_1(expressions: list[Any]) -> tuple[list[Any], Second]:
    """Translate a file to version 1.0, and say what the second network is."""
    version, *rest = expressions
    if version[1:] != ["<2.0>"]:
        raise Unreadable(f"its version is {' '.join(map(str, version[1:]))}, not <2.0>")
    networks = [each for each in rest if head_of(each) == "declare-network"]
    if len(networks) not in (1, 2):
        raise Unreadable(f"it is about {len(networks)} networks; one or two are supported")
    others = [each for each in rest if head_of(each) != "declare-network"]
    tensors = _tensors(networks[0], 0, {})
    if len(networks) == 1:
        return _declared(tensors) + [_renamed(each, tensors) for each in others], Second.NONE
    second, declarations = _relation(networks[0], networks[1])
    own = {tensor.kind: tensor.size for tensor in tensors.values()}
    theirs = _tensors(declarations, own.get("Y", 0), tensors)
    sizes = own | {tensor.kind: tensor.size for tensor in theirs.values()}
    if len(own) != 2 or len(theirs) != 2:
        raise Unreadable("each of the two networks needs an input and an output")
    both = tensors | theirs
    renamed = [_renamed(each, both) for each in others]
    return _declared(both) + _joined(renamed, sizes["X"], sizes["Z"]), second


def _relation(first: Any, second: Any) -> tuple[Second, Any]:
    """Separate the second network's relation to the first from the rest of its declaration."""
    relations = [part for part in second[2:] if head_of(part) in ("equal-to", "isomorphic-to")]
    for relation in relations:
        if relation[1:] != [first[1]]:
            raise Unreadable(f"{relation} does not name the first network")
    equal = any(head_of(relation) == "equal-to" for relation in relations)
    plain = [part for part in second if part not in relations]
    return (Second.EQUAL if equal else Second.OTHER), plain


def _tensors(network: Any, outputs: int, known: dict[str, _Tensor]) -> dict[str, _Tensor]:
    """The tensors of a network by their names; the input of a second network is called Z."""
    tensors: dict[str, _Tensor] = {}
    source = "Z" if known else "X"
    for declaration in network[2:]:
        kind = {"declare-input": source, "declare-output": "Y"}.get(str(head_of(declaration)))
        if kind is None or len(declaration) != 3:
            raise Unreadable(f"the declaration {head_of(declaration)!r} is not supported")
        if kind in {tensor.kind for tensor in tensors.values()}:
            raise Unreadable("the network has several inputs or outputs; one of each is supported")
        if declaration[1] in tensors or declaration[1] in known:
            raise Unreadable(f"{declaration[1]!r} is declared twice")
        match = re.fullmatch(r"(?i)(?:real|float\d+)\[((?:\d+(?:,\d+)*)?)\]", str(declaration[2]))
        if match is None:
            raise Unreadable(f"the type {declaration[2]!r} is not known")
        shape = tuple(map(int, match[1].split(","))) if match[1] else ()
        tensors[declaration[1]] = _Tensor(kind, outputs if kind == "Y" else 0, shape)
    return tensors


def _declared(tensors: dict[str, _Tensor]) -> list[Any]:
    return [
        ["declare-const", f"{tensor.kind}_{tensor.first + k}", "Real"]
        for tensor in tensors.values()
        for k in range(tensor.size)
        if tensor.kind != "Z"
    ]


def _joined(expressions: list[Any], size: int, other: int) -> list[Any]:
    """Replace the second network's input by the first's; the file must assert that both agree."""
    same, rest = set(), []
    for expression in [part for each in expressions for part in _parts(each)]:
        pair = _equal_entries(expression)
        if pair is None:
            rest.append(expression)
        else:
            same.add(pair)
    if size != other or same != {(f"X_{k}", f"Z_{k}") for k in range(size)}:
        raise Unreadable(
            "the two networks must get the same input: assert (== X[k] Z[k]) for every entry"
        )
    return [_with_first_input(each) for each in rest]


def _parts(expression: Any) -> list[Any]:
    """Divide an assertion of a conjunction into one assertion for each part."""
    if head_of(expression) == "assert" and len(expression) == 2:
        (condition,) = expression[1:]
        if head_of(condition) == "and" and len(condition) > 1:
            return [each for part in condition[1:] for each in _parts(["assert", part])]
    return [expression]


def _equal_entries(expression: Any) -> tuple[str, str] | None:
    """The entries X_k and Z_j that an assertion declares equal; None for any other assertion."""
    if head_of(expression) != "assert" or len(expression) != 2 or head_of(expression[1]) != "==":
        return None
    names = sorted(str(part) for part in expression[1][1:])
    if len(names) != 2 or not (names[0].startswith("X_") and names[1].startswith("Z_")):
        return None
    return names[0], names[1]


def _with_first_input(term: Any) -> Any:
    if isinstance(term, list):
        return [_with_first_input(part) for part in term]
    return f"X_{term[2:]}" if re.fullmatch(r"Z_\d+", str(term)) else term


def _renamed(term: Any, tensors: dict[str, _Tensor]) -> Any:
    """Rename the entries of tensors in a term, such as `Y[0,3]`, as in version 1.0."""
    if isinstance(term, list):
        return [_renamed(part, tensors) for part in term]
    match = re.fullmatch(r"([A-Za-z]\w*)(?:\[((?:\d+(?:,\d+)*)?)\])?", str(term))
    if match is None or match[1] not in tensors:
        if re.fullmatch(r"[XYZ]_\d+", str(term)):  # a version 1.0 name, which is not declared here
            raise Unreadable(f"{term!r} is neither a number nor a variable")
        return term
    tensor = tensors[match[1]]
    shape, index = tensor.shape, tuple(map(int, match[2].split(","))) if match[2] else ()
    if not shape and index in ((), (0,)):
        return f"{tensor.kind}_{tensor.first}"
    if len(index) != len(shape) or any(k >= size for k, size in zip(index, shape, strict=True)):
        raise Unreadable(f"{term} is not an entry of a tensor of shape {list(shape)}")
    flat = 0
    for k, size in zip(index, shape, strict=True):
        flat = flat * size + k
    return f"{tensor.kind}_{tensor.first + flat}"
