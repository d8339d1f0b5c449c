"""What each perturbation says of the input, and of the first layer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from vhagar import Network
from vhagar.dependency import DependencyOptions, Relations, find_dependencies
from vhagar.dependency.inputs import alike_through, changed_pixels, moved_pixels
from vhagar.network import Affine
from vhagar.perturbation import Domain, parse
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.formula import fixed_map

from .orders import Order, orders_of

SHAPE = (1, 3, 3)
ALL, CENTRE, CORNERS = set(range(9)), {4}, {0, 2, 6, 8}


def places(known: Relations, order: Order | None) -> set[int]:
    return {
        int(k) for k, found in zip(known.first, orders_of(known), strict=True) if found is order
    }


@pytest.mark.parametrize(
    ("text", "clip", "equal", "at_most", "at_least"),
    [
        ("linf(0.2)", True, set(), set(), set()),
        ("patch([0,0.5],2,2,2)", True, ALL - {4, 5, 7, 8}, set(), set()),
        ("occlusion(2,2,2)", True, ALL - {4, 5, 7, 8}, set(), {4, 5, 7, 8}),
        ("brightness([0,0.2])", True, set(), ALL, set()),
        ("brightness([0.1,0.2])", False, set(), ALL, set()),
        ("brightness([-0.3,0])", True, set(), set(), ALL),
        ("brightness([-0.3,-0.1])", False, set(), set(), ALL),
        ("brightness([0,0])", True, ALL, set(), set()),
        ("contrast([1,2])", True, set(), ALL, set()),
        ("contrast([1.5,2])", False, set(), ALL, set()),
        ("contrast([0.5,1])", True, set(), set(), ALL),
        ("contrast([0.5,0.7])", False, set(), set(), ALL),
        ("translation(1,0)", True, set(), set(), {0, 1, 2}),
        ("translation(0,0)", True, ALL, set(), set()),
        ("rotation(0)", True, ALL, set(), set()),
        ("rotation(90)", True, CENTRE, set(), set()),
        ("rotation(45)", True, CENTRE, set(), CORNERS),
        ("rotation([40,41])", True, CENTRE, set(), CORNERS),
    ],
)
def test_a_pixel_and_its_image(
    text: str, clip: bool, equal: set[int], at_most: set[int], at_least: set[int]
) -> None:
    for piece in parse(text).pieces(Domain(SHAPE), clip):
        known = changed_pixels(piece)
        assert places(known, Order.EQUAL) == equal
        assert places(known, Order.AT_MOST) == at_most
        assert places(known, Order.AT_LEAST) == at_least


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("translation(0,1)", {0: 1, 1: 2, 3: 4, 4: 5, 6: 7, 7: 8}),
        ("translation(-2,0)", {6: 0, 7: 1, 8: 2}),
        ("rotation(90)", {0: 2, 1: 5, 2: 8, 3: 1, 5: 7, 6: 0, 7: 3, 8: 6}),
        ("occlusion(1,1,2)", {}),
        ("linf(0.1)", {}),
        ("brightness([0,0.1])", {}),
        ("rotation(45)", {}),
    ],
)
def test_pixels_that_move(text: str, expected: dict[int, int]) -> None:
    (piece,) = parse(text).pieces(Domain(SHAPE))
    known = moved_pixels(piece)
    assert dict(zip(known.first.tolist(), known.second.tolist(), strict=True)) == expected
    assert known.equal.all()


def test_a_pixel_that_fades_while_it_moves_is_no_pair() -> None:
    weights = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.5], [0.5, 0.5, 0.0]])
    piece = AffinePiece(Domain((3,)), "fading", fixed_map(sparse.csr_array(weights), np.zeros(3)))
    assert moved_pixels(piece).first.tolist() == [1]


def test_a_pixel_that_appears_twice_has_one_partner() -> None:
    weights = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    piece = AffinePiece(Domain((3,)), "smeared", fixed_map(sparse.csr_array(weights), np.zeros(3)))
    known = moved_pixels(piece)
    assert (known.first.tolist(), known.second.tolist()) == ([1], [0])


# Sums that float64 rounds to the wrong sign, or to 0: 1e16 + 1 - 1e16 is 0 from left to right.
SUMS = np.array([[1e16, 1.0, -1e16], [-1e16, -1.0, 1e16], [0.1, 0.2, -0.25], [0.5, 0.5, -1.0]])


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("brightness([0,0.5])", ["<=", ">=", "<=", "="]),
        ("brightness([-0.5,-0.1])", [">=", "<=", ">=", "="]),
    ],
)
def test_brightness_without_a_clip_knows_sums(text: str, orders: list[str]) -> None:
    network = Network((Affine(SUMS, np.zeros(4), (3,), (4,)),), (3,))
    (piece,) = parse(text).pieces(Domain((3,)), clip=False)
    options = DependencyOptions(optimise=False)
    known = find_dependencies(network, piece, options=options).layers[-1]
    assert [order.value for order in orders_of(known) if order] == orders


def test_brightness_with_a_clip_does_not() -> None:
    """Pixels near white change by less, so the sum of the weights says nothing."""
    network = Network((Affine(SUMS, np.zeros(4), (3,), (4,)),), (3,))
    (piece,) = parse("brightness([0,0.5])").pieces(Domain((3,)), clip=True)
    options = DependencyOptions(optimise=False)
    assert len(find_dependencies(network, piece, options=options).layers[-1]) == 0


def test_a_sum_beyond_float64_is_not_known() -> None:
    layer = Affine(np.array([[1e308, 1e308, -1e308]]), np.zeros(1), (3,), (1,))
    (piece,) = parse("brightness([0,0.5])").pieces(Domain((3,)), clip=False)
    found = alike_through(piece, layer)
    assert found is not None
    assert found[0].all()
    assert found[1].all()
