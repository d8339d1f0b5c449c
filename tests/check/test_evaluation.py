"""The evaluation of a certificate: which blocks belong together, who works on them, and which
regions the proofs are about."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import evaluation
from vhagar_check.container import Block
from vhagar_check.errors import Rejected
from vhagar_check.evaluation import evaluate, proof_groups

from .asking import Asked, blocks


def places(groups: list[Any]) -> list[Any]:
    return [
        (region.offset, [part.offset for part in refined], [part.offset for part in proofs])
        for region, refined, proofs in groups
    ]


def test_blocks_are_grouped_by_region() -> None:
    given = "HEAD TREE TREE REGN REFN REFN TIGH TIGH PROF PROF SPEC PROF BOXS PROF"
    given += " REGN REFN CUTS CUTS PROF REGN REGN TIGH PROF REGN CUTS"
    assert places(proof_groups(blocks(given))) == [
        (3, [4, 5, 6, 7], [8, 9]),
        (10, [], [11]),
        (12, [], [13]),
        (14, [15, 16, 17], [18]),
        (20, [21], [22]),
    ]
    assert places(proof_groups(blocks("HEAD REGN PROF"))) == [(1, [], [2])]
    assert proof_groups(blocks("HEAD TREE")) == []


@pytest.mark.parametrize(
    "tags",
    [
        "HEAD PROF",
        "HEAD TREE PROF",
        "HEAD REFN",
        "HEAD TIGH REGN PROF",
        "HEAD CUTS",
        "HEAD REGN TREE PROF",
        "HEAD REGN PROF TREE",
        "HEAD REGN PROF REFN PROF",
        "HEAD REGN PROF TIGH PROF",
        "HEAD REGN PROF CUTS",
        "HEAD SPEC REFN PROF",
        "HEAD SPEC TIGH PROF",
        "HEAD BOXS CUTS PROF",
        "HEAD BOXS REFN PROF",
        "HEAD REGN TIGH CUTS PROF",
        "HEAD REGN CUTS TIGH PROF",
        "HEAD REGN TIGH REFN PROF",
        "HEAD REGN CUTS REFN PROF",
        "HEAD REGN REFN TIGH CUTS PROF",
        "HEAD REGN REFN CUTS TIGH PROF",
        "HEAD REGN REFN REFN CUTS TIGH PROF",
        "HEAD REGN PROF REGN TIGH CUTS PROF",
        "HEAD REGN HEAD PROF",
        "HEAD REGN MAPS PROF",
        "HEAD XXXX",
    ],
)
def test_blocks_out_of_order_are_refused(tags: str) -> None:
    with pytest.raises(Rejected, match="not in order"):
        proof_groups(blocks(tags))


def groups_of(count: int, raw: int = 1, proofs: int = 1) -> list[evaluation.ProofGroup]:
    found = []
    for k in range(count):
        region, *parts = blocks("REGN " + "PROF " * proofs, raw)
        found.append((Block("REGN", k, region.raw, region.stored), [], parts))
    return found


@pytest.mark.parametrize(
    ("workers", "count", "raw", "together"),
    [
        (1, 20, 1000, False),
        (2, 0, 0, False),
        (2, 1, 1000, True),
        (2, 4, 1, False),
        (2, 5, 1, True),
        (2, 4, 25, True),
        (2, 4, 24, False),
        (3, 20, 1000, True),
    ],
)
def test_processes_are_started_for_much_work(
    workers: int, count: int, raw: int, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 100 bytes of proofs or 50 neurons on, in this test."""
    monkeypatch.setattr(evaluation, "_SMALL", 100)
    monkeypatch.setattr(evaluation, "_FEW", 50)
    groups, asked = groups_of(count, raw), []

    def alone(statement: Any, tasks: Any, exact: bool) -> Iterator[Any]:
        asked.append(("alone", tasks, exact))
        return iter([])

    def shared(statement: Any, tasks: Any, workers: int, exact: bool) -> Iterator[Any]:
        asked.append(("shared", tasks, exact))
        return iter([])

    monkeypatch.setattr(evaluation, "_in_turn", alone)
    monkeypatch.setattr(evaluation, "_in_processes", shared)
    tree = SimpleNamespace(count=3)
    statement: Any = SimpleNamespace(
        tree=tree, network=SimpleNamespace(relu_sizes_and_classes=[7, 3])
    )
    values, proofs = evaluate(statement, groups, workers, exact=True)
    assert asked == [("shared" if together else "alone", groups, True)]
    assert (values.tolist(), proofs) == ([math.inf] * 3, 0)


def test_the_least_bound_of_a_node_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN is no bound; a node without a proof has none."""
    answers = [
        [(np.array([2, 0, 2]), np.array([5.0, 1.0, 4.0])), (np.array([3]), np.array([np.nan]))],
        [(np.array([0, 2]), np.array([3.0, np.nan]))],
    ]
    monkeypatch.setattr(evaluation, "_in_turn", lambda *given: iter(answers))
    statement: Any = SimpleNamespace(
        tree=SimpleNamespace(count=4), network=SimpleNamespace(relu_sizes_and_classes=[2])
    )
    values, proofs = evaluate(statement, groups_of(1), 1)
    assert values.tolist() == [1.0, math.inf, 4.0, math.inf]
    assert proofs == 6


@pytest.mark.parametrize(("workers", "count"), [(2, 8), (3, 12), (1, 4)])
def test_few_regions_are_shared_out_by_their_blocks(workers: int, count: int) -> None:
    many, few = groups_of(count, proofs=2), groups_of(count - 1, proofs=2)
    assert evaluation._shared_out(many, workers) == many
    found = evaluation._shared_out(few, workers)
    assert found == [(region, [], [part]) for region, _, parts in few for part in parts]


def test_every_task_is_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, and in the processes of a pool, which open an evaluator each and end on Ctrl-C."""
    made: list[Any] = []
    handlers: list[Any] = []
    monkeypatch.setattr(signal, "signal", lambda *given: handlers.append(given))

    class Evaluates:
        def __init__(self, statement: Any, exact: bool) -> None:
            made.append((statement, exact))

        def work(self, task: Any) -> Any:
            return [task]

    class Pool:
        def __init__(self, workers: int, context: Any, begin: Any, given: Any) -> None:
            assert workers == 3
            begin(*given)

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None: ...

        def map(self, work: Any, tasks: Any) -> Any:
            return map(work, tasks)

    monkeypatch.setattr(evaluation, "Evaluator", Evaluates)
    monkeypatch.setattr(evaluation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(evaluation, "_evaluator", None)
    tasks: Any = ["one", "two"]
    assert list(evaluation._in_turn("statement", tasks, True)) == [["one"], ["two"]]
    assert list(evaluation._in_processes("statement", tasks, 3, False)) == [["one"], ["two"]]
    assert made == [("statement", True), ("statement", False)]
    assert handlers == [(signal.SIGINT, signal.SIG_DFL)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    return Asked(monkeypatch, tmp_path / "none.cert")


@pytest.fixture
def read(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Reads a region with some blocks; texts say what became of it."""
    asked.raw = {k: f"block {k}".encode() for k in range(9)}
    monkeypatch.setattr(
        evaluation,
        "tightened",
        lambda region, raw, source: SimpleNamespace(
            said=[*region.said, ("tightened", raw, source)], piece_number=region.piece_number
        ),
    )
    monkeypatch.setattr(
        evaluation, "with_cuts", lambda region, raws: [*region.said, ("cuts", list(raws))]
    )

    def found(tags: str, number: int | None = 1, **given: Any) -> Any:
        evaluator = asked.evaluator(**given)
        evaluator._regions = SimpleNamespace(
            read=lambda raw, refined: SimpleNamespace(
                said=[(raw, list(refined))], piece_number=number
            )
        )
        block, *refined = blocks(tags)
        with Path("/dev/null").open("rb") as file:
            return evaluator._region(file, block, refined)

    return found


def test_what_refines_tightens_and_cuts(read: Callable[..., Any]) -> None:
    assert read("REGN") == [(b"block 0", []), ("cuts", [])]
    assert read("REGN REFN TIGH TIGH") == [
        (b"block 0", [b"block 1"]),
        ("tightened", b"block 2", 0),
        ("tightened", b"block 3", 0),
        ("cuts", []),
    ]
    assert read("REGN REFN REFN CUTS CUTS") == [
        (b"block 0", [b"block 1", b"block 2"]),
        ("cuts", [b"block 3", b"block 4"]),
    ]
    assert read("REGN CUTS", number=None) == [(b"block 0", []), ("cuts", [b"block 1"])]


def test_a_region_of_one_image(read: Callable[..., Any]) -> None:
    image = np.zeros(2)
    assert read("REGN REFN", image=image) == [(b"block 0", [b"block 1"]), ("cuts", [])]
    with pytest.raises(Rejected, match="one image has cuts"):
        read("REGN CUTS", image=image)
    for number in (None, 1):
        with pytest.raises(Rejected, match="no pair"):
            read("REGN TIGH", number, image=image)


def test_a_tightening_is_about_pairs(read: Callable[..., Any]) -> None:
    with pytest.raises(Rejected, match="no pair"):
        read("REGN TIGH", number=None)


def test_the_last_region_is_kept(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.raw = {k: f"proof {k}".encode() for k in range(9)}
    evaluator, read = asked.evaluator(), []

    def region_of(file: Any, block: Block, refined: list[Block]) -> str:
        read.append(block.offset)
        return f"region {block.offset}"

    monkeypatch.setattr(evaluator, "_region", region_of)
    monkeypatch.setattr(evaluator, "_proofs", lambda region, raw: (region, raw))
    first, second = blocks("REGN REGN")
    parts = blocks("PROF PROF PROF")
    assert evaluator.work((first, [], parts[:2])) == [
        ("region 0", b"proof 0"),
        ("region 0", b"proof 1"),
    ]
    assert evaluator.work((first, [], parts[2:])) == [("region 0", b"proof 2")]
    assert evaluator.work((second, [], parts[:1])) == [("region 1", b"proof 0")]
    assert evaluator.work((first, [], parts[:1])) == [("region 0", b"proof 0")]
    assert read == [0, 1, 0]
