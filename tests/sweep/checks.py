"""What must hold of a store at every moment, whoever was killed while writing it."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path

from vhagar.network import read_onnx
from vhagar.result import Suggestion
from vhagar.result.warm_start import checked
from vhagar.sweep.rows import suggestion_of_row, target_of
from vhagar.sweep.store import Store


def require_sound(path: Path) -> dict[int, tuple[float, float | None]]:
    """The file is whole, histories only tighten, and every lower bound has its witness.

    Returns the intervals.
    """
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    with Store(path) as store:
        intervals = {}
        for number, _ in store.problems():
            _require_tightening(store, number)
            witnesses = {
                row["target"]: row["confidence"] for row in store.rows("witnesses", number)
            }
            for row in store.rows("goals", number):
                assert row["lower"] == witnesses.get(row["target"], 0.0)
            intervals[number] = store.interval(number)
    return intervals


def _require_tightening(store: Store, number: int) -> None:
    events = store.rows("events", number)
    for before, after in pairwise(events):
        assert after["lower"] >= before["lower"]
        if before["upper"] is not None:
            assert after["upper"] is not None
            assert after["upper"] <= before["upper"]
    if events:
        assert (events[-1]["lower"], events[-1]["upper"]) == store.interval(number)


def require_true_witnesses(path: Path) -> int:
    """Every stored witness passes its own problem's check again; returns how many there are."""
    found = 0
    with Store(path) as store:
        networks = {row["fingerprint"]: read_onnx(row["path"]) for row in store.rows("networks")}
        for number, question in store.problems():
            problem = question.problem(networks[question.network])
            for row in store.rows("witnesses", number):
                suggestion: Suggestion = suggestion_of_row(row)
                witness = checked(problem, suggestion)
                assert witness is not None
                assert witness.confidence == row["confidence"]
                assert witness.target == target_of(row["target"])
                found += 1
    return found
