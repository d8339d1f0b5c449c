"""What every column of a store may hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vhagar.errors import CONTROL, InvalidInput
from vhagar.perturbation import parse
from vhagar.result import BoundKind, Status
from vhagar.sweep.schema import CHOICE

_STATUSES = {"open", "failed", *(status.name.lower() for status in Status)}
_KINDS = {kind.name.lower() for kind in BoundKind}

# The year 3000, in seconds since 1970.
_LATEST = 3.25e10

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Whether a value is a text without control characters, which a terminal would obey."""
    return isinstance(value, str) and CONTROL.search(value) is None


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
    sizes = from_json(value)
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
        found = from_json(value)
        return isinstance(found, list) and all(
            is_text(one) if item is str else type(one) is item for one in found
        )

    return check


def _is_key(value: Any) -> bool:
    """The six parts of a question's key, perhaps followed by the domain's fingerprint."""
    found = from_json(value)
    return isinstance(found, list) and (
        len(found) == 6 or (len(found) == 7 and isinstance(found[6], str))
    )


def _is_object(value: Any) -> bool:
    return isinstance(from_json(value), dict)


def _is_described(value: Any) -> bool:
    """A witness's parameters: numbers by name, and perhaps a list of all."""
    found = from_json(value)
    if not isinstance(found, dict):
        return False
    choice = found.pop(CHOICE, [])
    return isinstance(choice, list) and all(map(_is_number, [*found.values(), *choice]))


def from_json(value: Any) -> Any:
    """The value that a text holds as JSON; None if there is none."""
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


COLUMNS: dict[str, dict[str, Check]] = {
    "facts": {"name": is_text, "value": is_text},
    "networks": {
        "fingerprint": is_text,
        "name": is_text,
        "path": is_text,
        "classes": _is_count,
        "input_shape": _is_shape,
    },
    "runs": {
        "id": _is_integer,
        "owner": is_text,
        "started": _is_time,
        "ended": _optional(_is_time),
        "version": is_text,
        "machine": is_text,
        "settings": _is_object,
    },
    "problems": {
        "id": _is_integer,
        "key": _is_key,
        "place": _is_integer,
        "network": is_text,
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
        "engine": _optional(is_text),
        "run": _optional(_is_integer),
        "losses": _is_count,
        "notes": _json_list(str),
        "certificate": _optional(is_text),
        "owner": _optional(is_text),
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
        "piece": is_text,
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
        "what": is_text,
        "lower": _is_amount,
        "upper": _optional(_is_amount),
        "note": is_text,
    },
}
