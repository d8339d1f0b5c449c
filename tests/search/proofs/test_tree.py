"""Certificates hold what the search did: the announced bounds follow from them, however it ends."""

from __future__ import annotations

import errno
import hashlib
import importlib
import itertools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Progress, Result, Status, VhagarError, verify
from vhagar.errors import InvalidInput
from vhagar.network import Affine, Relu, read_onnx, write_onnx
from vhagar.relaxation import Bounds, network_bounds
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp import region_model
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.proof import ProofKind
from vhagar.runtime.deadline import OutOfTime
from vhagar.search import (
    engine_named,
    node_selection,
    search,
    search_pool,
)
from vhagar.search.branch_and_bound import Bab
from vhagar.search.node_solver import NodeSolver
from vhagar.search.proofs import log as proof_log
from vhagar.search.proofs import store as proof_store
from vhagar.search.proofs import tree as proof_tree
from vhagar.search.proofs.scratch import Scratch
from vhagar.search.proofs.tree_state import SearchKind
from vhagar.solver.simplex import Simplex

from ...marks import mostly_slow
from ..proven import Proven
from ..test_branch_and_bound import JOBS, Killer, refusing

ChildrenOf = Callable[[int], set[int]]

PATIENCE = 600.0
ROOM = 1e-9


def network(*sizes: int, seed: int = 2, shape: tuple[int, ...] | None = None) -> Network:
    rng = np.random.default_rng(seed)
    layers: list[Affine | Relu] = []
    for into, out in itertools.pairwise(sizes):
        weight, bias = rng.normal(size=(out, into)), 0.5 * rng.normal(size=out)
        weight, bias = (part.astype(np.float32).astype(np.float64) for part in (weight, bias))
        into_shape = shape if shape and not layers else (into,)
        layers += [Affine(weight, bias, into_shape, (out,)), Relu((out,))]
    return Network(tuple(layers[:-1]), shape or (sizes[0],))


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Some hundred nodes, over two targets."""
    return Problem(network(6, 8, 6, 3), perturbation="linf(0.1)", source=0)


@pytest.fixture(autouse=True)
def no_first_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of roots before the search have tests of their own."""
    monkeypatch.setattr(search.Search, "bound_roots", lambda *_: None)


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, Any]:
    """Trees by signs; those by slopes are tested with the checker's quadratic proofs."""
    options = {"engine": Bab(slopes=False, inputs=False), "workers": 1, "relative_gap": 0.3}
    return {**options, "certificate": tmp_path / "proof.cert"}


def proven(result: Result, problem: Problem) -> Proven:
    """The certificate of a result, which proves exactly what was announced, and holds its parts."""
    assert result.certificate is not None
    found = Proven(result.certificate, problem)
    head = found.stored.head
    assert (head["claims"]["lower"], head["claims"]["upper"]) == (result.lower, result.upper)
    for target in problem.search_targets:
        claim = head["claims"] if target is None else head["claims"]["targets"][str(target)]
        known = result.interval if target is None else result.targets[target]
        assert (claim["lower"], claim["upper"]) == (known.lower, known.upper)
        upper = found.upper(target)
        room = ROOM * (upper + found.largest()) + score_size(problem) * 1e-12 if upper else 0.0
        assert upper + 0.99 * room <= known.upper <= upper + 1.01 * room
        with_witness = [witness["target"] for witness in head["witnesses"]]
        assert with_witness.count(target) == (known.lower > 0)
    for witness in head["witnesses"]:
        confirm(witness, problem)
    return found


def score_size(problem: Problem) -> float:
    domain = problem.domain
    box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
    return float(network_bounds(problem.network, box)[-1].magnitude.max())


def confirm(witness: dict[str, Any], problem: Problem) -> None:
    """A witness is one, from what is written of it."""
    x = np.array(witness["x"])[None]
    scores = problem.network.forward(x)[0]
    others = np.delete(scores, problem.source).max()
    assert scores[problem.source] - others == pytest.approx(witness["confidence"], rel=1e-9)
    if witness["target"] is not None:
        piece = problem.pieces[witness["piece"]]
        parameters = np.array(witness["parameters"])[None]
        x_p = piece.apply(x, parameters)
        assert piece.contains(x, x_p, parameters).all()
        assert problem.network.forward(x_p)[0].argmax() == witness["target"]


def interrupt_after(moments: int) -> Callable[[Progress], None]:
    def count(_: Progress) -> None:
        nonlocal moments
        moments -= 1
        if moments < 0:
            raise KeyboardInterrupt

    return count


@pytest.mark.parametrize(("stops_early", "kinds"), [(True, {1}), (False, {1, 2})])
def test_a_closed_search_proves_what_it_announced(
    stops_early: bool,
    kinds: set[int],
    problem: Problem,
    alone: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not stops_early:  # LPs go on beyond what is enough, until some turn out to be infeasible
        monkeypatch.setattr(region_model, "_SURELY", math.inf)
    result = verify(problem, timeout=PATIENCE, **dict(alone, relative_gap=0.01))
    assert result.status is Status.CLOSED
    found = proven(result, problem)
    assert len(found.leaves()) > 20
    assert not any(region.head["refined"] == [] for region in found.stored.regions)
    assert {proof.kind for _, proof in found.proofs.values()} >= kinds


def test_only_proofs_that_a_leaf_rests_on_are_kept(problem: Problem, alone: dict[str, Any]) -> None:
    found = proven(verify(problem, timeout=PATIENCE, **alone), problem)
    parents = {child: parent for parent, both in found.children.items() for child in both}
    needed = set()
    for leaf in found.leaves():
        node: int | None = leaf
        while node is not None and node not in found.proofs:
            node = parents.get(node)
        needed.add(node)
    assert needed - {None} == set(found.proofs)


@pytest.mark.parametrize("moments", [0, 3, 5, 7])
def test_an_interrupted_search_proves_what_it_announced(
    moments: int, problem: Problem, alone: dict[str, Any]
) -> None:
    options = dict(alone, relative_gap=0.0)
    result = verify(problem, **options, on_progress=interrupt_after(moments))
    assert result.status is Status.INTERRUPTED
    proven(result, problem)  # with 0 moments, of what interval arithmetic says


def test_time_that_is_up_leaves_a_certificate(problem: Problem, alone: dict[str, Any]) -> None:
    for timeout, endings in ((0.0, [Status.TIMEOUT]), (0.3, [Status.TIMEOUT, Status.CLOSED])):
        result = verify(problem, timeout=timeout, **dict(alone, relative_gap=0.0))
        assert result.status in endings  # fast machines may end before the time is up
        proven(result, problem)


def test_time_that_is_up_in_the_midst_leaves_a_certificate(
    problem: Problem, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Bab.search

    def late(*arguments: Any) -> bool:
        search(*arguments)
        raise OutOfTime

    monkeypatch.setattr(Bab, "search", late)
    result = verify(problem, timeout=PATIENCE, **alone)
    assert result.certificate is not None
    proven_at_least(result, problem)


def test_it_is_the_same_every_time(problem: Problem, alone: dict[str, Any]) -> None:
    options = dict(alone, workers=0)
    verify(problem, timeout=PATIENCE, **options)
    assert alone["certificate"] is not None
    first = alone["certificate"].read_bytes()
    verify(problem, timeout=PATIENCE, **options)
    assert alone["certificate"].read_bytes() == first


@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
@pytest.mark.parametrize("killed", mostly_slow([1, 0, 2], 3))
def test_workers_and_their_loss(
    killed: int, problem: Problem, alone: dict[str, Any], children_of: ChildrenOf
) -> None:
    """What a lost worker did not report is in no tree, and what it did stays."""
    kill = Killer(killed, children_of)
    options = dict(alone, engine=Bab(attack=False, inputs=False), workers=2, relative_gap=1e-4)
    result = verify(problem, timeout=PATIENCE, on_progress=kill, **options)
    assert kill.left == 0
    assert result.status is (Status.EXHAUSTED if killed == 2 else Status.CLOSED)
    proven(result, problem)


@pytest.mark.slow
@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
def test_nodes_of_a_worker_that_failed_are_explored_by_another(
    problem: Problem, alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "jobs_that_fail.py").write_text(JOBS)
    monkeypatch.syspath_prepend(jobs)
    monkeypatch.setenv("PYTHONPATH", str(jobs))
    failing = importlib.import_module("jobs_that_fail").fail_in_the_first
    monkeypatch.setattr(search_pool, "serve", failing)
    result = verify(problem, timeout=PATIENCE, **dict(alone, workers=2))
    assert result.notes == ("a worker ended early: ValueError: no idea",)
    assert result.status is Status.CLOSED
    proven(result, problem)


@pytest.mark.parametrize(
    ("perturbation", "clip", "seed", "source", "has"),
    [
        ("contrast([0.5,1.5])", True, 1, 2, "split"),
        ("contrast([0.8,1.2])", False, 2, 0, ""),
        ("contrast(1.5)", True, 0, 0, "clip"),
        pytest.param("brightness([-0.3,0.3])", True, 2, 2, "split clip", marks=pytest.mark.slow),
        ("brightness(0.3)", True, 2, 2, "clip"),
        ("brightness([-0.2,0.2])", False, 2, 0, ""),
        ("occlusion([1,2],[1,2],1)", True, 2, 0, ""),
        ("patch([0,0.5],1,1,2)", True, 2, 0, ""),
        ("translation([-1,1],[0,1])", True, 2, 0, ""),
        ("rotation([-10,15])", True, 1, 2, "split"),
        ("rotation(90)", True, 2, 0, ""),
    ],
)
def test_pieces_and_splits(
    perturbation: str, clip: bool, seed: int, source: int, has: str, alone: dict[str, Any]
) -> None:
    net = network(6, 6, 5, 3, seed=seed, shape=(1, 2, 3))
    question = Problem(net, perturbation=perturbation, source=source, clip=clip)
    options = dict(alone, relative_gap=0.05)
    result = verify(question, **options, on_progress=interrupt_after(150))
    found = proven(result, question)
    pieces = {tree["piece"] for tree in found.stored.trees if tree["target"] is not None}
    assert pieces == set(range(len(question.pieces)))
    nodes, regions = found.stored.nodes, found.stored.regions
    assert ("split" in has) == (1 in nodes["kind"])
    assert ("clip" in has) == (-1 in nodes["layer"])
    spans = {str(region.head["span"]) for region in regions if region.head["piece"] is not None}
    assert (len(spans) > len(question.pieces)) == ("split" in has)


def test_the_ceiling_has_a_tree(alone: dict[str, Any]) -> None:
    """Where the perturbed input is arbitrary, the largest confidence decides."""
    question = Problem(network(6, 10, 8, 3), perturbation="linf(1)", source=0)
    result = verify(question, timeout=PATIENCE, **dict(alone, relative_gap=0.01))
    assert result.status is Status.CLOSED
    found = proven(result, question)
    ceiling = found.stored.trees.index({"target": None, "piece": None})
    assert any(proof.tree == ceiling for _, proof in found.proofs.values())


def test_the_largest_confidence_has_a_certificate(alone: dict[str, Any]) -> None:
    question = Problem(network(6, 10, 8, 3), perturbation=None, source=0)
    result = verify(question, timeout=PATIENCE, **dict(alone, relative_gap=0.01))
    found = proven(result, question)
    assert found.stored.trees == [{"target": None, "piece": None}]
    assert found.stored.head["problem"]["targets"] == []
    assert "targets" not in found.stored.head["claims"]


def test_what_cannot_be_attacked_is_0_without_room(alone: dict[str, Any]) -> None:
    """All leaves are empty: there is nothing to round."""
    layers = (Affine(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, -9.0]), (2,), (2,)),)
    question = Problem(Network(layers, (2,)), perturbation="linf(0.1)", source=0, targets=1)
    result = verify(question, **alone)
    assert (result.status, result.upper) == (Status.ROBUST, 0.0)
    proven(result, question)


@pytest.mark.parametrize("every", [1, 7])
def test_a_solver_that_refuses(
    every: int, problem: Problem, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simplex, "solve", refusing(every, Simplex.solve))
    found = proven(verify(problem, timeout=PATIENCE, **alone), problem)
    if every == 1:  # quick bounds need no solver
        assert {proof.kind for _, proof in found.proofs.values()} == {0}


def test_ctrl_c_while_a_report_is_taken_in(
    problem: Problem, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it strikes, the tree has both children of a node or none, and proves its claim."""
    tree, store = proof_tree.ProofTree, proof_store.ProofStore
    for owner, place in ((tree, "_add_proof"), (tree, "_add_children"), (store, "_keep")):
        for calls in (3, 12):
            honest, left = getattr(owner, place), calls

            def strike(self: Any, *arguments: Any, honest: Any = honest) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
                return honest(self, *arguments)

            with monkeypatch.context() as struck:
                struck.setattr(owner, place, strike)
                result = verify(problem, timeout=PATIENCE, **dict(alone, relative_gap=0.05))
            assert left == 0
            assert result.status is Status.INTERRUPTED
            proven_at_least(result, problem)


def test_ctrl_c_between_two_children(
    problem: Problem, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Striking:
        """Packs nodes until Ctrl-C."""

        size, left = proof_tree.NODE.size, 20

        def pack(self, *fields: Any) -> bytes:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return proof_tree.NODE_PACK(*fields)  # type: ignore[attr-defined]

    monkeypatch.setattr(proof_tree, "NODE_PACK", proof_tree.NODE.pack, raising=False)
    monkeypatch.setattr(proof_tree, "NODE", Striking())
    result = verify(problem, timeout=PATIENCE, **dict(alone, relative_gap=0.05))
    assert result.status is Status.INTERRUPTED
    proven_at_least(result, problem)


def proven_at_least(result: Result, problem: Problem) -> None:
    """The certificate may know more than was announced, never less."""
    assert result.certificate is not None
    found = Proven(result.certificate, problem)
    for target in problem.search_targets:
        assert target is not None
        assert found.upper(target) <= result.targets[target].upper


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_error_leaves_no_file_behind(
    problem: Problem, alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise VhagarError("no more")

    monkeypatch.setattr(node_selection.Frontiers, "announce", fail)
    with pytest.raises(VhagarError, match="no more"):
        verify(problem, **alone)
    assert files(tmp_path) == []


def test_ctrl_c_while_it_is_written_leaves_no_file_behind(
    problem: Problem, alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(proof_tree.ProofTree, "_node_proofs", interrupt)
    result = verify(problem, timeout=PATIENCE, **alone)
    assert result.status is Status.CLOSED
    assert result.certificate is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["_keep", "_read"])
def test_a_full_disk_costs_the_certificate_and_not_the_answer(
    name: str,
    problem: Problem,
    alone: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(proof_store.ProofStore, name, full)
    result = verify(problem, timeout=PATIENCE, **alone)
    assert result.status is Status.CLOSED
    assert result.certificate is None
    (note,) = result.notes
    assert note.startswith("the certificate could not be written: ")
    assert "no space left on device" in note
    assert files(tmp_path) == []


def test_an_old_certificate_stays_until_there_is_a_new_one(
    problem: Problem, alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alone["certificate"] is not None
    alone["certificate"].write_text("old")

    def fail(*_: Any) -> None:
        raise VhagarError("no more")

    monkeypatch.setattr(proof_tree, "write_certificate", fail)
    assert verify(problem, timeout=PATIENCE, **alone).certificate is None
    assert alone["certificate"].read_text() == "old"
    monkeypatch.undo()
    proven(verify(problem, timeout=PATIENCE, **alone), problem)
    assert files(tmp_path) == ["proof.cert"]


def test_nothing_is_recorded_that_nobody_asked_for(
    problem: Problem, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("something was recorded")

    for owner, name in (
        (proof_tree.ProofTree, "__init__"),
        (proof_log, "region_blocks"),
        (proof_log.ProofEvents, "__reduce__"),
    ):
        monkeypatch.setattr(owner, name, fail)
    monkeypatch.setattr("vhagar.relaxation.lp.node_bound.NodeBound.numbers", fail)
    explore, reports = NodeSolver.explore, []

    def watch(self: NodeSolver, *arguments: Any, **named: Any) -> Any:
        reports.append(explore(self, *arguments, **named))
        return reports[-1]

    monkeypatch.setattr(NodeSolver, "explore", watch)
    result = verify(problem, timeout=PATIENCE, **dict(alone, certificate=None))
    assert result.certificate is None
    assert reports
    assert all(report.logged is None for report in reports)


def test_without_a_certificate_bounds_are_as_they_were_computed(
    problem: Problem, alone: dict[str, Any]
) -> None:
    with_one = verify(problem, timeout=PATIENCE, **alone)
    without = verify(problem, timeout=PATIENCE, **dict(alone, certificate=None))
    assert without.nodes == with_one.nodes
    assert without.lower == with_one.lower
    found = proven(with_one, problem)
    assert without.upper == max(found.upper(target) for target in problem.search_targets)


@pytest.mark.parametrize("name", ["mip", "attack", "paper-attack"])
def test_engines_that_prove_nothing_refuse(
    name: str, problem: Problem, alone: dict[str, Any]
) -> None:
    with pytest.raises(
        InvalidInput, match=f"'{name}' makes no use of the option 'certificate'.*'bab'"
    ):
        verify(problem, **dict(alone, engine=engine_named(name)))


def test_a_place_that_cannot_be_written_is_found_before_the_search(
    problem: Problem, alone: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="cannot write"):
        verify(problem, **dict(alone, certificate=tmp_path / "none" / "proof.cert"))


def test_decisions_that_leave_nothing_are_a_proof_of_their_own(problem: Problem) -> None:
    """A neuron that is always on cannot be decided to be off."""
    bounds = quick_bounds(problem.network, problem.pieces[0])
    always = np.flatnonzero(bounds.hexagons[0].lower > 0)
    assert len(always)
    context = RegionModel(problem, bounds, 1)
    evaluation = context.evaluate((Decision(0, int(always[0]), 0, False),), np.inf)
    assert evaluation.upper == -np.inf
    assert evaluation.proof is not None
    assert evaluation.proof.kind is ProofKind.EMPTY
    assert not len(evaluation.proof.numbers())


def test_the_model_file_is_named_with_its_hash(
    problem: Problem, alone: dict[str, Any], tmp_path: Path
) -> None:
    result = verify(problem, timeout=PATIENCE, **alone)
    assert proven(result, problem).stored.head["model"] == {"name": "network", "sha256": None}
    path = tmp_path / "model.onnx"
    write_onnx(problem.network, path)
    same = Problem(read_onnx(path), perturbation="linf(0.1)", source=0)
    found = proven(verify(same, timeout=PATIENCE, **alone), same)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.stored.head["model"] == {"name": "model.onnx", "sha256": digest}


def test_of_two_branchings_the_better_one_is_written(tmp_path: Path) -> None:
    """A node that a worker has branched and lost is branched again by another."""
    question = Problem(network(6, 8, 6, 3), perturbation="linf(0.1)", source=0, targets=1)
    region = proof_log.RegionName(0, (), b"")
    bounds = {3: 9.0, 4: 8.0, 7: 5.0, 8: 6.0, 9: 4.5, 10: 2.0, 11: 7.0, 12: 1.0}

    def branching(parent: Any, first: int, neuron: int) -> list[Any]:
        decision = Decision(0, neuron, 0, True)
        children = (first, first + 1)
        proofs = [
            proof_log.Proven(child, region, ProofKind.QUICK, b"", bounds[child])
            for child in children
        ]
        return [proof_log.Branching(parent, children, decision), *proofs]

    with tempfile.TemporaryFile() as scratch:
        tree = proof_tree.ProofTree(question, Scratch(scratch))
        events = [
            *branching((1, 0), 3, 0),  # the root: 9 and 8
            *branching(3, 7, 1),  # 5 and 6, by a worker that is lost
            *branching(7, 9, 2),
            *branching(3, 11, 3),  # 7 and 1, by another one
        ]
        tree.add(
            proof_log.ProofEvents(events, {region: proof_log.RegionBlocks((b"block",))}),
            SearchKind.SIGNS,
        )
        kept = tree._kept()
        number = dict(zip(tree._number, kept.tolist(), strict=True))
        assert {name for name, is_kept in number.items() if not is_kept} == {11, 12}
        # What is proved of the node itself may be better than either pair.
        better = [proof_log.Proven(3, region, ProofKind.QUICK, b"", 4.0)]
        tree.add(proof_log.ProofEvents(better), SearchKind.SIGNS)
        number = dict(zip(tree._number, tree._kept().tolist(), strict=True))
        assert {name for name, is_kept in number.items() if is_kept} == {-1, 3, 4}
