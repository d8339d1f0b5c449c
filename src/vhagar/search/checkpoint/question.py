"""What a checkpoint is about: the question and the options that its bounds depend on."""

from __future__ import annotations

import json
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.network.fingerprint import fingerprint
from vhagar.result import Run
from vhagar.result.statements import model_statement, problem_statement
from vhagar.version import __version__


def question_of(run: Run) -> dict[str, Any]:
    """Everything that a node's bound depends on, in JSON's own types."""
    model = model_statement(run.original)
    model.pop("name")  # a file may be moved
    maps = run.original.map_fingerprint
    found = {
        "vhagar": __version__,
        "engine": run.engine,
        "model": {**model, "weights": fingerprint(run.original.network)},
        **problem_statement(run.original),
        "maps": maps,
        "searched": {**run.reduced.restore.statement(), "pieces": len(run.problem.pieces)},
        "gap": run.options.relative_gap,
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def require_same(asked: dict[str, Any], kept: Any, path: object) -> None:
    """Complain about a checkpoint of another question, and say what differs."""
    if not isinstance(kept, dict):
        raise InvalidInput(f"{path} does not say what it is about")
    differences = []
    for name in dict.fromkeys((*asked, *kept)):
        here, there = asked.get(name), kept.get(name)
        if here != there and name in ("model", "searched"):
            differences.append(f"another {'model' if name == 'model' else 'form of the problem'}")
        elif here != there:
            words = name.replace("_", " ")
            differences.append(f"{words} {_short(there)} instead of {_short(here)}")
    if differences:
        raise InvalidInput(
            f"{path} is a checkpoint of another question: {'; '.join(differences)}. Ask the same "
            "question, or start anew without --resume"
        )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
