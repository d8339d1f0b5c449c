"""Provers that say what they were asked, and statements and blocks to ask them about."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import evaluation
from vhagar_check.container import Block
from vhagar_check.evaluation import Evaluator
from vhagar_check.formula import Decisions
from vhagar_check.proofs import Question
from vhagar_check.tree import Root

QUADRATIC_WIDTH, FACTS_WIDTH = 3, 4


def blocks(tags: str, raw: int = 10) -> list[Block]:
    return [Block(tag, k, raw, raw) for k, tag in enumerate(tags.split())]


def with_json(about: Any, data: bytes) -> bytes:
    text = json.dumps(about).encode()
    return struct.pack("<I", len(text)) + text + data


def proof(
    nodes: list[int], kinds: list[int], numbers: list[float] = (), tree: Any = 1, **about: Any
) -> bytes:
    data = np.array(nodes, "<u4").tobytes() + bytes(kinds) + np.array(numbers, "<f8").tobytes()
    return with_json({"tree": tree, "count": len(nodes), **about}, data)


SPAN = (0.0, 1.0)
# The tree of each node, its part of the piece and its decisions.
NODES = {
    0: (0, SPAN, Decisions()),
    1: (1, SPAN, Decisions()),
    2: (2, SPAN, Decisions()),
    3: (3, SPAN, Decisions()),
    4: (4, SPAN, Decisions()),
    5: (1, SPAN, Decisions({(0, 0): {0: 1}})),
    6: (1, SPAN, Decisions({(0, 0): {0: -1}})),
    7: (1, (0.0, 0.5), Decisions()),
    8: (1, SPAN, Decisions(entries={0: (0.0, 1.0)})),
}
ROOTS = [
    Root(1, 0),
    Root(2, 1),
    Root(2, 1, slopes=True),
    Root(2, 1, boxes=True),
    Root(None, 1),
]


def statement_of(path: Path, **given: Any) -> Any:
    tree = SimpleNamespace(count=len(NODES), roots=ROOTS, case=lambda node: NODES[node])
    own = {
        "form": "form",
        "image": None,
        "source": 0,
        "tree": tree,
        "network": SimpleNamespace(classes=3),
        "certificate": path,
        "question": lambda root: Question(0, root.target, 7.0),
    }
    return SimpleNamespace(**{**own, **given})


class Asked:
    """What the provers were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.plain: list[Any] = []
        self.quadratic: list[Any] = []
        self.facts: list[Any] = []
        self.about: list[Any] = []  # the regions of proofs by facts
        self.read: list[Any] = []
        self.raw: dict[int, bytes] = {}
        self._path = path
        path.write_bytes(b"")
        asked = self

        class Prover:
            def __init__(self, region: Any, question: Question) -> None:
                self._question = question

            def values(self, kinds: Any, vectors: Any, decisions: Any) -> np.ndarray:
                asked.plain.append((kinds.tolist(), vectors.tolist(), decisions))
                return np.arange(1.0, len(kinds) + 1)

        class Quadratic:
            def __init__(self, region: Any, source: int, target: int, claim: float, tied: bool):
                self._asked = source, target, claim, tied

            @classmethod
            def width(cls, region: Any) -> int:
                return QUADRATIC_WIDTH

            def value(self, vector: Any, decisions: Any) -> float:
                asked.quadratic.append((*self._asked, vector.tolist(), decisions))
                return 100.0 + vector[0]

        class Facts:
            def __init__(self, region: Any) -> None:
                asked.about.append(region)

            @classmethod
            def width(cls, region: Any) -> int:
                return FACTS_WIDTH

            def value(self, vector: Any, question: Question) -> float:
                own = question.source, question.target, question.claim
                asked.facts.append((*own, vector.tolist()))
                return 200.0 + vector[0]

        monkeypatch.setattr(evaluation, "Prover", Prover)
        monkeypatch.setattr(evaluation, "FactsProver", Facts)
        monkeypatch.setattr(evaluation, "QuadraticProver", Quadratic)
        monkeypatch.setattr(evaluation, "unpack", lambda file, block: self.raw[block.offset])

    def evaluator(self, **given: Any) -> Evaluator:
        return Evaluator(statement_of(self._path, **given), exact=False)
