"""Store what a study asks: networks, problems with their targets, and domains."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from vhagar.perturbation import Domain
from vhagar.perturbation.domain.plain import domain_of_plain, plain_domain
from vhagar.sweep.database import Database
from vhagar.sweep.question import Question, domain_in
from vhagar.sweep.rows import stored_target
from vhagar.sweep.study import Model, Study


def write(
    db: Database, study: Study, models: Sequence[Model], questions: Sequence[Question]
) -> None:
    """Store a study, its networks and questions; results and networks that are there stay.

    Call it within a transaction.
    """
    conventions = conventions_in(db)
    db.set_fact("study", json.dumps(study.plain()))
    for model in models:
        conventions.setdefault(model.fingerprint, study.conventions_of(model.path))
        network = model.network
        shape = json.dumps([int(size) for size in network.input_shape])
        db.execute(
            "INSERT OR IGNORE INTO networks VALUES (?, ?, ?, ?, ?)",
            *(model.fingerprint, network.name, model.path, network.classes, shape),
        )
    db.set_fact("conventions", json.dumps(conventions))
    for place, question in enumerate(questions):
        _write_question(db, place, question)
    for domain in {question.domain for question in questions}:
        if domain is not None:
            db.set_fact(f"domain {domain.fingerprint}", json.dumps(plain_domain(domain)))


def conventions_in(db: Database) -> dict[str, dict[str, Any]]:
    """How each stored network takes an image and gives its scores, by its fingerprint.

    Stores of earlier versions do not say so, and their study is about all of their networks.
    """
    found, text = dict(json.loads(db.fact("conventions") or "{}")), db.fact("study")
    if text is None:
        return found
    study = Study.from_plain(json.loads(text))
    for row in db.all("SELECT fingerprint, path FROM networks"):
        known = row["path"] in study.networks
        own = study.conventions_of(row["path"]) if known else {}
        found.setdefault(row["fingerprint"], own)
    return found


def _write_question(db: Database, place: int, question: Question) -> None:
    columns = {
        "key": question.key,
        "place": place,
        "network": question.network,
        "perturbation": question.perturbation,
        "source": question.source,
        "targets": json.dumps(question.targets),
        "clip": question.clip,
        "input_low": question.input_range[0],
        "input_high": question.input_range[1],
    }
    db.execute(
        f"INSERT INTO problems ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        "ON CONFLICT (key) DO UPDATE SET place = excluded.place",
        *columns.values(),
    )
    number = db.one("SELECT id FROM problems WHERE key = ?", question.key)["id"]
    for target in question.search_targets:
        db.execute(
            "INSERT OR IGNORE INTO goals (problem, target) VALUES (?, ?)",
            *(number, stored_target(target)),
        )


class Questions:
    """Reads questions from rows of the table of problems, and each domain only once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._domains: dict[tuple[str, str], Domain] = {}

    def of(self, row: sqlite3.Row) -> Question:
        """The question of a row."""
        span = (row["input_low"], row["input_high"])
        return Question(
            row["network"],
            row["perturbation"],
            row["source"],
            tuple(json.loads(row["targets"])),
            bool(row["clip"]),
            span,
            self._domain(row["network"], span, domain_in(row["key"])),
        )

    def _domain(
        self, network: str, span: tuple[float, float], fingerprint: str | None
    ) -> Domain | None:
        """The domain with that fingerprint."""
        if fingerprint is None:
            return None
        if (network, fingerprint) not in self._domains:
            row = self._db.one("SELECT * FROM networks WHERE fingerprint = ?", network)
            fact = self._db.one("SELECT * FROM facts WHERE name = ?", f"domain {fingerprint}")
            shape, given = (json.loads(text) for text in (row["input_shape"], fact["value"]))
            self._domains[network, fingerprint] = domain_of_plain(tuple(shape), span, given)
        return self._domains[network, fingerprint]
