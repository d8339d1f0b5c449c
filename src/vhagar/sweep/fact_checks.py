"""What the facts of a store may hold: the study, and what was counted or found for all of it."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.sweep.column_checks import is_text
from vhagar.sweep.study import CONVENTIONS, Study

# A value of JSON is checked against a form: a type or a check, a list of one form for all items, or
# a dictionary with the form of each key.
Form = type | Callable[[Any], bool] | list[Any] | dict[str, Any]


def fits(value: Any, form: Form) -> bool:
    """Whether a value of JSON has a form; keys with optional forms may be missing."""
    if isinstance(form, dict):
        return isinstance(value, dict) and _has_keys(value, form)
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(item, form[0]) for item in value)
    return type(value) is form if isinstance(form, type) else form(value)


def _has_keys(value: Mapping[str, Any], form: Mapping[str, Any]) -> bool:
    missing = form.keys() - value.keys()
    return (
        value.keys() <= form.keys()
        and all(isinstance(form[key], _Optional) for key in missing)
        and all(fits(item, form[key]) for key, item in value.items())
    )


class _Optional:
    """A form of a value that may be null or missing."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def __call__(self, value: Any) -> bool:
        return value is None or fits(value, self._form)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_end(value: Any) -> bool:
    """Whether a value is an end of an interval, which may be infinite."""
    return type(value) in (int, float) and value >= 0


def _is_study(value: Any) -> bool:
    try:
        return isinstance(value, dict) and is_text(Study.from_plain(value).name)
    except (InvalidInput, TypeError, ValueError, KeyError):
        return False


def _are_conventions(value: Any) -> bool:
    """Whether a value says of networks how they take an image and give their scores."""
    return isinstance(value, dict) and all(
        isinstance(own, dict)
        and own.keys() <= set(CONVENTIONS)
        and not isinstance(own.get("layout"), list)
        and _is_study({"networks": ["model"], "confidence": True, **own})
        for own in value.values()
    )


def _are_counts(value: Any) -> bool:
    known = fits(value, {"inputs": _is_count, "robust": _is_count, "attackable": _is_count})
    return known and value["robust"] + value["attackable"] <= value["inputs"]


def _is_vector(value: Any) -> bool:
    """Whether a text holds finite float32 numbers."""
    try:
        numbers = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except (TypeError, ValueError, binascii.Error):
        return False
    return bool(np.isfinite(numbers).all())


def _is_interval(value: Any) -> bool:
    """Whether a value is a question's key and two ends."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], list)
        and all(map(_is_end, value[1:]))
        and value[1] <= value[2]
    )


_CLASS = {
    "network": is_text,
    "perturbation": is_text,
    "clip": bool,
    "source": _is_count,
    "targets": [_is_count],
    "all_targets": bool,
    "coverage": {
        "inputs": _is_count,
        "classified": _are_counts,
        "correct": _Optional(_are_counts),
        "largest": _is_amount,
        "seconds": _is_amount,
        "outside": _Optional(_is_count),
    },
    "domain": _Optional(is_text),
}
FACTS: dict[str, Form] = {
    "study": _is_study,
    "conventions": _are_conventions,
    "largest": [_is_interval],
    "coverage": _Optional(
        {"dataset": is_text, "sha256": _Optional(is_text), "classes": [_CLASS]},
    ),
    "neighbours": [
        {
            "problem": _is_count,
            "confidence": _is_amount,
            "row": _is_count,
            "label": _Optional(int),
            "distance": _is_amount,
            "x": _is_vector,
        }
    ],
}
