"""Apply, then restore: what holds of a reduced problem holds of the one it was made of."""

from __future__ import annotations

import ast
import itertools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Problem, verify
from vhagar.network.network import confidence
from vhagar.options import Options
from vhagar.reduction import LINEAR_REDUCTIONS, REDUCTIONS, AbstractReduction, Reduced
from vhagar.reduction.base import Point, reduce_problem
from vhagar.reduction.clipping import Clipping, clip_of
from vhagar.reduction.contrast import Homogeneous
from vhagar.reduction.fixed_image import FixedImage, fixed_images, score_rounding
from vhagar.result import Witness, WitnessCheck
from vhagar.result.witness import RestoredCheck
from vhagar.search.branch_and_bound import Bab

from ..marks import mostly_slow
from ..oracle.affine_cases import AffineCase
from ..oracle.cases import between, change_in
from ..oracle.exact import (
    exact_confidence_of,
    exact_optimum,
    overall,
    rational_confidence,
    rationals,
)
from ..oracle.networks import FLAVOURS, Wish, residual

ROOMS = Path(vhagar.__file__).parent
SEEDS = range(10)
# Larger than what rounding an input to float32 does to these networks' scores.
CLEAR = 1e-4


def clipped(seed: int) -> Problem:
    """Affine maps that leave the range: every other one has several of them."""
    numbers = itertools.count(40 * seed + seed % 4)
    problems = (AffineCase(number).problem() for number in numbers)
    return next(problem for problem in problems if clip_of(problem))


def contrasted(seed: int) -> Problem:
    rng = np.random.default_rng([29, seed])
    wish = Wish(rng, (1, 2, 2), 3, 1.0, 0, [1, 2])
    network = residual(wish) if seed % 2 else FLAVOURS["plain"](wish)
    span = ("[1,2.5]", "[0.5,0.75]", "[0.5,1.5]")[seed % 3]
    problem = Problem(network, perturbation=f"contrast({span})", source=0, clip=False)
    change = change_in(problem, rng)
    return problem if change is None else between(problem, *change)


@dataclass(frozen=True)
class Contract:
    """A reduction, and problems that it applies to."""

    reduction: AbstractReduction
    problem: Callable[[int], Problem]

    def reduced(self, seed: int) -> Reduced:
        reduced = self.reduction.apply(self.problem(seed))
        assert reduced is not None
        return reduced


CONTRACTS = {
    "clipping": Contract(Clipping(), clipped),
    "contrast": Contract(Homogeneous(), contrasted),
}
ALL = pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)


def points(problem: Problem, seed: int, count: int = 40) -> Iterator[Point]:
    """Pairs of a problem: where random directions are at their largest."""
    rng = np.random.default_rng([31, seed])
    for piece_index, piece in enumerate(problem.pieces):
        a, b = rng.normal(size=(2, count, problem.domain.size))
        found = piece.support(a, b)
        for x, parameters in zip(found.x, found.parameters, strict=True):
            # Not the corners alone: on the way to another point that the piece allows.
            other = found.x[rng.integers(count)]
            yield piece_index, x + rng.choice([0, 0.5]) * (other - x), parameters


def image_of(
    problem: Problem, piece_index: int, x: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    return clip_of(problem)(problem.pieces[piece_index].apply(x[None], parameters[None]))


def test_every_reduction_has_a_contract() -> None:
    files = {path.stem for path in (ROOMS / "reduction").glob("*.py")} - {"__init__", "base"}
    assert files == {*CONTRACTS, "fixed_image"}
    assert [type(each) for each in LINEAR_REDUCTIONS] == [
        type(contract.reduction) for contract in CONTRACTS.values()
    ]
    assert LINEAR_REDUCTIONS[: len(REDUCTIONS)] == REDUCTIONS


@ALL
@pytest.mark.parametrize("seed", SEEDS)
def test_points_come_back(contract: Contract, seed: int) -> None:
    """The given network is as confident in the source, exactly, and as sure of the classes."""
    reduced = contract.reduced(seed)
    given, made = reduced.original, reduced.problem
    for piece_index, x, parameters in points(made, seed):
        place, own_x, own = reduced.restore.witness(piece_index, x, parameters)
        piece = given.pieces[place]
        assert (own_x >= given.domain.lower).all()
        assert (own_x <= given.domain.upper).all()
        np.testing.assert_array_equal(piece.project(own), own)
        exact = rational_confidence(given.network, rationals(own_x), given.source)
        assert rational_confidence(made.network, rationals(x), made.source) == exact
        scores = given.network.forward(image_of(given, place, own_x, own))
        made_scores = made.network.forward(
            made.pieces[piece_index].apply(x[None], parameters[None])
        )
        for target in given.targets:
            ahead = confidence(scores, target)[0]
            if abs(ahead) > CLEAR:
                assert (confidence(made_scores, target)[0] > 0) == (ahead > 0)


@ALL
def test_witnesses_come_back(contract: Contract) -> None:
    """What the reduced problem calls an attack is one, and as confident as it says."""
    accepted = 0
    for seed in SEEDS:
        reduced = contract.reduced(seed)
        given, made = reduced.original, reduced.problem
        check, again = RestoredCheck(reduced), WitnessCheck(given)
        for piece_index, x, parameters in points(made, seed):
            scores = made.network.forward(made.pieces[piece_index].apply(x[None], parameters[None]))
            sure = confidence(made.network.forward(x[None]), made.source)[0]
            for target in made.targets:
                if min(sure, confidence(scores, target)[0]) < CLEAR:
                    continue
                found = check(target, x, piece_index, parameters)
                assert isinstance(found, Witness)
                assert found.confidence == pytest.approx(sure, abs=CLEAR)
                exact = exact_confidence_of(given, found)
                assert Fraction(found.confidence) <= exact
                same = again(target, found.x.reshape(-1), found.piece_number, found.choice)
                assert isinstance(same, Witness)
                assert same.confidence == found.confidence
                accepted += 1
    assert accepted >= 5


@ALL
@pytest.mark.parametrize("seed", mostly_slow(SEEDS, 5))
def test_bounds_come_back(contract: Contract, seed: int) -> None:
    problem = contract.problem(seed)
    engine = Bab(attack=False)
    assert contract.reduction in engine.reductions(problem, Options(workers=0))
    result = verify(problem, engine=engine, timeout=60, workers=0)
    truth = overall(exact_optimum(problem))
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    restore = contract.reduced(seed).restore
    for value in (0.0, result.upper, np.inf):
        assert restore.upper(value) >= value


@ALL
def test_workers_get_the_same(contract: Contract) -> None:
    reduced = contract.reduced(1)
    copy = pickle.loads(pickle.dumps(reduced))
    for piece_index, x, parameters in points(reduced.problem, 1, 5):
        for one, other in zip(
            reduced.restore.witness(piece_index, x, parameters),
            copy.restore.witness(piece_index, x, parameters),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(
            copy.problem.network.forward(x[None]), reduced.problem.network.forward(x[None])
        )


@ALL
def test_one_after_the_other_is_the_same_as_at_once(contract: Contract) -> None:
    problem = contract.problem(0)
    alone, all_of_them = (
        contract.reduction.apply(problem),
        reduce_problem(problem, LINEAR_REDUCTIONS),
    )
    assert alone is not None
    assert all_of_them.original is problem
    assert all_of_them.restore.statement() == alone.restore.statement() != {}
    for point in points(all_of_them.problem, 0, 5):
        for one, other in zip(
            all_of_them.restore.witness(*point), alone.restore.witness(*point), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    # Without a perturbation there is nothing to reduce.
    assert reduce_problem(problem.without_perturbation(), LINEAR_REDUCTIONS).restore.steps == ()


PERTURBATIONS = ("linf(0.3)", "brightness([-0.4,0.6])", "contrast([0.5,2])")


@pytest.mark.parametrize(
    "perturbation", [*PERTURBATIONS, "translation(1,0)+brightness([-0.4,0.6])"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_fixed_image_comes_back(perturbation: str, seed: int) -> None:
    rng = np.random.default_rng([37, seed])
    network = FLAVOURS["plain"](Wish(rng, (1, 2, 2), 3, 1.0, 0, [1]))
    problem = Problem(network, perturbation=perturbation, source=0, targets=1)
    x = rng.uniform(size=4).astype(np.float32).astype(np.float64)
    for piece_index, piece in enumerate(problem.pieces):
        images = fixed_images(piece, x)
        rounding = 2 * float(score_rounding(network, images).max())
        reduced = FixedImage(piece_index, images, 1, 0.25, rounding).apply(problem)
        u = rng.uniform(size=(200, images.parameters))
        sure = confidence(reduced.problem.network.forward(u), 1)
        worst = -np.inf
        for at, shifted in zip(u, sure, strict=True):
            place, own_x, own = reduced.restore.witness(0, at, np.zeros(0))
            assert place == piece_index
            np.testing.assert_array_equal(own_x, x)
            image = image_of(problem, piece_index, own_x, own)
            ahead = confidence(network.forward(image), 1)[0]
            assert shifted - 0.25 == pytest.approx(ahead, abs=1e-9)
            worst = max(worst, ahead)
        result = verify(reduced.problem, timeout=20, workers=0)
        # A class that is never ahead, even with the shift, is bounded by 0.
        assert worst <= reduced.restore.upper(result.upper)
        assert result.upper == pytest.approx(max(result.lower, 0.0), rel=0.01, abs=1e-6)


def test_engines_know_of_no_reduction() -> None:
    """They import the table and the interface; only definitions of an image know of its clip."""
    allowed = {
        "vhagar.reduction.clipping": {
            "reduction",
            "result/witness.py",
            "local/known.py",
            "local/versions.py",
        },
        "vhagar.reduction.contrast": {"reduction"},
        "vhagar.reduction.fixed_image": {"reduction", "local/engine_search.py"},
    }
    for path in ROOMS.rglob("*.py"):
        name = path.relative_to(ROOMS)
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module in allowed:
                assert {str(name), name.parts[0]} & allowed[module], f"{name} imports {module}"
