"""Convert witnesses and targets to rows of a table, and back."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.result import Suggestion, Witness
from vhagar.sweep.schema import CHOICE, NO_TARGET


def stored_target(target: int | None) -> int:
    return NO_TARGET if target is None else target


def target_of(stored: int) -> int | None:
    return None if stored == NO_TARGET else stored


def row_of_witness(
    problem: int, target: int, witness: Witness, origin: int | None
) -> tuple[Any, ...]:
    """The values of a witness's row, in the order of the table's columns."""
    return (
        problem,
        target,
        witness.confidence,
        witness.margin,
        witness.tie,
        witness.piece,
        json.dumps({**(witness.parameters or {}), CHOICE: list(witness.choice)}, default=float),
        _bytes(witness.x),
        _bytes(witness.x_p),
        _bytes(witness.scores),
        _bytes(witness.scores_p),
        origin,
    )


def witness_of_row(row: sqlite3.Row, shape: tuple[int, ...]) -> Witness:
    """The witness that a row holds."""
    described = json.loads(row["parameters"])
    return Witness(
        x=_array(row["x"]).reshape(shape),
        scores=_array(row["scores"]),
        confidence=row["confidence"],
        target=target_of(row["target"]),
        x_p=None if row["x_p"] is None else _array(row["x_p"]).reshape(shape),
        scores_p=None if row["scores_p"] is None else _array(row["scores_p"]),
        margin=row["margin"],
        tie=bool(row["tie"]),
        piece=row["piece"],
        parameters={name: value for name, value in described.items() if name != CHOICE},
        choice=tuple(described.get(CHOICE, ())),
    )


def suggestion_of_row(row: sqlite3.Row) -> Suggestion:
    """The input that a row holds, as a suggestion still to be checked."""
    x_p = None if row["x_p"] is None else _array(row["x_p"])
    return Suggestion(target_of(row["target"]), _array(row["x"]), x_p, _choice(row))


def _choice(row: sqlite3.Row) -> Array:
    """The parameters of a witness.

    Earlier versions stored only their descriptions. There, the last number is the parameter of a
    piece with one parameter; other pieces do not use it, or compute theirs from the images.
    """
    described = json.loads(row["parameters"])
    given = described.get(CHOICE, list(described.values())[-1:])
    return np.array(given, dtype=np.float64)


def _bytes(values: Array | None) -> bytes | None:
    return None if values is None else np.ascontiguousarray(values, dtype="<f8").tobytes()


def _array(content: bytes) -> Array:
    return np.frombuffer(content, dtype="<f8").astype(np.float64)
