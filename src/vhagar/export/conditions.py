"""The conditions of a domain as VNN-LIB 2.0 text.

Linear rows and orders are written as they are. Whole numbers and one-hot groups become cases, one
for each value. The coordinates of a zonotope are the inputs of a further, linear network, because
VNN-LIB has no other variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.perturbation import Domain, Zonotope

# Most values of a whole number that are written as cases.
_MOST_VALUES = 1000


def number(value: float) -> str:
    """Format a number that reads back as the same float64; VNN-LIB 2.0 has no exponents."""
    text: str = np.format_float_positional(value, trim="0")
    return text


def entry(name: str, domain: Domain, flat: int) -> str:
    """An entry of a tensor of the domain's shape, with a batch of one."""
    place = (0, *(int(k) for k in np.unravel_index(flat, domain.shape)))
    return f"{name}[{','.join(map(str, place))}]"


def term(weight: float, value: str) -> str:
    """A multiple of a value."""
    return value if weight == 1 else f"(* {number(weight)} {value})"


def operation(operator: str, parts: list[str]) -> str:
    """Several parts joined by an operator such as `+` or `or`; one part as it is."""
    return parts[0] if len(parts) == 1 else f"({operator} {' '.join(parts)})"


def declarations(domain: Domain) -> list[str]:
    """The networks that stand for a zonotope: one for inputs and, if it must be, for perturbed."""
    if domain.zonotope is None:
        return []
    tensors: list[tuple[str, str, str, list[str]]] = [("zonotope", "Z", "P", [])]
    if domain.perturbed_inside:
        tensors.append(("zonotope_p", "Z_p", "P_p", ["  (equal-to zonotope)"]))
    shape = ",".join(map(str, (1, *domain.shape)))
    return [
        line
        for name, source, output, equal in tensors
        for line in (
            f"(declare-network {name}",
            *equal,
            f"  (declare-input {source} real [1,{domain.zonotope.count}])",
            f"  (declare-output {output} real [{shape}])",
            ")",
        )
    ]


def conditions(domain: Domain) -> Iterator[str]:
    """Yield the ranges and all other conditions of inputs and, if it must be, of perturbed ones."""
    yield from _conditions(domain, "X", "Z", "P")
    if domain.perturbed_inside:
        yield from _conditions(domain, "X_p", "Z_p", "P_p")


def _conditions(domain: Domain, x: str, z: str, p: str) -> Iterator[str]:
    for k in range(domain.size):
        yield f"(>= {entry(x, domain, k)} {number(float(domain.low[k]))})"
        yield f"(<= {entry(x, domain, k)} {number(float(domain.high[k]))})"
    yield from _rows(domain, x)
    for group in domain.groups.ordered:
        for one, other in pairwise(group):
            yield f"(<= {entry(x, domain, one)} {entry(x, domain, other)})"
    hot = {k for group in domain.groups.one_hot for k in group}
    for k in domain.groups.integer:
        if k not in hot:
            yield _whole(domain, x, k)
    for group in domain.groups.one_hot:
        yield _one_hot(domain, x, group)
    if domain.zonotope is not None:
        yield from _zonotope(domain, domain.zonotope, x, z, p)


def _rows(domain: Domain, x: str) -> Iterator[str]:
    rows = domain.own_rows
    for row in range(0 if rows is None else rows.count):
        assert rows is not None
        weights = rows.entries(row).items()
        terms = [term(weight, entry(x, domain, k)) for k, weight in weights]
        value = operation("+", terms or ["0.0"])
        low, high = float(rows.low[row]), float(rows.high[row])
        if low == high:
            yield f"(== {value} {number(low)})"
            continue
        if np.isfinite(low):
            yield f"(>= {value} {number(low)})"
        if np.isfinite(high):
            yield f"(<= {value} {number(high)})"


def _whole(domain: Domain, x: str, k: int) -> str:
    """A whole number is one of the values of its range."""
    low, high = int(domain.low[k]), int(domain.high[k])
    if high - low >= _MOST_VALUES:
        raise InvalidInput(
            f"entry {domain.entry_name(k)} is a whole number from {low} to {high}: VNN-LIB has no "
            f"whole numbers, and at most {_MOST_VALUES} values are written as cases; narrow its "
            "range, or leave `integer` out"
        )
    values = map(float, range(low, high + 1))
    return operation("or", [f"(== {entry(x, domain, k)} {number(value)})" for value in values])


def _one_hot(domain: Domain, x: str, group: tuple[int, ...]) -> str:
    """One entry of a group is 1, and the others are 0."""
    cases = [
        operation("and", [f"(== {entry(x, domain, k)} {number(float(k == one))})" for k in group])
        for one in group
    ]
    return operation("or", cases)


def _zonotope(domain: Domain, zonotope: Zonotope, x: str, z: str, p: str) -> Iterator[str]:
    """An input is within the residuals of the zonotope's point at some coordinates."""
    for k, reach in enumerate(zonotope.ranges.tolist()):
        yield f"(>= {z}[0,{k}] {number(-reach)})"
        yield f"(<= {z}[0,{k}] {number(reach)})"
    for k, reach in enumerate(zonotope.residual.tolist()):
        gap = f"(- {entry(x, domain, k)} {entry(p, domain, k)})"
        yield f"(>= {gap} {number(-reach)})"
        yield f"(<= {gap} {number(reach)})"


def zonotope_model(domain: Domain) -> Any:
    """The linear ONNX model `mean + components' z`, in float64, so that no number is rounded."""
    assert domain.zonotope is not None
    graph = OnnxGraph(np.float64)
    moved = graph.add("MatMul", "z", graph.constant(domain.zonotope.components))
    point = graph.add("Add", moved, graph.constant(domain.zonotope.mean[None]))
    shape = (1, *domain.shape)
    places = graph.constant(np.array(shape, dtype=np.int64))
    graph.add("Reshape", point, places, output="p")
    return graph.model("zonotope", ("z", (1, domain.zonotope.count)), ("p", shape))
