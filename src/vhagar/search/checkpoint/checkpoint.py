"""What is kept of a search: open nodes, closed parts, witnesses, and the bounds they amount to.

A checkpoint is untrusted until it has been checked. It must be about the same question; its nodes
must be nodes of the problem, and together with the closed parts they must cover all of it;
witnesses are checked as if they had just been found. What remains to be believed are the bounds of
nodes and closed parts (`docs/security.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.problem import Problem, Target
from vhagar.result import BoundKind, Run
from vhagar.result.statements import witness_statement
from vhagar.search.checkpoint.file import read_checkpoint_file, write_checkpoint
from vhagar.search.checkpoint.nodes import PARTS, NodeReader, pack
from vhagar.search.checkpoint.question import question_of, require_same
from vhagar.search.checkpoint.trees import TREE_PARTS, packed_tree, unpacked_tree
from vhagar.search.cover import covers
from vhagar.search.frontier import OpenNodes
from vhagar.search.node import Node, Region, maker_of
from vhagar.search.proofs.log import name_of
from vhagar.search.proofs.tree import ProofTree
from vhagar.search.proofs.tree_state import SearchKind, TreeState, trees_of

_DTYPES: dict[str, np.dtype[Any]] = TREE_PARTS | {
    f"{kind.name} {state} {part}": dtype
    for kind in SearchKind
    for state in ("open", "closed")
    for part, dtype in PARTS.items()
}


@dataclass(frozen=True, eq=False)
class SearchState:
    """One of the searches: its open nodes, and its closed parts with their bounds, as nodes."""

    open: OpenNodes
    closed: list[Node]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A search that was interrupted: `seconds` and `nodes` are what it had taken."""

    searches: dict[SearchKind, SearchState]
    uppers: dict[Target, tuple[float, BoundKind]]
    witnesses: tuple[tuple[Target, Array, int | None, Array | None], ...]
    seconds: float = 0.0
    nodes: int = 0
    question: dict[str, Any] = field(default_factory=dict)
    tree: TreeState | None = None  # for the certificate, where one was asked for

    def offer(self, run: Run) -> None:
        """Let a run judge the witnesses, and take the bounds."""
        interval = run.interval
        for target, x, piece_index, parameters in self.witnesses:
            interval.offer_witness(target, x, piece_index, parameters)
        uppers = self.uppers
        if isinstance(run.proof, ProofTree):  # then only what its trees prove
            self._require_proofs(run.proof)
            uppers = _proven(run, run.proof)
        for target, (value, kind) in uppers.items():
            if value < interval.target_lower(target):
                raise InvalidInput("the checkpoint contradicts itself: start anew without --resume")
            interval.offer_upper(target, value, kind)
        run.count_nodes(self.nodes)
        run.note(f"resumed after {self.seconds:.0f} s and {self.nodes} nodes")

    def _require_proofs(self, tree: ProofTree) -> None:
        for kind, state in self.searches.items():
            if not all(tree.has(name_of(node), kind) for node in state.open):
                raise InvalidInput("the checkpoint has nodes without proofs: start anew")

    @property
    def last_maker(self) -> int:
        """The largest number of a worker that has made one of the nodes."""
        numbers = [node.number for state in self.searches.values() for node in state.open]
        if self.tree is not None and len(self.tree.numbers):
            numbers.append(int(self.tree.numbers.max()))
        return maker_of(max(numbers, default=0))


def _proven(run: Run, tree: ProofTree) -> dict[Target, tuple[float, BoundKind]]:
    """The bounds that trees prove, as the search itself states them."""
    proven, restore = tree.proven(), run.reduced.restore.upper
    ceiling = proven[SearchKind.CEILING].get(None, math.inf)
    found = {}
    for target in run.original.search_targets:
        signs = min(restore(proven[SearchKind.SIGNS].get(target, math.inf)), ceiling)
        slopes = restore(proven[SearchKind.SLOPES].get(target, math.inf))
        boxes = proven[SearchKind.BOXES].get(target, math.inf)
        bounds = [
            (signs, BoundKind.TWIN), (slopes, BoundKind.QUADRATIC), (boxes, BoundKind.BOXES)
        ]  # fmt: skip
        found[target] = min(bounds, key=lambda bound: bound[0])
    return found


def checkpoint_of(
    run: Run, searches: dict[SearchKind, SearchState], seconds: float, question: dict[str, Any]
) -> Checkpoint:
    """All that a run has found so far."""
    interval, targets = run.interval, run.original.search_targets
    uppers = {
        target: (interval.computed_upper(target), interval.kind(target)) for target in targets
    }
    found = interval.witnesses.values()
    witnesses = tuple((w.target, w.x, w.piece_number, np.array(w.choice)) for w in found)
    tree = run.proof.state() if isinstance(run.proof, ProofTree) else None
    return Checkpoint(searches, uppers, witnesses, seconds, run.nodes, question, tree)


def save_checkpoint(path: Path, run: Run, kept: Checkpoint) -> None:
    """Replace the file in one step; a failure leaves the earlier one."""
    finite = {target: upper for target, upper in kept.uppers.items() if math.isfinite(upper[0])}
    about = {
        "question": kept.question,
        "uppers": [[target, value, kind.name] for target, (value, kind) in finite.items()],
        "witnesses": [witness_statement(w) for w in run.interval.witnesses.values()],
        "seconds": kept.seconds,
        "nodes": kept.nodes,
        "tree": None,
    }
    arrays = {
        f"{kind.name} {name} {part}": array
        for kind, state in kept.searches.items()
        for name, nodes in (("open", state.open), ("closed", state.closed))
        for part, array in pack(nodes).items()
    }
    if kept.tree is not None:
        about["tree"], own = packed_tree(kept.tree)
        arrays |= own
    write_checkpoint(path, about, arrays)


def resumed(run: Run) -> Checkpoint | None:
    """The checkpoint that a run goes on from, if there is one."""
    path = run.options.resume
    return None if path is None else read_checkpoint(path, run)


def read_checkpoint(path: Path, run: Run) -> Checkpoint:
    """Read a checkpoint of the run's own question, and check all of it that can be checked."""
    about, arrays = read_checkpoint_file(path, _DTYPES)
    asked = question_of(run)
    require_same(asked, about.get("question"), path)
    try:
        return Checkpoint(
            _searches(run, arrays),
            dict(_upper(run.original, entry) for entry in about["uppers"]),
            tuple(_witness(run.original, entry) for entry in about["witnesses"]),
            _number(about["seconds"]),
            int(_number(about["nodes"])),
            asked,
            None if about["tree"] is None else _tree(run, about["tree"], arrays),
        )
    except (InvalidInput, ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise InvalidInput(f"{path} is no checkpoint that can be resumed: {error}") from None


def _searches(run: Run, arrays: dict[str, NDArray[Any]]) -> dict[SearchKind, SearchState]:
    found = {}
    for kind in SearchKind:
        if f"{kind.name} open heads" not in arrays:
            continue
        problem = _searched(run, kind)
        reader = NodeReader(problem, slopes=kind is SearchKind.SLOPES)
        opened, closed = (
            reader.unpack({part: arrays[f"{kind.name} {state} {part}"] for part in PARTS})
            for state in ("open", "closed")
        )
        if not covers(roots_of(run, kind), chain(opened, closed)):
            raise InvalidInput("its nodes do not cover all of the problem")
        found[kind] = SearchState(OpenNodes(opened), closed)
    if SearchKind.SIGNS not in found:
        raise InvalidInput("it has no nodes")
    return found


def _tree(run: Run, about: Any, arrays: dict[str, NDArray[Any]]) -> TreeState:
    return unpacked_tree(about, arrays, len(trees_of(run.problem)))


def _searched(run: Run, kind: SearchKind) -> Problem:
    return run.reduced.ceiling if kind is SearchKind.CEILING else run.problem


def roots_of(run: Run, kind: SearchKind) -> Iterable[Region]:
    """What the nodes of a search must cover."""
    problem = _searched(run, kind)
    return (
        Region(target, k) for target in problem.search_targets for k in range(len(problem.pieces))
    )


def _upper(problem: Problem, entry: Any) -> tuple[Target, tuple[float, BoundKind]]:
    target, value, kind = entry
    if target not in problem.search_targets:
        raise InvalidInput(f"there is no target {target}")
    return target, (_number(value), BoundKind[kind])


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
        raise InvalidInput(f"{value!r} is not a number from 0")
    return float(value)


def _witness(problem: Problem, entry: Any) -> tuple[Target, Array, int | None, Array | None]:
    """A candidate of the right shape; whether it is a witness is for the run to judge."""
    target, piece_index = entry["target"], entry["piece"]
    x = np.array(entry["x"], dtype=np.float64)
    if target not in problem.search_targets or x.shape != (problem.domain.size,):
        raise InvalidInput("a witness is none of this problem's inputs")
    if piece_index is None:
        return target, x, None, None
    if type(piece_index) is not int or not 0 <= piece_index < len(problem.pieces):
        raise InvalidInput(f"there is no piece {piece_index}")
    parameters = np.array(entry["parameters"], dtype=np.float64)
    if parameters.shape != problem.pieces[piece_index].parameter_bounds[0].shape:
        raise InvalidInput("a witness has parameters of another piece")
    return target, x, piece_index, parameters
