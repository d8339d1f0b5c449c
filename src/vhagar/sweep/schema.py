"""The tables of a store, and the rules that the database itself enforces.

- An interval only ever tightens. The one exception: a solver's bound that a checked witness refutes
  is replaced by the best bound that does not rely on a solver.
- A lower bound needs its witness.
- The history is kept.
"""

from __future__ import annotations

SCHEMA_VERSION = 1

# The target of a question without any: the maximal confidence.
NO_TARGET = -1

# The key, in the description of a witness's parameters, under which all of them are listed.
CHOICE = "choice"

TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE networks (
    fingerprint TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    classes INTEGER NOT NULL,
    input_shape TEXT NOT NULL
);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    started REAL NOT NULL,
    ended REAL,
    version TEXT NOT NULL,
    machine TEXT NOT NULL,
    settings TEXT NOT NULL
);

CREATE TABLE problems (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    place INTEGER NOT NULL,
    network TEXT NOT NULL REFERENCES networks,
    perturbation TEXT,
    source INTEGER NOT NULL,
    targets TEXT NOT NULL,
    clip INTEGER NOT NULL,
    input_low REAL NOT NULL,
    input_high REAL NOT NULL,
    status TEXT NOT NULL DEFAULT 'open',
    budget REAL,
    seconds REAL NOT NULL DEFAULT 0,
    nodes INTEGER NOT NULL DEFAULT 0,
    engine TEXT,
    run INTEGER REFERENCES runs,
    losses INTEGER NOT NULL DEFAULT 0,
    notes TEXT NOT NULL DEFAULT '[]',
    certificate TEXT,
    owner TEXT,
    lease REAL
);

CREATE TABLE goals (
    problem INTEGER NOT NULL REFERENCES problems,
    target INTEGER NOT NULL,
    lower REAL NOT NULL DEFAULT 0,
    upper REAL,
    kind TEXT,
    proven REAL,
    proven_kind TEXT,
    PRIMARY KEY (problem, target),
    CHECK (upper IS NULL OR lower <= upper),
    CHECK (proven IS NULL OR upper <= proven)
);

CREATE TABLE witnesses (
    problem INTEGER NOT NULL REFERENCES problems,
    target INTEGER NOT NULL,
    confidence REAL NOT NULL,
    margin REAL,
    tie INTEGER NOT NULL,
    piece TEXT NOT NULL,
    parameters TEXT NOT NULL,
    x BLOB NOT NULL,
    x_p BLOB,
    scores BLOB NOT NULL,
    scores_p BLOB,
    origin INTEGER REFERENCES problems,
    PRIMARY KEY (problem, target)
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    problem INTEGER NOT NULL REFERENCES problems,
    run INTEGER NOT NULL REFERENCES runs,
    time REAL NOT NULL,
    seconds REAL NOT NULL,
    what TEXT NOT NULL,
    lower REAL NOT NULL,
    upper REAL,
    note TEXT NOT NULL DEFAULT ''
);

CREATE INDEX events_of_problem ON events (problem, id);
CREATE INDEX problems_in_order ON problems (status, place);

CREATE TRIGGER intervals_tighten BEFORE UPDATE ON goals
WHEN NEW.lower < OLD.lower
  OR NEW.proven > OLD.proven OR (OLD.proven IS NOT NULL AND NEW.proven IS NULL)
  OR ((NEW.upper > OLD.upper OR (OLD.upper IS NOT NULL AND NEW.upper IS NULL))
      AND NOT (OLD.kind = 'solver' AND NEW.lower > OLD.upper))
BEGIN SELECT RAISE(ABORT, 'an interval only ever tightens'); END;

CREATE TRIGGER intervals_stay BEFORE DELETE ON goals
BEGIN SELECT RAISE(ABORT, 'an interval only ever tightens'); END;

CREATE TRIGGER lower_needs_witness BEFORE UPDATE OF lower ON goals
WHEN NEW.lower > 0 AND NOT EXISTS (
    SELECT 1 FROM witnesses
    WHERE problem = NEW.problem AND target = NEW.target AND confidence >= NEW.lower
)
BEGIN SELECT RAISE(ABORT, 'a lower bound needs its witness'); END;

CREATE TRIGGER history_stays BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the history is kept'); END;

CREATE TRIGGER history_is_final BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the history is kept'); END;
"""
