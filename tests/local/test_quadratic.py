"""Quadratic facts about one image's versions: bounds hold, and are what multipliers are worth."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from vhagar.local.box import Box
from vhagar.local.branching import VersionSearch
from vhagar.local.compact import Compact, dense, upper_bounds
from vhagar.local.elimination import compact_network
from vhagar.local.known import Known
from vhagar.local.piece_search import PieceSearch
from vhagar.local.problem import LocalProblem
from vhagar.local.quadratic import (
    Evaluation,
    Facts,
    Lead,
    Multipliers,
    QuadraticSearch,
    evaluate,
    starting_multipliers,
)
from vhagar.local.quadratic_proof import (
    QuadraticBounds,
    _radii,
    _sizes,
    _sums,
    are_possible,
    likely_seconds,
    proven_bound,
)
from vhagar.local.versions import Versions
from vhagar.network import Affine, Network, Relu

from ..networks import flat_network
from ..oracle.exact import rational_forward, rationals
from .test_compact import compact_of


def along_lines(seed: int) -> tuple[Network, Compact, np.ndarray]:
    """Versions along two directions, with some room."""
    net, _, _ = compact_of(seed, 0.3)
    rng = np.random.default_rng(seed)
    centre, room = rng.uniform(size=4), np.array([0.0, 0.1, 0.05, 0.0])
    directions = 0.3 * rng.normal(size=(4, 2))
    compact = compact_network(net, Versions(centre, sparse.csr_array(directions), room))
    v, w = rng.uniform(-1, 1, (2000, 2)), rng.uniform(-room, room, (2000, 4))
    return net, compact, centre + v @ directions.T + w


def some_multipliers(facts: Facts, lead: Lead, rng: np.random.Generator) -> list[Multipliers]:
    """The first ones, and some around them."""
    start = first_multipliers(facts, lead)
    shakes = [size * rng.normal(size=len(start.all)) for size in (0.01, 0.1, 0.1, 0.5)]
    return [start, *map(start.moved, shakes)]


def first_multipliers(facts: Facts, lead: Lead) -> Multipliers:
    """Those for which the sum of the lead and the facts is concave."""
    for growth in 1.5 ** np.arange(16):
        found = starting_multipliers(facts, lead, float(growth))
        if evaluate(facts, lead, found, 0.0, np.random.default_rng(0)) is not None:
            return found
    raise AssertionError("no first multipliers")


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_proved_holds_for_all_versions(seed: int, lines: bool) -> None:
    net, compact, points = along_lines(seed) if lines else compact_of(seed, 0.3)
    rng, facts = np.random.default_rng(seed), Facts.of(compact)
    scores, proved = net.forward(points), 0
    for start in rng.normal(size=(6, 3)):
        lead = Lead.of(compact, facts, start)
        for multipliers in some_multipliers(facts, lead, rng):
            found = evaluate(facts, lead, multipliers, 0.0, rng)
            bound = proven_bound(compact, facts, start, multipliers)
            assert bound >= (scores @ start).max()
            if found is not None and np.isfinite(bound):
                proved += 1
                np.testing.assert_allclose(bound, found.value, rtol=1e-3, atol=1e-3)
    assert proved > 6


def test_bounds_hold_for_versions_that_obey_decisions() -> None:
    net, plain, points = compact_of(2, 0.4)
    first = points @ net.layers[0].weight.T + net.layers[0].bias
    rng, scores = np.random.default_rng(2), net.forward(points)
    for neuron in plain.blocks[0].neurons.tolist():
        for sign in (-1, 1):
            decisions = {(0, int(neuron)): sign}
            compact = compact_network(net, plain.versions, decisions=decisions)
            facts, obeys = Facts.of(compact), sign * first[:, neuron] >= 0
            for start in rng.normal(size=(4, 3)):
                lead = Lead.of(compact, facts, start)
                for multipliers in some_multipliers(facts, lead, rng):
                    bound = proven_bound(compact, facts, start, multipliers)
                    assert bound >= (scores[obeys] @ start).max(initial=-np.inf)


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_right(seed: int) -> None:
    _, compact, _ = compact_of(seed, 0.3)
    rng, facts = np.random.default_rng(seed), Facts.of(compact)
    lead = Lead.of(compact, facts, rng.normal(size=3))
    multipliers = first_multipliers(facts, lead)
    found = evaluate(facts, lead, multipliers, 0.0, rng)
    assert found is not None
    for k in range(len(multipliers.all)):
        values = []
        for step in (-1e-3, 1e-3):
            moved = multipliers.moved(step * np.eye(len(multipliers.all))[k])
            there = evaluate(facts, lead, moved, 0.0, rng)
            assert there is not None
            values.append(there.value)
        slope = (values[1] - values[0]) / 2e-3
        np.testing.assert_allclose(slope, found.gradient[k], rtol=2e-2, atol=1e-3)


def test_rounding_is_added() -> None:
    """Huge weights that nearly cancel: what is left of them in float64 is mostly rounding."""
    rng, proved = np.random.default_rng(3), 0
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T * 2.0**-10 + 0.5
    for _ in range(5):
        half, last = 1e6 * rng.normal(size=(8, 3)), 1e6 * rng.normal(size=(2, 8))
        nearly = 1 + 1e-9 * rng.normal(size=8)
        first = np.concatenate([half, half * nearly[:, None]])
        layers = (
            Affine(first, -first.sum(axis=1) / 2, (3,), (16,)),
            Relu((16,)),
            Affine(np.concatenate([last, -last / nearly], axis=1), np.zeros(2), (16,), (2,)),
        )
        net = Network(layers, (3,))
        versions = Versions(np.full(3, 0.5), sparse.csr_array((3, 0)), np.full(3, 2.0**-10))
        compact = compact_network(net, versions)
        facts, start = Facts.of(compact), np.array([1.0, -1.0])
        multipliers = first_multipliers(facts, Lead.of(compact, facts, start))
        bound = proven_bound(compact, facts, start, multipliers)
        if not np.isfinite(bound):
            continue
        proved += 1
        for corner in corners:
            exact = rational_forward(net, rationals(corner))
            assert Fraction(bound) >= exact[0] - exact[1]
    assert proved


def with_errors(compact: Compact, of_rows: float, of_scores: float) -> Compact:
    """Few versions, but neurons' rows or scores that may be far off; the neurons' ranges hold."""
    assert compact.scores is not None
    versions = replace(compact.versions, room=compact.versions.room / 100)
    low, high = (part[: len(versions.centre)] for part in versions.bounds())
    blocks = []
    for block in compact.blocks:
        centre = block.weight @ (high + low) / 2 + block.bias
        reach = abs(block.weight) @ (high - low) / 2
        error = of_rows * (abs(centre) + 1.0) + block.error
        lower = np.minimum(centre - reach - error, 0.0) - 0.1
        upper = np.maximum(centre + reach + error, 0.0) + 0.1
        blocks.append(replace(block, lower=lower, upper=upper, error=error))
        low, high = np.append(low, np.zeros(len(error))), np.append(high, upper)
    scores = replace(compact.scores, error=compact.scores.error + of_scores)
    return replace(compact, versions=versions, blocks=blocks, scores=scores)


def improved(facts: Facts, lead: Lead) -> list[Multipliers]:
    """Multipliers on the way to the smallest bound without errors."""
    search, found = QuadraticSearch(facts), list[Multipliers]()

    def keep() -> bool:
        found.extend([] if search.last is None else [search.last])
        return False

    below = replace(lead, constant=lead.constant - 1e3)  # steps end above 0 if they are slow
    search.improve(below, 1e3, keep, lambda _: False)
    return found[::40]


def largest_lead(compact: Compact, start: np.ndarray) -> Fraction:
    """The largest lead at the centre of versions, if every row is off by its error either way."""
    assert compact.scores is not None
    v = rational(compact.versions.centre)[None]
    for block in compact.blocks:
        ways = rational(np.array(list(itertools.product((-1, 1), repeat=len(block.error)))))
        s = v @ rational(block.weight).T + rational(block.bias)
        s = (s[:, None] + ways * rational(block.error)).reshape(-1, len(block.error))
        z = np.where(s > 0, s, Fraction(0))
        v = np.concatenate([np.repeat(v, len(ways), axis=0), z], axis=1)
    leads = rational(start) @ (rational(dense(compact.scores.weight)) @ v.T)
    off = abs(rational(start)) @ rational(compact.scores.error)
    return Fraction(leads.max() + rational(start) @ rational(compact.scores.bias) + off)


@pytest.mark.parametrize(("of_rows", "of_scores"), [(0.2, 0.0), (1.0, 0.0), (3.0, 0.0), (0.0, 5.0)])
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_errors_of_rows_are_added(seed: int, of_rows: float, of_scores: float) -> None:
    """They are larger than what relaxing the neurons loses, so that none can be left out."""
    compact = with_errors(compact_of(seed, 0.3)[1], of_rows, of_scores)
    rng, facts, proved = np.random.default_rng(seed), Facts.of(compact), 0
    for start in rng.normal(size=(4, 3)):
        truth, lead = largest_lead(compact, start), Lead.of(compact, facts, start)
        for multipliers in improved(facts, lead):
            bound = proven_bound(compact, facts, start, multipliers)
            if np.isfinite(bound):
                proved += 1
                assert Fraction(bound) >= truth
    assert proved


def rational(values: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(values)


@pytest.mark.parametrize("seed", range(4))
def test_radii_hold_the_exact_sums(seed: int) -> None:
    _, compact, _ = along_lines(seed)
    rng, start = np.random.default_rng(seed), np.random.default_rng(seed).normal(size=3)
    facts = Facts.of(compact)
    lead = Lead.of(compact, facts, start)
    count, size = len(facts.bias), len(compact.versions.centre)
    numbers = np.exp(6 * rng.normal(size=5 * count + len(lead.on_inputs)))
    multipliers = Multipliers(numbers, count)
    found = _sums(facts, lead, multipliers)
    radii = _radii(facts, _sizes(compact, facts, start), multipliers)

    centre, spread = rational(compact.versions.centre), rational(facts.spread.toarray())
    weights, bias, begin = [], [], 0
    on_neurons = rational(np.zeros((count, count)))
    for block in compact.blocks:
        weight, end = rational(block.weight), begin + len(block.neurons)
        weights.append(weight[:, :size])
        bias.append(rational(block.bias) + weight[:, :size] @ centre)
        on_neurons[begin:end, :begin] = weight[:, size:]
        begin = end
    on_inputs, bias_all = np.concatenate(weights) @ spread, np.concatenate(bias)
    assert compact.scores is not None
    exact_start = rational(start)
    row = exact_start @ rational(dense(compact.scores.weight))
    curve, zero, line, above, range_, box = map(rational, multipliers.parts)
    slopes = rational(facts.chord) * above - line
    by_e = row[:size] @ spread + slopes @ on_inputs
    half = np.diag(curve) @ on_neurons / 2
    scaled = np.diag(curve / 2) @ on_inputs
    matrix = np.diag(curve + range_) - half - half.T - (scaled / box) @ scaled.T
    right = row[size:] + zero + line - above + slopes @ on_neurons + range_ * rational(facts.upper)
    right = right + curve * (bias_all + on_inputs @ (by_e / box) / 2)
    constant = exact_start @ rational(compact.scores.bias) + row[:size] @ centre
    constant += slopes @ bias_all - (rational(facts.chord) * above) @ rational(facts.lower)
    constant += box.sum() + (by_e * by_e / box).sum() / 4
    for value, exact, radius in zip(found, (matrix, right, constant), radii, strict=True):
        off = abs(rational(np.asarray(value)) - exact)
        assert (off <= rational(np.asarray(radius))).all()
        assert (np.asarray(off, dtype=np.float64) > 0).any()  # there is rounding to hold


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 1e40])
def test_forged_multipliers_prove_nothing(bad: float) -> None:
    _, compact, _ = compact_of(1, 0.3)
    facts, start = Facts.of(compact), np.array([1.0, -1.0, 0.0])
    honest = first_multipliers(facts, Lead.of(compact, facts, start))
    forged = honest.all.copy()
    forged[0] = bad
    assert proven_bound(compact, facts, start, Multipliers(forged, honest.neurons)) == np.inf


def test_they_prove_what_triangles_do_not() -> None:
    proved = 0
    for seed in range(12):
        net, compact, points = compact_of(seed, 0.4, tightened=True)
        worst = (net.forward(points)[:, 0] - net.forward(points)[:, 1]).max()
        start = np.array([[1.0, -1.0, 0.0]])
        search = VersionSearch(compact, start)
        search.begin()
        by_triangles = float(search.uppers[0])
        if not 0 < worst < by_triangles:
            continue
        # Move the scores so that the truth is below 0, and what triangles prove above.
        assert compact.scores is not None
        compact.scores.bias[0] -= by_triangles - 0.1 * (by_triangles - worst)
        known = float(upper_bounds(compact, compact.scores, start)[0])
        bound = QuadraticBounds(compact).bound(start[0], known, lambda: False)
        shift = by_triangles - 0.1 * (by_triangles - worst)
        assert bound >= worst - shift
        proved += bound < 0
    assert proved


@pytest.mark.parametrize("asked", range(4))
def test_no_evaluation_begins_once_the_time_is_over(
    asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first multipliers alone take ten of them."""
    _, compact, _ = compact_of(0, 0.4)
    count, module = 0, import_module(QuadraticSearch.__module__)

    def counted(*arguments: Any) -> Evaluation | None:
        nonlocal count
        count += 1
        return evaluate(*arguments)

    left = iter(range(asked))
    monkeypatch.setattr(module, "evaluate", counted)
    bounds = QuadraticBounds(compact)
    assert bounds.bound(np.array([1.0, -1.0, 0.0]), 10.0, lambda: next(left, None) is None) > 0
    assert count == asked


@pytest.mark.parametrize("asked", range(4))
def test_no_proof_is_tried_once_the_time_is_over(
    asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, compact, _ = compact_of(0, 0.4)
    facts, start, count = Facts.of(compact), np.array([1.0, -1.0, 0.0]), 0

    def refused(*_: Any) -> bool:
        nonlocal count
        count += 1
        return False

    left = iter(range(asked))
    monkeypatch.setattr(import_module(proven_bound.__module__), "is_positive_definite", refused)
    multipliers = first_multipliers(facts, Lead.of(compact, facts, start))
    found = proven_bound(compact, facts, start, multipliers, stop=lambda: next(left, None) is None)
    assert found == np.inf
    assert count == asked


def begun(seed: int, epsilon: float, record: bool) -> tuple[PieceSearch, float]:
    """A search up to its optimised ranges, and the best lead of any target that was sampled."""
    rng = np.random.default_rng(seed)
    net = flat_network(rng)
    problem = LocalProblem(net, perturbation=f"linf({epsilon})", image=np.full(12, 0.5))
    (piece,), source = problem.everywhere.pieces, problem.everywhere.source
    targets = problem.everywhere.targets
    points = 0.5 + epsilon * rng.choice([-1.0, 1.0], (4000, 12))
    scores = net.forward(points)
    lead = float((scores[:, list(targets)].max(axis=1) - scores[:, source]).max())
    fixed, rivals = Known(problem).fixed(piece), (source,) * len(targets)
    search = PieceSearch(net, fixed, targets, rivals, lambda: False, record)
    while not search.is_done and not search._open[-1].tightened:
        search.step()
    if not search.is_done:
        search.step()
    return search, lead


@pytest.mark.parametrize("record", [False, True])
def test_a_search_that_is_stuck_closes_by_facts(record: bool) -> None:
    closed = 0
    for seed, epsilon in itertools.product(range(12), (0.1, 0.2, 0.3)):
        search, lead = begun(seed, epsilon, record)
        if search.is_done or lead >= 0:
            continue
        (box,) = search._open
        box.stuck = True
        search.step()
        assert search.uppers.max() >= lead
        while not search.is_done and not box.needs_signs:
            search.step()
        assert box.needs_signs or (search.uppers < 0).all()
        assert box.quadratic is None  # what a closed box no longer needs is not kept
        assert search.uppers.max() >= lead
        closed += bool((search.uppers < 0).all())
        assert record or not box.facts
        if search.is_done and record:
            assert box.proof is not None
            assert box.proof.facts is box.facts
            assert box.facts
    assert closed


def test_a_bound_that_is_to_be_certified_is_clear() -> None:
    """It is below 0 by far more than what it has for rounding."""
    _, compact, _ = compact_of(0, 0.3)
    assert compact.scores is not None
    facts, start = Facts.of(compact), np.array([1.0, -1.0, 0.0])
    multipliers = first_multipliers(facts, Lead.of(compact, facts, start))
    bound = proven_bound(compact, facts, start, multipliers)
    for below, clear in ((1e-7, False), (1e-3, True)):
        compact.scores.bias[0] -= bound + below
        bound = proven_bound(compact, facts, start, multipliers)
        assert -1.5 * below < bound < -0.5 * below
        found = proven_bound(compact, facts, start, multipliers, 4000.0)
        assert found == (bound if clear else np.inf)
        certified = QuadraticBounds(compact, certified=True)
        assert certified._clearly == 4000.0
    assert proven_bound(compact, facts, start, multipliers, 4000.0) < 0


def test_a_closed_row_has_no_open_nodes_and_keeps_its_bound() -> None:
    _, compact, _ = compact_of(0, 2.0)
    search = VersionSearch(compact, np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]))
    search.begin()
    assert search.open_count == 2
    search.close(0, -0.5)
    assert search.open_count == 1
    assert search.uppers[0] == -0.5
    assert search.uppers[1] > 0
    search.step()
    assert search.uppers[0] == -0.5


def test_a_search_that_gains_little_has_far_to_go() -> None:
    box = Box(np.zeros(1), np.ones(1), np.zeros(1, dtype=int), np.ones(1))
    for seconds, worst in ((1.0, 0.5), (1.0, 0.4), (2.0, 0.3)):
        box.note(seconds, worst)
    assert np.isclose(box.forecast, 4 * (2**3 - 1))  # a tenth for each doubling of four seconds
    box.note(0.1, 0.5)
    assert box.forecast == np.inf


@pytest.mark.parametrize("moving", [0, 3])
def test_neither_neurons_nor_their_coefficients_are_too_many(moving: int) -> None:
    """An image of a million entries, of which a few move or all: there are arrays over all."""
    block = compact_of(0, 0.4)[1].blocks[0]
    for entries, neurons, possible in (
        (16_384, 2_000, True),
        (16_384, 2_001, False),
        (1_000_000, 33, True),
        (1_000_000, 34, False),
    ):
        room = np.zeros(entries)
        room[: moving or entries] = 0.1
        versions = Versions(np.zeros(entries), sparse.csr_array((entries, 0)), room)
        many = replace(block, neurons=np.arange(neurons))
        assert are_possible(Compact(versions, blocks=[many])) is possible


def test_larger_questions_take_longer() -> None:
    compacts = [compact_of(seed, 0.4)[1] for seed in range(6)]
    compacts.sort(key=lambda compact: compact.undecided)
    assert likely_seconds(compacts[0], 1) < likely_seconds(compacts[-1], 1)
    assert likely_seconds(compacts[0], 1) < likely_seconds(compacts[0], 2)
