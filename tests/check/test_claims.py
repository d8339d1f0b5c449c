"""From the bounds of proofs to the verdict: which claims count as proved, and when rationals are
asked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import verdict as module
from vhagar_check.errors import Rejected, Unproved
from vhagar_check.verdict import Verdict, _missed_by_rounding, _require_claims, check


def verdict(**given: Any) -> Verdict:
    return Verdict("linf(0.1)", True, 0, (0.0, 1.0), "", 0.0, 1.0, {}, {}, **given)


def test_the_hash_of_a_domain() -> None:
    """Of its numbers as they are, where a negative zero counts as zero."""
    assert verdict().domain is None
    box = np.array([-0.0, 0.25]), np.array([0.5, 1.0])
    numbers = np.array([0.0, 0.25, 0.5, 1.0], "<f8").tobytes()
    assert verdict(box=box).domain == hashlib.sha256(numbers).hexdigest()
    conditions = SimpleNamespace(numbers=b"rows")
    more = verdict(box=box, conditions=conditions)
    assert more.domain == hashlib.sha256(numbers + b"rows").hexdigest()


@pytest.mark.parametrize(
    ("uppers", "largest", "expected"),
    [
        ({1: 1.0, 2: 2.0}, 10.0, False),  # nothing is missed
        ({1: 1.0 + 1e-9, 2: 2.0}, 10.0, True),
        ({1: 1.0 + 1e-9, 2: 2.0 + 9e-9}, 10.0, True),
        ({1: 1.0 + 1e-9, 2: 2.0 + 2e-8}, 10.0, False),
        ({1: 1.0 + 1e-9, 2: 2.0}, 0.5, False),
        ({1: 1.0 + 1e-9, 2: 2.0}, 1.5, True),
        ({1: 1.0 + 1e-9, 2: 2.0}, math.inf, False),
        ({1: 1.0 + 1e-9, 2: 2.0}, math.nan, False),
        ({1: math.nan, 2: 2.0}, 10.0, False),
        ({1: 1.5, 2: 2.0}, 10.0, False),
    ],
)
def test_claims_that_are_missed_by_rounding(
    uppers: dict[int | None, float], largest: float, expected: bool
) -> None:
    assert _missed_by_rounding(uppers, {1: 1.0, 2: 2.0}, largest) is expected


@pytest.mark.parametrize("largest", [0.0, math.inf])
def test_claims_of_0_are_missed_by_what_underflows(largest: float) -> None:
    for missed, expected in ((2.0**-801, True), (2.0**-800, True), (2.0**-799, False)):
        assert _missed_by_rounding({None: missed}, {None: 0.0}, largest) is expected


@pytest.mark.parametrize(
    ("proved", "fine"), [(0.9, True), (1.0, True), (1.0 + 1e-15, False), (math.nan, False)]
)
def test_a_claim_is_proved_or_not(proved: float, fine: bool) -> None:
    statement: Any = SimpleNamespace(claims={1: 1.0, 2: 5.0})
    uppers: dict[int | None, float] = {1: proved, 2: 5.0}
    if fine:
        _require_claims(statement, uppers)
        return
    with pytest.raises(Unproved, match=r"1\.0 for target 1 is not proved") as error:
        _require_claims(statement, uppers)
    assert error.value.uppers is uppers


class Stated:
    """A statement whose bounds are given: by floats, and by rationals, which are lower."""

    def __init__(self, **given: Any) -> None:
        own: dict[str, Any] = {
            "claims": {1: 1.0, 2: 2.0},
            "rounded": 50.0,
            "exactly": 40.0,
            "size": 10.0,
            "values": [1.0 + 1e-9, 0.5],
            "exact": [1.0, 0.75],
        }
        self.given = {**own, **given}
        self.claims = self.given["claims"]
        self.form = SimpleNamespace(network="network")
        self.asked: list[Any] = []

    def confidences(self) -> tuple[float, float]:
        return -7.0, self.given["rounded"]

    def ceiling(self, exact: bool) -> float:
        return self.given["exactly"] if exact else self.given["rounded"]

    def score_size(self) -> float:
        return self.given["size"]

    def upper_bounds(self, values: np.ndarray, ceiling: float) -> dict[int | None, float]:
        self.asked.append((values.tolist(), ceiling))
        return {1: float(values[0]), 2: float(values[1])}


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def found(work: int = 5, **given: Any) -> tuple[dict[int | None, float], list[Any]]:
        statement: Any = Stated(**given)

        def evaluate(own: Any, groups: Any, workers: int, exact: bool) -> Any:
            assert (own, groups, workers, exact) == (statement, ["group"], 3, True)
            return np.array(statement.given["exact"]), 9

        def exact_work(network: Any, groups: int, count: int) -> int:
            assert (network, groups, count) == ("network", 1, 8)
            return work

        monkeypatch.setattr(module, "evaluate", evaluate)
        monkeypatch.setattr(module, "exact_work", exact_work)
        monkeypatch.setattr(module, "_MOST_EXACT_PRODUCTS", 5)
        values = np.array(statement.given["values"])
        groups: Any = ["group"]
        return module._upper_bounds(statement, values, groups, 8, 3), statement.asked

    return found


def test_rationals_decide_what_rounding_misses(bounds: Callable[..., Any]) -> None:
    """The better of both bounds of every node counts, below the exact ceiling."""
    uppers, asked = bounds()
    assert uppers == {1: 1.0, 2: 0.5}
    assert asked == [([1.0 + 1e-9, 0.5], 50.0), ([1.0, 0.5], 40.0)]
    _, asked = bounds(exactly=60.0)
    assert asked[1][1] == 50.0
    assert bounds(values=[math.inf, 0.5], size=10.0, exactly=20.0)[0] == {1: 1.0, 2: 0.5}
    assert bounds(values=[1.0 + 1e-9, math.nan], exactly=20.0)[0] == {1: 1.0, 2: 0.75}


@pytest.mark.parametrize(
    "given",
    [
        {"values": [1.0, 2.0]},  # nothing is missed
        {"values": [1.0, 2.0], "exactly": 20.0},
        {"work": 6},  # that would take too long
        {"size": 0.1},  # rounding does not explain it
        {"values": [3.0, 0.5]},
        {"values": [3.0, 0.5], "exactly": 25.0},  # half of what floats say is no doubt yet
    ],
)
def test_rationals_are_not_asked_in_vain(given: dict[str, Any], bounds: Callable[..., Any]) -> None:
    uppers, asked = bounds(**given)
    values = given.get("values", [1.0 + 1e-9, 0.5])
    assert uppers == {1: values[0], 2: values[1]}
    assert asked == [(values, 50.0)]


def test_rationals_are_asked_where_floats_know_next_to_nothing(bounds: Callable[..., Any]) -> None:
    assert bounds(values=[3.0, 0.5], exactly=24.0)[0] == {1: 1.0, 2: 0.5}
    assert bounds(values=[3.0, 0.5], exactly=24.0, size=0.1)[0] == {1: 1.0, 2: 0.5}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """Checks a certificate whose steps are replaced: two targets, of which 2 claims more."""

    def found(**given: Any) -> Verdict:
        own = {
            "image": None,
            "claims": {1: 1.0, 2: 3.0},
            "claimed": {"lower": 0.75, "upper": 3.0},
            "uppers": {1: 1.0, 2: 3.0},
            "confidence": 0.5,
            **given,
        }
        domain = SimpleNamespace(low=0.0, high=1.0, shape=(2,), box=None, conditions=None)
        statement = SimpleNamespace(
            **own,
            perturbation="linf(0.1)",
            clip=True,
            source=4,
            domain=domain,
            model_hash="hash",
            tree=SimpleNamespace(count=6),
            recorded=None,
            convention="",
            scores="",
            clipping="",
            upper_bounds=lambda values, ceiling: own["uppers"] if ceiling == math.inf else {},
        )
        blocks = [SimpleNamespace(tag=tag) for tag in ("HEAD", "MAPS", "TREE", "REGN")]

        def groups(given: Any) -> list[str]:
            assert [block.tag for block in given] == ["HEAD", "TREE", "REGN"]
            return ["group"]

        monkeypatch.setattr(module, "scan", lambda path: blocks)
        monkeypatch.setattr(module, "Statement", lambda path, model, given: statement)
        monkeypatch.setattr(module, "proof_groups", groups)
        monkeypatch.setattr(module, "check_witnesses", lambda own: ({1: 0.25, 2: 0.75}, {1}))
        monkeypatch.setattr(module, "evaluate", lambda own, groups, workers: ("values", 8))
        monkeypatch.setattr(module, "_upper_bounds", lambda *given: own["uppers"])
        monkeypatch.setattr(module, "image_confidence", lambda own: statement.confidence)
        return check("a", model="b")

    return found


def test_what_is_proved_is_stated(checked: Callable[..., Verdict]) -> None:
    found = checked()
    assert (found.lower, found.upper) == (0.75, 3.0)
    assert (found.uppers, found.lowers) == ({1: 1.0, 2: 3.0}, {1: 0.25, 2: 0.75})
    assert (found.source, found.proofs, found.nodes, found.ties) == (4, 8, 6, {1})
    assert (found.image, found.model) == (None, "hash")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"uppers": {1: 1.5, 2: 3.0}}, "not proved"),
        ({"uppers": {1: 1.0, 2: math.inf}}, "not proved"),
        ({"claimed": {"lower": 0.25, "upper": 3.0}}, "overall claim"),
        ({"claimed": {"lower": 0.75, "upper": 1.0}}, "overall claim"),
        ({"claimed": {"lower": 0.75, "upper": 4.0}}, "overall claim"),
        ({"claimed": {}}, "malformed"),
    ],
)
def test_what_is_not_proved(
    checked: Callable[..., Verdict], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        checked(**given)


def test_the_image_must_be_classified_as_the_source(checked: Callable[..., Verdict]) -> None:
    """A tie is no classification; there is no overall claim."""
    image = np.array([0.5, 1.0])
    found = checked(image=image, claimed={})
    assert found.image == hashlib.sha256(image.astype("<f8").tobytes()).hexdigest()
    for confidence in (0.0, -0.5, math.nan):
        with pytest.raises(Rejected, match="the image is not classified 4"):
            checked(image=image, claimed={}, confidence=confidence)
    with pytest.raises(Rejected, match="not proved"):
        checked(image=image, claimed={}, uppers={1: 1.5, 2: 3.0})


@pytest.mark.parametrize("error", [ValueError, KeyError, MemoryError, RecursionError, OSError])
def test_damage_is_refused(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(path: Path) -> None:
        raise error("damage")

    monkeypatch.setattr(module, "scan", damaged)
    with pytest.raises(Rejected, match=r"malformed .*damage"):
        check("a", model="b")
