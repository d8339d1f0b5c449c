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
from functools import cache
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.perturbation.domain.plain import domain_of_plain
from vhagar.sweep.column_checks import COLUMNS, Check, from_json
from vhagar.sweep.fact_checks import FACTS, fits
from vhagar.sweep.question import domain_in
from vhagar.sweep.schema import NO_TARGET, SCHEMA_VERSION, TABLES
from vhagar.version import __version__

# A store that takes longer to validate is not ours, or not worth the wait: seconds, and
# virtual machine instructions of SQLite between two looks at the clock.
_MOST_SECONDS, _INSTRUCTIONS = 60.0, 10_000


def require_store(path: Path) -> None:
    """Refuse a file that is not a valid store, without writing to it."""
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty; it is not a store")
    connection = read_only(path)
    try:
        _require_tables(connection, path)
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot use {path} as a store: {error}") from None
    finally:
        connection.close()
    connection = _opened(path, "mode=ro")
    try:
        for table, columns in COLUMNS.items():
            _require_values(connection, table, columns, path)
        _require_relations(connection, path)
        _require_facts(connection, path)
    except (sqlite3.Error, OverflowError) as error:
        raise InvalidInput(f"cannot use {path} as a store: {error}") from None
    finally:
        connection.close()


def read_only(path: Path) -> sqlite3.Connection:
    """Open a file that may be anyone's: neither it nor its folder changes.

    Opening a database in WAL mode would leave two files beside it. It has one of them already where
    a process has not closed it; then what it says counts, too.
    """
    wal = path.with_name(f"{path.name}-wal")
    return _opened(path, "mode=ro" if wal.exists() else "mode=ro&immutable=1")


def _opened(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)
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
    """Require that rows agree with each other: numbers of classes, sizes of inputs, targets."""
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
    asked: dict[int, set[int]] = {}
    for row in connection.execute("SELECT problem, target FROM goals"):
        asked.setdefault(row["problem"], set()).add(row["target"])
    witnesses: dict[int, list[sqlite3.Row]] = {}
    for row in connection.execute("SELECT * FROM witnesses"):
        witnesses.setdefault(row["problem"], []).append(row)
    for row in connection.execute("SELECT * FROM problems"):
        network = networks[row["network"]]
        targets = json.loads(row["targets"]) or [NO_TARGET]
        labels = range(network["classes"])
        sound = (
            asked.get(row["id"]) == set(targets)
            and row["source"] in labels
            and all(target in labels for target in targets if target != NO_TARGET)
            and row["input_low"] < row["input_high"]
            and _is_domain(connection, row, network)
            and all(_fits(found, network) for found in witnesses.get(row["id"], []))
        )
        if not sound:
            raise InvalidInput(f"{path} is damaged: problem {row['id']} contradicts itself")


def _require_facts(connection: sqlite3.Connection, path: Path) -> None:
    """Require that the study is one, and that what was found about all of it has its form."""
    found = {row["name"]: row["value"] for row in connection.execute("SELECT * FROM facts")}
    for name, form in FACTS.items():
        if name in found and not fits(from_json(found[name]), form):
            raise InvalidInput(f"{path} is damaged: it holds something else as its {name}")
    networks = {row["fingerprint"] for row in connection.execute("SELECT * FROM networks")}
    coverage = from_json(found.get("coverage", "null")) or {"classes": []}
    if not {each["network"] for each in coverage["classes"]} <= networks:
        raise InvalidInput(f"{path} is damaged: its coverage is about a network that is not there")


def _is_domain(connection: sqlite3.Connection, problem: sqlite3.Row, network: sqlite3.Row) -> bool:
    """Whether the store holds the domain that a problem names, with the right fingerprint."""
    name = domain_in(problem["key"])
    if name is None:
        return True
    query = "SELECT value FROM facts WHERE name = ?"
    found = connection.execute(query, (f"domain {name}",)).fetchone()
    given = None if found is None else from_json(found["value"])
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return False
    span = (problem["input_low"], problem["input_high"])
    try:
        shape = tuple(json.loads(network["input_shape"]))
        return domain_of_plain(shape, span, given).fingerprint == name
    except (InvalidInput, KeyError):
        return False


def _fits(witness: sqlite3.Row, network: sqlite3.Row) -> bool:
    size, classes = math.prod(json.loads(network["input_shape"])), network["classes"]
    sizes = (("x", size), ("x_p", size), ("scores", classes), ("scores_p", classes))
    return all(
        witness[name] is None or len(witness[name]) == 8 * expected for name, expected in sizes
    )
