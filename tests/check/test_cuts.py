"""Cuts in a certificate: it proves no more by them than follows, and pays for all rounding."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar_check import check
from vhagar_check.container import Block
from vhagar_check.cuts import Cut, Weighted
from vhagar_check.errors import Rejected
from vhagar_check.evaluation import proof_groups
from vhagar_check.exact import Exact
from vhagar_check.formula import Decisions
from vhagar_check.hexagon import exact_offset
from vhagar_check.layers import UNDERFLOW, Dense, Network, gamma
from vhagar_check.proofs import CONTRADICTION, MULTIPLIERS, Prover, Question
from vhagar_check.rational import ExactBounds
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

from .test_cone_proofs import region_of
from .test_verdict import forged


def small(exact: bool = False) -> Region:
    """One hidden layer with units of all kinds, three cuts: two with limits, two with pixels and
    two with perturbed ones."""
    rng = np.random.default_rng(1)
    first = Dense(rng.normal(size=(6, 4)), rng.normal(size=6) / 4)
    last = Dense(rng.normal(size=(3, 6)), rng.normal(size=3))
    own = region_of(Network(((first,), (last,)), (4,)), ExactBounds if exact else None)
    status = np.array([PAIR, EQUAL, PAIR, ON, OFF, PAIR], dtype=np.uint8)
    cuts = [
        Cut(
            0,
            np.array([0, 3, 5]),
            *rng.normal(size=(2, 3)),
            limit,
            np.array([1, 2])[:pixels],
            rng.normal(size=pixels),
            np.array([0, 2])[:perturbed],
            rng.normal(size=perturbed),
        )
        for limit, pixels, perturbed in ((0.7, 2, 1), (np.inf, 1, 0), (-0.3, 0, 2))
    ]
    return replace(own, status=[status], cuts=tuple(cuts))


def expected(own: Region, vector: np.ndarray, case: Decisions) -> Fraction:
    """The sum of alpha times the bound, from its definition."""
    u = [Fraction(float(part)) for part in vector]
    p = [u[0], u[6], u[1], None, Fraction(0), u[2]]
    q = [u[3], Fraction(0), u[4], None, Fraction(0), u[5]]
    alpha, mu, rho = u[7:9], u[9:11], u[11:]
    last, first = own.bounds.network.stages[1][0], own.bounds.network.stages[0][0]
    on_first = Exact.of_fractions([sum(alpha), -alpha[0], -alpha[1]])
    on_second = Exact.of_fractions([-mu[0], sum(mu), -mu[1]])
    total = on_first.dot(Exact.of(last.bias)) + on_second.dot(Exact.of(last.bias))
    a, b = (last.exact_backward(part).fractions() for part in (on_first, on_second))
    for weight, cut in zip(rho, own.cuts, strict=True):
        if weight:
            total += weight * Fraction(cut.limit)
            for n, c, d in zip(cut.units.tolist(), cut.a.tolist(), cut.b.tolist(), strict=True):
                a[n] -= weight * Fraction(c)
                b[n] -= weight * Fraction(d)
    for n in range(6):
        p[n], q[n] = (a[n], b[n]) if p[n] is None else (p[n], q[n])
        numbers = a[n], b[n], p[n], q[n]
        total += exact_offset(own.bounds.hexagons[0], n, case.signs.get((0, n), {}), numbers)
    ends = Exact.of_fractions(p), Exact.of_fractions(q)
    total += sum(end.dot(Exact.of(first.bias)) for end in ends)
    on_x, on_image = (first.exact_backward(end) for end in ends)
    on_pixels, on_perturbed = on_x.fractions(), on_image.fractions()
    for weight, cut in zip(rho, own.cuts, strict=True):
        for n, c in zip(cut.pixels.tolist(), cut.c.tolist(), strict=True):
            on_pixels[n] -= weight * Fraction(c)
        for n, d in zip(cut.perturbed.tolist(), cut.d.tolist(), strict=True):
            on_perturbed[n] -= weight * Fraction(d)
    inputs = map(Exact.of_fractions, (on_pixels, on_perturbed))
    return total + own.bounds.piece.exact_within(*inputs)


def vectors(count: int) -> np.ndarray:
    found = np.random.default_rng(2).normal(size=(count, 7 + 4 + 3))
    found[:, 7:] = abs(found[:, 7:])
    found[:, 12] = 0.0  # the cut without a limit
    return found


def values(own: Region, kind: int, numbers: np.ndarray, claim: float = 0.0) -> list[float]:
    kinds = np.full(len(numbers), kind, dtype=np.uint8)
    cases = [Decisions({(0, 0): {0: 1}}) for _ in numbers]
    with np.errstate(all="ignore"):
        return Prover(own, Question(0, 1, claim)).values(kinds, numbers, cases).tolist()


@pytest.mark.parametrize("exact", [False, True])
def test_weights_of_cuts_count_as_the_formula_says(exact: bool) -> None:
    own, numbers = small(exact), vectors(5)
    case = Decisions({(0, 0): {0: 1}})
    right = [expected(own, row, case) / sum(map(Fraction, row[7:9].tolist())) for row in numbers]
    assert min(right) > 0
    found = values(own, MULTIPLIERS, numbers)
    assert found == pytest.approx([float(part) for part in right], rel=1e-9)
    without = numbers.copy()
    without[:, 11:] = 0.0
    assert found != pytest.approx(values(own, MULTIPLIERS, without), rel=1e-3)
    for k in range(5):
        assert Fraction(found[k]) >= right[k]
        # A claim at the edge is decided in exact arithmetic.
        edge = float(np.nextafter(float(right[k]), np.inf))
        (judged,) = values(own, MULTIPLIERS, numbers[[k]], edge)
        assert right[k] <= Fraction(judged) <= Fraction(edge)


def test_a_cut_without_a_limit_proves_nothing() -> None:
    own, numbers = small(), vectors(3)
    before = values(own, MULTIPLIERS, numbers)
    numbers[1, 12] = 5e-324
    for claim in (0.0, 1e9):
        found = values(own, MULTIPLIERS, numbers, claim)
        assert found == pytest.approx([before[0], np.inf, before[2]], rel=1e-12)


def test_a_contradiction_by_cuts() -> None:
    """The weight of a cut with a low enough limit makes a number negative that is at least 0."""
    own, numbers = small(), vectors(1)
    numbers[0, 7:9] = 0.0
    bound = float(expected(own, numbers[0], Decisions({(0, 0): {0: 1}})))
    assert values(own, CONTRADICTION, numbers) == [np.inf]
    share = numbers[0, 13]
    for limit, answer in ((-1.01, -np.inf), (-0.99, np.inf)):
        rest = replace(own.cuts[2], limit=own.cuts[2].limit + limit * bound / share)
        lower = replace(own, cuts=(*own.cuts[:2], rest))
        assert values(lower, CONTRADICTION, numbers) == [answer]


@pytest.mark.parametrize("value", [-5e-324, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("kind", [MULTIPLIERS, CONTRADICTION])
def test_weights_of_cuts_must_be_finite_and_not_negative(kind: int, value: float) -> None:
    numbers = vectors(2)
    numbers[1, 13] = value
    with pytest.raises(Rejected, match="negative weight"):
        values(small(), kind, numbers)


SIZES = np.array([2.0, 3.0, 4.0])


def lost_and_allowed(
    cuts: Weighted, a: np.ndarray, b: np.ndarray, constant: float = 0.0, error: float = 0.0
) -> tuple[Fraction, Fraction]:
    """What rounding makes of coefficients and constant, times the outputs' sizes, and its bound."""
    begun = a, b, np.array([constant]), np.array([error])
    on_s, on_t, total, bound = cuts.taken_off(0, *begun, SIZES)
    exact = cuts.exactly_taken_off(0, Exact.of(a[0]), Exact.of(b[0]))
    lost = abs(Fraction(float(total[0])) - Fraction(constant) - exact[2])
    for found, right in ((on_s, exact[0]), (on_t, exact[1])):
        for n, number in enumerate(right.fractions()):
            lost += abs(Fraction(float(found[0, n])) - number) * Fraction(SIZES[n])
    return lost, Fraction(float(bound[0]))


@pytest.mark.parametrize("limit", [1e-9 / 3, 1e9 / 3])
def test_the_rounding_of_cuts_is_paid_for(limit: float) -> None:
    """What is taken off nearly cancels numbers that are 10^15 times as large as the rest."""
    cut = Cut(0, np.array([0, 2]), np.array([0.1, 0.3]), np.array([0.7, -0.9]), limit)
    given = np.array([[1e14 / 3, 5.0, 1e15 / 7]]), np.array([[-1e14 / 9, 1.0, 3e14 / 7]])
    weighted = Weighted((cut, cut), np.array([[1e15 / 3, 1e14 / 7]]))
    lost, allowed = lost_and_allowed(weighted, *given)
    assert 0 < lost <= allowed < 10**4 * lost
    zero = np.zeros(1)
    assert weighted.taken_off(1, *given, zero, zero, SIZES) == (*given, zero, zero)
    exact = tuple(Exact.of(part[0]) for part in given)
    assert weighted.exactly_taken_off(1, *exact) == (*exact, 0)
    nothing = Weighted((cut, cut), np.zeros((1, 2)))
    assert nothing.taken_off(0, *given, zero, zero, SIZES)[3] is zero


@pytest.mark.parametrize(
    ("a", "b", "on_a", "on_b", "limit", "constant"),
    [
        (1e16 / 3, 0.0, 0.3, 0.0, 0.0, 0.0),
        (0.0, 1e16 / 3, 0.0, 0.3, 0.0, 0.0),
        (1e16 / 3, -1e16 / 3, 0.3, 0.3, 0.0, 0.0),
        (0.0, 0.0, 1e16 / 3, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 1e16 / 3, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 1e16 / 3, 0.0),
        (0.0, 0.0, 0.0, 0.0, -1e16 / 3, 0.0),
        (0.0, 0.0, 0.0, 0.0, 0.3, 1e16 / 3),
        (0.0, 0.0, 0.0, 0.0, 0.3, -1e16 / 3),
    ],
)
@pytest.mark.parametrize("weights", [(0.7,), (7e9 / 3,), (7e-17, 0.7), (0.7, 0.7000001, 7e-17)])
def test_everything_that_is_rounded_is_paid_for(
    a: float,
    b: float,
    on_a: float,
    on_b: float,
    limit: float,
    constant: float,
    weights: tuple[float, ...],
) -> None:
    """One number is large at a time, so that nothing else can pay for its rounding."""
    unit, row = np.array([1]), np.array([[0.0, 1.0, 0.0]])
    cuts = tuple(
        Cut(0, unit, np.array([sign * on_a]), np.array([sign * on_b]), sign * limit)
        for sign in (1.0, -1.0, 1.0)[: len(weights)]
    )
    weighted = Weighted(cuts, np.array([weights]))
    lost, allowed = lost_and_allowed(weighted, a * row, b * row, constant)
    assert 0 < lost <= allowed
    # What was lost before is not forgotten.
    assert lost_and_allowed(weighted, a * row, b * row, constant, 1e20)[1] >= 10**20


def test_rounding_adds_up_over_many_cuts() -> None:
    """Each takes off less than half of what float64 can tell from 1: all of it is lost."""
    count, little = 1000, 0.99 * 2.0**-54
    cut = Cut(0, np.array([1]), np.array([little]), np.array([0.0]), 0.0)
    row = np.array([[0.0, 1.0, 0.0]])
    weighted = Weighted((cut,) * count, np.ones((1, count)))
    lost, allowed = lost_and_allowed(weighted, row, 0 * row)
    assert lost == count * Fraction(little) * 3
    assert lost <= allowed


@pytest.mark.parametrize("count", [1, 3])
def test_what_cuts_lose_to_underflow_is_paid_for(count: int) -> None:
    """Also where subnormal numbers are flushed to 0: one product for each cut and copy."""
    cut = Cut(0, np.array([0, 2]), np.full(2, 1e-200), np.full(2, 1e-200), 0.0)
    zeros = np.zeros((1, 3))
    weighted = Weighted((cut,) * count, np.full((1, count), 1e-200))
    _, allowed = lost_and_allowed(weighted, zeros, zeros)
    assert allowed >= 2 * count * Fraction(2.0**-1022) * Fraction(SIZES.sum())


def lost_at_inputs(cuts: Weighted, a: np.ndarray, error: float = 0.0) -> tuple[Fraction, Fraction]:
    """What rounding makes of coefficients on inputs of at most 3, and its bound.

    `x` and `x_p` have the same ones.
    """
    *found, bound = cuts.taken_off_inputs(a, a, np.array([error]), 3.0)
    right = cuts.exactly_taken_off_inputs(Exact.of(a[0]), Exact.of(a[0]))
    lost = Fraction(0)
    for copy, exact in zip(found, right, strict=True):
        pairs = zip(copy[0].tolist(), exact.fractions(), strict=True)
        lost += sum(abs(Fraction(own) - true) for own, true in pairs) * 3
    return lost, Fraction(float(bound[0]))


@pytest.mark.parametrize("weights", [(0.7,), (7e9 / 3,), (7e-17, 0.7), (0.7, 0.7000001, 7e-17)])
@pytest.mark.parametrize(("given", "c"), [(1e16 / 3, 0.3), (0.0, 1e16 / 3)])
@pytest.mark.parametrize("copies", ["x", "x_p", "both"])
def test_what_is_rounded_at_the_inputs_is_paid_for(
    given: float, c: float, weights: tuple[float, ...], copies: str
) -> None:
    cuts = tuple(
        on_pixels(np.array([1]), np.array([sign * c]), copies)
        for sign in (1.0, -1.0, 1.0)[: len(weights)]
    )
    weighted, row = Weighted(cuts, np.array([weights])), given * np.array([[0.0, 1.0, 0.0]])
    lost, allowed = lost_at_inputs(weighted, row)
    assert 0 < lost <= allowed < Fraction(given + max(weights) * c)
    assert lost_at_inputs(weighted, row, 1e20)[1] >= 10**20
    assert (row[0] == given * np.array([0.0, 1.0, 0.0])).all()
    nothing, error = Weighted(cuts, np.zeros((1, len(cuts)))), np.zeros(1)
    assert nothing.taken_off_inputs(row, row, error, 3.0) == (row, row, error)


def on_pixels(pixels: np.ndarray, c: np.ndarray, copies: str) -> Cut:
    """A cut about pixels alone."""
    none, own = np.zeros(0, dtype=np.int64), np.zeros(0)
    on_x = (pixels, c) if copies != "x_p" else (none, own)
    on_image = (pixels, c) if copies != "x" else (none, own)
    return Cut(0, none, own, own, 1.0, *on_x, *on_image)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("copies", ["x", "x_p", "both"])
def test_what_is_lost_to_underflow_at_the_inputs_is_paid_for(count: int, copies: str) -> None:
    cut = on_pixels(np.array([0, 2]), np.full(2, 1e-200), copies)
    weighted = Weighted((cut,) * count, np.full((1, count), 1e-200))
    _, allowed = lost_at_inputs(weighted, np.zeros((1, 3)))
    products = 4 if copies == "both" else 2
    assert allowed >= count * Fraction(2.0**-1022) * products * 3


def test_a_weight_of_one_is_a_weight() -> None:
    one, own = np.array([1]), np.array([4.0])
    cut = Cut(0, one, np.array([2.0]), np.array([3.0]), 5.0, one, own, one, 2 * own)
    zeros, zero = np.zeros((1, 3)), np.zeros(1)
    weighted = Weighted((cut,), np.ones((1, 1)))
    a, b, constant, _ = weighted.taken_off(0, zeros, zeros, zero, zero, SIZES)
    assert (a[0, 1], b[0, 1], constant[0]) == (-2.0, -3.0, 5.0)
    a, b, _ = weighted.taken_off_inputs(zeros, zeros, zero, 1.0)
    assert (a[0, 1], b[0, 1]) == (-4.0, -8.0)


@pytest.mark.parametrize(
    ("tags", "right"),
    [
        ("REGN CUTS CUTS PROF", True),
        ("REGN REFN CUTS PROF", True),
        ("REGN CUTS REFN PROF", False),
        ("REGN TIGH CUTS PROF", False),
        ("REGN REFN TIGH CUTS PROF", False),
        ("REGN REFN CUTS REFN PROF", False),
        ("REGN CUTS TIGH PROF", False),
        ("REGN PROF CUTS PROF", False),
        ("SPEC CUTS PROF", False),
        ("CUTS PROF", False),
    ],
)
def test_cuts_come_before_the_proofs_of_a_plain_region(tags: str, right: bool) -> None:
    blocks = [Block(tag, k, 0, 0) for k, tag in enumerate(["HEAD", *tags.split()])]
    if right:
        ((_, before, proofs),) = proof_groups(blocks)
        assert [*before, *proofs] == blocks[2:]
    else:
        with pytest.raises(Rejected, match="not in order"):
            proof_groups(blocks)


def test_a_certificate_about_one_image_has_no_cuts(tmp_path: Path) -> None:
    vectors = Path(__file__).parents[2] / "checker" / "vectors"
    model, path = vectors / "local.onnx", tmp_path / "proof.cert"
    path.write_bytes((vectors / "one_image.cert").read_bytes())
    check(path, model=model)

    def change(blocks: list[tuple[str, bytes]], _: Any) -> None:
        place = [tag for tag, _ in blocks].index("REGN")
        blocks.insert(place + 1, ("CUTS", b""))

    with pytest.raises(Rejected, match="one image has cuts"):
        check(forged(path, change), model=model)


def test_what_is_allowed_for_rounding_at_the_inputs() -> None:
    """Every product and sum is rounded, and each product may underflow; cuts without pixels cost
    nothing."""
    unit, c = np.array([0]), np.array([2.0, -0.5])
    plain = Cut(0, unit, np.ones(1), np.ones(1), 1.0)
    assert len(plain.pixels) == len(plain.c) == len(plain.perturbed) == len(plain.d) == 0
    given = np.array([0, 2]), c, np.array([3]), np.array([-0.25])
    cut = Cut(0, unit, np.ones(1), np.ones(1), 1.0, *given)
    weights, error = np.array([[1.0, 3.0, 0.0], [1.0, 0.0, 2.0]]), np.array([0.5, 0.25])
    a = np.array([[1.0, -2.0, 4.0, 0.5], [0.0, 1.0, -1.0, 2.0]])
    b = a[:, ::-1].copy()
    found, found_p, grown = Weighted((plain, cut, cut), weights).taken_off_inputs(a, b, error, 3.0)
    weight = weights[:, 1] + weights[:, 2]
    np.testing.assert_array_equal(found, a - weight[:, None] * [2.0, 0.0, -0.5, 0.0])
    np.testing.assert_array_equal(found_p, b - weight[:, None] * [0.0, 0.0, 0.0, -0.25])
    size = 2 * abs(a).sum(axis=1) + weight * 2.75
    np.testing.assert_array_equal(
        grown, error + gamma(4 + 8 + 4) * (size * 3.0) + 2 * UNDERFLOW * 3 * (8 * 3.0)
    )
    nothing, zeros = Cut(0, unit, np.ones(1), np.ones(1), 1.0, np.array([0, 2]), 0.0 * c), 0 * a[:1]
    lost = Weighted((nothing,), np.ones((1, 1))).taken_off_inputs(zeros, zeros, np.zeros(1), 3.0)
    assert lost[2].tolist() == [2 * UNDERFLOW * 2 * (8 * 3.0)]
    kept = Weighted((plain,), np.ones((2, 1))).taken_off_inputs(a, b, error, 3.0)
    assert all(part is own for part, own in zip(kept, (a, b, error), strict=True))
