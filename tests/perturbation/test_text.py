"""The textual form, the Python form, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.perturbation import (
    PERTURBATIONS,
    Brightness,
    Composition,
    Contrast,
    Domain,
    Features,
    Linf,
    Occlusion,
    Patch,
    Perturbation,
    Rotation,
    Translation,
    compose,
    parse,
)

DIGIT = Domain((1, 28, 28))

COMPOSED = compose(Translation((0, 1), 1), Brightness((-0.1, 1)))
FORMS = [
    ("linf(0.1)", Linf(0.1)),
    ("linf([0,0.1])", Linf((0, 0.1))),
    ("linf(1e-7)", Linf(1e-7)),
    ("brightness([0,0.25])", Brightness((0, 0.25))),
    ("brightness([-.5,+.5])", Brightness([-0.5, 0.5])),
    ("brightness(0.1)", Brightness(0.1)),
    ("contrast([0.8,1.5])", Contrast((0.8, 1.5))),
    ("contrast([1,2])", Contrast((1, 2))),
    ("occlusion(14,14,5)", Occlusion(14, 14, 5)),
    ("occlusion([12,16],14.0,[1,5])", Occlusion((12, 16), 14, (1, 5))),
    ("patch([0,0.1],1,2,3)", Patch((0, 0.1), 1, 2, 3)),
    ("patch(0.1,[1,4],2,3)", Patch(0.1, (1, 4), 2, 3)),
    ("translation(1,-2)", Translation(1, -2)),
    ("translation([-3,3],[0,1])", Translation((-3, 3), (0, 1))),
    ("rotation(10)", Rotation(10)),
    ("rotation([5,10])", Rotation((5, 10))),
    ("rotation([-7.5,1e-3])", Rotation([-7.5, 1e-3])),
    ("rotation(-22.5)", Rotation(-22.5)),
    ("occlusion(14,14,3)+linf(0.05)", compose(Occlusion(14, 14, 3), Linf(0.05))),
    ("translation([0,1],1) + brightness([-1e-1,+1E+0])", COMPOSED),
    ("rotation(10)+linf(1e-3)", compose(Rotation(10), Linf(1e-3))),
    ("features([0,3],[0.1,0.5])", Features([0, 3], [0.1, 0.5])),
    ("features([age],2)", Features(["age"], 2)),
]

# What is written, and the words that the error must contain.
REFUSED = [
    ("linf(0)", "positive number"),
    ("linf([0.1,0.1])", "must be a positive number e or an interval [0,e], not [0.1,0.1]"),
    ("linf(-0.1)", "must be a positive number e or an interval [0,e], not -0.1"),
    ("linf([0.1,0.2])", "an interval [0,e], not [0.1,0.2]"),
    ("linf(1.5)", "the limit of linf must lie in [0,1], not 1.5"),
    ("linf(nan)", "'nan'"),
    ("linf(inf)", "'inf'"),
    ("linf(1e999)", "finite"),
    ("linf()", "linf(e)"),
    ("linf(0.1,0.2)", "2 argument(s); write linf(e)"),
    ("brightness([0.2,0.1])", "low <= high"),
    ("brightness([-1.5,0])", "[-1,1]"),
    ("brightness([0,1.01])", "[-1,1]"),
    ("brightness([0,0.1)", "'[0,0.1'"),
    ("brightness([0,1,2])", "interval"),
    ("contrast([0,1])", "above 0"),
    ("contrast([-1,1])", "above 0"),
    ("contrast([2,1])", "low <= high"),
    ("contrast([1,1e308])", "must lie in [1e-06,1000000], not"),
    ("contrast([1e-308,1])", "must lie in [1e-06,1000000], not"),
    ("occlusion(0,1,1)", "row of occlusion(0,1,1) must lie in [1,28]"),
    ("occlusion(1,29,1)", "column of occlusion(1,29,1) must lie in [1,28]"),
    ("occlusion(1,1,0)", "at least 1"),
    ("occlusion(20,20,10)", "at most 9"),
    ("occlusion([1,20],5,[1,10])", "at most 9"),
    ("occlusion(1.5,1,1)", "whole numbers"),
    ("occlusion(1,1)", "occlusion(i,j,w)"),
    ("occlusion(1,1,1,)", "comma"),
    ("occlusion(1,,1)", "cannot read"),
    ("occlusion(a,1,1)", "'a,1,1'"),
    ("patch([0,0.1],27,1,3)", "at most 2"),
    ("patch([0,2],1,1,3)", "[0,1], not 2"),
    ("patch([0,0],1,1,3)", "positive number"),
    ("patch([0,0.1],1,1,1.5)", "whole numbers"),
    ("patch(0.1)", "patch([0,e],i,j,w)"),
    ("translation(29,0)", "tx of translation must lie in [-28,28]"),
    ("translation(0,-29)", "ty of translation must lie in [-28,28]"),
    ("translation(0.5,0)", "whole numbers"),
    ("translation(1)", "translation(tx,ty)"),
    ("rotation(361)", "[-360,360]"),
    ("rotation(10,20)", "rotation(theta)"),
    ("rotate(10)", "rotation(theta)"),
    ("__import__(1)", "is not a perturbation"),
    ("", "is not a perturbation"),
    ("linf", "linf(e)"),
    ("linf(0.1))", "cannot read"),
    ("linf(0.1)+linf(0.1)", "cannot be composed"),
    ("occlusion(1,1,1)+contrast([1,2])", "cannot be composed"),
    ("rotation([1,2])+linf(0.1)", "only one angle"),
    ("occlusion(1,1,1)+linf(2)", "[0,1]"),
    ("occlusion(1,1,1)+blur(2)", "'occlusion(1,1,1)+blur(2)' is not a perturbation"),
    ("occlusion(0,1,1)+linf(0.1)", "row of occlusion(0,1,1)"),
    ("occlusion(1,1,1)+linf(0.1)+linf(0.1)", "cannot read"),
    ("mine.py:own", "names a perturbation in a file"),
    ("features([0,0],0.1)", "each of them once"),
]


@pytest.mark.parametrize(("text", "built"), FORMS)
def test_text_and_python_are_equal(text: str, built: Perturbation) -> None:
    assert parse(text) == built
    assert hash(parse(text)) == hash(built)
    assert parse(str(built)) == built


@pytest.mark.parametrize("text", [" linf( 0.1 ) ", "LINF(0.1)", "linf(\t[ 0 , 0.1 ])", "linf(.1)"])
def test_spaces_and_case_do_not_matter(text: str) -> None:
    assert parse(text) == Linf(0.1)


def test_every_perturbation_is_written_somewhere_above() -> None:
    assert {type(built) for _, built in FORMS} == {*PERTURBATIONS, Composition}
    refused = {text.split("(")[0] for text, _ in REFUSED}
    assert refused >= {kind.name for kind in PERTURBATIONS}


def test_different_perturbations_differ() -> None:
    assert len({built for _, built in FORMS}) == len(FORMS) - 1  # linf(e) is linf([0,e])
    assert Linf(0.1) != Brightness(0.1)
    assert Occlusion(1, 2, 3) != Occlusion(2, 1, 3)


def test_numbers_survive_to_the_last_bit() -> None:
    for value in np.random.default_rng(1).uniform(0, 1, 200):
        assert parse(str(Brightness((-value, value / 3)))) == Brightness((-value, value / 3))


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_out_of_range_is_an_error_that_names_the_limits(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        parse(text).pieces(DIGIT)


@pytest.mark.parametrize("given", [None, "0.1", (0, 0.1, 0.2), (0, None), 1j, (0, float("nan"))])
def test_what_is_no_range_is_refused(given: object) -> None:
    for kind in (Linf, Brightness, Contrast, Rotation):
        with pytest.raises(InvalidInput):
            kind(given)
    with pytest.raises(InvalidInput):
        Occlusion(given, 1, 1)


def test_numpy_numbers_are_numbers() -> None:
    assert Occlusion(np.int64(2), np.array([1, 3]), np.float32(2)) == Occlusion(2, (1, 3), 2)
    assert Linf(np.float64(0.1)) == Linf(0.1)
    assert Linf(np.float32(0.5)) == Linf(0.5)


def test_amounts_are_in_the_units_of_the_input_range() -> None:
    photo = Domain((3, 8, 8), 0, 255)
    assert Linf(200).pieces(photo)
    assert Brightness((-255, 255)).pieces(photo)
    assert Brightness((-2, 2)).pieces(Domain((1, 8, 8), -1, 1))
    with pytest.raises(InvalidInput, match=r"\[0,255\]"):
        Linf(256).pieces(photo)
    with pytest.raises(InvalidInput, match=r"\[-255,255\]"):
        Brightness((0, 256)).pieces(photo)


def test_radii_of_their_own_are_those_of_features() -> None:
    with pytest.raises(InvalidInput, match="its own radius, write features"):
        parse("linf([0.1,0.2,0.3])")


@pytest.mark.parametrize("ends", [(1, 0), (0.5, 0.5), (0, np.inf), (np.nan, 1), (-1e308, 1e308)])
def test_an_input_range_needs_finite_ends_in_order(ends: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="input range"):
        Domain((1, 2, 2), *ends)


@pytest.mark.parametrize("shape", [(784,), (1, 2, 3, 4)])
def test_images_are_needed_only_where_place_matters(shape: tuple[int, ...]) -> None:
    domain = Domain(shape)
    for anywhere in (Linf(0.1), Brightness(0.1), Contrast(2)):
        assert anywhere.pieces(domain)
    placed = (Occlusion(1, 1, 1), Patch(0.1, 1, 1, 1), Translation(1, 1), Rotation(1))
    for perturbation in placed:
        with pytest.raises(InvalidInput, match="needs an image"):
            perturbation.pieces(domain)
