"""Sets of versions, eliminated neurons and dual bounds against versions that are looked at."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from vhagar.local.box import Box
from vhagar.local.branching import VersionSearch
from vhagar.local.compact import Compact, Rows, offsets, upper_bounds
from vhagar.local.device import CPU
from vhagar.local.dual import Dual, Evaluated, Nodes, Steps
from vhagar.local.elimination import after_relu, compact_network, started, through_layer
from vhagar.local.known import Known
from vhagar.local.piece_search import PieceSearch
from vhagar.local.problem import LocalProblem
from vhagar.local.versions import FixedMap, Versions
from vhagar.network import Affine, Network, Relu

from ..oracle.exact import rational_forward, rationals
from .test_local import PERTURBATIONS, image, network

SPANS = ((0.0, 1.0), (-1.0, 2.0))


def fixed_maps(text: str, clip: bool, span: tuple[float, float] = (0.0, 1.0)) -> list[FixedMap]:
    problem = LocalProblem(
        network(2), perturbation=text, image=image(2, span), clip=clip, input_range=span
    )
    return [Known(problem).fixed(piece) for piece in problem.everywhere.pieces]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("text", "clip"), [("linf(0.2)", True), *PERTURBATIONS])
def test_versions_are_in_their_set(text: str, clip: bool, span: tuple[float, float]) -> None:
    rng = np.random.default_rng(5)
    for fixed in fixed_maps(text, clip, span)[:6]:
        for _ in range(4):
            ends = np.sort(rng.uniform(fixed.lower, fixed.upper, (2, len(fixed.lower))), axis=0)
            versions = fixed.versions(*ends)
            # The ends themselves are versions, too, where a clip bends most.
            inside = rng.uniform(*ends, (400, len(fixed.lower)))
            images = fixed.image(np.concatenate([inside, ends]))
            low, high = versions.bounds()
            assert (low <= images).all()
            assert (images <= high).all()
            rows = np.concatenate([rng.normal(size=(20, 12)), np.eye(12), -np.eye(12)])
            assert (versions.support(rows)[:, None] >= rows @ images.T - 1e-15).all()


def test_a_clipped_range_shrinks_to_its_versions() -> None:
    (fixed, *_) = fixed_maps("brightness([0.2,0.7])", True)
    wide = fixed.versions()
    halves = [fixed.versions(np.array([a]), np.array([b])) for a, b in ((0.2, 0.45), (0.45, 0.7))]
    assert sum(half.room.sum() for half in halves) < wide.room.sum()


def box_versions(centre: np.ndarray, room: np.ndarray) -> Versions:
    return Versions(centre, sparse.csr_array((len(centre), 0)), room)


def compact_of(
    seed: int, room: float, tightened: bool = False
) -> tuple[Network, Compact, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes, layers = (4, 6, 6, 3), []
    for k, (into, out) in enumerate(itertools.pairwise(sizes)):
        weight, bias = rng.normal(size=(out, into)), rng.normal(size=out) / 2
        layers += [Affine(weight, bias, (into,), (out,))] + ([Relu((out,))] if k < 2 else [])
    net, centre = Network(tuple(layers), (4,)), rng.uniform(size=4)
    until = (lambda: False) if tightened else None
    versions = box_versions(centre, np.full(4, room))
    compact = compact_network(net, versions, record=tightened, tightened_until=until)
    return net, compact, rng.uniform(centre - room, centre + room, (3000, 4))


@pytest.mark.parametrize("tightened", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_ranges_hold_and_eliminated_neurons_keep_their_sign(seed: int, tightened: bool) -> None:
    net, compact, points = compact_of(seed, 0.3, tightened)
    values, layer = points, 0
    for each in net.layers:
        if isinstance(each, Relu):
            assert (compact.lower[layer] <= values).all()
            assert (values <= compact.upper[layer]).all()
            assert (values[:, compact.status[layer] == 0] <= 0).all()
            assert (values[:, compact.status[layer] == 1] >= 0).all()
            layer += 1
        values = each.forward(values)
    assert compact.undecided > 0


@pytest.mark.parametrize("seed", range(6))
def test_ranges_hold_for_versions_that_obey_decisions(seed: int) -> None:
    net, compact, points = compact_of(seed, 0.3)
    rng = np.random.default_rng(seed)
    first = points @ net.layers[0].weight.T + net.layers[0].bias
    second = np.maximum(first, 0) @ net.layers[2].weight.T + net.layers[2].bias
    free = [(k, int(n)) for k, block in enumerate(compact.blocks) for n in block.neurons]
    for _ in range(10):
        chosen = rng.permutation(len(free))[:3]
        decisions = {free[k]: int(rng.choice([-1, 1])) for k in chosen}
        values = (first, second)
        obeys = np.all([sign * values[k][:, n] >= 0 for (k, n), sign in decisions.items()], axis=0)
        found = compact_network(
            net, compact.versions, tightened_until=lambda: False, decisions=decisions
        )
        if found.contradicted is not None:
            assert not obeys.any()
            continue
        for layer, pre in enumerate(values):
            assert (found.lower[layer] <= pre[obeys]).all()
            assert (pre[obeys] <= found.upper[layer]).all()
        start = rng.normal(size=(1, 3))
        bound = upper_bounds(found, found.scores, start)[0]
        assert (bound >= net.forward(points[obeys]) @ start[0]).all()


def test_a_decision_that_no_version_obeys_is_named() -> None:
    _, compact, _ = compact_of(0, 0.01)
    net, _, _ = compact_of(0, 0.3)
    neuron = int(np.flatnonzero(compact.lower[0] > 0)[0])
    found = compact_network(net, compact.versions, decisions={(0, neuron): -1})
    assert found.contradicted == (0, neuron)
    assert compact_network(net, compact.versions, decisions={(0, neuron): 1}).contradicted is None


def test_optimised_slopes_tighten_ranges_and_are_kept_for_certificates() -> None:
    tighter = 0
    for seed in range(6):
        _, before, _ = compact_of(seed, 0.3)
        net, after, _ = compact_of(seed, 0.3, tightened=True)
        assert (after.upper[1] <= before.upper[1]).all()
        assert (after.lower[1] >= before.lower[1]).all()
        tighter += int((after.upper[1] < before.upper[1]).sum())
        refined = after.refined[1]
        rows = through_layer(net.layers[2], after_relu(input_rows(net, after), after.status[0]), 10)
        for side, sign in enumerate((-1.0, 1.0)):
            p = refined.below[side].astype(np.float64)
            own, start = rows.take(refined.crown), sign * np.eye(len(refined.crown))
            ends = (after.lower, after.upper)[side][1][refined.crown]
            proved = upper_bounds(after, own, start, lambda k, a, p=p: p)
            np.testing.assert_allclose(sign * proved, ends, rtol=1e-9, atol=1e-9)
    assert tighter > 0


def input_rows(net: Network, compact: Compact) -> Rows:
    return through_layer(net.layers[0], started(net.input_size, compact.versions), 10)


@pytest.mark.parametrize("seed", range(6))
def test_any_multipliers_give_a_bound_where_the_signs_are_as_decided(seed: int) -> None:
    net, compact, points = compact_of(seed, 0.3)
    rng = np.random.default_rng(seed)
    pre = [points @ net.layers[0].weight.T + net.layers[0].bias]
    pre.append(np.maximum(pre[0], 0) @ net.layers[2].weight.T + net.layers[2].bias)
    scores, start = net.forward(points), rng.normal(size=(1, 3))
    for _ in range(20):
        p = [rng.normal(size=(1, len(block.neurons))) for block in compact.blocks]
        signs = [
            rng.integers(-1, 2, size=(1, len(b.neurons))).astype(np.int8) for b in compact.blocks
        ]
        kept = np.ones(len(points), dtype=bool)
        for values, block, sign in zip(pre, compact.blocks, signs, strict=True):
            kept &= ((sign[0] * values[:, block.neurons]) >= 0).all(axis=1)
        found = upper_bounds(compact, compact.scores, start, lambda k, a, p=p: p[k], signs)
        assert (found[0] >= (scores[kept] @ start[0])).all()
        whole = upper_bounds(compact, compact.scores, start, lambda k, a, p=p: p[k])
        assert (whole[0] >= scores @ start[0]).all()
        assert found[0] <= whole[0]


def test_the_offset_is_the_largest_over_the_range() -> None:
    _, compact, _ = compact_of(1, 0.3)
    block, rng = compact.blocks[0], np.random.default_rng(0)
    a, p = rng.normal(size=(2, 50, len(block.neurons)))
    s = np.linspace(block.lower, block.upper, 101)[:, None]
    for sign, kept in ((0, s < np.inf), (1, s >= 0), (-1, s <= 0)):
        values = np.where(kept, a * np.maximum(s, 0) - p * s, -np.inf)
        signs = np.full(a.shape, sign, dtype=np.int8)
        np.testing.assert_array_less(values.max(axis=0) - 1e-12, offsets(block, a, p, signs))


def test_rounding_is_added() -> None:
    """Huge weights that nearly cancel: what is left of them in float64 is mostly rounding."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        half, last = 1e8 * rng.uniform(0.5, 1, (20, 3)), 1e8 * rng.normal(size=(2, 20))
        nearly = 1 + 1e-9 * rng.normal(size=20)
        first = np.concatenate([half, half * nearly[:, None]])
        layers = (
            Affine(first, rng.uniform(size=40), (3,), (40,)),
            Relu((40,)),
            Affine(np.concatenate([last, -last / nearly], axis=1), np.zeros(2), (40,), (2,)),
        )
        net = Network(layers, (3,))
        compact = compact_network(net, box_versions(np.full(3, 0.5), np.zeros(3)))
        exact = rational_forward(net, rationals(np.full(3, 0.5)))
        start = np.array([[1.0, -1.0], [-1.0, 1.0]])
        bounds = upper_bounds(compact, compact.scores, start)
        for bound, row in zip(bounds.tolist(), ((1, -1), (-1, 1)), strict=True):
            assert Fraction(bound) >= row[0] * exact[0] + row[1] * exact[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_search_s_own_value_and_gradient_are_right(seed: int) -> None:
    _, compact, _ = compact_of(seed, 0.3)
    start = np.random.default_rng(seed).normal(size=(2, 3))
    dual = Dual(compact, compact.scores, start, np.asarray)  # float64
    nodes = dual.begin()
    nodes.signs[1, 0] = 1.0
    nodes.shifts[1, 0] = 0.05
    found = dual.evaluate(nodes)
    proven = upper_bounds(
        compact,
        compact.scores,
        start,
        lambda k, a: found.p[:, dual.blocks[k].part],
        [nodes.signs[:, block.part].astype(np.int8) for block in dual.blocks],
    )
    np.testing.assert_allclose(found.value, proven, rtol=1e-9, atol=1e-9)
    step = 1e-6
    for name, gradient in (("slopes", found.by_slope), ("shifts", found.by_shift)):
        for k in range(dual.undecided):
            moved = dual.begin()
            moved.signs[1, 0], moved.shifts[1, 0] = 1.0, 0.05
            getattr(moved, name)[:, k] += step * np.sign(0.5 - getattr(moved, name)[:, k])
            way = np.sign(0.5 - getattr(nodes, name)[:, k])
            change = (dual.evaluate(moved).value - found.value) / (step * way)
            free = gradient[:, k] != 0
            np.testing.assert_allclose(change[free], gradient[free, k], rtol=1e-3, atol=1e-4)
    assert (dual.improve(nodes, Steps(20), -np.inf)[1].value <= found.value + 1e-12).all()


def test_a_node_is_closed_only_by_what_float64_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    net, compact, points = compact_of(1, 0.3)
    scores = net.forward(points)
    start = np.array([[1.0, -1.0, 0.0]])
    if (scores @ start[0]).max() < 0:
        start = -start
    search = VersionSearch(compact, start, CPU)
    search.begin()
    assert search.open_count == 1
    honest = search.dual.evaluate

    def lying(nodes: Nodes) -> Evaluated:
        found = honest(nodes)
        found.value[:] = -1.0
        return found

    monkeypatch.setattr(search.dual, "evaluate", lying)
    for _ in range(3):
        search.step()
        assert search.open_count
        assert search.uppers[0] >= (scores @ start[0]).max()


def test_a_box_is_only_as_good_as_the_worse_of_its_halves() -> None:
    (fixed,) = fixed_maps("linf(0.1)", True)
    search = PieceSearch(network(2), fixed, (0, 1), (2, 2), lambda: False)
    rows = np.arange(2)
    search.root.uppers = np.array([3.0, 4.0])
    search.root.parts = (
        Box(fixed.lower, fixed.upper, rows, np.array([-1.0, 2.0])),
        Box(fixed.lower, fixed.upper, rows, np.array([-2.0, -3.0])),
    )
    np.testing.assert_array_equal(search.uppers, [-1.0, 2.0])
