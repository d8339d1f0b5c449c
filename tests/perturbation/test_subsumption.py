"""What one perturbation does to an input, a larger one can do: checked on random images."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain, parse
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.perturbation.parse import PERTURBATIONS
from vhagar.perturbation.piece import AbstractPiece
from vhagar.perturbation.subsumption import subsumes

from ..pairs import related_by

DOMAINS = (Domain((1, 6, 6)), Domain((3, 5, 5), -0.5, 1.5))
TEXTS = (
    "linf(0.125)",
    "linf(0.5)",
    "linf(1)",
    "linf(2)",
    "brightness([0,0.125])",
    "brightness([-0.5,0.125])",
    "brightness([-0.5,0.5])",
    "contrast([0.5,1])",
    "contrast([0.875,1.125])",
    "contrast([0.75,2])",
    "occlusion(2,2,2)",
    "occlusion([1,2],2,[1,2])",
    "occlusion(1,1,3)",
    "occlusion(2,2,3)",
    "patch([0,0.125],2,2,3)",
    "patch([0,1],2,2,2)",
    "patch([0,1],[1,2],[1,2],[1,3])",
    "patch([0,2],2,2,3)",
    "translation(1,1)",
    "translation([0,1],[0,1])",
    "translation([-1,1],[-1,1])",
    "rotation(10)",
    "rotation([5,15])",
    "rotation([8,12])",
    "features([1,7,20],[0.125,0.25,0.5])",
)


def _images(
    pieces: tuple[AbstractPiece, ...], rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Inputs, what a perturbation makes of them, and by which parameters; with the ranges' ends."""
    for piece in pieces:
        domain = piece.domain
        x = rng.uniform(domain.lower, domain.upper, size=(8, domain.size))
        x[0], x[1] = domain.lower, domain.upper
        x[2] = rng.choice([domain.lower, domain.upper], size=domain.size)
        low, high = piece.parameter_bounds
        parameters = rng.uniform(low, high, size=(8, len(low)))
        parameters[::2] = rng.choice([0.0, 1.0], size=parameters[::2].shape) * (high - low) + low
        # So coarse that no product or sum is rounded: what is contained is so exactly.
        x, parameters = np.round(x * 2**10) / 2**10, np.round(parameters * 2**10) / 2**10
        parameters = np.clip(parameters, low, high)
        yield x, piece.apply(x, parameters), parameters


def _contains(
    piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """Whether a piece has the pairs, by the same parameter where it has one."""
    if piece.span is None:
        return np.array(
            [related_by(piece, *pair) for pair in zip(x[:, None], x_p[:, None], strict=True)]
        )
    return piece.contains(x, x_p, given)


def _pairs() -> list[tuple[str, str]]:
    return [(one, other) for one, other in product(TEXTS, TEXTS) if one != other]


@pytest.mark.parametrize("domain", DOMAINS, ids=("grey", "colour"))
@pytest.mark.parametrize("clip", [True, False])
def test_what_is_said_to_be_contained_is(domain: Domain, clip: bool) -> None:
    rng = np.random.default_rng(0)
    found = 0
    for larger_text, smaller_text in _pairs():
        larger, smaller = parse(larger_text), parse(smaller_text)
        try:
            outer, inner = larger.pieces(domain, clip), smaller.pieces(domain, clip)
        except InvalidInput:
            continue  # limits beyond this domain
        if not subsumes(larger, smaller, domain, clip):
            continue
        found += 1
        for x, x_p, given in _images(inner, rng):
            covered = np.zeros(len(x), dtype=bool)
            for piece in outer:
                covered |= _contains(piece, x, x_p, given)
            assert covered.all(), (larger_text, smaller_text)
    assert found >= 15


@pytest.mark.parametrize(
    ("larger", "smaller", "clip"),
    [
        ("linf(0.125)", "linf(0.5)", True),
        ("linf(0.125)", "brightness([0,0.125])", False),  # it may leave the input range
        ("linf(0.5)", "contrast([0.75,2])", False),
        ("linf(0.4)", "contrast([0.75,2])", True),  # half a pixel is added where it just clips
        ("linf(0.5)", "occlusion(2,2,2)", True),
        ("patch([0,1],2,2,2)", "occlusion(2,2,3)", True),
        ("patch([0,0.5],2,2,3)", "occlusion(2,2,2)", True),
        ("occlusion(2,2,3)", "occlusion(2,2,2)", True),  # its border keeps its values
        ("occlusion(2,2,2)", "patch([0,1],2,2,2)", True),
        ("patch([0,1],2,2,2)", "linf(0.125)", True),
        ("brightness([0,0.125])", "linf(0.125)", True),
        ("translation([0,1],[0,1])", "translation([-1,1],0)", True),
        ("rotation([5,15])", "rotation(10)", True),  # its matrix is rounded
        ("rotation([5,15])", "rotation([5,16])", True),
        ("linf(1)", "rotation(10)", True),
    ],
)
def test_what_is_not_contained(larger: str, smaller: str, clip: bool) -> None:
    assert not subsumes(parse(larger), parse(smaller), DOMAINS[0], clip)


@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        ("linf(0.5)", "linf(0.125)"),
        ("linf(0.5)", "contrast([0.75,2])"),
        ("linf(0.5)", "brightness([-0.5,0.125])"),
        ("linf(1)", "occlusion(2,2,2)"),
        ("patch([0,1],2,2,3)", "occlusion(3,3,2)"),
        ("patch([0,1],[1,2],[1,2],3)", "patch([0,0.125],2,1,[1,3])"),
        ("occlusion([1,3],2,[1,2])", "occlusion(2,2,2)"),
        ("translation([-1,1],[-1,1])", "translation([0,1],0)"),
        ("rotation([5,15])", "rotation([8,12])"),
    ],
)
def test_what_is_contained(larger: str, smaller: str) -> None:
    assert subsumes(parse(larger), parse(smaller), DOMAINS[0], True)
    assert not subsumes(parse(smaller), parse(larger), DOMAINS[0], True)


def test_the_width_of_the_range_counts_exactly() -> None:
    """0.7 - (-0.1) is rounded: only a limit that is at least the exact width makes all black."""
    domain = Domain((1, 4, 4), -0.1, 0.7)
    for limit in np.nextafter(domain.width, [0.0, 1.0]):
        piece = parse(f"patch([0,{float(limit)!r}],1,1,4)")
        wide = subsumes(piece, parse("occlusion(1,1,2)"), domain, True)
        x = np.full((1, 16), 0.7)
        x_p = np.full((1, 16), 0.7)
        x_p[0, [0, 1, 4, 5]] = -0.1
        every = np.ones(16, dtype=bool)
        ball = LinfBallPiece(domain, "", float(limit), every, np.arange(16))
        assert not wide or related_by(ball, x, x_p)


def test_no_perturbation_contains_all_and_everything_itself() -> None:
    for text in TEXTS:
        one = parse(text)
        assert subsumes(None, one, DOMAINS[0], True)
        assert not subsumes(one, None, DOMAINS[0], True)
        assert subsumes(one, parse(text), DOMAINS[0], True)


def test_every_perturbation_was_tried() -> None:
    assert {type(parse(text)) for text in TEXTS} == set(PERTURBATIONS)
