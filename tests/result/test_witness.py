"""The witness check refuses what is not proved, and never states more confidence than there is."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar import Domain, Network, Problem, UserPerturbation, Witness, linear_rows
from vhagar.errors import VhagarError
from vhagar.network import Affine, Relu, onnx_bytes
from vhagar.reduction import LINEAR_REDUCTIONS, REDUCTIONS, reduce_problem
from vhagar.result import Rejection, WitnessCheck
from vhagar.result.witness import RestoredCheck, _Confidence

from ..oracle.cases import Case
from ..oracle.exact import exact_confidence_of, rational_confidence, rationals

SHAPE = (1, 1, 2)


def linear(weight: list[list[float]], bias: list[float], model: bytes | None = None) -> Network:
    layer = Affine(np.array(weight, dtype=float), np.array(bias, dtype=float), SHAPE, (len(bias),))
    return Network((layer,), SHAPE, model=model)


# Each pixel is the score of its class.
PIXELS = linear([[1, 0], [0, 1]], [0, 0])
CLOSER = Problem(PIXELS, perturbation="linf(0.125)", source=0, targets=1)
GOOD = np.array([0.6, 0.4])
TOGETHER = np.array([-0.125, 0.125])


def judge(
    problem: Problem, x: np.ndarray, parameters: np.ndarray, target: int | None = 1, piece: int = 0
) -> Witness | Rejection:
    return WitnessCheck(problem)(target, x, piece, parameters)


def refusal(verdict: Witness | Rejection) -> str:
    assert isinstance(verdict, Rejection), "a false success was accepted"
    return verdict.reason


def accepted(verdict: Witness | Rejection) -> Witness:
    assert isinstance(verdict, Witness), verdict
    return verdict


def test_a_good_candidate_is_a_witness_with_all_its_facts() -> None:
    witness = accepted(judge(CLOSER, GOOD, TOGETHER))
    assert witness.x.shape == witness.x_p.shape == SHAPE
    assert witness.x.reshape(-1) == pytest.approx(GOOD)
    assert witness.x_p.reshape(-1) == pytest.approx(GOOD + TOGETHER)
    assert witness.confidence == pytest.approx(0.2)
    assert witness.margin == pytest.approx(0.05)
    assert (witness.target, witness.tie, witness.piece) == (1, False, "linf(0.125)")
    assert witness.scores == pytest.approx(GOOD)
    assert witness.scores_p == pytest.approx(GOOD + TOGETHER)


@pytest.mark.parametrize(
    ("x", "parameters", "reason"),
    [
        ([0.4, 0.6], [0, 0], "not classified as the source"),
        ([0.5, 0.5], [0, 0.125], "not classified as the source"),  # a tie is no confidence
        ([0.6, 0.4], [0, 0], "not classified as the target"),
        ([0.9, 0.4], [-0.125, 0.125], "not classified as the target"),
        ([0.6], [-0.125, 0.125], "wrong size"),
        ([0.6, 0.4, 0.0], [-0.125, 0.125], "wrong size"),
        ([], [-0.125, 0.125], "wrong size"),
        ([np.nan, 0.4], [-0.125, 0.125], "not finite"),
        ([np.inf, 0.4], [-0.125, 0.125], "not finite"),
        ([1e300, 0.4], [-0.125, 0.125], "not finite"),  # in float32
        ([0.6, 0.4], [np.nan, 0.125], "not finite"),
        ([0.6, 0.4], [-np.inf, 0.125], "not finite"),
        ([0.6, 0.4], [0.125], "wrong size"),
        ([0.6, 0.4], [-0.125, 0.125, 0.0], "wrong size"),
        ([0.6, 0.4], [[-0.125, 0.125]], "wrong size"),
    ],
)
def test_false_successes_are_refused(x: list[float], parameters: list[float], reason: str) -> None:
    assert reason in refusal(judge(CLOSER, np.array(x), np.array(parameters)))


def test_the_wrong_class_wins_the_image() -> None:
    network = linear([[1, 0], [0, 1], [0, 1.5]], [0, 0, 0])
    problem = Problem(network, perturbation="linf(0.25)", source=0)
    x, parameters = np.array([0.7, 0.4]), np.array([-0.25, 0.25])
    assert "target" in refusal(judge(problem, x, parameters, target=1))
    assert accepted(judge(problem, x, parameters, target=2)).margin > 0


def test_parameters_outside_their_box_are_brought_back_first() -> None:
    # With a change of 0.3 it would be an attack; no more than 1/8 is allowed.
    far = np.array([0.8, 0.4])
    assert "target" in refusal(judge(CLOSER, far, np.array([-0.3, 0.3])))
    witness = accepted(judge(CLOSER, GOOD, np.array([-0.3, 0.3])))
    assert abs(witness.x_p - witness.x).max() <= 0.125


def test_an_input_outside_the_domain_is_judged_where_it_ends_up() -> None:
    problem = Problem(PIXELS, perturbation="linf(0.5)", source=0, targets=1)
    # Outside, the confidence would be 4; inside it is 1, and can be attacked.
    witness = accepted(judge(problem, np.array([3.0, -1.0]), np.array([-0.5, 0.5])))
    assert witness.x.reshape(-1).tolist() == [1.0, 0.0]
    assert witness.confidence <= 1.0
    assert "target" in refusal(judge(CLOSER, np.array([3.0, -1.0]), TOGETHER))


@pytest.mark.parametrize(("must", "most"), [(True, 0.75), (False, 0.5)])
def test_a_perturbed_input_lies_in_the_domain_if_it_must(must: bool, most: float) -> None:
    """The image of GOOD is (0.475, 0.525)."""
    domain = Domain(SHAPE, upper=[1.0, most], range=(0.0, 1.0), perturbed_inside=must)
    problem = Problem(PIXELS, perturbation="linf(0.125)", source=0, targets=1, domain=domain)
    accepted(WitnessCheck(problem)(1, GOOD, 0, TOGETHER))


def test_a_perturbed_input_outside_the_domain_is_refused_if_it_must_lie_inside() -> None:
    domain = Domain(SHAPE, rows=[linear_rows({1: 1.0}, 2, at_most=0.5)], perturbed_inside=True)
    problem = Problem(PIXELS, perturbation="linf(0.125)", source=0, targets=1, domain=domain)
    assert "not in the domain" in refusal(WitnessCheck(problem)(1, GOOD, 0, TOGETHER))


def test_the_better_of_two_pairs_counts_if_both_inputs_must_lie_inside() -> None:
    """The second entry may become 0.5: by a smaller change, or from 0.375, with more confidence."""
    domain = Domain(SHAPE, upper=[1.0, 0.5], range=(0.0, 1.0), perturbed_inside=True)
    problem = Problem(PIXELS, perturbation="linf(0.125)", source=0, targets=1, domain=domain)
    found = accepted(WitnessCheck(problem)(1, GOOD, 0, TOGETHER))
    assert found.confidence == pytest.approx(0.225)
    assert "not in the domain" in refusal(WitnessCheck(problem, moves=False)(1, GOOD, 0, TOGETHER))


def test_an_input_that_is_to_stay_is_put_on_no_grid() -> None:
    problem = Problem(
        PIXELS,
        perturbation="linf(0.5)",
        source=0,
        targets=1,
        domain=Domain(SHAPE, perturbed_inside=True),
    )
    x, change = np.array([0.5, 2.0**-30]), np.array([-0.25, 0.5])
    for moves, expected in ((True, 0.0), (False, 2.0**-30)):
        witness = accepted(WitnessCheck(problem, moves)(1, x, 0, change))
        assert witness.x.reshape(-1)[1] == expected


@pytest.mark.parametrize(("weight", "known"), [(1.0, True), (0.5, False)])
def test_an_image_that_may_be_rounded_is_nowhere_for_certain(weight: float, known: bool) -> None:
    """Only weights of 1 are known to be exact: those of a rotation are rounded."""
    network = linear([[1, 1], [0, 0]], [0, 1])
    dimmed = UserPerturbation(matrix=weight * np.eye(2), offset=-0.25)
    for must in (False, True):
        domain = Domain(SHAPE, perturbed_inside=must)
        problem = Problem(network, perturbation=dimmed, source=0, targets=1, domain=domain)
        verdict = WitnessCheck(problem)(1, np.array([0.625, 0.625]), 0, np.zeros(0))
        assert isinstance(verdict, Witness) is (known or not must)


def test_an_input_is_moved_into_the_domain_unless_it_is_to_stay() -> None:
    domain = Domain(SHAPE, rows=[linear_rows([1.0, 1.0], 2, at_most=0.875)])
    problem = Problem(PIXELS, perturbation="linf(0.125)", source=0, targets=1, domain=domain)
    moved = accepted(WitnessCheck(problem)(1, GOOD, 0, TOGETHER))
    assert moved.x.sum() <= 0.875
    assert refusal(WitnessCheck(problem, moves=False)(1, GOOD, 0, TOGETHER))


def test_nothing_is_taken_for_granted() -> None:
    check = WitnessCheck(CLOSER)
    assert "names no perturbation" in refusal(check(1, GOOD))
    assert "names no perturbation" in refusal(check(1, GOOD, 0))
    # A confident input alone is no attack.
    assert "no target" in refusal(check(None, GOOD))
    assert "no target" in refusal(check(0, GOOD, 0, TOGETHER))
    assert "no target" in refusal(check(7, GOOD, 0, TOGETHER))
    # An attack by another, stronger perturbation: by a piece or by parameters of its own.
    for piece_index in (-1, 1):
        assert "not the problem's" in refusal(check(1, GOOD, piece_index, TOGETHER))
    stronger = check(1, np.array([0.9, 0.1]), 0, np.array([-0.5, 0.5]))
    assert "not classified as the target" in refusal(stronger)


def test_a_margin_of_zero_is_a_tie_only_if_it_is_exact() -> None:
    x = np.array([0.75, 0.5])
    witness = accepted(judge(CLOSER, x, TOGETHER))
    assert witness.tie
    assert witness.margin == 0.0
    assert witness.confidence == pytest.approx(0.25)
    # One ulp of float32 further apart, the source keeps its class.
    apart = np.nextafter(x.astype(np.float32), np.float32(1)) * [1, 0] + x * [0, 1]
    assert "target" in refusal(judge(CLOSER, apart, TOGETHER))


def test_a_tie_that_only_rounding_makes_is_refused() -> None:
    nearly = linear([[1, 1], [1, 0]], [2.0**-70, 0.0])
    problem = Problem(nearly, perturbation="occlusion(1,2,1)", source=0, targets=1)
    assert nearly.forward(np.array([[0.5, 0.0]])).tolist() == [[0.5, 0.5]]
    assert "target" in refusal(judge(problem, np.array([0.5, 1.0]), np.zeros(0)))
    exactly = Problem(
        linear([[1, 1], [1, 0]], [0, 0]), perturbation="occlusion(1,2,1)", source=0, targets=1
    )
    assert accepted(judge(exactly, np.array([0.5, 1.0]), np.zeros(0))).tie


def test_what_float64_cannot_tell_is_told_by_rationals() -> None:
    # 0.1 + 0.2 is more than 0.3, by less than the rounding error of such a sum may be.
    network = wide([[0.1, 0.2, 1.0], [0.3, 0.0, 0.0]])
    problem = Problem(network, perturbation="occlusion(1,3,1)", source=0, targets=1)
    assert rational_confidence(network, rationals(np.array([1.0, 1.0, 0.0])), 1) < 0
    assert "target" in refusal(judge(problem, np.ones(3), np.zeros(0)))
    even = Problem(
        wide([[0.1, 0.2, 1.0], [0.2, 0.1, 0.0]]),
        perturbation="occlusion(1,3,1)",
        source=0,
        targets=1,
    )
    assert accepted(judge(even, np.ones(3), np.zeros(0))).tie


def wide(weight: list[list[float]]) -> Network:
    return Network((Affine(np.array(weight), np.zeros(2), (1, 1, 3), (2,)),), (1, 1, 3))


def test_what_float32_cannot_see_is_refused() -> None:
    problem = Problem(PIXELS, perturbation="linf(0.25)", source=0, targets=1)
    # The second pixel wins by 1e-10 in float64; in float32 the image is a tie.
    x = np.array([0.75, 0.5])
    assert "onnxruntime" in refusal(judge(problem, x, np.array([-0.25, 1e-10])))
    assert accepted(judge(problem, x, np.array([-0.25, 1e-3]))).margin > 0


def test_onnxruntime_is_asked_only_about_pairs_that_seem_to_be_attacks() -> None:
    check = WitnessCheck(CLOSER)
    refusal(check(1, np.array([0.9, 0.4]), 0, TOGETHER))
    assert "_session" not in vars(check), "it takes a while to import"
    accepted(check(1, GOOD, 0, TOGETHER))
    assert "_session" in vars(check)


def test_a_tie_at_the_edge_of_what_rounding_allows_is_none() -> None:
    # The true image lies inside the enclosure; here the target ties at its lower end only.
    problem = Problem(PIXELS, perturbation="contrast([0.3,0.3])", source=0, targets=1)
    x, factor = np.array([[0.75, 0.0]]), np.array([[0.3]])
    low, _ = problem.pieces[0].enclosure(x, factor)
    network = linear([[1, 0], [0, 0]], [0, low[0, 0]])
    tied = Problem(network, perturbation="contrast([0.3,0.3])", source=0, targets=1)
    assert rational_confidence(network, rationals(low), 1) == 0
    assert "target" in refusal(judge(tied, x[0], factor[0]))


def test_a_pixel_that_is_known_exactly_makes_no_tie_of_one_that_is_rounded() -> None:
    """The lower ends of both tie; what the first pixel really is, nobody knows."""
    at_once = Problem(PIXELS, perturbation="features([0],[0.3])", source=0, targets=1)
    x, change = np.array([[0.75, 0.5]]), np.array([[-0.1]])
    low, high = at_once.pieces[0].enclosure(x, change)
    assert low[0, 0] < high[0, 0]
    assert low[0, 1] == high[0, 1] == 0.5
    network = linear([[1, 0], [0, 0]], [0, low[0, 0]])
    tied = Problem(network, perturbation="features([0],[0.3])", source=0, targets=1)
    assert rational_confidence(network, rationals(low), 1) == 0
    assert "target" in refusal(judge(tied, x[0], change[0]))


def test_ties_of_images_that_are_rounded_are_refused_unless_they_hold_all_around() -> None:
    x = np.array([0.75, 0.5])
    darker = Problem(PIXELS, perturbation="contrast([0.3,0.3])", source=0, targets=1)
    assert "target" in refusal(judge(darker, x, np.array([0.3])))
    # Classes 1 and 2 are the same: they tie wherever the image is.
    twins = linear([[1, 0], [0, 0], [0, 0]], [0, 0.25, 0.25])
    witness = accepted(
        judge(
            Problem(twins, perturbation="contrast([0.3,0.3])", source=0, targets=1),
            x,
            np.array([0.3]),
        )
    )
    assert witness.tie
    assert witness.margin == 0.0


def test_a_model_that_disagrees_with_the_layers_is_refused() -> None:
    swapped = onnx_bytes(linear([[0, 1], [1, 0]], [0, 0]))
    scaled = onnx_bytes(linear([[3, 0], [0, 3]], [0, 0]))
    shifted = onnx_bytes(linear([[1, 0], [0, 1]], [0.02, 0]))
    wider = onnx_bytes(linear([[1, 0], [0, 1], [0, 0]], [0, 0, -1]))
    for model in (swapped, scaled, shifted, wider):
        network = linear([[1, 0], [0, 1]], [0, 0], model=model)
        verdict = judge(
            Problem(network, perturbation="linf(0.125)", source=0, targets=1), GOOD, TOGETHER
        )
        assert "onnxruntime" in refusal(verdict)
    honest = linear([[1, 0], [0, 1]], [0, 0], model=onnx_bytes(PIXELS))
    accepted(
        judge(Problem(honest, perturbation="linf(0.125)", source=0, targets=1), GOOD, TOGETHER)
    )


def test_a_model_that_disagrees_about_the_input_alone_is_refused() -> None:
    """It takes ten times what the first pixel has above a half from its class."""
    first = Affine(np.array([[1.0, 0], [0, 1], [10, 0]]), np.array([0.0, 0, -5]), SHAPE, (3,))
    last = Affine(np.array([[1.0, 0, -1], [0, 1, 0]]), np.zeros(2), (3,), (2,))
    model = onnx_bytes(Network((first, Relu((3,)), last), SHAPE))
    network = linear([[1, 0], [0, 1]], [0, 0], model=model)
    pair = Problem(network, perturbation="linf(0.125)", source=0, targets=1)
    assert "as the source class" in refusal(judge(pair, GOOD, TOGETHER))
    accepted(judge(pair, np.array([0.5, 0.4]), TOGETHER))
    alone = Problem(network, perturbation=None, source=0)
    assert "as the source class" in refusal(WitnessCheck(alone)(None, GOOD))
    accepted(WitnessCheck(alone)(None, np.array([0.5, 0.4])))


def test_both_evaluations_must_find_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that only the enclosure takes for an attack is none, and no tie either."""
    source = _Confidence(0.2, 0.2, 0.2, np.array([0.6, 0.4]))
    target = _Confidence(0.05, 0.05, 0.0, np.array([0.5, 0.5]))
    monkeypatch.setattr(WitnessCheck, "_confidence", lambda self, *rest: (source, target)[rest[2]])
    assert "not classified as the target" in refusal(judge(CLOSER, GOOD, TOGETHER))


def test_a_model_that_cannot_be_loaded_is_an_error() -> None:
    network = linear([[1, 0], [0, 1]], [0, 0], model=b"no model")
    with pytest.raises(VhagarError, match="onnxruntime cannot load the model"):
        judge(Problem(network, perturbation="linf(0.125)", source=0, targets=1), GOOD, TOGETHER)


def test_scores_that_are_not_finite_prove_nothing() -> None:
    huge = Network(
        (
            Affine(np.full((1, 2), 1e300), np.zeros(1), SHAPE, (1,)),
            Relu((1,)),
            Affine(np.array([[1e300], [0.0]]), np.zeros(2), (1,), (2,)),
        ),
        SHAPE,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        verdict = WitnessCheck(Problem(huge, perturbation=None, source=0))(
            None, np.array([1.0, 1.0])
        )
    refusal(verdict)


@pytest.mark.slow
def test_what_is_stated_is_never_more_than_what_is_exact() -> None:
    witnesses = 0
    for number in range(0, 384, 5):
        problem = Case(number).problem()
        rng = np.random.default_rng(number)
        for x, piece_index, parameters, target in random_candidates(problem, rng):
            verdict = WitnessCheck(problem)(target, x, piece_index, parameters)
            if isinstance(verdict, Witness):
                witnesses += 1
                exact = rational_confidence(problem.network, rationals(verdict.x), problem.source)
                assert 0 < Fraction(verdict.confidence) <= exact
                assert verdict.confidence == pytest.approx(float(exact), rel=1e-9)
                # Some image of this input is in the target class, exactly.
                assert exact_confidence_of(problem, verdict) == exact
    assert witnesses > 100


def random_candidates(
    problem: Problem, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, int, np.ndarray, int]]:
    low, high = problem.domain.lower, problem.domain.upper
    for piece_index, piece in enumerate(problem.pieces):
        for _ in range(12):
            x = rng.uniform(low, high, problem.domain.size)
            x = np.where(rng.random(x.shape) < 0.5, rng.choice([low, high], x.shape), x)
            scores = problem.network.forward(x[None])[0]
            if scores.argmax() == problem.source:
                for target in problem.targets:
                    yield x, piece_index, rng.uniform(*piece.parameter_bounds), target


@pytest.mark.parametrize(
    ("width", "noise"), [(0.0, 0.004), (2.0**-42, 0.004), (2.0**-30, 4.0), (2.0**-28, 16.0)]
)
def test_how_far_float32_may_be_off(width: float, noise: float) -> None:
    """By the largest score, or by the rounding of float64 where that is worse."""
    found = _Confidence(1.0, 1.0 + width, 1.0, np.array([-4.0, 1.0, 0.0]))
    assert found.noise == pytest.approx(noise)


def test_half_a_perturbation_is_none() -> None:
    check = WitnessCheck(CLOSER)
    for piece_index, parameters in ((None, TOGETHER), (0, None), (None, None)):
        assert "names no perturbation" in refusal(check(1, GOOD, piece_index, parameters))
    for piece_index in (-1, 1, 7):
        assert "is not the problem's" in refusal(check(1, GOOD, piece_index, TOGETHER))


# In float64, 1 + TINY is rounded up.
TINY = 1.5 * 2.0**-53


def three(weight: list[list[float]]) -> Network:
    layer = Affine(np.array(weight), np.zeros(len(weight)), (1, 1, 3), (len(weight),))
    return Network((layer,), (1, 1, 3))


def test_a_sum_that_float64_rounds_up_is_stated_rounded_down() -> None:
    """Both the confidence and the margin: the smaller of two evaluations counts."""
    assert 1 + Fraction(TINY) < 1.0 + TINY
    exact = 1 + Fraction(TINY)
    confident = Problem(three([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), perturbation=None, source=0)
    found = accepted(WitnessCheck(confident)(None, np.array([1.0, TINY, 0.0])))
    assert Fraction(found.confidence) <= exact
    assert found.confidence == pytest.approx(1.0)
    attacked = Problem(
        three([[0.0, 0.0, 4.0], [1.0, 1.0, 0.0]]), perturbation="linf(0.5)", source=0, targets=1
    )
    found = accepted(judge(attacked, np.array([1.0, TINY, 0.5]), np.array([0.0, 0.0, -0.5])))
    assert found.margin is not None
    assert Fraction(found.margin) <= exact
    assert found.margin == pytest.approx(1.0)


def test_a_class_that_shares_its_weights_with_the_source_leaves_no_confidence() -> None:
    network = three([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    problem = Problem(network, perturbation=None, source=0)
    verdict = WitnessCheck(problem)(None, np.array([1.0, 0.0, 0.0]))
    assert refusal(verdict) == "the input is not classified as the source class"


def test_a_network_with_a_hidden_layer_is_judged_by_what_enters_its_last(problem: Problem) -> None:
    """`relu(x1 - x2)` against 1/4, both pixels by up to 1/8."""
    found = accepted(judge(problem, np.array([0.75, 0.3125]), TOGETHER))
    assert found.confidence == pytest.approx(0.1875)
    assert Fraction(found.confidence) <= Fraction(3, 16)
    assert found.margin == pytest.approx(0.0625)
    alone = Problem(problem.network, perturbation=None, source=0)
    found = accepted(WitnessCheck(alone)(None, np.array([1.0, 0.0])))
    assert found.confidence == pytest.approx(0.75)
    # After the ReLU, not before: here it is off, and the bias alone decides.
    first, relu, last = problem.network.layers
    raised = Affine(last.weight, last.bias + np.array([0.5, 0.0]), (1,), (2,))
    alone = Problem(Network((first, relu, raised), SHAPE), perturbation=None, source=0)
    found = accepted(WitnessCheck(alone)(None, np.array([0.25, 0.75])))
    assert found.confidence == pytest.approx(0.25)


def test_a_tie_of_scores_that_are_all_zero() -> None:
    """Nothing is known of the noise of zeros, and none is needed."""
    problem = Problem(PIXELS, perturbation="occlusion(1,1,1)", source=0, targets=1)
    found = accepted(judge(problem, np.array([0.25, 0.0]), np.zeros(0)))
    assert (found.tie, found.margin) == (True, 0.0)
    assert found.confidence == pytest.approx(0.25)


def test_what_a_witness_says_of_itself() -> None:
    found = accepted(judge(CLOSER, GOOD, TOGETHER))
    assert repr(found) == "Witness(confidence 0.2000, class 1 by linf(0.125))"
    alone = Problem(PIXELS, perturbation=None, source=0)
    assert repr(accepted(WitnessCheck(alone)(None, GOOD))) == "Witness(confidence 0.2000)"


def test_a_candidate_of_a_reduced_problem_is_judged_as_one_of_the_original() -> None:
    """A map that leaves the input range is clipped by the network of the reduced problem."""
    brighter = UserPerturbation(offset=0.75, pixels=[1])
    problem = Problem(PIXELS, perturbation=brighter, source=0, targets=1)
    reduced = reduce_problem(problem, REDUCTIONS)
    assert reduced.problem is not problem
    check = RestoredCheck(reduced)
    x = np.array([0.75, 0.5])
    found = accepted(check(1, x, 0, np.zeros(0)))
    assert found.x_p is not None
    assert found.x_p.reshape(-1).tolist() == [0.75, 1.0]
    assert WitnessCheck(problem).image(0, x, np.zeros(0)).tolist() == [0.75, 1.0]
    for piece_index, parameters in ((None, np.zeros(0)), (0, None), (None, None)):
        assert "names no perturbation" in refusal(check(1, x, piece_index, parameters))


def test_half_a_candidate_of_a_reduced_problem_is_none() -> None:
    """Nothing is restored of what is not there."""
    contrast = Problem(PIXELS, perturbation="contrast([0.5,0.9])", source=0, targets=1)
    reduced = reduce_problem(contrast, LINEAR_REDUCTIONS)
    assert reduced.problem is not contrast
    check = RestoredCheck(reduced)
    for piece_index, parameters in ((None, np.ones(1)), (0, None), (None, None)):
        assert isinstance(check(1, np.array([0.6, 0.4, 1.0]), piece_index, parameters), Rejection)


def failed(interrupt: BaseException) -> ImportError:
    error = ImportError("initialization failed")
    error.__cause__ = interrupt
    return error


def failed_meanwhile(interrupt: BaseException) -> ImportError:
    error = ImportError("initialization failed")
    error.__context__ = interrupt
    return error


@pytest.mark.parametrize("failure", [failed, failed_meanwhile])
def test_an_interrupted_import_is_an_interrupt(
    failure: Callable[[BaseException], ImportError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native code turns Ctrl-C into a failed import, which may name it in either way."""
    plain = builtins.__import__

    def interrupted(name: str, *rest: Any) -> Any:
        if name != "onnxruntime":
            return plain(name, *rest)
        raise failure(KeyboardInterrupt())

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        WitnessCheck(Problem(PIXELS, perturbation=None, source=0))(None, GOOD)


def test_a_missing_onnxruntime_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="onnxruntime"):
        WitnessCheck(Problem(PIXELS, perturbation=None, source=0))(None, GOOD)
