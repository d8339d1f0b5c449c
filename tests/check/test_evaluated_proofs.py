"""Blocks of proofs: which prover is asked about which node, and what is refused before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import evaluation
from vhagar_check.container import Block
from vhagar_check.errors import Rejected
from vhagar_check.formula import Decisions
from vhagar_check.proofs import (
    BOXES,
    CONTRADICTION,
    EMPTY,
    FACTS,
    MULTIPLIERS,
    QUADRATIC,
    QUICK,
    SPECTRAL,
    TIED,
)
from vhagar_check.tree import Root

from .asking import NODES, ROOTS, SPAN, Asked, proof


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    return Asked(monkeypatch, tmp_path / "none.cert")


def region(**given: Any) -> Any:
    own = {
        "piece_number": 1,
        "bounds": SimpleNamespace(piece=SimpleNamespace(span=SPAN)),
        "entries": {},
        "scope": None,
        "width": lambda classes, has_target: classes - 1 if has_target else classes - 2,
    }
    return SimpleNamespace(**{**own, **given})


def test_every_kind_goes_to_its_prover(asked: Asked) -> None:
    """Only some kinds have numbers, which follow each other in the order of the proofs."""
    kinds = [QUICK, QUADRATIC, MULTIPLIERS, EMPTY, TIED, CONTRADICTION]
    numbers = [*range(1, 11)]
    nodes, values = asked.evaluator()._proofs(region(), proof([1, 5, 6, 1, 5, 1], kinds, numbers))
    assert nodes.tolist() == [1, 5, 6, 1, 5, 1]
    decisions = [NODES[k][2] for k in (1, 5, 6, 1, 5, 1)]
    assert asked.plain == [(kinds, [[4.0, 5.0], [9.0, 10.0]], decisions)]
    assert asked.quadratic == [
        (0, 2, 7.0, False, [1.0, 2.0, 3.0], NODES[5][2]),
        (0, 2, 7.0, True, [6.0, 7.0, 8.0], NODES[5][2]),
    ]
    assert values.tolist() == [1.0, 101.0, 3.0, 4.0, 106.0, 6.0]


def test_a_tree_without_a_target_has_shorter_vectors(asked: Asked) -> None:
    _, values = asked.evaluator()._proofs(region(), proof([4], [MULTIPLIERS], [3.0], tree=4))
    assert asked.plain == [([MULTIPLIERS], [[3.0]], [NODES[4][2]])]
    assert values.tolist() == [1.0]


def test_the_first_tree_is_one(asked: Asked) -> None:
    nodes, values = asked.evaluator()._proofs(region(piece_number=0), proof([0], [QUICK], tree=0))
    assert (nodes.tolist(), values.tolist()) == ([0], [1.0])


def test_no_proofs_prove_nothing(asked: Asked) -> None:
    nodes, values = asked.evaluator()._proofs(region(), proof([], []))
    assert (nodes.tolist(), values.tolist()) == ([], [])
    assert not asked.quadratic


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (proof([9], [QUICK]), "a node that there is not"),
        (proof([1, 9], [QUICK, QUICK]), "a node that there is not"),
        (proof([1], [SPECTRAL]), "unknown kind"),
        (proof([1], [BOXES]), "unknown kind"),
        (proof([1], [8]), "unknown kind"),
        (proof([1], [FACTS], [1, 2, 3, 4]), "unknown kind"),
        (proof([1, 1], [QUICK, SPECTRAL]), "unknown kind"),
        (proof([1], [QUICK], tree=0), "another piece"),
        (proof([1], [QUICK], tree=5), "another piece"),
        (proof([1], [QUICK], tree=-4), "another piece"),
        (proof([1], [QUICK], tree=True), "another piece"),
        (proof([1], [QUICK], tree=1.0), "another piece"),
        (proof([1], [QUICK], count=2), "as many as it says"),
        (proof([1], [QUICK], count=-1), "as many as it says"),
        (proof([1], [QUICK], count=True), "as many as it says"),
        (proof([1], [QUICK], count=1.0), "as many as it says"),
        (proof([1] * 5, [QUICK] * 5, count=6), "as many as it says"),
        (proof([5], [QUICK], tree=2), "proof about pairs"),
        (proof([2, 2], [TIED, QUICK], [1, 2, 3], tree=2), "proof about pairs"),
        (proof([2], [MULTIPLIERS], [1, 2], tree=2), "proof about pairs"),
        (proof([3], [QUICK], tree=3), "boxes prove"),
        (proof([3], [QUADRATIC], [1, 2, 3], tree=3), "boxes prove"),
        (proof([4], [QUADRATIC], [1, 2, 3], tree=4), "without a target"),
        (proof([2], [QUICK]), "another tree"),
        (proof([7], [QUICK]), "another part of a piece"),
        (proof([1, 7], [QUICK, QUICK]), "another part of a piece"),
        (proof([8], [QUICK]), "another part of the domain"),
        (proof([1], [QUICK], [1]), "wrong length"),
        (proof([1], [MULTIPLIERS], [1]), "wrong length"),
        (proof([1], [MULTIPLIERS], [1, 2, 3]), "wrong length"),
        (proof([1], [MULTIPLIERS]), "wrong length"),
        (proof([1], [QUADRATIC], [1, 2]), "wrong length"),
    ],
)
def test_what_is_refused_of_proofs(asked: Asked, raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        asked.evaluator()._proofs(region(), raw)


def test_slopes_have_proofs_by_facts(asked: Asked) -> None:
    raw = proof([2, 2], [QUADRATIC, TIED], [1, 2, 3, 4, 5, 6], tree=2)
    _, values = asked.evaluator()._proofs(region(), raw)
    assert values.tolist() == [101.0, 104.0]


def test_a_node_of_the_regions_own_part(asked: Asked) -> None:
    half = SimpleNamespace(piece=SimpleNamespace(span=(0.0, 0.5)))
    _, values = asked.evaluator()._proofs(region(bounds=half), proof([7], [QUICK]))
    assert values.tolist() == [1.0]
    whole = region(entries={0: (0.0, 1.0)})
    _, values = asked.evaluator()._proofs(whole, proof([8], [QUICK]))
    assert values.tolist() == [1.0]
    with pytest.raises(Rejected, match="another part of the domain"):
        asked.evaluator()._proofs(whole, proof([1], [QUICK]))


def test_one_image_has_proofs_of_some_kinds(asked: Asked) -> None:
    about = asked.evaluator(image=np.zeros(2))
    kinds = [QUICK, MULTIPLIERS, CONTRADICTION, EMPTY]
    about._proofs(region(), proof([1] * 4, kinds, [1, 2, 3, 4]))
    for kind in (QUADRATIC, TIED, SPECTRAL, BOXES, 8, 10):
        with pytest.raises(Rejected, match="unknown kind"):
            about._proofs(region(), proof([1, 1], [QUICK, kind], [1, 2, 3]))
    with pytest.raises(Rejected, match="unknown kind"):
        about._proofs(region(), proof([], [], tree=2))


def test_one_image_has_proofs_by_facts(asked: Asked) -> None:
    """What is known of a region is kept for the next block of proofs in it."""
    about, own = asked.evaluator(image=np.zeros(2)), region()
    kinds, numbers = [FACTS, MULTIPLIERS, FACTS], [1, 2, 3, 4, 8, 9, 5, 6, 7, 8]
    _, values = about._proofs(own, proof([1, 5, 6], kinds, numbers))
    assert values.tolist() == [201.0, 2.0, 205.0]
    numbered = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
    assert asked.facts == [(0, 2, 7.0, vector) for vector in numbered]
    assert asked.plain[0][:2] == (kinds, [[8.0, 9.0]])
    about._proofs(own, proof([1], [FACTS], [1, 2, 3, 4]))
    assert len(asked.about) == 1
    about._proofs(own, proof([1], [QUICK]))
    other = region()
    about._proofs(other, proof([1], [FACTS], [1, 2, 3, 4]))
    assert [each is own for each in asked.about] == [True, False]
    for wrong in ([1, 2, 3], [1, 2, 3, 4, 5]):
        with pytest.raises(Rejected, match="wrong length"):
            about._proofs(own, proof([1], [FACTS], wrong))
    scope = SimpleNamespace(level=-np.inf, covers=lambda target, decisions: True)
    with pytest.raises(Rejected, match="some versions alone"):
        about._proofs(region(scope=scope), proof([1], [FACTS], [1, 2, 3, 4]))
    about._proofs(region(scope=scope), proof([1], [QUICK]))


def test_proofs_within_a_scope(asked: Asked) -> None:
    """It must hold for every node, and nothing below its level is proved."""
    covered = {1: True, 5: True, 6: False}

    def covers(target: int, decisions: Decisions) -> bool:
        assert target == 2
        return next(covered[k] for k in covered if NODES[k][2] is decisions)

    scope = SimpleNamespace(level=1.5, covers=covers)
    own, about = region(scope=scope), asked.evaluator()
    _, values = about._proofs(own, proof([1, 5], [QUICK, QUICK]))
    assert values.tolist() == [1.5, 2.0]
    for nodes in ([6], [1, 6], [6, 5]):
        with pytest.raises(Rejected, match="another part of the tree"):
            about._proofs(own, proof(nodes, [QUICK] * len(nodes)))
    for kinds in ([TIED, QUICK], [QUICK, QUADRATIC], [TIED, TIED]):
        numbers = [1, 2, 3] * sum(kind in (TIED, QUADRATIC) for kind in kinds)
        with pytest.raises(Rejected, match="some pairs alone"):
            about._proofs(own, proof([1, 5], kinds, numbers))


@pytest.fixture
def spectral(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:

    class Region:
        @classmethod
        def read(cls, form: Any, raw: bytes) -> Any:
            asked.read.append((form, raw))
            return SimpleNamespace(piece_number=1, span=SPAN)

    def prover(region: Any) -> Any:
        upper = lambda source, target: 10.0 * source + target  # noqa: E731
        return SimpleNamespace(piece_number=1, span=region.span, upper=upper)

    monkeypatch.setattr(evaluation, "SpectralRegion", Region)
    monkeypatch.setattr(evaluation, "SpectralProver", prover)

    def found(*proofs: bytes, evaluator: Any = None, place: int = 0, **given: Any) -> Any:
        asked.raw = {0: b"spectral", 1: b"another"}
        asked.raw.update(enumerate(proofs, start=2))
        parts = [Block("PROF", k, 1, 1) for k in range(2, 2 + len(proofs))]
        own = evaluator or asked.evaluator(source=3, **given)
        answer = own.work((Block("SPEC", place, 1, 1), [], parts))
        return [(nodes.tolist(), values.tolist()) for nodes, values in answer]

    return found


def test_one_number_for_each_target(spectral: Callable[..., Any], asked: Asked) -> None:
    given = proof([1, 5], [SPECTRAL] * 2), proof([2], [SPECTRAL], tree=2)
    assert spectral(*given) == [([1, 5], [32.0, 32.0]), ([2], [32.0])]
    assert asked.read == [("form", b"spectral")]


def test_the_last_spectral_prover_is_kept(spectral: Callable[..., Any], asked: Asked) -> None:
    evaluator = asked.evaluator(source=3)
    for place in (0, 0, 1, 1, 0):
        spectral(proof([1], [SPECTRAL]), evaluator=evaluator, place=place)
    assert [raw for _, raw in asked.read] == [b"spectral", b"another", b"spectral"]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (proof([1], [QUICK]), "another kind"),
        (proof([1, 1], [SPECTRAL, QUICK]), "another kind"),
        (proof([1], [SPECTRAL], [1.0]), "another kind"),
        (proof([2], [SPECTRAL]), "another tree"),
        (proof([1, 2], [SPECTRAL] * 2), "another tree"),
        (proof([7], [SPECTRAL]), "another tree or part"),
        (proof([0], [SPECTRAL], tree=0), "another piece"),
        (proof([4], [SPECTRAL], tree=4), "without a target"),
        (proof([9], [SPECTRAL]), "a node that there is not"),
    ],
)
def test_what_is_refused_by_spectral(spectral: Callable[..., Any], raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        spectral(raw)


def test_spectral_norms_say_nothing_about_one_image(spectral: Callable[..., Any]) -> None:
    with pytest.raises(Rejected, match="nothing about one image"):
        spectral(proof([1], [SPECTRAL]), image=np.zeros(2))


@pytest.fixture
def boxes(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    class Region:
        @classmethod
        def read(cls, form: Any, raw: bytes) -> Any:
            assert (form, raw) == ("form", b"boxes")
            return SimpleNamespace(piece_number=1, target=2)

    def prover(region: Any, source: int, claim: float) -> Any:
        return SimpleNamespace(upper=lambda: 10.0 * source + claim)

    monkeypatch.setattr(evaluation, "BoxRegion", Region)
    monkeypatch.setattr(evaluation, "BoxProver", prover)

    def found(raw: bytes, **given: Any) -> Any:
        asked.raw = {0: b"boxes", 1: raw}
        evaluator = asked.evaluator(**given)
        answer = evaluator.work((Block("BOXS", 0, 1, 1), [], [Block("PROF", 1, 1, 1)]))
        return [(nodes.tolist(), values.tolist()) for nodes, values in answer]

    return found


def test_one_number_for_the_root(boxes: Callable[..., Any]) -> None:
    assert boxes(proof([3], [BOXES], tree=3)) == [([3], [7.0])]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (proof([3], [QUICK], tree=3), "other proofs"),
        (proof([3], [BOXES], [1.0], tree=3), "other proofs"),
        (proof([3, 3], [BOXES] * 2, tree=3), "other proofs"),
        (proof([3, 3], [BOXES, QUICK], tree=3), "other proofs"),
        (proof([], [], tree=3), "other proofs"),
        (proof([1], [BOXES], tree=3), "other proofs"),
        (proof([1], [BOXES]), "about something else"),
        (proof([2], [BOXES], tree=2), "about something else"),
        (proof([0], [BOXES], tree=0), "another piece"),
    ],
)
def test_what_is_refused_by_boxes(boxes: Callable[..., Any], raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        boxes(raw)


def test_boxes_of_another_target(boxes: Callable[..., Any]) -> None:
    roots = [*ROOTS[:3], Root(1, 1, boxes=True)]
    tree = SimpleNamespace(count=len(NODES), roots=roots, case=lambda node: NODES[node])
    with pytest.raises(Rejected, match="about something else"):
        boxes(proof([3], [BOXES], tree=3), tree=tree)


def test_boxes_say_nothing_about_one_image(boxes: Callable[..., Any]) -> None:
    with pytest.raises(Rejected, match="nothing about one image"):
        boxes(proof([3], [BOXES], tree=3), image=np.zeros(2))
