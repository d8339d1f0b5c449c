"""Store what is known about a problem: intervals only tighten, a lower bound needs a witness."""

from __future__ import annotations

import math
import sqlite3
import time

from vhagar.errors import VhagarError
from vhagar.result import BoundKind, Witness
from vhagar.sweep.database import Database
from vhagar.sweep.rows import row_of_witness, target_of
from vhagar.sweep.snapshot import Snapshot

# Bounds that rely on another program: a witness may refute them.
_ON_TRUST = tuple(kind.name.lower() for kind in (BoundKind.SOLVER, BoundKind.MARABOU))


def improve(
    db: Database, run: int, number: int, snapshot: Snapshot, what: str, origin: int | None
) -> bool:
    """Store the bounds that improve on the known ones, and return whether there are any.

    `origin` is the problem that they were transferred from, if any. Call it within a transaction.
    """
    better = False
    for target_row in db.all("SELECT * FROM goals WHERE problem = ?", number):
        row, target = target_row, target_of(target_row["target"])
        witness, known = snapshot.witnesses.get(target), snapshot.targets.get(target)
        if witness is not None and witness.confidence > row["lower"]:
            row = _raise_lower(db, row, witness, origin)
            better = True
        if known is not None and math.isfinite(known.upper):
            better |= _lower_upper(db, row, known.upper, known.kind)
    if better:
        note = "" if origin is None else f"from problem {origin}"
        add_event(db, run, number, snapshot.seconds, what, note)
    return better


def add_event(
    db: Database, run: int, number: int, seconds: float, what: str, note: str = ""
) -> None:
    """Add an event to a problem's history, with its current interval."""
    lower, upper = interval(db, number)
    db.execute(
        "INSERT INTO events (problem, run, time, seconds, what, lower, upper, note) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        *(number, run, time.time(), seconds, what, lower, upper, note),
    )


def interval(db: Database, number: int) -> tuple[float, float | None]:
    """The interval of a problem; its upper end is None if it is unknown."""
    rows = db.all("SELECT lower, upper FROM goals WHERE problem = ?", number)
    uppers = [row["upper"] for row in rows]
    return max(row["lower"] for row in rows), None if None in uppers else max(uppers)


def seconds_spent(db: Database, number: int) -> float:
    """How long a problem has been worked on, according to its history."""
    return float(db.one("SELECT max(seconds) FROM events WHERE problem = ?", number)[0] or 0.0)


def _raise_lower(
    db: Database, row: sqlite3.Row, witness: Witness, origin: int | None
) -> sqlite3.Row:
    columns = row_of_witness(row["problem"], row["target"], witness, origin)
    marks = ", ".join("?" * len(columns))
    db.execute(f"INSERT OR REPLACE INTO witnesses VALUES ({marks})", *columns)
    upper, kind = row["upper"], row["kind"]
    if upper is not None and witness.confidence > upper:
        if kind not in _ON_TRUST:
            raise _contradiction(row["problem"], witness.confidence, upper, kind)
        # The tables let go of a solver's bound alone.
        db.execute(
            "UPDATE goals SET kind = 'solver' WHERE problem = ? AND target = ?",
            *(row["problem"], row["target"]),
        )
        upper, kind = row["proven"], row["proven_kind"]
        db.execute("UPDATE problems SET status = 'open' WHERE id = ?", row["problem"])
    place = (row["problem"], row["target"])
    db.execute(
        "UPDATE goals SET lower = ?, upper = ?, kind = ? WHERE problem = ? AND target = ?",
        *(witness.confidence, upper, kind, *place),
    )
    return db.one("SELECT * FROM goals WHERE problem = ? AND target = ?", *place)


def _lower_upper(db: Database, row: sqlite3.Row, upper: float, kind: BoundKind) -> bool:
    if row["upper"] is not None and upper >= row["upper"]:
        return False
    if upper < row["lower"]:
        if kind.name.lower() in _ON_TRUST:
            return False  # a known witness refutes it
        raise _contradiction(row["problem"], row["lower"], upper, kind.value)
    proven, proven_kind = row["proven"], row["proven_kind"]
    if kind.name.lower() not in _ON_TRUST:
        proven, proven_kind = upper, kind.name.lower()
    db.execute(
        "UPDATE goals SET upper = ?, kind = ?, proven = ?, proven_kind = ? "
        "WHERE problem = ? AND target = ?",
        *(upper, kind.name.lower(), proven, proven_kind, row["problem"], row["target"]),
    )
    return True


def _contradiction(problem: int, confidence: float, upper: float, kind: str) -> VhagarError:
    return VhagarError(
        f"problem {problem}: a witness of confidence {confidence} contradicts the bound {upper} "
        f"({kind}); this is a bug in vhagar, please report it"
    )
