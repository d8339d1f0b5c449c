"""The words for an input that is not in a domain name the condition that it breaks."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Domain
from vhagar.perturbation import Zonotope, linear_rows
from vhagar.perturbation.domain.outside import why_outside

DOMAIN = Domain(
    (6,),
    [0, 0, 0, 0, 0, 0],
    [9, 1, 1, 4, 4, 8],
    range=(0, 10),
    features=["age", "blood_a", "blood_b", "first", "last", "dose"],
    integer=[0],
    one_hot=[[1, 2]],
    ordered=[[3, 4]],
    rows=[
        linear_rows({3: 1.0, 5: 1.0}, 6, equal=4),
        linear_rows({4: 2.0}, 6, at_most=7),
    ],
    zonotope=Zonotope(np.full(6, 4.0), np.ones((1, 6)), 3.0, 3.75),
)
INSIDE = [3, 0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({0: 9.5}, ": entry age is 9.5, not from 0 to 9"),
        ({0: 2.5}, ": entry age is 2.5, not a whole number"),
        ({1: 1}, ": one of the entries blood_a, blood_b must be 1 and the others 0"),
        ({3: 2.5, 5: 1.5}, ": entry first is 2.5, above entry last, which is 2"),
        ({5: 3.5}, ": row 0 (first, dose) is 4.5, not 4"),
        ({4: 3.75}, ": row 1 (last) is 7.5, not from -inf to 7"),
        ({0: 9}, ": it is not in the zonotope"),
    ],
)
def test_the_broken_condition_is_named(changes: dict[int, float], words: str) -> None:
    x = np.array([changes.get(k, value) for k, value in enumerate(INSIDE)], dtype=np.float64)
    assert why_outside(DOMAIN, x) == words
    assert bool(DOMAIN.contains(x[None])[0]) == (not changes)


def test_entries_without_names_are_given_by_their_place() -> None:
    domain = Domain((1, 2, 3), 0.0, 0.5, range=(0, 1))
    assert why_outside(domain, np.array([0, 0, 0, 0, 0.75, 0])).startswith(": entry 0,1,1 is 0.75")
