"""Turn a store into one table, for CSV files and pandas."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.sweep.database import Database
from vhagar.sweep.question import domain_in

COLUMNS = (
    *("problem", "network", "file", "perturbation", "clip", "domain", "source", "target"),
    *("lower", "upper", "bound", "status", "seconds", "nodes", "engine", "certificate"),
)
_QUERY = """
SELECT problems.id AS problem, networks.name AS network, networks.path AS file, perturbation, clip,
    key, source, nullif(target, -1) AS target, goals.lower AS lower, goals.upper AS upper,
    goals.kind AS bound, status, seconds, nodes, engine, certificate
FROM problems JOIN networks ON networks.fingerprint = problems.network
    JOIN goals ON goals.problem = problems.id
ORDER BY place, target
"""


def table_rows(db: Database) -> list[dict[str, Any]]:
    """Read one row for each target of each problem; unknown values are None."""
    rows = [dict(row) for row in db.all(_QUERY)]
    for row in rows:
        row["clip"] = bool(row["clip"])
        found = domain_in(row.pop("key"))
        row["domain"] = found and json.loads(db.fact(f"domain {found}") or "{}").get("name")
    return [{name: row[name] for name in COLUMNS} for row in rows]


def data_frame(rows: list[dict[str, Any]]) -> Any:
    """Convert the rows to a pandas data frame; pandas must be installed."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise InvalidInput("pandas is not installed: pip install pandas, or use to_csv") from None
    return pandas.DataFrame(rows, columns=list(COLUMNS))
