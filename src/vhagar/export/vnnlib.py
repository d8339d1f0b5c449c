"""The question "is it delta-globally robust?" as VNN-LIB text.

A file is satisfiable if and only if some input of the source class, with a confidence of at least
delta, is pushed into a target class (a tie counts). Version 1.0 is about the product network of
`product`; version 2.0 about two copies of the network itself, with the perturbation as conditions
between their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.export.conditions import conditions, declarations, entry, number, operation, term
from vhagar.perturbation import Domain
from vhagar.perturbation.formula import Formula
from vhagar.problem import Problem


def version_1(notes: Sequence[str], problem: Problem, formula: Formula, delta: float) -> str:
    """VNN-LIB 1.0 about the product network."""
    domain, classes = problem.domain, problem.network.classes
    low = np.concatenate([domain.low, formula.map.lower])
    high = np.concatenate([domain.high, formula.map.upper])
    lines = [f"; {note}" for note in notes]
    lines += [f"(declare-const X_{k} Real)" for k in range(len(low))]
    lines += [f"(declare-const Y_{k} Real)" for k in range(2 * classes)]
    for k, (least, most) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        lines += [f"(assert (>= X_{k} {number(least)}))", f"(assert (<= X_{k} {number(most)}))"]
    margins = [f"(>= Y_{k} {number(delta)})" for k in range(classes) if k != problem.source]
    # Each case repeats all conditions on the outputs: parsers misread conditions beside an `or`.
    cases = [
        [
            *margins,
            *(f"(>= Y_{classes + target} Y_{classes + k})" for k in range(classes) if k != target),
        ]
        for target in problem.targets
    ]
    lines += _assert_any(cases)
    return "\n".join(lines) + "\n"


def version_2(notes: Sequence[str], problem: Problem, formula: Formula, delta: float) -> str:
    """VNN-LIB 2.0 about two copies of the network."""
    domain, classes = problem.domain, problem.network.classes
    shape = ",".join(map(str, (1, *domain.shape)))
    lines = [f"; {note}" for note in notes]
    lines += [
        "(vnnlib-version <2.0>)",
        "(declare-network original",
        f"  (declare-input X real [{shape}])",
        f"  (declare-output Y real [1,{classes}])",
        ")",
        "(declare-network perturbed",
        "  (equal-to original)",
        f"  (declare-input X_p real [{shape}])",
        f"  (declare-output Y_p real [1,{classes}])",
        ")",
        *declarations(domain),
    ]
    lines += [f"(assert {condition})" for condition in conditions(domain)]
    lines += [f"(assert {condition})" for condition in _relation(domain, formula)]
    for k in range(classes):
        if k != problem.source:
            lines.append(f"(assert (>= (- Y[0,{problem.source}] Y[0,{k}]) {number(delta)}))")
    wins = [
        [f"(>= Y_p[0,{target}] Y_p[0,{k}])" for k in range(classes) if k != target]
        for target in problem.targets
    ]
    lines += _assert_any(wins)
    return "\n".join(lines) + "\n"


def _assert_any(alternatives: list[list[str]]) -> list[str]:
    """Assert that all conditions of at least one list hold."""
    if len(alternatives) == 1:
        return [f"(assert {condition})" for condition in alternatives[0]]
    cases = [operation("and", case) for case in alternatives]
    return ["(assert (or", *(f"  {case}" for case in cases), "))"]


def _relation(domain: Domain, formula: Formula) -> Iterator[str]:
    """Yield conditions between `X` and `X_p` that need no variables for the parameters."""
    if formula.product:
        raise InvalidInput(
            "a range of contrasts multiplies a parameter and the pixels, for which VNN-LIB 2.0 has "
            "no variable; use --format 1 (a product network), or one factor instead of a range"
        )
    owner = _parameter_of_each_pixel(formula)
    shared = np.bincount(owner[owner >= 0], minlength=formula.map.count)
    first: dict[int, int] = {}
    for k in range(domain.size):
        moved = _moved(domain, formula, k)
        image, parameter = entry("X_p", domain, k), int(owner[k])
        if parameter < 0:
            yield from _without_parameter(domain, formula, image, moved, k)
        elif shared[parameter] == 1:
            yield from _alone(domain, formula, image, moved, k, parameter)
        elif formula.clip:
            raise InvalidInput(
                "one parameter that moves several pixels until they are clipped needs a variable, "
                "which VNN-LIB 2.0 does not have; use --format 1 (a product network), --no-clip, "
                "or one value instead of a range"
            )
        else:
            yield from _together(domain, formula, k, parameter, first)


def _parameter_of_each_pixel(formula: Formula) -> np.ndarray:
    """Return the parameter that changes each pixel, -1 for none."""
    counts = np.diff(formula.map.directions.indptr)
    if (counts > 1).any():
        raise InvalidInput(
            "several parameters that move one pixel need variables, which VNN-LIB 2.0 does not "
            "have; use --format 1 (a product network)"
        )
    owner = np.full(len(counts), -1)
    owner[counts == 1] = formula.map.directions.indices
    return owner


def _moved(domain: Domain, formula: Formula, k: int) -> str:
    """`A x + c` of one pixel."""
    row = sparse.csr_array(formula.map.matrix[[k]])
    weights = zip(row.indices.tolist(), row.data.tolist(), strict=True)
    terms = [term(a, entry("X", domain, j)) for j, a in weights if a != 0]
    if formula.map.offset[k] or not terms:
        terms.append(number(float(formula.map.offset[k])))
    return operation("+", terms)


def _without_parameter(
    domain: Domain, formula: Formula, image: str, moved: str, k: int
) -> Iterator[str]:
    if not formula.clip or _stays_inside(domain, formula, k):
        yield f"(== {image} {moved})"
        return
    low, high = number(domain.lower), number(domain.upper)
    yield f"(>= {image} {low})"
    yield f"(<= {image} {high})"
    yield (
        f"(or (== {image} {moved}) (and (== {image} {high}) (>= {moved} {high})) "
        f"(and (== {image} {low}) (<= {moved} {low})))"
    )


def _alone(
    domain: Domain, formula: Formula, image: str, moved: str, k: int, parameter: int
) -> Iterator[str]:
    """Yield the conditions of a pixel with its own parameter, which changes freely in a range."""
    ends = formula.map.directions[[k]].data[0] * np.array(
        [formula.map.lower[parameter], formula.map.upper[parameter]]
    )
    low, high = (number(end) for end in sorted(ends.tolist()))
    if formula.clip:
        # If no change is allowed, too, then clipping means the same as staying in the range.
        if not (ends.min() <= 0 <= ends.max() and _stays_inside(domain, formula, k)):
            raise InvalidInput(
                "VNN-LIB 2.0 cannot express a parameter that always takes a pixel out of the input "
                "range; use --format 1 (a product network)"
            )
        yield f"(>= {image} {number(domain.lower)})"
        yield f"(<= {image} {number(domain.upper)})"
    yield f"(>= (- {image} {moved}) {low})"
    yield f"(<= (- {image} {moved}) {high})"


def _stays_inside(domain: Domain, formula: Formula, k: int) -> bool:
    """Whether `A x + c` of one pixel never leaves the input range."""
    weights = sparse.csr_array(formula.map.matrix[[k]]).data
    ends = np.array([weights * domain.lower, weights * domain.upper])
    low, high = (float(part.sum()) + formula.map.offset[k] for part in (ends.min(0), ends.max(0)))
    return bool(domain.lower <= low and high <= domain.upper)


def _together(
    domain: Domain, formula: Formula, k: int, parameter: int, first: dict[int, int]
) -> Iterator[str]:
    """Yield the conditions of pixels that share a parameter, relative to the first of them."""
    change = f"(- {entry('X_p', domain, k)} {_moved(domain, formula, k)})"
    slope = float(formula.map.directions[[k]].data[0])
    if parameter not in first:
        first[parameter] = k
        ends = slope * np.array([formula.map.lower[parameter], formula.map.upper[parameter]])
        yield f"(>= {change} {number(ends.min())})"
        yield f"(<= {change} {number(ends.max())})"
        return
    leader = first[parameter]
    other = f"(- {entry('X_p', domain, leader)} {_moved(domain, formula, leader)})"
    other_slope = float(formula.map.directions[[leader]].data[0])
    if slope == other_slope:
        yield f"(== {change} {other})"
    else:
        yield f"(== (* {number(other_slope)} {change}) (* {number(slope)} {other}))"
