"""The container of certificates: what is written comes back, in blocks that stay small."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem
from vhagar.errors import VhagarError
from vhagar.network import Affine, Network
from vhagar.options import Options
from vhagar.relaxation.proof import ProofKind
from vhagar.result import BoundKind, Run, certificate
from vhagar.result.certificate import (
    NODE,
    NodeKind,
    NodeProof,
    RegionProofs,
    SearchTree,
    with_json,
    write_certificate,
)
from vhagar.result.statements import head_of

from .certificates import read_certificate

CLASSES = 3
STATUS = np.array([0, 2, 1, 3, 2], dtype=np.uint8)
# p and q of two pairs, p of an equal one, alpha, mu.
LENGTH = 2 * 2 + 1 + 2 * (CLASSES - 1)


@pytest.fixture
def run() -> Run:
    weight = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    network = Network((Affine(weight, np.zeros(3), (3,), (3,)),), (3,), "tiny")
    found = Run(
        Problem(network, perturbation="linf(0.1)", source=0, targets=[1, 2]),
        Options(certificate=Path("some")),
    )
    for target in (1, 2):
        found.interval.offer_upper(target, 1.0, BoundKind.INTERVAL)
    return found


def region() -> bytes:
    head = {"piece": 0, "span": None, "layers": [3, 2], "refined": [{"layer": 1, "neurons": [1]}]}
    multipliers = np.arange(12, dtype="<f4")
    return with_json(head, STATUS.tobytes(), multipliers.tobytes())


def proofs(count: int, trees: int = 2) -> list[NodeProof]:
    found = []
    for tree in range(trees):
        for node in range(tree, trees * count, trees):
            kind = ProofKind(node % 4)  # those of trees by signs
            has_numbers = kind in (ProofKind.MULTIPLIERS, ProofKind.CONTRADICTION)
            numbers = (node + np.arange(LENGTH)) / 7 if has_numbers else np.zeros(0)
            found.append(NodeProof(tree, node, kind, numbers.astype("<f8").tobytes()))
    return found


def nodes(count: int) -> bytes:
    records = []
    for k in range(count):
        if k % 4 < 2:
            fields: tuple[Any, ...] = (NodeKind.DECISION, 1, k % 2, 0, -1, 12345, 0.0)
        else:
            fields = (NodeKind.SPLIT, 0, k % 2, 0, 0, 0, 0.1)
        records.append(NODE.pack(k // 2, *fields))
    return b"".join(records)


def test_what_is_written_comes_back(run: Run, tmp_path: Path) -> None:
    head = head_of(run, [SearchTree(1, 0), SearchTree(2, 0)], 10)
    given: list[RegionProofs] = [
        RegionProofs(((b"REGN", region()),), proofs(3)),
        RegionProofs(((b"REGN", region()),), proofs(1)),
    ]
    write_certificate(tmp_path / "a", head, nodes(8), given)
    stored = read_certificate(tmp_path / "a", CLASSES)
    assert stored.head == head
    assert stored.nodes["parent"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert stored.nodes["layer"].tolist() == [-1, -1, 0, 0] * 2
    assert stored.nodes["neuron"].tolist() == [12345, 12345, 0, 0] * 2
    assert stored.nodes["at"].tolist() == [0.0, 0.0, 0.1, 0.1] * 2
    for (_, written), read in zip(given, stored.regions, strict=True):
        assert np.concatenate(read.status).tolist() == STATUS.tolist()
        ((p, q),) = read.refined[0]
        assert (p.shape, q.shape) == ((6, 1), (6, 1))
        assert [*p.ravel(), *q.ravel()] == list(range(12))
        assert [(p.tree, p.node, p.kind, p.numbers.tobytes()) for p in read.proofs] == [
            (p.tree, p.node, p.kind, p.numbers) for p in written
        ]


def test_nothing_at_all_is_a_certificate_too(run: Run, tmp_path: Path) -> None:
    write_certificate(
        tmp_path / "a", head_of(run, [SearchTree(1, 0), SearchTree(2, 0)], 2), b"", []
    )
    stored = read_certificate(tmp_path / "a", CLASSES)
    assert [tag for tag, _ in stored.blocks] == [b"HEAD", b"END "]


def test_long_parts_are_divided(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "_HANDY_BLOCK", 200)
    head = head_of(run, [SearchTree(1, 0), SearchTree(2, 0)], 42)
    write_certificate(
        tmp_path / "a", head, nodes(40), [RegionProofs(((b"REGN", region()),), proofs(20))]
    )
    stored = read_certificate(tmp_path / "a", CLASSES)
    assert len(stored.nodes) == 40
    assert len(stored.regions[0].proofs) == 40
    for tag, size in stored.blocks:
        assert tag not in (b"TREE", b"PROF") or size <= 200 + 5 + 8 * LENGTH + 40
    tags = [tag for tag, _ in stored.blocks]
    assert tags.count(b"TREE") == 5
    assert tags.count(b"PROF") > 5


def test_a_block_that_no_reader_takes_is_not_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(certificate.LARGEST, b"REGN", 50)
    with pytest.raises(VhagarError, match=r"REGN would have \d+ bytes, more than 50"):
        write_certificate(
            tmp_path / "a",
            head_of(run, [SearchTree(1, 0)], 1),
            b"",
            [RegionProofs(((b"REGN", region()),), proofs(1))],
        )
    assert list(tmp_path.iterdir()) == []


def test_claims_and_witnesses_are_the_trackers(run: Run) -> None:
    x = np.array([0.6, 0.5, 0.1])
    run.interval.offer_witness(1, x, 0, np.array([-0.1, 0.1, 0.0]))
    run.interval.offer_upper(2, 0.5, BoundKind.TWIN)
    head = head_of(run, [], 0)
    assert head["claims"]["lower"] == run.interval.lower == run.interval.target_lower(1) > 0
    assert head["claims"]["upper"] == run.interval.upper
    assert head["claims"]["targets"] == {
        str(target): {
            "lower": run.interval.target_lower(target),
            "upper": run.interval.target_upper(target),
        }
        for target in (1, 2)
    }
    (witness,) = head["witnesses"]
    assert (witness["target"], witness["piece"]) == (1, 0)
    np.testing.assert_array_equal(witness["x"], x.astype(np.float32).astype(np.float64))
    np.testing.assert_array_equal(witness["parameters"], [-0.1, 0.1, 0.0])
    assert witness["confidence"] == run.interval.lower


def test_where_no_bound_is_known_nothing_is_claimed() -> None:
    weight = np.eye(2)
    problem = Problem(
        Network((Affine(weight, np.zeros(2), (2,), (2,)),), (2,)),
        perturbation="linf(0.1)",
        source=0,
    )
    with pytest.raises(VhagarError, match="nothing to prove"):
        head_of(Run(problem, Options(certificate=Path("some"))), [], 0)


def test_a_node_takes_24_bytes() -> None:
    assert NODE.size == 24
    assert NODE.pack(1, 0, 1, 1, 0, -1, 5, 0.5) == struct.pack("<I4BiId", 1, 0, 1, 1, 0, -1, 5, 0.5)
