"""The search with cone cuts wherever it finds some: intervals and certificates that hold."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import Domain, Network, Problem, Result, verify
from vhagar.network import Affine, Relu, SparseAffine, write_onnx
from vhagar.options import Options
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp import cone_separation
from vhagar.relaxation.lp.cone import Cone
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.search import branch
from vhagar.search import incumbent as incumbents
from vhagar.search.bounders import cone_cutting, subtrees
from vhagar.search.branch_and_bound import Bab
from vhagar.search.incumbent import Incumbent
from vhagar.search.pseudocosts import Candidate
from vhagar.search.region_cache import RegionState

from ..marks import mostly_slow
from ..oracle.exact import exact_optimum
from ..oracle.random_domains import random_conditions, random_groups
from ..oracle.test_engines import require_sound

KINDS = (
    ("linf(0.2)", True),
    ("brightness([0,0.3])", True),
    ("brightness([0,0.3])", False),
    ("contrast([1.1,2])", True),
    ("contrast([0.6,1.4])", False),
    ("occlusion(1,1,1)", True),
    ("translation(0,1)", True),
    ("rotation(30)", True),
    ("rotation([20,40])", True),
    ("patch([0,0.3],1,1,1)", True),
    ("occlusion([1,2],1,1)", True),
)
# Kinds of domains and the perturbation of each.
DOMAINS = (
    ("conditions", "brightness([0,0.5])", False),
    ("conditions", "linf(0.4)", True),
    ("whole numbers", "linf(0.4)", True),
    ("whole numbers", "brightness([0,0.6])", True),
)


def halves(seed: int, classes: int = 2) -> Network:
    """Two layers whose two units each see one half of a small image, and one behind them."""
    rng = np.random.default_rng(seed)

    def draw(*size: int) -> np.ndarray:
        return np.round(8 * rng.normal(size=size)) / 8

    first, second = np.zeros((4, 4)), np.zeros((4, 4))
    for half in (slice(0, 2), slice(2, 4)):
        first[half, half], second[half, half] = draw(2, 2), draw(2, 2)
    return Network(
        (
            SparseAffine(first, draw(4) / 4, (1, 2, 2), (4,)),
            Relu((4,)),
            SparseAffine(second, draw(4) / 4, (4,), (4,)),
            Relu((4,)),
            Affine(draw(classes, 4), draw(classes) / 4, (4,), (classes,)),
        ),
        (1, 2, 2),
    )


def cut_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Look for cuts at every node, whatever they cost."""
    patch.setattr(cone_separation, "_LARGEST_PART", math.inf)
    patch.setattr(cone_separation, "may_help", lambda bounds: True)
    patch.setattr(incumbents, "_LITTLE", -math.inf)
    patch.setattr(cone_cutting, "_SHARE", math.inf)
    patch.setattr(cone_cutting, "_WORTH", 1e-6)
    patch.setattr(cone_cutting.ConeCutting, "_enough", lambda *given: 0.0)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cuts are looked for at every node; the numbers of those found."""
    cut_everywhere(monkeypatch)
    found, separate = [], RegionModel.separate

    def counted(model: RegionModel, *given: object) -> bool:
        new = separate(model, *given)  # type: ignore[arg-type]
        found.append(len(model.formula.cuts))
        return new

    monkeypatch.setattr(RegionModel, "separate", counted)
    return found


PLAIN = Bab(slopes=False, inputs=False)


def certified(problem: Problem, path: Path, engine: Bab = PLAIN, **options: Any) -> Result:
    """What a search finds with cuts; its certificate proves as much."""
    certificate = path.with_suffix(".cert")
    result = verify(problem, engine=engine, certificate=certificate, **options)
    assert vhagar.check(certificate, model=path).upper <= result.upper
    return result


def stored(seed: int, folder: Path, classes: int = 2) -> Path:
    path = folder / f"{seed}.onnx"
    write_onnx(halves(seed, classes), path)
    return path


@pytest.mark.parametrize(("text", "clip"), mostly_slow(KINDS, 10))
def test_intervals_hold_the_optimum_and_certificates_are_proved(
    text: str, clip: bool, cuts: list[int], tmp_path: Path
) -> None:
    weighed = 0
    for seed in range(6):
        path = stored(seed, tmp_path)
        problem = Problem(path, perturbation=text, source=0, targets=1, clip=clip)
        result = certified(problem, path, workers=1, timeout=20)
        require_sound(problem, exact_optimum(problem), result)
        weighed += b"CUTS" in path.with_suffix(".cert").read_bytes()
    # Of these, there are some in every few networks.
    if text.startswith(("linf", "brightness")):
        assert sum(cuts)
    if text.startswith("linf"):
        assert weighed


def test_the_largest_confidence_has_cuts_and_certificates(cuts: list[int], tmp_path: Path) -> None:
    for seed in (13, 15, 16, 18, 21, 23):  # with cuts
        path = stored(seed, tmp_path, classes=3)
        problem = Problem(path, perturbation=None, source=0)
        result = certified(problem, path, workers=1, timeout=20)
        truth = exact_optimum(problem)[None]
        assert Fraction(result.lower) <= truth.high
        assert truth.low <= Fraction(result.upper)
        assert b"CUTS" in path.with_suffix(".cert").read_bytes()
    assert sum(cuts)


@pytest.mark.parametrize(("kind", "text", "clip"), mostly_slow(DOMAINS, 4))
def test_cuts_over_parts_of_a_domain_hold_there(
    kind: str, text: str, clip: bool, cuts: list[int], tmp_path: Path
) -> None:
    """A part of the domain is a region of its own, whose cuts hold in no other."""
    for seed in (18, 27, 41):  # with cuts
        path, rng = stored(seed, tmp_path), np.random.default_rng([seed, 17])
        whole = Domain((1, 2, 2))
        domain = (
            random_conditions(whole, rng)
            if kind == "conditions"
            else random_groups(whole.shape, (0.0, 1.0), rng)
        )
        problem = Problem(path, perturbation=text, source=0, targets=1, clip=clip, domain=domain)
        result = certified(problem, path, workers=1, timeout=20)
        require_sound(problem, exact_optimum(problem), result)
    assert sum(cuts)


@pytest.mark.slow
@pytest.mark.parametrize("tightens", [False, True])
def test_targets_subtrees_and_resumed_searches_have_their_own_cuts(
    tightens: bool, cuts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search is stopped once it has found cuts, and resumed from its checkpoint."""
    monkeypatch.setattr(subtrees, "_EVERY", 2)
    for seed in (18, 23, 53):  # with cuts
        path, kept = stored(seed, tmp_path, classes=3), tmp_path / f"{seed}.kept"
        problem = Problem(path, perturbation="linf(0.4)", source=0)
        truths = exact_optimum(problem)
        engine = Bab(slopes=False, inputs=False, attack=False, tightening=tightens)
        cuts.clear()
        for resume in (None, kept):
            result = certified(
                problem,
                path,
                engine,
                workers=0,
                timeout=20,
                checkpoint=kept,
                resume=resume,
                on_progress=lambda _, last=resume is not None: last or not sum(cuts),
            )
            require_sound(problem, truths, replace(result, notes=()))  # that it was resumed
            assert sum(cuts)


@pytest.mark.parametrize(("late", "share"), [(False, 1.0), (True, 4.0)])
def test_small_linear_programs_leave_cuts_time_too(late: bool, share: float) -> None:
    """A node takes its time beside its LP as well: cuts may take as much as both, and more where
    nothing is attacked and little is left to gain."""
    cutting = cone_cutting.ConeCutting(wanted=True)
    separator = SimpleNamespace(layers=[1], work=share * cone_cutting._BESIDE + 1.0)
    formula = SimpleNamespace(cuts=SimpleNamespace(cuts=[], number=0))
    row_count = SimpleNamespace(model=SimpleNamespace(row_count=1))
    region: Any = SimpleNamespace(separator=separator, formula=formula, model=row_count)
    evaluation: Any = SimpleNamespace(complete=True, upper=1.0)
    incumbent: Any = SimpleNamespace(settles=lambda upper: False)
    cutting.count(0.0, region)
    assert not cutting.is_due(evaluation, region, incumbent, late)
    cutting.count(0.0, region)
    assert cutting.is_due(evaluation, region, incumbent, late)


def test_where_little_is_left_of_the_largest_confidence_cuts_do_not_wait_for_branching() -> None:
    """Decisions gain much then at nodes that do not matter; searches for cuts are longer."""
    region: Any = SimpleNamespace(
        separator=SimpleNamespace(work=1e9, expected_work=1e9),
        formula=SimpleNamespace(cuts=SimpleNamespace(number=0)),
    )
    incumbent = Incumbent(Problem(halves(13), perturbation=None, source=0), Options())
    incumbent.update(1.0)
    found = {}
    for alone in (False, True):
        cutting = cone_cutting.ConeCutting(wanted=True, alone=alone)
        cutting.count(1.0, region)
        for _ in range(20):
            cutting.learn(5.0, 1.0)
        for upper in (2.0, 1.03):
            late = cutting.is_late(upper, incumbent)
            found[alone, upper] = cutting.least(upper, region, incumbent, late)
    assert found[False, 2.0] == found[True, 2.0]
    worth, total, most = found[False, 1.03]
    assert total > 1.0
    least = found[True, 1.03]
    assert least[0] < worth
    assert least[1] < 0.001
    assert least[2] > most


def test_nothing_is_near_an_infinite_bound() -> None:
    incumbent = Incumbent(Problem(halves(13), perturbation=None, source=0), Options())
    incumbent.update(1.0)
    assert [incumbent.is_near(upper) for upper in (1.01, 2.0, math.inf)] == [True, False, False]


def test_signs_can_be_ranked_as_without_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_everywhere(monkeypatch)
    found = 0
    for seed in range(30):
        problem = Problem(halves(seed, 3), perturbation=None, source=0)
        bounds = quick_bounds(problem.network, problem.pieces[0])
        state = RegionState(problem, bounds, None)
        model = state.region_model
        answer = model.evaluate((), math.inf).answer
        if not answer.optimal or not model.separate(answer, 1e-6, 0.0):
            continue
        answer = model.evaluate((), math.inf).answer
        ranked = [list(map(_gains, state.candidates(answer, kept))) for kept in (False, True)]
        found += ranked[0] != ranked[1]
        assert {place for place, _ in ranked[0]} == {place for place, _ in ranked[1]}
        # Without the cuts' weights, and with the same multipliers otherwise.
        assert answer.duals is not None
        duals = answer.duals.copy()
        duals[model.model.model.row_count :] = 0.0
        plain = replace(answer, duals=duals)
        assert list(map(_gains, state.candidates(plain))) == ranked[0]
    assert found


def _gains(candidate: Candidate) -> tuple[Any, ...]:
    return candidate.place, candidate.gains


@pytest.mark.parametrize(
    ("text", "little", "doubts"),
    [(None, math.inf, False), (None, -math.inf, True), ("linf(0.4)", math.inf, True)],
)
def test_a_single_copy_has_no_doubts_about_the_last_layer_in_the_end(
    text: str | None, little: float, doubts: bool, cuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    choose = branch.choose

    def noted(*given: Any) -> Any:
        asked.append(given[-1])
        return choose(*given)

    monkeypatch.setattr(branch, "choose", noted)
    monkeypatch.setattr(incumbents, "_LITTLE", little)
    for seed in (13, 15, 16, 18, 23, 53):  # with cuts
        targets = None if text is None else 1
        problem = Problem(halves(seed, 3), perturbation=text, source=0, targets=targets)
        verify(problem, engine=Bab(slopes=False, inputs=False, attack=False), workers=1)
    assert sum(cuts)
    assert asked
    assert any(asked) == doubts


def test_a_round_of_long_searches_ends_before_all_cones_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It begins with the cone that may cut off most, and counts only what was searched."""
    cut_everywhere(monkeypatch)
    problem = Problem(halves(18, 3), perturbation=None, source=0)
    model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), None)
    answer = model.evaluate((), math.inf).answer
    searched: list[Cone] = []
    possible: list[float] = []

    def cut_of(cone: Cone, objective: Any, level: float, most: int) -> Any:
        searched.append(cone)
        possible.append(level + 1e-6 - cone.known_value(objective))
        cone.work += 1e9
        return object()

    assert answer.duals is not None
    wanted = model.formula.wanted(answer.duals, model.separator.layers)
    monkeypatch.setattr(cone_separation, "cone_cut", cut_of)
    assert len(model.separator.cuts(answer.primal, wanted, 1e-6, 0.0)) == 2
    assert model.separator.possible == pytest.approx(sum(possible))
    monkeypatch.setattr(cone_separation, "_MOST_WORK", 5e8)
    assert len(model.separator.cuts(answer.primal, wanted, 1e-6, 0.0)) == 1
    assert possible[2] == max(possible)
    assert model.separator.possible == pytest.approx(max(possible))


def test_a_cone_whose_searches_are_too_short_rests_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until a search may be longer, or finds a cut again."""
    cut_everywhere(monkeypatch)
    problem = Problem(halves(13, 3), perturbation=None, source=0)
    model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), None)
    answer = model.evaluate((), math.inf).answer
    searched: list[Cone] = []
    finds = False

    def cut_of(cone: Cone, *given: Any) -> Any:
        searched.append(cone)
        return object() if finds else None

    def turns_until_searched(cone: Cone, most: int = 200) -> int:
        for turn in range(100):
            searched.clear()
            model.separator.cuts(answer.primal, wanted, 1e-6, 0.0, most)
            if cone in searched:
                return turn
        return 100

    assert answer.duals is not None
    wanted = model.formula.wanted(answer.duals, model.separator.layers)
    monkeypatch.setattr(cone_separation, "cone_cut", cut_of)
    assert not model.separator.cuts(answer.primal, wanted, 1e-6, 0.0)
    cone = searched[0]
    assert [turns_until_searched(cone) for _ in range(3)] == [1, 3, 7]
    assert [turns_until_searched(cone, 1000) for _ in range(3)] == [0, 1, 3]
    assert turns_until_searched(cone) == 7  # a shorter search is no reason
    finds = True
    assert turns_until_searched(cone) == 15
    assert [turns_until_searched(cone) for _ in range(2)] == [0, 0]
