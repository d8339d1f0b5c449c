"""Witnesses: every number of them counts, down to the last bit."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check.conditions import Conditions
from vhagar_check.errors import Rejected
from vhagar_check.layers import Dense, Network
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.turning import precise_weights
from vhagar_check.witnesses import check_witnesses

PAIR = Network(((Dense(np.array([[1.0, 0], [0, 1.0], [0, 0]]), np.array([0, 0, -9.0])),),), (2,))
LINF = Domain((2,), 0.0, 1.0)


def stated(
    claim: float, text: str | None = "linf(0.5)", network: Network = PAIR, **witness: Any
) -> Any:
    """A statement with one witness, which says that class 0 is pushed into class 1."""
    domain = LINF if network is PAIR else Domain((1, 3, 3), 0.0, 1.0)
    target = None if text is None else 1
    whole = {"target": target, "piece": 0, "x": [0.75, 0.25], "parameters": [-0.5, 0.5], **witness}
    return SimpleNamespace(
        lowers={target: claim},
        witnesses=[whole],
        domain=domain,
        network=network,
        source=0,
        pieces=pieces(text, domain, True),
        image=None,
    )


@pytest.mark.parametrize(
    ("parameters", "tie"), [([-0.5, 0.5], False), ([-0.25, 0.25], True), ([-0.375, 0.25], False)]
)
def test_a_witness_and_whether_it_is_a_tie(parameters: list[float], tie: bool) -> None:
    lowers, ties = check_witnesses(stated(0.5, parameters=parameters))
    assert lowers == {1: 0.5}
    assert ties == ({1} if tie else set())


def test_a_witness_of_the_confidence_alone() -> None:
    lowers, ties = check_witnesses(stated(0.5, None, piece=None, parameters=[]))
    assert (lowers, ties) == ({None: 0.5}, set())


def test_a_bound_of_0_needs_no_witness() -> None:
    statement = stated(0.0)
    statement.witnesses = []
    assert check_witnesses(statement) == ({1: 0.0}, set())
    statement.lowers = {1: 5e-324}
    with pytest.raises(Rejected, match="does not have one witness"):
        check_witnesses(statement)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "of another target": ({"target": 2}, "does not have one witness"),
    "below the range": ({"x": [0.75, -5e-324]}, "not in the input range"),
    "above the range": ({"x": [1.0 + 2**-52, 0.25]}, "not in the input range"),
    "not a number": ({"x": [math.nan, 0.25]}, "not in the input range"),
    "too few numbers": ({"x": [0.75]}, "not in the input range"),
    "too many numbers": ({"x": [0.75, 0.25, 0.0]}, "not in the input range"),
    "less confident": ({"x": [0.75, math.nextafter(0.25, 1)]}, "less confident"),
    "another piece": ({"piece": 1}, "piece that there is not"),
    "a piece before the first": ({"piece": -1}, "piece that there is not"),
    "a piece that is no number": ({"piece": False}, "piece that there is not"),
    "no piece": ({"piece": None}, "piece that there is not"),
    "an infinite parameter": ({"parameters": [-math.inf, 0.5]}, "not finite"),
    "too few parameters": ({"parameters": [-0.5]}, "number of parameters"),
    "too many parameters": ({"parameters": [-0.5, 0.5, 0.0]}, "number of parameters"),
    "not quite pushed": (
        {"parameters": [-0.25, 0.25 - 2.0**-54]},
        "not classified as the target",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_witness_is_refused(name: str) -> None:
    change, words = WRONG[name]
    with pytest.raises(Rejected, match=words):
        check_witnesses(stated(0.5, **change))


def test_two_witnesses_are_not_one() -> None:
    statement = stated(0.5)
    statement.witnesses *= 2
    with pytest.raises(Rejected, match="does not have one witness"):
        check_witnesses(statement)


@pytest.mark.parametrize(("must", "most"), [(True, 0.75), (False, 0.5)])
def test_a_perturbed_input_lies_in_the_domain_if_it_must(must: bool, most: float) -> None:
    """`x` is (0.75, 0.25), its image (0.25, 0.75)."""
    statement = stated(0.5)
    statement.domain = _up_to([1.0, most], must)
    assert check_witnesses(statement)[0] == {1: 0.5}


def test_a_perturbed_input_outside_the_domain_is_refused_if_it_must_lie_inside() -> None:
    statement = stated(0.5)
    statement.domain = _up_to([1.0, 0.5], True)
    with pytest.raises(Rejected, match="perturbed input of the witness for target 1 is not in"):
        check_witnesses(statement)


def test_a_perturbed_input_that_is_not_known_exactly_does_not_lie_in_a_domain() -> None:
    statement = stated(0.5)
    statement.domain = _up_to([1.0, 1.0], True)
    statement.pieces = [SimpleNamespace(exact_image=lambda x, parameters: None)]
    with pytest.raises(Rejected, match="is not in the domain"):
        check_witnesses(statement)


def _up_to(high: list[float], perturbed_inside: bool) -> Domain:
    conditions = Conditions((), (), (), (), None, perturbed_inside)
    return Domain((2,), 0.0, 1.0, (np.zeros(2), np.array(high)), conditions)


def test_changes_are_limited_to_the_ball_and_the_range() -> None:
    """What the parameters ask for beyond it does not count."""
    check_witnesses(stated(0.5, parameters=[-9.0, 9.0]))
    with pytest.raises(Rejected, match="not classified"):
        check_witnesses(stated(0.5, "linf(0.2)", parameters=[-9.0, 9.0]))


def test_what_moves_freely_is_rounded_as_it_was_when_it_was_evaluated() -> None:
    """`0.25 + change` lies halfway between two floats and becomes 0.5, a tie."""
    change = math.nextafter(0.25, 0)
    tie = {"x": [0.75, 0.25], "parameters": [-0.25, change]}
    assert check_witnesses(stated(0.5, **tie)) == ({1: 0.5}, {1})


def test_rounding_leads_neither_beyond_the_limit_nor_out_of_the_range() -> None:
    limit = math.nextafter(0.25, 0)
    with pytest.raises(Rejected, match="not classified"):
        check_witnesses(stated(0.5, f"linf({limit!r})", parameters=[-limit, limit]))
    (ball,) = pieces(f"linf({limit!r})", LINF, True)
    image = ball.exact_image([Fraction(3, 4), Fraction(1, 4)], [-limit, limit])
    assert image == [0.75 - 0.25 + 2.0**-53, 0.5 - 2.0**-54]
    (ball,) = pieces("linf(0.15)", Domain((2,), 0.1, 0.3), True)
    assert ball.exact_image([Fraction(0.2)] * 2, [-0.15, 0.15]) == [Fraction(0.1), Fraction(0.3)]


# What is turned by 30 degrees and then changed: what comes on top, and its parameters.
ON_TOP: dict[str, tuple[float, list[float]]] = {
    "rotation(30)": (0.0, []),
    "rotation([29,31])": (0.0, [30.0]),
    "rotation(30)+brightness([0,0.25])": (0.125, [0.125]),
    "rotation(30)+linf(0.25)": (0.125, [0.0, 0.125, *[0.0] * 7]),
}


@pytest.mark.parametrize("text", ON_TOP)
@pytest.mark.parametrize("steps", [-9, -1, 0, 1, 9])
def test_where_the_image_is_irrational_it_must_win_for_certain(text: str, steps: int) -> None:
    """The turned pixel becomes an irrational number; the other score is a float next to it, and
    which of them is larger is known, however near they are."""
    more, parameters = ON_TOP[text]
    weights = {(p, q): w for p, q, w in precise_weights((3, 3), 30.0)}
    value = weights[1, 1] + Fraction(more)
    limit = float(value)
    for _ in range(abs(steps)):
        limit = math.nextafter(limit, math.copysign(9, steps))
    assert value != limit
    first = np.zeros((2, 9))
    first[0, 1] = 1.0
    network = Network(((Dense(first, np.array([0.0, limit])),),), (1, 3, 3))
    x = [0.0, 1.0, *[0.0] * 7]
    statement = stated(0.05, text, network, x=x, parameters=parameters)
    if limit > value:
        assert check_witnesses(statement) == ({1: 0.05}, set())
    else:
        with pytest.raises(Rejected, match="not classified"):
            check_witnesses(statement)


@pytest.mark.parametrize(
    ("weight", "ahead", "accepted"),
    [
        (0.0, 2.0**-52, True),
        (-1e60, 2.0**-52, False),
        (-1e60, 1e-9, True),
        (-1e200, 1e-9, True),
        (-1e200, 2.0**-52, False),
    ],
)
def test_steep_networks_need_more_digits(weight: float, ahead: float, accepted: bool) -> None:
    """A neuron that is off counts as one that could move the scores, but floats see that it is off:
    they decide if they can, and alone if the steepness is beyond them."""
    value = next(w for p, q, w in precise_weights((3, 3), 30.0) if (p, q) == (1, 1))
    first, last = np.zeros((2, 9)), np.array([[1.0, abs(weight)], [0.0, 0.0]])
    first[:, 1] = 1.0, weight
    limit = float(value + Fraction(ahead))
    limit = limit if limit > value else math.nextafter(limit, 9)
    stages = (Dense(first, np.zeros(2)),), (Dense(last, np.array([0.0, limit])),)
    x = [0.0, 1.0, *[0.0] * 7]
    network = Network(stages, (1, 3, 3))
    statement = stated(0.05, "rotation(30)", network, x=x, parameters=[])
    if accepted:
        assert check_witnesses(statement) == ({1: 0.05}, set())
    else:
        with pytest.raises(Rejected, match="not classified"):
            check_witnesses(statement)


def at_image(claim: float, clip: bool = False, text: str = "linf(0.5)", **witness: Any) -> Any:
    """As `stated`, about the one image (0.75, 0.25) and how confident its version is in class 1."""
    statement = stated(claim, text, **witness)
    statement.image, statement.clip = np.array([0.75, 0.25]), clip
    return statement


def test_a_version_of_the_one_image() -> None:
    """Its confidence in the target counts, which may be negative or 0."""
    for parameters, claim, ties in (
        ([-0.5, 0.5], 0.5, set()),
        ([-0.25, 0.25], 0.0, {1}),
        ([0.0, 0.0], -0.5, set()),
    ):
        found = check_witnesses(at_image(claim, parameters=parameters))
        assert found == ({1: claim}, ties)
        with pytest.raises(Rejected, match="less confident than claimed"):
            check_witnesses(at_image(math.nextafter(claim, 9), parameters=parameters))
    statement = at_image(-math.inf)
    statement.witnesses = []
    assert check_witnesses(statement) == ({1: -math.inf}, set())
    statement.lowers = {1: -0.5}
    with pytest.raises(Rejected, match="does not have one witness"):
        check_witnesses(statement)


@pytest.mark.parametrize("x", [[0.75, math.nextafter(0.25, 0)], [0.75], [0.75, 0.25, 0.0]])
def test_a_version_of_another_image_is_refused(x: list[float]) -> None:
    with pytest.raises(Rejected, match="not of the image"):
        check_witnesses(at_image(-1.0, x=x))


def test_a_version_without_a_target_is_refused() -> None:
    statement = at_image(0.1)
    statement.lowers, statement.witnesses[0]["target"] = {None: 0.1}, None
    with pytest.raises(Rejected, match="not of the image"):
        check_witnesses(statement)


@pytest.mark.parametrize(("clip", "claim"), [(True, 0.0), (False, -0.5)])
def test_a_version_is_clipped_if_the_question_says_so(clip: bool, claim: float) -> None:
    """Brightness of 1 makes (1.75, 1.25), or (1, 1)."""
    statement = at_image(claim, clip, "brightness([0,1])", parameters=[1.0])
    statement.pieces = pieces("brightness([0,1])", LINF, False)
    assert check_witnesses(statement)[0] == {1: claim}
    statement.lowers = {1: math.nextafter(claim, 9)}
    with pytest.raises(Rejected, match="less confident"):
        check_witnesses(statement)
    darker = at_image(claim, clip, "brightness([-1,0])", parameters=[-1.0])
    darker.pieces = pieces("brightness([-1,0])", LINF, False)
    assert check_witnesses(darker)[0] == {1: claim}


@pytest.mark.parametrize("clip", [True, False])
def test_an_enclosed_version_is_clipped_too(clip: bool) -> None:
    """An image that is not rational is known between two ends; they are clipped like it."""
    domain = Domain((1, 3, 3), 0.0, 1.0)
    weights = np.zeros((2, 9))
    weights[1, 4] = 1.0
    network = Network(((Dense(weights, np.zeros(2)),),), (1, 3, 3))
    statement = stated(0.5, "rotation(30)", network, x=[0.5] * 9, parameters=[])
    statement.image, statement.clip = np.full(9, 0.5), clip
    statement.domain = Domain((1, 3, 3), 0.0, 0.4)
    statement.pieces = pieces("rotation(30)", domain, True)
    for claim, accepted in ((0.39, True), (0.45, not clip)):
        statement.lowers = {1: claim}
        if accepted:
            check_witnesses(statement)
        else:
            with pytest.raises(Rejected, match="less confident"):
                check_witnesses(statement)


def test_a_version_that_is_irrational_is_known_to_the_last_digit() -> None:
    """Its confidence is 1.25 less an irrational number, far above 0."""
    value = next(w for p, q, w in precise_weights((3, 3), 30.0) if (p, q) == (1, 1))
    first = np.zeros((2, 9))
    first[0, 1] = 1.0
    network = Network(((Dense(first, np.array([0.0, 1.25])),),), (1, 3, 3))
    x = [0.0, 1.0, *[0.0] * 7]
    claim = float(Fraction(1.25) - value)
    claim = claim if claim < Fraction(1.25) - value else math.nextafter(claim, 0)
    statement = stated(claim, "rotation(30)", network, x=x, parameters=[])
    statement.image, statement.clip = np.array(x), False
    check_witnesses(statement)
    statement.lowers = {1: math.nextafter(claim, 9)}
    with pytest.raises(Rejected, match="less confident than claimed"):
        check_witnesses(statement)
