"""Validate stores before use, because anyone may have written the file.

A store is opened read-only first. It must contain exactly the tables that this program creates, and
in every column values of the right type: SQLite itself would accept text as a number.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain, parse
from vhagar.result import BoundKind, Status
from vhagar.sweep.question import domain_in
from vhagar.sweep.schema import CHOICE, NO_TARGET, SCHEMA_VERSION, TABLES
from vhagar.version import __version__

# A store that takes longer to validate is not ours, or not worth the wait: seconds, and
# virtual machine instructions of SQLite between two looks at the clock.
_MOST_SECONDS, _INSTRUCTIONS = 60.0, 10_000
_STATUSES = {"open", "failed", *(status.name.lower() for status in Status)}
_KINDS = {kind.name.lower() for kind in BoundKind}

# The year 3000, in seconds since 1970.
_LATEST = 3.25e10

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_amount(value: Any) -> bool:
    """Bounds, confidences and counts are never negative."""
    return _is_number(value) and value >= 0


def _is_count(value: Any) -> bool:
    return _is_integer(value) and value >= 0


def _is_time(value: Any) -> bool:
    """Seconds since 1970 of a date that a calendar can represent."""
    return _is_number(value) and 0 <= value < _LATEST


def _is_budget(value: Any) -> bool:
    """Seconds, infinite without a limit; SQLite stores NaN as NULL."""
    return isinstance(value, int | float) and value >= 0


def _is_shape(value: Any) -> bool:
    sizes = _from_json(value)
    return _json_list(int)(value) and all(size > 0 for size in sizes) and len(sizes) > 0


def _is_vector(value: Any) -> bool:
    return (
        isinstance(value, bytes)
        and len(value) % 8 == 0
        and bool(np.isfinite(np.frombuffer(value, dtype="<f8")).all())
    )


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(values: set[str]) -> Check:
    return lambda value: value in values


def _json_list(item: type) -> Check:
    def check(value: Any) -> bool:
        found = _from_json(value)
        return isinstance(found, list) and all(type(one) is item for one in found)

    return check


def _is_key(value: Any) -> bool:
    """The six parts of a question's key, perhaps followed by the domain's fingerprint."""
    found = _from_json(value)
    return isinstance(found, list) and (
        len(found) == 6 or (len(found) == 7 and isinstance(found[6], str))
    )


def _is_object(value: Any) -> bool:
    return isinstance(_from_json(value), dict)


def _is_described(value: Any) -> bool:
    """A witness's parameters: numbers by name, and perhaps a list of all."""
    found = _from_json(value)
    if not isinstance(found, dict):
        return False
    choice = found.pop(CHOICE, [])
    return isinstance(choice, list) and all(map(_is_number, [*found.values(), *choice]))


def _from_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None


def _is_perturbation(value: Any) -> bool:
    try:
        parse(value)
    except (InvalidInput, TypeError):
        return False
    return True


_COLUMNS: dict[str, dict[str, Check]] = {
    "facts": {"name": _is_text, "value": _is_text},
    "networks": {
        "fingerprint": _is_text,
        "name": _is_text,
        "path": _is_text,
        "classes": _is_count,
        "input_shape": _is_shape,
    },
    "runs": {
        "id": _is_integer,
        "owner": _is_text,
        "started": _is_time,
        "ended": _optional(_is_time),
        "version": _is_text,
        "machine": _is_text,
        "settings": _is_object,
    },
    "problems": {
        "id": _is_integer,
        "key": _is_key,
        "place": _is_integer,
        "network": _is_text,
        "perturbation": _optional(_is_perturbation),
        "source": _is_integer,
        "targets": _json_list(int),
        "clip": _is_integer,
        "input_low": _is_number,
        "input_high": _is_number,
        "status": _one_of(_STATUSES),
        "budget": _optional(_is_budget),
        "seconds": _is_time,
        "nodes": _is_count,
        "engine": _optional(_is_text),
        "run": _optional(_is_integer),
        "losses": _is_count,
        "notes": _json_list(str),
        "certificate": _optional(_is_text),
        "owner": _optional(_is_text),
        "lease": _optional(_is_time),
    },
    "goals": {
        "problem": _is_integer,
        "target": _is_integer,
        "lower": _is_amount,
        "upper": _optional(_is_amount),
        "kind": _optional(_one_of(_KINDS)),
        "proven": _optional(_is_amount),
        "proven_kind": _optional(_one_of(_KINDS)),
    },
    "witnesses": {
        "problem": _is_integer,
        "target": _is_integer,
        "confidence": _is_amount,
        "margin": _optional(_is_number),
        "tie": _is_integer,
        "piece": _is_text,
        "parameters": _is_described,
        "x": _is_vector,
        "x_p": _optional(_is_vector),
        "scores": _is_vector,
        "scores_p": _optional(_is_vector),
        "origin": _optional(_is_integer),
    },
    "events": {
        "id": _is_integer,
        "problem": _is_integer,
        "run": _is_integer,
        "time": _is_time,
        "seconds": _is_time,
        "what": _is_text,
        "lower": _is_amount,
        "upper": _optional(_is_amount),
        "note": _is_text,
    },
}


def require_store(path: Path) -> None:
    """Refuse a file that is not a valid store, without writing to it."""
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty; it is not a store")
    connection = _read_only(path)
    try:
        _require_tables(connection, path)
        for table, columns in _COLUMNS.items():
            _require_values(connection, table, columns, path)
        _require_relations(connection, path)
    except (sqlite3.Error, OverflowError) as error:
        raise InvalidInput(f"cannot use {path} as a store: {error}") from None
    finally:
        connection.close()


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    end = time.monotonic() + _MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, _INSTRUCTIONS)
    return connection


def _require_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Require exactly the tables, indices and triggers of a store: a view could do anything."""
    found = _objects(connection)
    version = None
    if "facts" in {name for _, name in found}:
        rows = connection.execute("SELECT value FROM facts WHERE name = 'schema'").fetchall()
        version = rows[0]["value"] if rows else None
    if version != str(SCHEMA_VERSION):
        raise InvalidInput(
            f"{path} is not a store that vhagar {__version__} can read "
            f"(schema {version}, not {SCHEMA_VERSION})"
        )
    if found != _own_objects():
        odd = sorted(name for _, name in found.items() ^ _own_objects().items())
        raise InvalidInput(f"{path} is not a store of vhagar: its tables differ ({odd[0]!r:.80})")


def _objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(row[0], row[1]): re.sub(r"\s+", " ", row[2]).strip() for row in rows}


@cache
def _own_objects() -> dict[tuple[str, str], str]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    try:
        return _objects(connection)
    finally:
        connection.close()


def _require_values(
    connection: sqlite3.Connection, table: str, columns: dict[str, Check], path: Path
) -> None:
    for row in connection.execute(f"SELECT rowid AS number, * FROM {table}"):
        for column, check in columns.items():
            if not check(row[column]):
                raise InvalidInput(
                    f"{path} is damaged: row {row['number']} of {table} has "
                    f"{row[column]!r:.40} as {column}"
                )


def _require_relations(connection: sqlite3.Connection, path: Path) -> None:
    """Require that rows agree with each other: numbers of classes, sizes of inputs, goals."""
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise InvalidInput(f"{path} is damaged: a row refers to one that is not there")
    disordered = "SELECT 1 FROM goals WHERE lower > upper OR upper > proven LIMIT 1"
    unproven = """SELECT 1 FROM goals WHERE lower > 0 AND NOT EXISTS (
        SELECT 1 FROM witnesses WHERE witnesses.problem = goals.problem
        AND witnesses.target = goals.target AND witnesses.confidence >= goals.lower) LIMIT 1"""
    for query, what in ((disordered, "an empty interval"), (unproven, "a bound without witness")):
        if connection.execute(query).fetchone() is not None:
            raise InvalidInput(f"{path} is damaged: it has {what}")
    networks = {row["fingerprint"]: row for row in connection.execute("SELECT * FROM networks")}
    goals: dict[int, set[int]] = {}
    for row in connection.execute("SELECT problem, target FROM goals"):
        goals.setdefault(row["problem"], set()).add(row["target"])
    witnesses: dict[int, list[sqlite3.Row]] = {}
    for row in connection.execute("SELECT * FROM witnesses"):
        witnesses.setdefault(row["problem"], []).append(row)
    for row in connection.execute("SELECT * FROM problems"):
        network = networks[row["network"]]
        targets = json.loads(row["targets"]) or [NO_TARGET]
        labels = range(network["classes"])
        sound = (
            goals.get(row["id"]) == set(targets)
            and row["source"] in labels
            and all(target in labels for target in targets if target != NO_TARGET)
            and row["input_low"] < row["input_high"]
            and _is_domain(connection, row, network)
            and all(_fits(found, network) for found in witnesses.get(row["id"], []))
        )
        if not sound:
            raise InvalidInput(f"{path} is damaged: problem {row['id']} contradicts itself")


def _is_domain(connection: sqlite3.Connection, problem: sqlite3.Row, network: sqlite3.Row) -> bool:
    """Whether the store holds the domain that a problem names, with the right fingerprint."""
    name = domain_in(problem["key"])
    if name is None:
        return True
    query = "SELECT value FROM facts WHERE name = ?"
    found = connection.execute(query, (f"domain {name}",)).fetchone()
    given = None if found is None else _from_json(found["value"])
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return False
    span = (problem["input_low"], problem["input_high"])
    try:
        shape = tuple(json.loads(network["input_shape"]))
        return Domain.from_plain(shape, span, given).fingerprint == name
    except (InvalidInput, KeyError):
        return False


def _fits(witness: sqlite3.Row, network: sqlite3.Row) -> bool:
    size, classes = math.prod(json.loads(network["input_shape"])), network["classes"]
    sizes = (("x", size), ("x_p", size), ("scores", classes), ("scores_p", classes))
    return all(
        witness[name] is None or len(witness[name]) == 8 * expected for name, expected in sizes
    )
