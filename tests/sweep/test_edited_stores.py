"""Stores that somebody has edited: refused with an error of ours, or shown without harm."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar.errors import InvalidInput
from vhagar.report.page import write_page
from vhagar.report.reading import read_store
from vhagar.sweep.column_checks import COLUMNS
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.schema import TABLES
from vhagar.sweep.settings import Settings
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study

from ..marks import mostly_slow
from .conftest import small_network

SCRIPT = "<script>alert(1)</script>"
# What SQLite takes in any column.
ODD = [SCRIPT, "", "0", "[", "[[[]]]", '{"a": 1}', "-1", b"x", b"", 0, -1, 7, 2**62, 1e308, -1e308]
ODD += [float("inf"), float("-inf"), None, 0.5, "a" * 10_000, "[" * 5000, b"\xff" * 8, "\x00"]
NAMES = ("facts", "networks", "runs", "problems", "goals", "witnesses", "events")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with results, witnesses and a history."""
    folder = tmp_path_factory.mktemp("edited")
    vhagar.write_onnx(small_network(), folder / "small.onnx")
    study = Study(networks=(str(folder / "small.onnx"),), perturbations=("linf(0.1)",), timeout=5.0)
    run_sweep(study, folder / "s.db", settings=Settings(jobs=1)).close()
    return folder / "s.db"


def edit(path: Path, statements: list[tuple[str, tuple[object, ...]]]) -> None:
    """Edit a store behind the back of its triggers, which stand there again afterwards."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    for name, _ in (kept := triggers.fetchall()):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement, values in statements:
        connection.execute(statement, values)
    for _, sql in kept:
        connection.execute(sql)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def shown_or_refused(path: Path, page: Path) -> bool:
    """Whether a page could be written; it runs nothing that is not its own."""
    try:
        write_page(read_store(path), page)
    except InvalidInput:
        return False
    assert SCRIPT not in page.read_text()
    return True


def columns_of(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    found = [
        (table, row[1])
        for table in NAMES
        for row in connection.execute(f"PRAGMA table_info({table})")
    ]
    connection.close()
    return found


@pytest.mark.parametrize("chunk", mostly_slow(range(10), 10))
def test_an_edited_value_is_refused_or_harmless(chunk: int, finished: Path, tmp_path: Path) -> None:
    rng, columns = np.random.default_rng([3, chunk]), columns_of(finished)
    outcomes = []
    for number in range(30 * chunk, 30 * (chunk + 1)):
        path = tmp_path / f"{number}.db"
        path.write_bytes(finished.read_bytes())
        table, column = columns[number % len(columns)]
        value = ODD[int(rng.integers(len(ODD)))]
        try:
            edit(path, [(f"UPDATE {table} SET {column} = ?", (value,))])
        except sqlite3.IntegrityError:
            continue  # SQLite itself does not take it
        outcomes.append(shown_or_refused(path, tmp_path / "page.html"))
        path.unlink()
    assert outcomes.count(False) > 10
    assert outcomes.count(True) > 0


@pytest.mark.parametrize("table", NAMES[1:5])
def test_rows_that_are_gone_are_noticed(table: str, finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(finished.read_bytes())
    edit(path, [(f"DELETE FROM {table}", ())])
    assert not shown_or_refused(path, tmp_path / "page.html")


COUNTS: dict[str, Any] = {"inputs": 3, "robust": 2, "attackable": 1}
CLASS: dict[str, Any] = {
    "network": "",
    "perturbation": "linf(0.1)",
    "clip": True,
    "source": 0,
    "targets": [1],
    "all_targets": True,
    "coverage": {
        "inputs": 9, "classified": COUNTS, "correct": None, "largest": 0.5, "seconds": 0.1,
        "outside": 0,
    },
}  # fmt: skip
NEAR: dict[str, Any] = {
    "problem": 1,
    "confidence": 0.5,
    "row": 3,
    "label": None,
    "distance": 0.1,
    "x": "AAAAAA==",
}
# Facts about a whole study, and whether they are what the program writes.
FACTS: list[tuple[str, object, bool]] = [
    ("coverage", {"dataset": "d.npz", "sha256": "0", "classes": [CLASS]}, True),
    ("coverage", None, True),
    ("largest", [[[None, 0], 0.5, float("inf")]], True),
    ("neighbours", [NEAR], True),
    ("neighbours", [NEAR | {"label": -1}], True),
    ("neighbours", [NEAR | {"label": True}], False),
    ("conventions", {"": {"layout": "chw", "mean": [0.5], "argmin": True}}, True),
    ("conventions", [], False),
    ("conventions", {"": "--help"}, False),
    ("conventions", {"": {"name": "x"}}, False),
    ("conventions", {"": {"mean": "0.5"}}, False),
    ("conventions", {"": {"layout": ["chw"]}}, False),
    ("study", "a study", False),
    ("study", {"networks": 7}, False),
    ("study", {"networks": ["m.onnx"], "name": "\x1b[2J"}, False),
    ("coverage", "a data set", False),
    ("coverage", {"dataset": "d.npz"}, False),
    ("coverage", {"dataset": "\x1b[2J", "classes": []}, False),
    ("coverage", {"dataset": "d.npz", "classes": [CLASS | {"network": "another"}]}, False),
    ("coverage", {"dataset": "d.npz", "classes": [CLASS | {"targets": ["1"]}]}, False),
    ("coverage", {"dataset": "d.npz", "classes": [CLASS | {"more": 1}]}, False),
    ("largest", [[[None, 0], 0.5]], False),
    ("largest", [[[None, 0], 0.5, float("nan")]], False),
    ("neighbours", [NEAR | {"x": "no number"}], False),
    ("neighbours", [NEAR | {"x": "AADAfw=="}], False),
    ("neighbours", {"problem": 1}, False),
    *(
        ("coverage", {"dataset": "d.npz", "classes": [
            CLASS | {"coverage": CLASS["coverage"] | {"classified": COUNTS | {"robust": odd}}}
        ]}, False)
        for odd in ("2", 2.0, -1, 3, True, None)
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", mostly_slow(range(len(FACTS)), 12))
def test_facts_about_the_study_have_their_form(number: int, finished: Path, tmp_path: Path) -> None:
    name, value, genuine = FACTS[number]
    path = tmp_path / "s.db"
    path.write_bytes(finished.read_bytes())
    connection = sqlite3.connect(path)
    ((fingerprint,),) = connection.execute("SELECT fingerprint FROM networks").fetchall()
    connection.close()
    text = json.dumps(value).replace('"network": ""', f'"network": "{fingerprint}"')
    edit(path, [("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, text))])
    assert shown_or_refused(path, tmp_path / "page.html") == genuine


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("networks", "name", "m\x1b[2J"),
        ("runs", "version", "1\x1b[2J"),
        ("problems", "notes", '["\\u001b[2J"]'),
        ("events", "note", "\x9b2J"),
    ],
)
def test_no_text_commands_a_terminal(
    table: str, column: str, value: str, finished: Path, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(finished.read_bytes())
    edit(path, [(f"UPDATE {table} SET {column} = ?", (value,))])
    assert not shown_or_refused(path, tmp_path / "page.html")


def test_a_view_in_place_of_a_table_is_refused_at_once(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(finished.read_bytes())
    endless = (
        "CREATE VIEW runs AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) "
        "SELECT x AS id FROM n"
    )
    edit(path, [("DROP TABLE runs", ()), (endless, ())])
    begun = time.monotonic()
    assert not shown_or_refused(path, tmp_path / "page.html")
    assert time.monotonic() - begun < 30


def test_a_foreign_file_is_left_as_it_was(tmp_path: Path) -> None:
    foreign, empty = tmp_path / "foreign.db", tmp_path / "empty.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    empty.touch()
    for path in (foreign, empty):
        before = path.read_bytes()
        with pytest.raises(InvalidInput, match="not a store"):
            Store(path)
        assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.db", "foreign.db"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_foreign_database_in_wal_mode_is_left_as_it_was(closed: bool, tmp_path: Path) -> None:
    """One that was not closed has changes in a second file, which opening it would move."""
    original, foreign = tmp_path / "original.db", tmp_path / "there" / "foreign.db"
    foreign.parent.mkdir()
    connection = sqlite3.connect(original)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    if closed:
        connection.close()
    for file in {original, *tmp_path.glob("original.db-wal")}:
        (foreign.parent / file.name.replace("original", "foreign")).write_bytes(file.read_bytes())
    connection.close()
    before = {file: file.read_bytes() for file in foreign.parent.iterdir()}
    assert len(before) == (1 if closed else 2)
    with pytest.raises(InvalidInput, match="a store exists"):
        Store(foreign, create=True)
    with pytest.raises(InvalidInput, match="not a store"):
        Store(foreign)
    assert {file: file.read_bytes() for file in before} == before
    if closed:
        assert set(foreign.parent.iterdir()) == set(before)


def test_every_column_has_its_check() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    for table in NAMES:
        names = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert names == COLUMNS[table].keys()
