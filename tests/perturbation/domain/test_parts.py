"""Parts of domains: nothing is lost when whole numbers are split."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vhagar import Domain, linear_rows
from vhagar.perturbation.domain.parts import at_whole_numbers, part_of_domain
from vhagar.perturbation.domain.plain import plain_domain
from vhagar_check.conditions import read_conditions
from vhagar_check.pieces import Domain as CheckedDomain

SIZE = 5


def random_whole(seed: int) -> Domain:
    """Three whole numbers, two others, and rows among them."""
    rng = np.random.default_rng(seed)
    rows = [
        linear_rows(np.round(rng.normal(size=SIZE), 1), SIZE, at_most=float(rng.uniform(-0.5, 2)))
        for _ in range(int(rng.integers(1, 4)))
    ]
    groups = {"one_hot": [[0, 1, 2]]} if seed % 2 else {"integer": [0, 1, 2]}
    if seed % 3 == 0:
        groups["ordered"] = [[0, 3]]
    return Domain((SIZE,), -1, 2, rows=rows, **groups)


def inputs_of(domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """All whole numbers with a grid and random numbers for the other entries."""
    grid = np.array(list(itertools.product((-1, 0, 1, 2), repeat=3)))
    rest = np.concatenate(
        [list(itertools.product((-1.0, 2.0), repeat=2)), rng.uniform(-1, 2, (40, 2))]
    )
    x = np.array([[*whole, *other] for whole in grid for other in rest])
    return x[domain.contains(x)]


def checked(domain: Domain) -> CheckedDomain:
    plain = {k: v for k, v in (plain_domain(domain) or {}).items() if k not in ("name", "sha256")}
    conditions = read_conditions(plain, domain.size)
    box = domain.low, domain.high
    return CheckedDomain(domain.shape, domain.lower, domain.upper, box, conditions)


@pytest.mark.parametrize("seed", range(12))
def test_no_input_is_lost_and_the_checker_narrows_no_less(seed: int) -> None:
    domain, rng = random_whole(seed), np.random.default_rng(seed)
    x, narrower, empty = inputs_of(domain, rng), 0, 0
    for _ in range(30):
        ranges = {}
        for k in rng.permutation(3)[: rng.integers(1, 4)].tolist():
            low, high = np.sort(rng.integers(-1, 3, 2)).tolist()
            ranges[k] = (float(low), float(high))
        inside = np.ones(len(x), dtype=bool)
        for k, (low, high) in ranges.items():
            inside &= (x[:, k] >= low) & (x[:, k] <= high)
        part, theirs = part_of_domain(domain, ranges), checked(domain).narrowed(ranges)
        if part is None:
            assert not inside.any()
            assert theirs is None
            empty += 1
            continue
        assert (part.contains(x) == inside).all()
        assert part.rows is domain.rows
        if theirs is None:  # exact arithmetic may see more
            assert not inside.any()
            continue
        assert theirs.box is not None
        assert (theirs.box[0] >= part.low).all()
        assert (theirs.box[1] <= part.high).all()
        for case in x[inside]:
            assert (theirs.box[0] <= case).all()
            assert (case <= theirs.box[1]).all()
        left = [k for k in range(3) if k not in ranges]
        narrower += int(
            (part.high < domain.high)[left].any() or (part.low > domain.low)[left].any()
        )
    assert empty + narrower > 0 or not seed % 2  # one-hot entries always narrow each other


def test_a_part_has_a_fingerprint_of_its_own() -> None:
    domain = Domain((2,), 0, 3, integer=[0])
    before = domain.fingerprint, domain.restricted.tolist(), hash(domain)
    part = part_of_domain(domain, {0: (1.0, 2.0)})
    assert part is not None
    assert part.fingerprint != domain.fingerprint
    assert part != domain
    assert part.restricted.tolist() == [True, False]
    assert (domain.fingerprint, domain.restricted.tolist(), hash(domain)) == before
    assert part == Domain((2,), [1, 0], [2, 3], range=(0, 3), integer=[0])


def test_whole_numbers_of_an_input_are_fixed() -> None:
    domain = Domain((4,), 0, 3, integer=[0], one_hot=[[1, 2]])
    part = at_whole_numbers(domain, np.array([2.0, 0.0, 1.0, 0.5]))
    assert part is not None
    assert part.low.tolist() == [2, 0, 1, 0]
    assert part.high.tolist() == [2, 0, 1, 3]
    assert at_whole_numbers(domain, np.array([2.0, 1.0, 1.0, 0.5])) is None
    plain = Domain((4,), 0, 3)
    assert at_whole_numbers(plain, np.zeros(4)) is plain
