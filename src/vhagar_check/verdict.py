"""Checks a certificate against a model: reads both, and proves what it can.

The steps: the header and the model; the witness of each lower bound, in exact arithmetic; the tree;
region by region the bounds of the neurons and the proofs; and what follows for the roots.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.affine import BoxAffine
from vhagar_check.clipping import behind_clip, clipped_pixels, require_clipped
from vhagar_check.container import Block, parse_json, scan, split_json, unpack
from vhagar_check.convention import with_convention
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.homogeneous import bias_pieces, homogeneous_network
from vhagar_check.intervals import confidence_interval
from vhagar_check.layers import Floats, Network
from vhagar_check.maps import Recorded, read_maps
from vhagar_check.model import read_model
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.proofs import (
    CONTRADICTION,
    EMPTY,
    MULTIPLIERS,
    Prover,
    Question,
)
from vhagar_check.regions import Form, Region, Regions
from vhagar_check.tree import RECORD, Root, Tree

# What damage to a file can lead to, wherever it strikes.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
# Below so many bytes of proofs, and so many neurons to bound in all regions together, it is not
# worth while to start processes.
_SMALL, _FEW = 2**20, 2000


@dataclass(frozen=True)
class Verdict:
    """What was proved. A lower bound of 0 needs no proof; infinity means that nothing is known."""

    perturbation: str | None
    clip: bool
    source: int
    input_range: tuple[float, float]
    model: str
    lower: float
    upper: float
    uppers: dict[int | None, float]
    lowers: dict[int | None, float]
    ties: set[int | None] = field(default_factory=set)
    proofs: int = 0
    nodes: int = 0
    recorded: Recorded | None = None  # the perturbation, where it is maps of the certificate's own
    convention: str = ""
    input_shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        """What was proved, in words."""
        from vhagar_check.cli import in_words

        return in_words(self)


def check(
    certificate: str | os.PathLike[str], *, model: str | os.PathLike[str], workers: int = 1
) -> Verdict:
    """Prove the claims of a certificate about a model file, or raise `Rejected` saying why not.

    `workers` is the number of processes.
    """
    try:
        return _check(Path(certificate), Path(model), workers)
    except _DAMAGE as error:
        raise Rejected(f"the certificate or the model is malformed ({error})") from error


def _check(certificate: Path, model: Path, workers: int) -> Verdict:
    blocks = scan(certificate)
    case = _Case(certificate, model, blocks)
    blocks = [block for block in blocks if block.tag != "MAPS"]
    lowers, ties = case.check_witnesses()
    values, count = _evaluate(case, blocks, workers)
    uppers = case.upper_bounds(values)
    for goal, claim in case.claims.items():
        if not uppers[goal] <= claim:
            raise Rejected(
                f"the upper bound {claim!r}{_toward(goal)} is not proved; "
                f"what the certificate proves is {uppers[goal]!r}"
            )
    lower, upper = max(lowers.values()), max(case.claims.values())
    if (case.claimed["lower"], case.claimed["upper"]) != (lower, upper):
        raise Rejected("the overall claim is not the largest of the targets' claims")
    return Verdict(
        case.perturbation,
        case.clip,
        case.source,
        (case.domain.low, case.domain.high),
        case.model_hash,
        lower,
        upper,
        dict(case.claims),
        lowers,
        ties,
        count,
        case.tree.count,
        case.recorded,
        case.convention,
        case.domain.shape,
    )


def _toward(goal: int | None) -> str:
    return "" if goal is None else f" for target {goal}"


class _Case:
    """What the header says, checked for sense, with the model read."""

    def __init__(self, certificate: Path, model: Path, blocks: list[Block]) -> None:
        self.certificate = certificate
        if not blocks or blocks[0].tag != "HEAD" or [b.tag for b in blocks].count("HEAD") != 1:
            raise Rejected("the certificate does not have one header, at its beginning")
        data = model.read_bytes()
        self.model_hash = hashlib.sha256(data).hexdigest()
        with certificate.open("rb") as file:
            head = parse_json(unpack(file, blocks[0]))
            maps = [unpack(file, block) for block in blocks[1:2] if block.tag == "MAPS"]
            records = b"".join(unpack(file, block) for block in blocks if block.tag == "TREE")
        if [block.tag for block in blocks].count("MAPS") != len(maps):
            raise Rejected("maps are not recorded once, after the header")
        if head["model"]["sha256"] not in (None, self.model_hash):
            raise Rejected(
                f"the certificate is about another model ({head['model']['name']}, SHA-256 "
                f"{head['model']['sha256']})"
            )
        shape = tuple(int(size) for size in head["problem"]["input_shape"])
        self.network: Network
        self.network, self.convention = with_convention(
            read_model(data), head["model"].get("convention"), shape
        )
        self._read_problem(head["problem"], *maps)
        self._read_claims(head["claims"])
        self.witnesses = head["witnesses"]
        roots = [Root(_goal(item["target"]), _goal(item["piece"])) for item in head["trees"]]
        self._check_roots(roots)
        if len(records) % RECORD.itemsize:
            raise Rejected("the tree is cut off")
        steps = np.frombuffer(records, RECORD)
        self.tree = Tree(roots, steps, self.form.network, self.form.pieces)
        if self.tree.count != head["nodes"]:
            raise Rejected("the tree does not have as many nodes as the header says")

    def _read_problem(self, problem: Any, maps: bytes | None = None) -> None:
        shape = tuple(int(size) for size in problem["input_shape"])
        low, high = (float(end) for end in problem["input_range"])
        if shape != self.network.input_shape or not -math.inf < low < high < math.inf:
            raise Rejected("the certificate is about inputs of another shape or an empty range")
        self.domain = Domain(shape, low, high)
        self.perturbation: str | None = problem["perturbation"]
        self.clip = bool(problem["clip"])
        self.recorded = None if maps is None else read_maps(maps, self.domain)
        self.pieces: list[Piece] = pieces(self.perturbation, self.domain, self.clip, self.recorded)
        self._clip_inputs(problem.get("clipped_pixels"))
        self.form = self._searched(problem.get("form"))
        classes = range(self.network.classes)
        self.source, targets = problem["source"], list(problem["targets"])
        self.goals: list[int | None] = targets if self.perturbation is not None else [None]
        known = all(type(k) is int and k in classes for k in [self.source, *targets])
        if not known or self.source in targets or len(set(targets)) != len(targets):
            raise Rejected("the certificate's classes are not the network's")
        if bool(targets) != (self.perturbation is not None):
            raise Rejected("the certificate has targets without a perturbation, or none with one")

    def _clip_inputs(self, given: Any) -> None:
        """Put the clip of affine maps before the network; all other pieces clip by themselves."""
        masks = clipped_pixels(given, self.domain, self.clip)
        affine: list[Piece] = [piece for piece in self.pieces if isinstance(piece, BoxAffine)]
        if self.clip:
            require_clipped(affine, masks, self.domain)
        if masks is not None and len(affine) != len(self.pieces):
            raise Rejected("the certificate clips the images of pieces that never need it")
        if masks is not None:
            self.network = behind_clip(self.network, masks, self.domain)

    def _searched(self, form: Any) -> Form:
        """The question in the form in which it was searched; witnesses are about its own."""
        network, searched = self.network, self.pieces
        if form == "homogeneous":
            network, searched = homogeneous_network(network), bias_pieces(searched, self.domain)
        elif form is not None:
            raise Rejected("the certificate states a form of the question that is not known")
        return Form(network, searched, self.network, self.domain)

    def _read_claims(self, claims: Any) -> None:
        self.claimed = {name: float(claims[name]) for name in ("lower", "upper")}
        each = claims["targets"] if self.perturbation is not None else {"None": self.claimed}
        if set(each) != {str(goal) for goal in self.goals}:
            raise Rejected("the certificate does not have a claim for every target")
        self.claims = {goal: float(each[str(goal)]["upper"]) for goal in self.goals}
        self.lowers = {goal: float(each[str(goal)]["lower"]) for goal in self.goals}
        numbers = [*self.claims.values(), *self.lowers.values()]
        if not all(0 <= number < math.inf for number in numbers):
            raise Rejected("a claim is negative or not finite")

    def _check_roots(self, roots: list[Root]) -> None:
        for root in roots:
            attack = root.target in self.goals and root.piece in range(len(self.pieces))
            if not (root == Root(None, None) or (attack and self.perturbation is not None)):
                raise Rejected("a tree is about a target or a piece that the problem does not have")
        if len(set(roots)) != len(roots):
            raise Rejected("two trees are about the same target and piece")

    def check_witnesses(self) -> tuple[dict[int | None, float], set[int | None]]:
        """Every claimed lower bound is reached by a witness, in exact arithmetic."""
        ties: set[int | None] = set()
        for goal, claim in self.lowers.items():
            if claim <= 0:
                continue
            given = [witness for witness in self.witnesses if witness["target"] == goal]
            if len(given) != 1:
                raise Rejected(f"the lower bound{_toward(goal)} does not have one witness")
            if self._margin_of(goal, claim, given[0]) == 0:
                ties.add(goal)
        return dict(self.lowers), ties

    def _margin_of(self, goal: int | None, claim: float, witness: Any) -> Fraction | float:
        """By how much the target wins; `Rejected` where it does not, or the source falls short."""
        x = np.array([float(value) for value in witness["x"]])
        inside = ((x >= self.domain.low) & (x <= self.domain.high)).all()
        if x.shape != (self.domain.size,) or not inside:
            raise Rejected(f"the witness{_toward(goal)} is not in the input range")
        if self._confidence(Exact.of(x), self.source) < Fraction(claim):
            raise Rejected(f"the witness{_toward(goal)} is less confident than claimed")
        if goal is None:
            return math.inf
        number = witness["piece"]
        if type(number) is not int or not 0 <= number < len(self.pieces):
            raise Rejected(f"the witness{_toward(goal)} is about a piece that there is not")
        piece, parameters = self.pieces[number], [float(p) for p in witness["parameters"]]
        if not np.isfinite(parameters).all():
            raise Rejected(f"the witness{_toward(goal)} has a parameter that is not finite")
        image = piece.exact_image(Exact.of(x).fractions(), parameters)
        margin: Fraction | float
        if image is not None:
            margin = self._confidence(Exact.of_fractions(image), goal)
        else:
            low, high = piece.image_interval(x, parameters)
            margin = confidence_interval(self.network, low, high, goal)[0]
        if not margin >= 0:
            raise Rejected(f"the witness{_toward(goal)} is not classified as the target")
        return margin

    def _confidence(self, x: Exact, label: int) -> Fraction:
        scores = self.network.exact_scores(x).fractions()
        return scores[label] - max(score for k, score in enumerate(scores) if k != label)

    def question(self, root: Root) -> Question:
        claims = [c for goal, c in self.claims.items() if root.target in (goal, None)]
        return Question(self.source, root.target, min(claims))

    def upper_bounds(self, values: Floats) -> dict[int | None, float]:
        """Each target's bound: the largest of its pieces', and no more than any confidence."""
        found = self.tree.combine(values)
        by_root = {root: float(found[k]) for k, root in enumerate(self.tree.roots)}
        low, high = (np.full(self.domain.size, end) for end in (self.domain.low, self.domain.high))
        with np.errstate(all="ignore"):
            anyhow = confidence_interval(self.network, low, high, self.source)[1]
        ceiling = min(by_root.get(Root(None, None), math.inf), _known(anyhow))
        uppers: dict[int | None, float] = {}
        for goal in self.goals:
            numbers = [None] if goal is None else range(len(self.pieces))
            each = [by_root.get(Root(goal, number), math.inf) for number in numbers]
            uppers[goal] = max(min(max(each), ceiling), 0.0)
        return uppers


def _known(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _goal(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise Rejected("a tree is about something that is no class or piece")
    return value


# A region's block, those of its refinements, and those of its proofs.
Task = tuple[Block, list[Block], list[Block]]
Answer = list[tuple[NDArray[np.uint32], Floats]]


def _evaluate(case: _Case, blocks: list[Block], workers: int) -> tuple[Floats, int]:
    """The bounds of all nodes that have proofs, and how many proofs there were."""
    groups = _groups(blocks)
    values, count = np.full(case.tree.count, np.inf), 0
    size = sum(block.raw for *_, proofs in groups for block in proofs)
    answers: Iterator[Answer]
    neurons = len(groups) * sum(case.network.relu_sizes_and_classes)
    if workers == 1 or len(groups) == 0 or (size < _SMALL and neurons < _FEW):
        answers = iter(_in_turn(case, groups))
    else:
        answers = _in_processes(case, _shared_out(groups, workers), workers)
    for answer in answers:
        for nodes, found in answer:
            np.minimum.at(values, nodes, found)
            count += len(nodes)
    return values, count


def _groups(blocks: list[Block]) -> list[Task]:
    """Every region in which something is proved, with its blocks of proofs."""
    groups: list[Task] = []
    for block in blocks[1:]:
        if block.tag == "REGN":
            groups.append((block, [], []))
        elif block.tag == "REFN" and groups and not groups[-1][2]:
            groups[-1][1].append(block)
        elif block.tag == "PROF" and groups:
            groups[-1][2].append(block)
        elif block.tag != "TREE" or groups:
            raise Rejected("the blocks of the certificate are not in order")
    return [group for group in groups if group[2]]


def _shared_out(groups: list[Task], workers: int) -> list[Task]:
    """Many regions: one by one. Few: their proofs one by one, at the price of bounds twice."""
    if len(groups) >= 4 * workers:
        return groups
    return [(region, refined, [block]) for region, refined, proofs in groups for block in proofs]


def _in_turn(case: _Case, tasks: list[Task]) -> Iterator[Answer]:
    bench = _Bench(case)
    for task in tasks:
        yield bench.work(task)


def _in_processes(case: _Case, tasks: list[Task], workers: int) -> Iterator[Answer]:
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _open_bench, (case,)
    ) as pool:
        yield from pool.map(_work, tasks)


_bench: _Bench | None = None


def _open_bench(case: _Case) -> None:
    global _bench  # noqa: PLW0603 - what a process of the pool keeps between its tasks
    _bench = _Bench(case)


def _work(task: Task) -> Answer:
    assert _bench is not None
    return _bench.work(task)


class _Bench:
    """Evaluates proofs; keeps the last region's bounds."""

    def __init__(self, case: _Case) -> None:
        self._case = case
        self._regions = Regions(case.form)
        self._last: tuple[Block, Region] | None = None

    def work(self, task: Task) -> Answer:
        block, refined, proofs = task
        with self._case.certificate.open("rb") as file, np.errstate(all="ignore"):
            if self._last is None or self._last[0] != block:
                blocks = (unpack(file, part) for part in refined)
                self._last = block, self._regions.read(unpack(file, block), blocks)
            return [self._proofs(self._last[1], unpack(file, part)) for part in proofs]

    def _proofs(self, region: Region, raw: bytes) -> tuple[NDArray[np.uint32], Floats]:
        about, data = split_json(raw)
        tree, count = about["tree"], about["count"]
        roots = self._case.tree.roots
        if (
            type(tree) is not int
            or not 0 <= tree < len(roots)
            or roots[tree].piece != region.piece_number
        ):
            raise Rejected("a proof is given in a region of another piece than its tree's")
        if type(count) is not int or not 0 <= count <= len(data):
            raise Rejected("a block of proofs does not have as many as it says")
        root = roots[tree]
        width = region.width(self._case.network.classes, root.target is not None)
        nodes = np.frombuffer(data, "<u4", count)
        kinds = np.frombuffer(data, np.uint8, count, 4 * count)
        if (nodes >= self._case.tree.count).any() or (kinds > EMPTY).any():
            raise Rejected("a proof is for a node that there is not, or of an unknown kind")
        given = int(((kinds == MULTIPLIERS) | (kinds == CONTRADICTION)).sum())
        if len(data) != 5 * count + 8 * given * width:
            raise Rejected("a block of proofs has the wrong length")
        vectors = np.frombuffer(data, "<f8", given * width, 5 * count).reshape(given, width)
        decisions = []
        for node in nodes.tolist():
            of_tree, span, decided = self._case.tree.case(node)
            if of_tree != tree or span != region.bounds.piece.span:
                raise Rejected("a proof is for a node of another tree or another part of a piece")
            decisions.append(decided)
        prover = Prover(region, self._case.question(root))
        return nodes, prover.values(kinds, vectors, decisions)
