"""Domains with more conditions than ranges: rows, zonotopes, groups; membership and files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain, Linf, Zonotope, linear_rows, parse
from vhagar.perturbation.decided_support import decided_support
from vhagar.perturbation.domain.emptiness import exact_support_at_zero, require_inputs
from vhagar.perturbation.domain.file import read_domain
from vhagar.perturbation.domain.plain import domain_of_plain, plain_domain
from vhagar.perturbation.domain.writer import write_domain

SIZE = 6
NAMED = 'features = ["a", "b", "c", "d", "e", "f"]\n'


def zonotope(seed: int = 0, size: int = SIZE, count: int = 2) -> Zonotope:
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(count, size)) / 3
    return Zonotope(np.full(size, 0.5), parts, rng.uniform(0.1, 0.5, count), 0.05)


def everything() -> Domain:
    return Domain(
        (8,),
        0.0,
        1.0,
        range=(0.0, 4.0),
        fixed={7: 0.25},
        integer=[0],
        one_hot=[[1, 2, 3]],
        ordered=[[4, 5]],
        rows=[linear_rows({4: 1.0, 6: 2.0}, 8, at_most=1.0)],
        zonotope=zonotope(1, 8).__class__(np.full(8, 0.5), np.eye(2, 8, 4), [0.5, 0.5], 0.5),
        perturbed_inside=True,
        name="all",
    )


def test_fixed_entries_and_groups_narrow_the_box() -> None:
    domain = Domain((4,), -0.5, 2.5, range=(-1, 3), fixed={0: 0.5}, integer=[1], one_hot=[[2, 3]])
    assert domain.low.tolist() == [0.5, 0.0, 0.0, 0.0]
    assert domain.high.tolist() == [0.5, 2.0, 1.0, 1.0]
    assert not domain.whole
    assert domain.constrained
    assert domain.box.low.tolist() == domain.low.tolist()
    assert not domain.box.constrained
    assert Domain((4,), fixed={2: 0.5}, range=(0, 1)).box.fingerprint is not None


def test_membership_is_exact() -> None:
    domain = Domain((3,), rows=[linear_rows([0.1, 0.2, 0.0], 3, at_most=0.3)])
    x = np.array([[1.0, 1.0, 0.0], [1.0, 1 - 2.0**-52, 0.0]])
    # In float64 0.1 + 0.2 is larger than 0.3, and so it is for the numbers that they stand for.
    assert Fraction(0.1) + Fraction(0.2) > Fraction(0.3)
    assert domain.contains(x).tolist() == [False, True]
    whole = Domain((2,), 0, 3, integer=[0])
    assert whole.contains(np.array([[2.0, 0.5], [1.5, 0.5]])).tolist() == [True, False]
    hot = Domain((3,), one_hot=[[0, 1, 2]])
    points = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0.5, 0.5, 0]])
    assert hot.contains(points).tolist() == [True, False, False, False]
    order = Domain((2,), ordered=[[1, 0]])
    assert order.contains(np.array([[0.5, 0.5], [0.4, 0.5]])).tolist() == [True, False]


@pytest.mark.parametrize("seed", range(4))
def test_points_of_a_zonotope_are_found_inside(seed: int) -> None:
    own, rng = zonotope(seed), np.random.default_rng(seed)
    z = rng.uniform(-own.ranges, own.ranges, (30, own.count))
    # Close to the border, where least squares alone often fails.
    r = rng.choice([-1.0, 1.0], (30, SIZE)) * own.residual * 0.999
    x = own.at(z) + r
    domain = Domain((SIZE,), -3, 3, zonotope=own)
    assert domain.contains(x).all()
    far = own.at(z) + 1.1 * own.residual + own.ranges @ abs(own.components)
    assert not domain.contains(far).any()
    low, high = own.box
    assert (x >= low).all()
    assert (x <= high).all()


def test_every_point_found_inside_a_zonotope_has_exact_coordinates() -> None:
    own, rng = zonotope(3), np.random.default_rng(3)
    x = own.at(rng.uniform(-own.ranges, own.ranges, (50, own.count)))
    x += rng.uniform(-1.5, 1.5, x.shape) * own.residual
    z, inside = own.witnesses(x)
    assert 0 < inside.sum() < len(x)
    for point, place in zip(x[inside], z[inside], strict=True):
        for i in range(SIZE):
            total = Fraction(float(own.mean[i]))
            for k in range(own.count):
                total += Fraction(float(place[k])) * Fraction(float(own.components[k, i]))
            assert abs(Fraction(float(point[i])) - total) <= Fraction(float(own.residual[i]))


def random_domain(seed: int) -> Domain:
    """Integers, a one-hot group, an order, rows and a zonotope around a point inside of them."""
    rng = np.random.default_rng(seed)
    size = 9
    inside = rng.uniform(0, 3, size)
    inside[:2] = np.rint(inside[:2])
    inside[2:5] = 0, 1, 0
    inside[5:7] = np.sort(inside[5:7])
    rows = rng.normal(size=(2, size))
    value = rows @ inside
    parts = rng.normal(size=(3, size))
    return Domain(
        (size,),
        0,
        3,
        integer=[0, 1],
        one_hot=[[2, 3, 4]],
        ordered=[[5, 6]],
        rows=[
            linear_rows(rows, size, at_most=value + 0.3),
            linear_rows({7: 1.0, 8: 1.0}, size, equal=float(np.rint(inside[7] + inside[8]))),
        ],
        zonotope=Zonotope(inside, parts, 2.0, 1.5) if seed % 2 else None,
    )


@pytest.mark.parametrize("seed", range(6))
def test_projections_are_mostly_inside(seed: int) -> None:
    domain, rng = random_domain(seed), np.random.default_rng(seed)
    x = rng.uniform(-0.5, 3.5, (60, domain.size)).astype(np.float32).astype(np.float64)
    found = domain.project(x)
    assert domain.contains(found).mean() > 0.5
    assert (found[:, 2:5].sum(axis=1) == 1).all()
    again = domain.project(found)
    assert (again[domain.contains(found)] == found[domain.contains(found)]).all()


@pytest.mark.parametrize("seed", range(4))
def test_files_and_plain_data_keep_everything(tmp_path: Path, seed: int) -> None:
    for domain in (everything(), random_domain(seed)):
        path = tmp_path / "own.toml"
        write_domain(domain, path)
        found = read_domain(path, domain.shape)
        assert found == domain
        assert found.fingerprint == domain.fingerprint
        assert found.perturbed_inside == domain.perturbed_inside
        span = domain.lower, domain.upper
        assert domain_of_plain(domain.shape, span, plain_domain(domain)) == domain


def test_every_condition_is_part_of_the_fingerprint() -> None:
    given = {
        "integer": [0],
        "one_hot": [[1, 2]],
        "ordered": [[3, 4]],
        "rows": [linear_rows({5: 1.0}, SIZE, at_most=0.5)],
        "zonotope": zonotope(),
        "perturbed_inside": True,
    }
    found = {Domain((SIZE,), -3, 3, **{key: value}).fingerprint for key, value in given.items()}
    found |= {Domain((SIZE,), -3, 3, rows=[linear_rows({5: 1.0}, SIZE, at_least=0.5)]).fingerprint}
    assert len(found) == 7
    assert None not in found


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"fixed": {9: 0.5}}, "entry 9"),
        ({"fixed": {0: 2.0}}, "empty"),
        ({"integer": [9]}, "not among 0 to 5"),
        ({"integer": [1, 1]}, "different entries"),
        ({"one_hot": [[0, 1], [1, 2]]}, "two one_hot groups"),
        ({"ordered": [[0]]}, "at least two"),
        ({"one_hot": [0, 1]}, "one_hot of the domain must be groups"),
        ({"fixed": {"a": 0.5}}, "fixed names entry a of 6"),
        ({"rows": [linear_rows({0: 1.0}, 4, at_most=1.0)]}, "4 entries"),
        ({"zonotope": zonotope(0, 4)}, "4 entries"),
        (
            {"lower": 0.2, "upper": 0.8, "integer": [0], "range": (0, 1)},
            "empty: no whole number lies between 0 and 1",
        ),
        ({"fixed": {0: 2.0}, "features": list("abcdef")}, "empty.* entry a "),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Domain((SIZE,), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ends", "complaint"),
    [
        ({}, "needs at_least"),
        ({"equal": 1.0, "at_most": 2.0}, "either equal"),
        ({"at_least": 2.0, "at_most": 1.0}, "empty"),
        ({"at_most": float("nan")}, "not a number"),
        ({"at_least": [1.0, 2.0]}, "do not fit"),
    ],
)
def test_rows_that_make_no_sense_are_refused(ends: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        linear_rows([1.0, 2.0], 2, **ends)  # type: ignore[arg-type]


def test_zonotopes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no residual at entry 1"):
        Zonotope(np.zeros(2), [[0.0, 1.0]], 1.0, 0.0)
    with pytest.raises(InvalidInput, match="none negative"):
        Zonotope(np.zeros(2), [[0.0, 1.0]], -1.0, 0.1)
    with pytest.raises(InvalidInput, match="components"):
        Zonotope(np.zeros(2), [[0.0, 1.0, 2.0]], 1.0, 0.1)
    with pytest.raises(InvalidInput, match="not finite"):
        Zonotope([np.nan, 0.0], [[0.0, 1.0]], 1.0, 0.1)
    with pytest.raises(InvalidInput, match="beyond the numbers of float64"):
        Zonotope(np.zeros(2), [[0.0, 1e200]], 1e200, 0.1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("integer = 3", "integer in .* must be entries"),
        ("integer = ['age']", "integer in .* names 'age', .* none are listed as features"),
        ("one_hot = 3", "groups of entries"),
        ("fixed = [3]", "must be numbers by entries"),
        (NAMED + "fixed = {g = 0.5}", "fixed in .* names 'g', .* they are a, b, c, d, e, f"),
        (NAMED + "fixed = {a = 0.5, 0 = 0.5}", "gives an entry twice"),
        ("perturbed_inside = 1", "true or false"),
        ("[rows]\nat_most = 1", "list of tables"),
        ("[[rows]]\nat_most = 1", "needs coefficients"),
        ("[[rows]]\ncoefficients = {0 = 1}\nbelow = 1", "unknown entries: below"),
        ("[zonotope]\nmean = 0.5", "lacks components"),
    ],
)
def test_files_that_make_no_sense_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=complaint):
        read_domain(path, (SIZE,))


def test_entries_of_a_file_have_numbers_or_names(tmp_path: Path) -> None:
    text = """fixed = {%s = 0.5}
integer = [%s]
one_hot = [[%s, %s]]
ordered = [%s, %s]
[[rows]]
coefficients = {%s = 1, %s = 2}
at_most = 1.5
"""
    found = []
    for entries in (["0", "1", "2", "3", "4", "5", "4", "0"], list("abcdefea")):
        quoted = [f'"{name}"' if name.isalpha() else name for name in entries]
        words = [entries[0], *quoted[1:6], *entries[6:]]
        path = tmp_path / "own.toml"
        path.write_text(NAMED + text % tuple(words))
        found.append(read_domain(path, (SIZE,)))
    assert found[0] == found[1]
    assert found[1].groups.one_hot == ((2, 3),)


def points_of(domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """Inputs in the domain, some of them far out."""
    wide = rng.uniform(domain.lower - 2, domain.upper + 2, (400, domain.size))
    x = domain.project(wide)
    return x[domain.contains(x)]


@pytest.mark.parametrize("seed", range(6))
def test_points_of_a_domain_do_not_exceed_its_support(seed: int) -> None:
    domain, rng = random_domain(seed), np.random.default_rng(seed)
    x, s = points_of(domain, rng), rng.normal(size=(60, domain.size))
    assert len(x) > 50
    found = domain.support(s)
    assert ((s @ x.T).max(axis=1) <= found).all()
    assert (found <= domain.box.support(s) + 1e-9).all()
    assert found.mean() < domain.box.support(s).mean() - 0.1


@pytest.mark.parametrize("text", ["brightness([0.1,0.4])", "brightness([-0.3,-0.1])"])
@pytest.mark.parametrize("seed", range(3))
def test_conditions_count_where_images_are_clipped(text: str, seed: int) -> None:
    """Also where it is decided which pixels are."""
    domain, rng = random_domain(seed), np.random.default_rng(seed)
    (piece,), (boxed,) = (parse(text).pieces(each) for each in (domain, domain.box))
    corners, (low, high) = piece.pixel_corners(), piece.parameter_bounds
    assert corners is not None
    x = points_of(domain, rng)[:60]
    image = piece.apply(x, rng.uniform(low, high, (len(x), 1)))
    a, b = rng.normal(size=(2, len(x), domain.size))
    value = (a * x + b * image).sum(axis=1)
    found, without = piece.support(a, b).value, boxed.support(a, b).value
    assert (value <= found).all()
    assert (found <= without + 1e-9).all()
    assert found.mean() < without.mean() - 0.1
    gained = 0.0
    for k, clipped in enumerate(image == corners.x_p[0]):
        allowed = np.where(corners.side[:, None] * np.where(clipped, 1, -1) < 0, -np.inf, 0.0)
        own = a[[k]], b[[k]], allowed
        decided, plain = decided_support(piece, *own)[0], decided_support(boxed, *own)[0]
        assert value[k] <= decided <= min(found[k], plain) + 1e-9
        gained += min(found[k], plain) - decided
    assert gained > 1


def test_points_of_a_zonotope_do_not_exceed_its_support() -> None:
    own, rng = zonotope(2), np.random.default_rng(2)
    s = rng.normal(size=(40, SIZE))
    z = np.where(s @ own.components.T > 0, own.ranges, -own.ranges)
    x = own.at(z) + np.where(s > 0, own.residual, -own.residual)
    found = Domain((SIZE,), -9, 9, zonotope=own).support(s)
    assert ((s * x).sum(axis=1) <= found).all()
    np.testing.assert_allclose((s * x).sum(axis=1), found, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_share_no_entry_have_exact_supports(seed: int) -> None:
    """The best corner: of a one-hot group one entry, of an order one step."""
    rng = np.random.default_rng(seed)
    domain = Domain((5,), 0, 2, one_hot=[[0, 1, 2]], ordered=[[3, 4]])
    s = rng.normal(size=(30, 5))
    steps = np.stack([0 * s[:, 3], 2 * s[:, 4], 2 * s[:, 3] + 2 * s[:, 4]]).max(axis=0)
    np.testing.assert_allclose(domain.support(s), s[:, :3].max(axis=1) + steps, atol=1e-9)


def test_an_empty_domain_is_said_to_be_empty() -> None:
    apart = [
        linear_rows({0: 1.0, 1: 1.0}, SIZE, at_least=1.5),
        linear_rows({0: 1.0}, SIZE, None, 0.4),
    ]
    require_inputs(Domain((SIZE,), rows=apart[:1]))
    down = {"ordered": [[1, 2], [3, 4]], "fixed": {3: 0.7, 4: 0.2}}
    with pytest.raises(InvalidInput, match=r"empty: the ordered group \[3, 4\] and the ranges"):
        require_inputs(Domain((SIZE,), **down))
    with pytest.raises(InvalidInput, match=r"is empty.*rational arithmetic"):
        require_inputs(Domain((SIZE,), rows=apart))
    far = Zonotope(np.full(SIZE, 0.5), np.eye(1, SIZE), 0.25, 0.01)
    require_inputs(Domain((SIZE,), zonotope=far))
    beyond = [linear_rows({0: 1.0, 1: 1.0}, SIZE, at_least=1.4)]
    with pytest.raises(InvalidInput, match="is empty"):
        require_inputs(Domain((SIZE,), rows=beyond, zonotope=far))
    hot = [linear_rows({0: 1.0, 1: 1.0, 2: 1.0}, SIZE, at_most=0.9)]
    with pytest.raises(InvalidInput, match=r"row 1 of 1, the one_hot group \[0, 1, 2\] and"):
        require_inputs(Domain((SIZE,), rows=hot, one_hot=[[0, 1, 2]]))


@pytest.mark.parametrize("missed", [1e-3, 1e-15])
def test_a_row_that_the_ranges_contradict_is_found_however_little_it_misses(missed: float) -> None:
    rows = {"above": {"at_least": 2.0 + missed}, "below": {"at_most": -missed}}
    for ends in rows.values():
        row = linear_rows({0: 1.0, 1: 1.0}, SIZE, **ends)
        with pytest.raises(InvalidInput, match="is empty: row 2 of 2 and the ranges"):
            require_inputs(Domain((SIZE,), rows=[linear_rows({2: 1.0}, SIZE, at_most=0.5), row]))
    for ends in ({"at_least": 2.0}, {"at_most": 0.0}, {"at_least": 0.0, "at_most": 2.0}):
        require_inputs(Domain((SIZE,), rows=[linear_rows({0: 1.0, 1: 1.0}, SIZE, **ends)]))


def test_rows_that_contradict_each_other_by_little_are_found() -> None:
    rows = [
        linear_rows({0: 1.0, 1: 1.0}, SIZE, at_least=1.0 + 1e-8),
        linear_rows({0: 1.0, 1: 1.0}, SIZE, at_most=1.0),
    ]
    with pytest.raises(InvalidInput, match="is empty: row 1 of 2, row 2 of 2"):
        require_inputs(Domain((SIZE,), rows=rows))


def test_a_domain_that_only_fractions_satisfy_is_empty() -> None:
    between = [linear_rows({0: 1.0, 1: 1.0}, SIZE, at_least=0.3, at_most=0.7)]
    require_inputs(Domain((SIZE,), rows=between))
    require_inputs(Domain((SIZE,), rows=between, integer=[0]))
    with pytest.raises(InvalidInput, match=r"row 1 of 1 and .* some are whole numbers, contradict"):
        require_inputs(Domain((SIZE,), rows=between, integer=[0, 1]))
    with pytest.raises(InvalidInput, match="is empty: row 1 of 1"):
        require_inputs(Domain((SIZE,), rows=between, one_hot=[[0, 1, 2]]))
    require_inputs(Domain((SIZE,), rows=between, one_hot=[[0, 2, 3]]))


@pytest.mark.parametrize("seed", range(30))
def test_a_domain_of_whole_numbers_is_empty_exactly_if_no_combination_satisfies_it(
    seed: int,
) -> None:
    rng, size = np.random.default_rng(seed), 4
    weights = rng.integers(-3, 4, (2, size)).astype(float)
    ends = rng.integers(-6, 7, 2) + 0.5
    rows = [linear_rows(weights, size, at_least=ends, at_most=ends + rng.integers(0, 2))]
    points = np.stack(np.meshgrid(*[np.arange(3.0)] * size), axis=-1).reshape(-1, size)
    domain = Domain((size,), 0, 2, rows=rows, integer=range(size))
    if domain.contains(points).any():
        require_inputs(domain)
    else:
        with pytest.raises(InvalidInput, match="is empty"):
            require_inputs(domain)


def test_multipliers_that_prove_nothing_leave_a_domain_alone() -> None:
    domain = Domain((2,), rows=[linear_rows({0: 1.0, 1: 1.0}, 2, at_most=1.0)])
    for y in (-1.0, 0.0, 1.0, 5.0):
        assert exact_support_at_zero(domain, np.array([y]), np.zeros(2)) >= 0


@pytest.mark.parametrize("row", [{"at_most": 3.0}, {"at_least": 8.0}, {"equal": 4.0}])
def test_under_linf_rows_count_where_every_range_is_the_input_range(row: dict[str, float]) -> None:
    size, rng = 12, np.random.default_rng(4)
    domain = Domain((size,), rows=linear_rows(np.ones(size), size, **row))
    (piece,) = Linf(0.1).pieces(domain)
    a, b = rng.normal(size=(2, 8, size))
    b = 0.3 * b - a
    found = piece.support(a, b).value
    eye = np.eye(size)
    near = np.block([[eye, -eye], [-eye, eye], [np.ones(size), np.zeros(size)]])
    least, most = row.get("at_least", -np.inf), row.get("at_most", np.inf)
    ends = (row["equal"], row["equal"]) if "equal" in row else (least, most)
    limits = LinearConstraint(
        near, np.r_[np.full(2 * size, -np.inf), ends[0]], np.r_[np.full(2 * size, 0.1), ends[1]]
    )
    for case in range(len(a)):
        exact = milp(-np.r_[a[case], b[case]], bounds=Bounds(0, 1), constraints=limits)
        assert found[case] >= -exact.fun - 1e-9
        assert found[case] <= -exact.fun + 0.05 * abs(exact.fun)
