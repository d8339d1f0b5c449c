"""An SQLite file that several processes may write to, in atomic transactions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.sweep.schema import SCHEMA_VERSION, TABLES
from vhagar.sweep.validation import read_only, require_store

# How an SQLite file begins.
MAGIC = b"SQLite format 3\0"
# Seconds to wait while another process writes.
_BUSY_SECONDS = 60.0


def is_unused(path: Path) -> bool:
    """Whether nothing is stored at `path`: no file, an empty one, or a database without tables.

    A process that was killed while it created a store leaves one of these.
    """
    if not path.exists() or path.stat().st_size == 0:
        return True
    if path.stat().st_size > 65_536:  # more than one page of SQLite's largest size holds tables
        return False
    try:
        connection = read_only(path)
        try:
            return _is_without_tables(connection)
        finally:
            connection.close()
    except sqlite3.Error:
        return False


def _is_without_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


class Database:
    """An open file with the tables of a store; what was committed is on disk."""

    def __init__(self, path: Path, create: bool) -> None:
        self.path = path
        if create and not is_unused(path):
            raise store_exists(path)
        if not create and not path.is_file():
            raise InvalidInput(f"no store at {path}; check the path")
        if not create:
            require_store(path)
        try:
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                self._prepare(create)
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"cannot use {path} as a store: {error}") from None

    def _prepare(self, create: bool) -> None:
        self._connection.row_factory = sqlite3.Row
        if create and not _is_without_tables(self._connection):  # before anything is set
            raise store_exists(self.path)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self.execute(f"PRAGMA {setting}")
        if create:
            self._create()

    def _create(self) -> None:
        with self.transaction():
            # Another process may have created a store since: the first of the two keeps its own.
            if not _is_without_tables(self._connection):
                raise store_exists(self.path)
            for statement in _statements(TABLES):
                self.execute(statement)
            self.set_fact("schema", str(SCHEMA_VERSION))
            self.set_fact("created", repr(time.time()))

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all statements of the body or none; no other process writes in between."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def all(self, query: str, *values: Any) -> list[sqlite3.Row]:
        return self.execute(query, *values).fetchall()

    def one(self, query: str, *values: Any) -> sqlite3.Row:
        (row,) = self.all(query, *values)
        return row

    def fact(self, name: str) -> str | None:
        """One of the values that describe the whole study; None if it is not set."""
        rows = self.all("SELECT value FROM facts WHERE name = ?", name)
        return rows[0]["value"] if rows else None

    def set_fact(self, name: str, value: str) -> None:
        self.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)


def store_exists(path: Path) -> InvalidInput:
    """The error where a new store would take the place of another."""
    return InvalidInput(
        f"a store exists at {path}; add --resume to continue it, or choose another file"
    )


def _statements(script: str) -> Iterator[str]:
    """Divide a script into statements: `executescript` would end the transaction around them."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
