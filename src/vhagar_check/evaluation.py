"""Evaluates all proofs of a certificate, region by region, in one process or in several."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from vhagar_check.box_proofs import BoxProver, BoxRegion
from vhagar_check.cone_proofs import with_cuts
from vhagar_check.container import Block, split_json, unpack
from vhagar_check.errors import Rejected
from vhagar_check.formula import Decisions
from vhagar_check.image_facts import FactsProver
from vhagar_check.layers import Floats
from vhagar_check.proofs import (
    BOXES,
    CONTRADICTION,
    EMPTY,
    FACTS,
    MULTIPLIERS,
    QUADRATIC,
    SPECTRAL,
    TIED,
    WINDOWS,
    Prover,
)
from vhagar_check.quadratic import QuadraticProver
from vhagar_check.regions import Region, Regions
from vhagar_check.spectral import SpectralRegion
from vhagar_check.spectral_prover import SpectralProver
from vhagar_check.statement import Statement
from vhagar_check.tightenings import tightened
from vhagar_check.tree import Root
from vhagar_check.window_proofs import WindowRegion
from vhagar_check.window_prover import WindowProver

# Processes are started for at least this many bytes of proofs, or this many neurons to bound in
# all regions together: otherwise starting them takes longer than the proofs.
_SMALL, _FEW = 2**20, 2000
# Proofs of whole pieces, with a region of their own: their kind, and what they are called.
_WHOLE = {"SPEC": (SPECTRAL, "a spectral proof"), "WNDW": (WINDOWS, "a proof by windows")}
# A region's block, the blocks of its refinements, tightenings or cuts, and those of its proofs.
ProofGroup = tuple[Block, list[Block], list[Block]]
Answer = list[tuple[NDArray[np.uint32], Floats]]


def evaluate(
    statement: Statement, groups: list[ProofGroup], workers: int, exact: bool = False
) -> tuple[Floats, int]:
    """Evaluate all proofs; return the bounds of their nodes, and the number of proofs."""
    values, count = np.full(statement.tree.count, np.inf), 0
    size = sum(block.raw for *_, proofs in groups for block in proofs)
    answers: Iterator[Answer]
    neurons = len(groups) * sum(statement.network.relu_sizes_and_classes)
    if workers == 1 or (size < _SMALL and neurons < _FEW):
        answers = iter(_in_turn(statement, groups, exact))
    else:
        answers = _in_processes(statement, _shared_out(groups, workers), workers, exact)
    for answer in answers:
        for nodes, found in answer:
            np.fmin.at(values, nodes, found)  # NaN would be no bound
            count += len(nodes)
    return values, count


def proof_groups(blocks: list[Block]) -> list[ProofGroup]:
    """Group blocks by region, with its refinements and proofs; drop regions without proofs."""
    groups: list[ProofGroup] = []
    for block in blocks[1:]:
        if block.tag in ("REGN", "SPEC", "BOXS", "WNDW"):
            groups.append((block, [], []))
        elif block.tag in ("REFN", "TIGH", "CUTS") and groups and _may_refine(block, groups[-1]):
            groups[-1][1].append(block)
        elif block.tag == "PROF" and groups:
            groups[-1][2].append(block)
        elif block.tag != "TREE" or groups:
            raise Rejected("the blocks of the certificate are not in order")
    return [group for group in groups if group[2]]


def _may_refine(block: Block, group: ProofGroup) -> bool:
    """Whether a block may come next: refinements, then tightenings or cuts, before any proof."""
    region, before, proofs = group
    in_order = not before or before[-1].tag in ("REFN", block.tag)
    return region.tag == "REGN" and not proofs and in_order


def _shared_out(groups: list[ProofGroup], workers: int) -> list[ProofGroup]:
    """Divide the work: by regions if there are many, else by blocks of proofs."""
    if len(groups) >= 4 * workers:
        return groups
    return [(region, refined, [block]) for region, refined, proofs in groups for block in proofs]


def _in_turn(statement: Statement, tasks: list[ProofGroup], exact: bool) -> Iterator[Answer]:
    evaluator = Evaluator(statement, exact)
    for task in tasks:
        yield evaluator.work(task)


def _in_processes(
    statement: Statement, tasks: list[ProofGroup], workers: int, exact: bool
) -> Iterator[Answer]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _open_evaluator, (statement, exact)) as pool:
        yield from pool.map(_work, tasks)


_evaluator: Evaluator | None = None


def _open_evaluator(statement: Statement, exact: bool) -> None:
    global _evaluator  # noqa: PLW0603 - what a process of the pool keeps between its tasks
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    _evaluator = Evaluator(statement, exact)


def _work(task: ProofGroup) -> Answer:
    assert _evaluator is not None
    return _evaluator.work(task)


class Evaluator:
    """Evaluates proofs, and keeps the last region's bounds."""

    def __init__(self, statement: Statement, exact: bool) -> None:
        self._statement = statement
        self._regions = Regions(statement.form, exact)
        self._last: tuple[Block, Region] | None = None
        self._last_facts: tuple[Region, FactsProver] | None = None
        self._last_whole: tuple[Block, SpectralProver | WindowProver] | None = None
        self._values: dict[int, float] = {}  # what it proves of each target

    def work(self, task: ProofGroup) -> Answer:
        block, refined, proofs = task
        with self._statement.certificate.open("rb") as file, np.errstate(all="ignore"):
            if block.tag in _WHOLE:
                return self._of_a_piece(file, block, proofs)
            if block.tag == "BOXS":
                return [self._by_boxes(unpack(file, block), unpack(file, part)) for part in proofs]
            if self._last is None or self._last[0] != block:
                self._last = block, self._region(file, block, refined)
            return [self._proofs(self._last[1], unpack(file, part)) for part in proofs]

    def _region(self, file: BinaryIO, block: Block, refined: list[Block]) -> Region:
        """Read a region with its refinements and then its tightenings or its cuts."""
        blocks = (unpack(file, part) for part in refined if part.tag == "REFN")
        region = self._regions.read(unpack(file, block), blocks)
        for part in refined:
            if part.tag == "TIGH":
                if self._statement.image is not None or region.piece_number is None:
                    raise Rejected("a tightening is about no pair of an input and its image")
                region = tightened(region, unpack(file, part), self._statement.source)
        cuts = [part for part in refined if part.tag == "CUTS"]
        if cuts and self._statement.image is not None:
            raise Rejected("a certificate about one image has cuts")
        return with_cuts(region, (unpack(file, part) for part in cuts))

    def _of_a_piece(self, file: BinaryIO, block: Block, proofs: list[Block]) -> Answer:
        """Evaluate a SPEC or WNDW block's proofs: one number for each target, at any node."""
        kind, words = _WHOLE[block.tag]
        if self._statement.image is not None:
            raise Rejected(f"{words} says nothing about one image")
        if self._last_whole is None or self._last_whole[0] != block:
            self._last_whole = block, self._whole(block.tag, unpack(file, block))
            self._values = {}
        prover = self._last_whole[1]
        answer: Answer = []
        for part in proofs:
            about, data = split_json(unpack(file, part))
            tree, nodes, kinds = self._named(about, data, prover.piece_number)
            if (kinds != kind).any() or len(data) != 5 * len(nodes):
                raise Rejected(f"{words} is followed by proofs of another kind")
            for node in nodes.tolist():
                of_tree, span, _ = self._statement.tree.case(node)
                if of_tree != tree or span != prover.span:
                    raise Rejected(f"{words} is for a node of another tree or part")
            target = self._statement.tree.roots[tree].target
            if target is None:
                raise Rejected(f"{words} is for a tree without a target")
            if target not in self._values:
                self._values[target] = prover.upper(self._statement.source, target)
            answer.append((nodes, np.full(len(nodes), self._values[target])))
        return answer

    def _whole(self, tag: str, raw: bytes) -> SpectralProver | WindowProver:
        if tag == "SPEC":
            return SpectralProver(SpectralRegion.read(self._statement.form, raw))
        return WindowProver(WindowRegion.read(self._statement.form, raw))

    def _by_boxes(self, raw: bytes, proof: bytes) -> tuple[NDArray[np.uint32], Floats]:
        """Evaluate a BOXS block's proof: one number, for the root of its tree."""
        if self._statement.image is not None:
            raise Rejected("a proof by boxes says nothing about one image")
        region = BoxRegion.read(self._statement.form, raw)
        about, data = split_json(proof)
        tree, nodes, kinds = self._named(about, data, region.piece_number)
        root = self._statement.tree.roots[tree]
        if (nodes.tolist(), kinds.tolist(), len(data)) != ([tree], [BOXES], 5):
            raise Rejected("a proof by boxes is followed by other proofs than its own")
        if not root.boxes or root.target != region.target:
            raise Rejected("a proof by boxes is for a tree that is about something else")
        question = self._statement.question(root)
        value = BoxProver(region, question.source, question.claim).upper()
        return nodes, np.array([value])

    def _named(
        self, about: Any, data: bytes, piece: int | None
    ) -> tuple[int, NDArray[np.uint32], NDArray[np.uint8]]:
        """Read the tree, the nodes and the kinds of a block of proofs."""
        tree, count = about["tree"], about["count"]
        roots = self._statement.tree.roots
        if type(tree) is not int or not 0 <= tree < len(roots) or roots[tree].piece != piece:
            raise Rejected("a proof is given in a region of another piece than its tree's")
        if type(count) is not int or not 0 <= 5 * count <= len(data):
            raise Rejected("a block of proofs does not have as many as it says")
        nodes = np.frombuffer(data, "<u4", count)
        if (nodes >= self._statement.tree.count).any():
            raise Rejected("a proof is for a node that there is not, or of an unknown kind")
        return tree, nodes, np.frombuffer(data, np.uint8, count, 4 * count)

    def _proofs(self, region: Region, raw: bytes) -> tuple[NDArray[np.uint32], Floats]:
        about, data = split_json(raw)
        tree, nodes, kinds = self._named(about, data, region.piece_number)
        root, count = self._statement.tree.roots[tree], len(nodes)
        known = np.isin(kinds, [*range(QUADRATIC + 1), TIED])
        if self._statement.image is not None:
            known = (kinds <= EMPTY) | (kinds == FACTS)
        if not known.all() or (root.slopes and self._statement.image is not None):
            raise Rejected("a proof is for a node that there is not, or of an unknown kind")
        if root.boxes:
            raise Rejected("a tree that boxes prove has a proof of another kind")
        by_facts = (kinds == QUADRATIC) | (kinds == TIED)
        if root.slopes and not by_facts.all():
            raise Rejected("a node that is split by slopes has a proof about pairs of inputs")
        vectors, quadratic, facts = self._vectors(region, root, kinds, data[5 * count :])
        decisions = self._decisions(region, tree, nodes)
        question, scope = self._statement.question(root), region.scope
        if scope is not None and by_facts.any():
            raise Rejected("a quadratic proof rests on bounds that hold for some pairs alone")
        if scope is not None and len(facts):
            raise Rejected("a proof by facts rests on bounds that hold for some versions alone")
        if scope is not None and not all(scope.covers(root.target, node) for node in decisions):
            raise Rejected("a proof rests on bounds that hold for another part of the tree")
        found = Prover(region, question).values(kinds, vectors, decisions)
        if len(quadratic):
            if root.target is None:
                raise Rejected("a quadratic proof is for a tree without a target")
            judges = {
                kind: QuadraticProver(
                    region, question.source, root.target, question.claim, kind == TIED
                )
                for kind in {int(kind) for kind in kinds[by_facts]}
            }
            for k, vector in zip(np.flatnonzero(by_facts), quadratic, strict=True):
                found[k] = judges[int(kinds[k])].value(vector, decisions[k])
        for k, vector in zip(np.flatnonzero(kinds == FACTS), facts, strict=True):
            found[k] = self._prover_by_facts(region).value(vector, question)
        if scope is not None:  # nothing is known about pairs with less confidence
            found = np.maximum(found, scope.level)
        return nodes, found

    def _prover_by_facts(self, region: Region) -> FactsProver:
        if self._last_facts is None or self._last_facts[0] is not region:
            self._last_facts = region, FactsProver(region)
        return self._last_facts[1]

    def _decisions(self, region: Region, tree: int, nodes: NDArray[np.uint32]) -> list[Decisions]:
        """The decisions of nodes, which must belong to the tree and to the region."""
        found = []
        for node in nodes.tolist():
            of_tree, span, decided = self._statement.tree.case(node)
            if of_tree != tree or span != region.bounds.piece.span:
                raise Rejected("a proof is for a node of another tree or another part of a piece")
            if decided.entries != region.entries:
                raise Rejected("a proof is for a node of another part of the domain")
            found.append(decided)
        return found

    def _vectors(
        self, region: Region, root: Root, kinds: NDArray[np.uint8], data: bytes
    ) -> tuple[Floats, Floats, Floats]:
        """Read the numbers of the proofs by multipliers, by quadratic facts about differences, and
        by facts about one image."""
        question = self._statement.question(root)
        plain = region.width(self._statement.network.classes, question.target is not None)
        other, own = QuadraticProver.width(region), FactsProver.width(region)
        widths = {
            MULTIPLIERS: plain,
            CONTRADICTION: plain,
            QUADRATIC: other,
            TIED: other,
            FACTS: own,
        }
        lengths = [widths.get(kind, 0) for kind in kinds.tolist()]
        if len(data) != 8 * sum(lengths):
            raise Rejected("a block of proofs has the wrong length")
        numbers, place = np.frombuffer(data, "<f8").astype(np.float64), 0
        found: dict[int, list[Floats]] = {kind: [] for kind in widths}
        vectors, quadratic, facts = found[MULTIPLIERS], found[QUADRATIC], found[FACTS]
        found[CONTRADICTION], found[TIED] = vectors, quadratic
        for kind, length in zip(kinds.tolist(), lengths, strict=True):
            if kind in widths:
                found[kind].append(numbers[place : place + length])
            place += length
        return (
            np.array(vectors).reshape(len(vectors), plain),
            np.array(quadratic).reshape(len(quadratic), other),
            np.array(facts).reshape(len(facts), own),
        )
