"""The store of a study: one SQLite file that survives the end of any process.

Every change is one transaction, which is on disk when the call returns: killing a process loses
nothing that it has stored. Several processes may share the file; each works on problems that it has
claimed, for as long as it keeps renewing the claim.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vhagar.drawing.figure import csv_text
from vhagar.errors import InvalidInput, without_control
from vhagar.runtime.output_files import write_bytes
from vhagar.sweep import bounds_store, question_store, table
from vhagar.sweep.claims import is_gone, machine, owner_name
from vhagar.sweep.class_coverage import StudyCoverage
from vhagar.sweep.database import Database
from vhagar.sweep.question import Question
from vhagar.sweep.snapshot import Ending, Snapshot
from vhagar.sweep.study import Model, Study
from vhagar.version import __version__

# Seconds that a claim holds without being renewed.
LEASE = 15.0
# Number of lost workers after which a problem is not tried again.
_MOST_LOSSES = 3
_TABLES = ("networks", "runs", "problems", "goals", "witnesses", "events")


@dataclass(frozen=True)
class Claimed:
    """A problem that this process may work on, and how long it was worked on before."""

    number: int
    question: Question
    seconds: float


class Store:
    """An open store."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        self.owner = owner_name()
        self._run = 0
        self._db = Database(self.path, create)
        self._questions = question_store.Questions(self._db)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write_study(
        self, study: Study, models: Sequence[Model], questions: Sequence[Question]
    ) -> None:
        """Store the study and its questions; results of questions that are there already stay."""
        with self._db.transaction():
            question_store.write(self._db, study, models, questions)

    def study(self) -> Study:
        """The study that the store holds."""
        text = self._db.fact("study")
        if text is None:
            raise InvalidInput(f"{self.path} holds no study; remove it and start again")
        return Study.from_plain(json.loads(text))

    def conventions(self) -> dict[str, dict[str, Any]]:
        """How each network takes an image and gives its scores, by its fingerprint."""
        return question_store.conventions_in(self._db)

    def check_models(self, models: Sequence[Model]) -> None:
        """Raise an error if a model file has changed since its results were computed."""
        known = {row["path"]: row["fingerprint"] for row in self.rows("networks")}
        for model in models:
            before = known.get(model.path, model.fingerprint)
            if before != model.fingerprint:
                raise InvalidInput(
                    f"{model.path} has changed since the study began (its fingerprint was "
                    f"{before[:12]}, now it is {model.fingerprint[:12]}): the results in "
                    f"{self.path} are not about it. Put the old file back, or start a new store"
                )

    def check_domains(self, questions: Sequence[Question]) -> None:
        """An error where a domain is not the one of this name that the results are about."""
        known = {(own.network, str(own.domain)): own.domain for _, own in self.problems()}
        for question in questions:
            domain = question.domain
            if domain is not None and known.get((question.network, str(domain)), domain) != domain:
                raise InvalidInput(
                    f"the domain {domain} has changed since the study began: the results in "
                    f"{self.path} are not about it. Put the old file back, give the new one "
                    "another name, or start a new store"
                )

    def other_versions(self) -> list[str]:
        """The other versions of vhagar that have worked on the study."""
        return sorted({row["version"] for row in self.rows("runs")} - {__version__})

    def begin_run(self, settings: Mapping[str, Any]) -> None:
        """Record that this process begins to work on the study."""
        with self._db.transaction():
            cursor = self._db.execute(
                "INSERT INTO runs (owner, started, version, machine, settings) "
                "VALUES (?, ?, ?, ?, ?)",
                *(self.owner, time.time(), __version__, machine()),
                json.dumps(dict(settings)),
            )
            self._run = int(cursor.lastrowid or 0)

    def end_run(self) -> None:
        """Record the end of this process's run, and give up its claims."""
        with self._db.transaction():
            self._db.execute("UPDATE runs SET ended = ? WHERE id = ?", time.time(), self._run)
            self._db.execute(
                "UPDATE problems SET owner = NULL, lease = NULL WHERE owner = ?", self.owner
            )

    def reopen(self, timeout: float | None) -> int:
        """Reopen problems that ran out of a smaller timeout than this one; return their number."""
        with self._db.transaction():
            return self._db.execute(
                "UPDATE problems SET status = 'open' WHERE status = 'timeout' AND budget < ?",
                math.inf if timeout is None else timeout,
            ).rowcount

    def claim(self) -> Claimed | None:
        """Claim the next open problem that no other process works on; None if there is none."""
        now = time.time()
        open_ones = "SELECT * FROM problems WHERE status = 'open' ORDER BY place"
        with self._db.transaction():
            for row in self._db.execute(open_ones):
                if row["owner"] is not None and row["lease"] > now and not is_gone(row["owner"]):
                    continue
                number = int(row["id"])
                self._db.execute(
                    "UPDATE problems SET owner = ?, lease = ? WHERE id = ?",
                    *(self.owner, now + LEASE, number),
                )
                spent = bounds_store.seconds_spent(self._db, number)
                self._add_event(number, "started")
                return Claimed(number, self.question(row), spent)
        return None

    def renew_claims(self) -> None:
        """Extend all claims of this process, which shows the others that it is alive."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE problems SET lease = ? WHERE owner = ?", time.time() + LEASE, self.owner
            )

    def release(self, number: int) -> None:
        """Give a problem back unfinished, because the sweep ends."""
        with self._db.transaction():
            self._release(number)
            self._add_event(number, "released", "the sweep ended")

    def _release(self, number: int) -> None:
        self._db.execute(
            "UPDATE problems SET owner = NULL, lease = NULL WHERE id = ? AND owner = ?",
            *(number, self.owner),
        )

    def lose(self, number: int, why: str, seconds: float = 0.0) -> None:
        """Record the loss of a problem's worker; after too many losses the problem has failed.

        `seconds` is how long the problem was worked on, in this run and in earlier ones.
        """
        why = without_control(why)
        with self._db.transaction():
            self._db.execute("UPDATE problems SET losses = losses + 1 WHERE id = ?", number)
            spent = max(seconds, bounds_store.seconds_spent(self._db, number))
            bounds_store.add_event(self._db, self._run, number, spent, "lost", why)
            losses = self._db.one("SELECT losses FROM problems WHERE id = ?", number)["losses"]
            self._release(number)
        if losses >= _MOST_LOSSES:
            self.fail(number, f"its worker was lost {losses} times; the last time: {why}")

    def fail(self, number: int, why: str) -> None:
        """Mark a problem as failed; what is known about it stays."""
        why = without_control(why)  # an error may quote a file
        with self._db.transaction():
            self._db.execute(
                "UPDATE problems SET status = 'failed', notes = ?, run = ? WHERE id = ?",
                *(json.dumps([why]), self._run, number),
            )
            self._release(number)
            self._add_event(number, "failed", why)

    def improve(
        self, number: int, snapshot: Snapshot, what: str = "improved", origin: int | None = None
    ) -> bool:
        """Store the bounds that improve on the known ones, and return whether there are any."""
        with self._db.transaction():
            return bounds_store.improve(self._db, self._run, number, snapshot, what, origin)

    def finish(self, number: int, snapshot: Snapshot, ending: Ending, budget: float | None) -> None:
        """Store the final bounds of a problem's run, and how the run ended."""
        with self._db.transaction():
            bounds_store.improve(self._db, self._run, number, snapshot, "improved", None)
            self._db.execute(
                "UPDATE problems SET status = ?, budget = ?, seconds = ?, "
                "nodes = nodes + ?, engine = ?, run = ?, notes = ?, certificate = ? WHERE id = ?",
                ending.status.name.lower(),
                math.inf if budget is None else budget,
                # Includes lost and interrupted runs of the problem, as in its history.
                *(snapshot.seconds, ending.nodes, ending.engine, self._run),
                *(json.dumps([*map(without_control, ending.notes)]), ending.certificate, number),
            )
            self._release(number)
            bounds_store.add_event(
                self._db, self._run, number, snapshot.seconds, "finished", ending.status.value
            )

    def _add_event(self, number: int, what: str, note: str = "") -> None:
        spent = bounds_store.seconds_spent(self._db, number)
        bounds_store.add_event(self._db, self._run, number, spent, what, note)

    def interval(self, number: int) -> tuple[float, float | None]:
        """The interval of a problem; its upper end is None if nothing is proven."""
        return bounds_store.interval(self._db, number)

    def intervals(self) -> dict[Question, tuple[float, float | None]]:
        """The interval of every problem; its upper end is None if nothing is proven."""
        return {question: self.interval(number) for number, question in self.problems()}

    def table(self) -> list[dict[str, Any]]:
        """List all results as rows, one for each target of each problem (docs/sweeps.md)."""
        return table.table_rows(self._db)

    def to_csv(self, path: str | Path) -> None:
        """Write all results as a CSV file."""
        rows = (list(row.values()) for row in self.table())
        write_bytes(Path(path), csv_text(table.COLUMNS, rows).encode())

    def to_pandas(self) -> Any:
        """All results as a pandas data frame."""
        return table.data_frame(self.table())

    def write_largest(self, found: Mapping[Question, tuple[float, float]]) -> None:
        """Store intervals around maximal confidences that a quick search has found."""
        rows = [[json.loads(question.key), *ends] for question, ends in found.items()]
        self.write_plain("largest", rows)

    def largest(self) -> dict[str, tuple[float, float]]:
        """The intervals of `write_largest`, by the keys of questions without a perturbation."""
        rows = self.plain("largest") or []
        return {json.dumps(key): (lower, upper) for key, lower, upper in rows}

    def write_coverage(self, found: StudyCoverage) -> None:
        """Store the coverage of a data set in place of the previous one."""
        self.write_plain("coverage", found.plain())

    def coverage(self) -> StudyCoverage | None:
        """The coverage of the data set when a sweep last ended; None without a data set."""
        found = self.plain("coverage")
        return None if found is None else StudyCoverage.from_plain(found)

    def write_plain(self, name: str, value: Any) -> None:
        """Store a value of JSON's own types under a name, in place of the previous one."""
        with self._db.transaction():
            self._db.set_fact(name, json.dumps(value))

    def plain(self, name: str) -> Any:
        """The value that `write_plain` stored under a name; None if there is none."""
        text = self._db.fact(name)
        return None if text is None else json.loads(text)

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    def rows(self, table: str, problem: int | None = None) -> list[sqlite3.Row]:
        """The rows of a table in order, all of them or those of one problem."""
        assert table in _TABLES
        if problem is None:
            return self._db.all(f"SELECT * FROM {table} ORDER BY rowid")
        return self._db.all(f"SELECT * FROM {table} WHERE problem = ? ORDER BY rowid", problem)

    def problems(self) -> list[tuple[int, Question]]:
        """All problems, in the order in which they are worked on."""
        rows = self._db.all("SELECT * FROM problems ORDER BY place")
        return [(int(row["id"]), self.question(row)) for row in rows]

    def counts(self) -> dict[str, int]:
        """The number of problems of each status."""
        rows = self._db.all("SELECT status, count(*) AS many FROM problems GROUP BY status")
        return {row["status"]: row["many"] for row in rows}

    def question(self, row: sqlite3.Row) -> Question:
        """The question of a row of the table of problems."""
        return self._questions.of(row)
