"""Numbers for readers: quotients that read back as the same numbers, and nothing else."""

from __future__ import annotations

import random

import pytest

from vhagar.perturbation import UserPerturbation, parse
from vhagar.perturbation.quotients import quotient, with_quotients


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("linf(2/255)", "linf(2/255)"),
        ("linf(5/255)", "linf(5/255)"),
        ("linf(1/3)", "linf(1/3)"),
        ("linf(0.00784313725490196)", "linf(2/255)"),
        ("linf(0.0078431372549)", "linf(0.0078431372549)"),  # another number
        ("linf(1/4)", "linf(0.25)"),
        ("linf(0.1)", "linf(0.1)"),
        ("linf(0.30000000000000004)", "linf(0.30000000000000004)"),
        ("brightness([-1/255,8/255])", "brightness([-1/255,8/255])"),
        ("patch([0,1/7],3,4,5)", "patch([0,1/7],3,4,5)"),
        ("occlusion(1,2,3)+linf(1/255)", "occlusion(1,2,3)+linf(1/255)"),
        ("features([0,2],[1/3,2/255])", "features([0,2],[1/3,2/255])"),
    ],
)
def test_what_was_written_is_shown_and_reads_back(written: str, shown: str) -> None:
    perturbation = parse(written)
    assert perturbation.shown == shown
    assert parse(shown) == perturbation


def test_the_text_that_identifies_a_perturbation_stays_as_it_was() -> None:
    """Stores and certificates of earlier versions have it."""
    assert parse("linf(2/255)").canonical == "linf(0.00784313725490196)"
    assert str(parse("brightness([0,8/255])")) == "brightness([0,0.03137254901960784])"


def test_names_of_features_and_of_users_are_left_alone() -> None:
    named = parse("features([f0.33333333333333331],1/3)")
    assert named.shown == "features([f0.33333333333333331],1/3)"
    mine = UserPerturbation(offset=1, pixels=[0], name="by 0.3333333333333333")
    assert mine.shown == str(mine)


def test_every_quotient_reads_back() -> None:
    rng = random.Random(3)
    for _ in range(2000):
        value = rng.choice([rng.random(), rng.randint(1, 999) / rng.randint(1, 999)])
        found = quotient(value)
        if found is not None:
            above, below = found.split("/")
            assert float(above) / float(below) == value
    assert with_quotients("3.9215686274509805e-05 and 1.3333333333333333") == (
        "3.9215686274509805e-05 and 4/3"
    )
