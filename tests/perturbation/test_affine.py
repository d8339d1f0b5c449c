"""Maps of users: how they are written, what they are called, and what is refused."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from vhagar import Problem
from vhagar.errors import InvalidInput
from vhagar.network import Affine, Network
from vhagar.perturbation import (
    AffineMap,
    AffinePerturbation,
    Brightness,
    Domain,
    Linf,
    Occlusion,
    UserPerturbation,
    affine_map,
    compose,
)
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.subsumption import subsumes
from vhagar.reduction.clipping import Clipping, clip_of
from vhagar.result.witness import Witness, WitnessCheck

DOMAIN = Domain((1, 2, 3))


def network() -> Network:
    weight = np.arange(12.0).reshape(2, 6) / 12
    return Network((Affine(weight, np.zeros(2), DOMAIN.shape, (2,)),), DOMAIN.shape)


def test_pixels_that_are_not_chosen_stay() -> None:
    found = affine_map(DOMAIN, matrix=0.5, offset=[0.1, 0.2], pixels=[4, 1])
    expected = np.eye(6)
    expected[1, 1] = expected[4, 4] = 0.5
    assert (found.matrix.toarray() == expected).all()
    assert found.offset.tolist() == [0, 0.2, 0, 0, 0.1, 0]
    assert found.count == 0


def test_all_ways_to_write_a_map_agree() -> None:
    mask = np.zeros(DOMAIN.image, dtype=bool)
    mask[0, 1, :2] = True
    rows = np.zeros((2, 6))
    rows[0, 3] = rows[1, 4] = 0.25
    given = [
        (0.25, [1.0, 2.0], 0.5, [(0, 1)], [3, 4]),
        ([0.25, 0.25], [[1.0], [2.0]], [0.5, 0.5], [[0, 1]], mask),
        (rows, sparse.csr_array([[1.0], [2.0]]), 0.5, [(0, 1)], [3, 4]),
        (sparse.coo_array(rows), [1.0, 2.0], 0.5, [(0.0, 1.0)], [3, 4]),
    ]
    names = ("matrix", "directions", "offset", "ranges", "pixels")
    ways = [affine_map(DOMAIN, **dict(zip(names, each, strict=True))) for each in given]
    assert len({each.canonical for each in ways}) == 1


def test_other_numbers_have_another_fingerprint() -> None:
    def own(**changes: Any) -> str:
        given = {"directions": np.ones(6), "offset": 0.0, "ranges": [(0.0, 0.5)]}
        return UserPerturbation(**{**given, **changes}).fingerprint(DOMAIN)

    same = own()
    assert own(offset=-0.0, name="other") == same
    assert re.fullmatch("[0-9a-f]{64}", same)
    others = [
        own(offset=1e-300),
        own(ranges=[(0.0, np.nextafter(0.5, 1))]),
        own(ranges=[(-0.1, 0.5)]),
        own(matrix=np.nextafter(1.0, 2)),
        own(directions=np.ones(6) * 2),
        own(directions=np.ones((6, 2)), ranges=[(0, 0.5)] * 2),
    ]
    assert len({same, *others}) == 7


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: affine_map(DOMAIN, pixels=[6]), "from 0 to 5"),
    (lambda: affine_map(DOMAIN, pixels=[-1]), "from 0 to 5"),
    (lambda: affine_map(DOMAIN, pixels=[1, 1]), "twice"),
    (lambda: affine_map(DOMAIN, pixels=[0.5]), "flat numbers"),
    (lambda: affine_map(DOMAIN, pixels=np.ones(5, dtype=bool)), "5 entries"),
    (lambda: affine_map(DOMAIN, matrix=np.eye(5)), "(6, 6), not (5, 5)"),
    (lambda: affine_map(DOMAIN, matrix=[1, 2]), "6 numbers"),
    (lambda: affine_map(DOMAIN, offset=np.nan), "NaN"),
    (lambda: affine_map(DOMAIN, offset=np.inf), "beyond"),
    (lambda: affine_map(DOMAIN, matrix=1e10), "beyond 1e+09"),
    (lambda: affine_map(DOMAIN, ranges=[(0, 1)]), "directions of 'map' are missing"),
    (lambda: affine_map(DOMAIN, directions=np.ones((6, 2)), ranges=[(0, 1)]), "(6, 1)"),
    (lambda: affine_map(DOMAIN, directions=np.ones(6), ranges=[(1, 0)]), "low <= high"),
    (lambda: affine_map(DOMAIN, directions=np.ones(6), ranges=[(0, np.inf)]), "finite"),
    (lambda: affine_map(DOMAIN, directions=np.ones(6), ranges=0.5), "list of pairs"),
    (
        lambda: affine_map(DOMAIN, directions=np.ones(6), ranges=[(0, 1)], names=["a", "b"]),
        "a name for each",
    ),
    (lambda: UserPerturbation(name="two\nlines").pieces(DOMAIN), "line of text"),
    (lambda: _Wrong(lambda domain: []).pieces(DOMAIN), "0 maps"),
    (lambda: _Wrong(lambda domain: [1]).pieces(DOMAIN), "AffineMap"),
    (lambda: _Wrong(lambda domain: 1 / 0).pieces(DOMAIN), "ZeroDivisionError"),
    (lambda: compose(UserPerturbation(), UserPerturbation()), "cannot be composed"),
    (
        lambda: compose(UserPerturbation(matrix=2.0), Linf(0.1)).pieces(DOMAIN),
        "leaves the input range",
    ),
    (
        lambda: compose(UserPerturbation(matrix=2.0), Brightness(0.1)).pieces(DOMAIN),
        "--no-clip",
    ),
    (
        lambda: compose(UserPerturbation(), Linf(0.1)).pieces(DOMAIN, clip=False),
        "leave out --no-clip",
    ),
]


class _Wrong(AffinePerturbation):
    name = "wrong"

    def __init__(self, make: Callable[[Domain], Any]) -> None:
        self._make = make

    def maps(self, domain: Domain) -> Any:
        return self._make(domain)


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_wrong_is_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        make()


def test_a_map_of_another_size_is_refused() -> None:
    own = UserPerturbation().settled(DOMAIN)
    with pytest.raises(InvalidInput, match="6 values, but the network's input has 4"):
        own.pieces(Domain((4,)))


def test_a_users_code_is_asked_once_and_need_not_travel() -> None:
    asked = []

    class Own(AffinePerturbation):  # a class that no other process could find
        name = "own"

        def arguments(self) -> tuple[str, ...]:
            return ("1", "2")

        def maps(self, domain: Domain) -> Iterator[AffineMap]:
            asked.append(domain)
            yield affine_map(domain, offset=0.1)

    problem = Problem(network(), perturbation=Own(), source=0)
    assert asked == [DOMAIN]
    copy = pickle.loads(pickle.dumps(problem))
    assert str(copy.perturbation) == "own(1,2)"
    assert copy.map_fingerprint == problem.map_fingerprint == Own().fingerprint(DOMAIN)
    assert copy.perturbation == problem.perturbation
    assert hash(copy.perturbation) == hash(problem.perturbation)
    assert subsumes(copy.perturbation, problem.perturbation, DOMAIN, True)
    assert not subsumes(Linf(1), problem.perturbation, DOMAIN, True)


def test_the_network_clips_what_leaves_the_range_and_nothing_else() -> None:
    shift = UserPerturbation(offset=[0.5, -0.5], pixels=[1, 2])
    problem = Problem(network(), perturbation=shift, source=0)
    reduced = Clipping().apply(problem)
    assert reduced is not None
    assert reduced.restore.statement() == {"clipped_pixels": [[2], [1]]}
    clipped = reduced.problem.network
    x = np.random.default_rng(0).uniform(0, 1, (50, 6))
    image = problem.pieces[0].apply(x, np.zeros((50, 0)))
    shown = clip_of(problem)(image)
    assert (shown == np.clip(image, 0, 1)).all()
    assert (shown != image).any()
    assert clipped.forward(image) == pytest.approx(problem.network.forward(shown))
    assert clipped.forward(x) == pytest.approx(problem.network.forward(x))
    assert Clipping().apply(Problem(network(), perturbation=shift, source=0, clip=False)) is None


def test_a_map_that_stays_inside_is_not_clipped() -> None:
    # 0.7 + 0.1 * 3 is not 1 in floats: rounding is no reason to clip.
    colour = UserPerturbation(matrix=0.7, directions=np.full(6, 0.1 * 3), ranges=[(0, 1)])
    assert Clipping().apply(Problem(network(), perturbation=colour, source=0)) is None


def test_a_black_pixel_may_rise_under_linf() -> None:
    (piece,) = compose(Occlusion(1, 1, 2), Linf(0.25)).pieces(DOMAIN)
    b = np.array([[1.0, 0.0, 0.0, -1.0, 0.0, 2.0]])
    found = piece.support(np.zeros((1, 6)), b)
    assert found.value == pytest.approx(0.25 + 0.0 + 2.0)
    assert piece.apply(found.x, found.parameters) @ b[0] == pytest.approx(found.value)


def test_a_witness_is_shown_as_the_network_sees_it() -> None:
    weight = np.zeros((2, 6))
    weight[0, 0] = 1.0
    score = Network((Affine(weight, np.array([0.0, 0.5]), DOMAIN.shape, (2,)),), DOMAIN.shape)
    problem = Problem(score, perturbation=UserPerturbation(offset=-2.0, pixels=[0]), source=0)
    witness = WitnessCheck(problem)(1, np.ones(6), 0, np.zeros(0))
    assert isinstance(witness, Witness)
    assert witness.x_p is not None
    assert witness.x_p.reshape(-1).tolist() == [0, 1, 1, 1, 1, 1]
    assert witness.confidence == pytest.approx(0.5)
    assert witness.margin == pytest.approx(0.5)


def test_a_part_that_depends_on_no_pixel() -> None:
    """A neuron whose weights are all 0 has such a part; its support is 0."""
    given = affine_map(DOMAIN, matrix=0.5, offset=[0.1, 0.2], pixels=[4, 1])
    piece = AffinePiece(DOMAIN, "map", given)
    part, columns = piece.local(np.zeros(0, dtype=np.int64))
    assert part.domain.size == len(columns) == 1
    nothing = np.zeros((1, 1))
    assert 0 <= part.support(nothing, nothing).value[0] < 1e-300
