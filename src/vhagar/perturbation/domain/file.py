"""Domains as files: TOML, with long arrays in .npz files beside it.

shape = [1, 28, 28]            # of inputs, for use without a network
range = [0.0, 1.0]             # of all inputs; 0 to 1 unless given
lower = 0.1                    # a number, one per channel, or one for each entry
upper = "twos.npz:upper"       # an array of an .npz file, relative to this file
fixed = {3 = 0.5}              # entries with one value, by flat number or name
integer = [0, 7]               # entries that are whole numbers
one_hot = [[4, 5, 6]]          # groups in which one entry is 1, the others 0
ordered = [[1, 2]]             # groups whose values do not descend
features = ["age", "income"]   # names of all entries, for messages and tables
classes = ["ill", "well"]      # names of all classes
perturbed_inside = false       # whether perturbed inputs must lie in the domain, too
[[rows]]                       # linear rows: a table by entry, a list, or a matrix (rows, size)
coefficients = {1 = 1.0, 2 = -2.0}
at_most = 0.25                 # at_least, at_most, or equal
[zonotope]                     # mean + z components + r with |z| <= ranges, |r| <= residual
mean = "twos.npz:mean"
components = "twos.npz:components"
ranges = "twos.npz:ranges"
residual = 0.05
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.errors import BAD_ARRAYS, InvalidInput, array_complaint
from vhagar.perturbation.domain.domain import Domain, Shape
from vhagar.perturbation.domain.linear_rows import LinearRows, linear_rows
from vhagar.perturbation.domain.zonotope import Zonotope

_ROW_ENDS = ("at_least", "at_most", "equal")
_KEYS = {
    "domain": frozenset(
        (
            "shape",
            "range",
            "lower",
            "upper",
            "name",
            "fixed",
            "integer",
            "one_hot",
            "ordered",
            "perturbed_inside",
            "features",
            "classes",
            "rows",
            "zonotope",
        )
    ),
    "row": frozenset(("coefficients", *_ROW_ENDS)),
    "zonotope": frozenset(("mean", "components", "ranges", "residual")),
}


def read_domain(
    path: str | Path, shape: Shape, input_range: tuple[float, float] | None = None
) -> Domain:
    """Read the domain in a file, for inputs of a shape.

    `input_range` is the range of all inputs; the file may state it instead.
    """
    path = Path(path)
    given = read_toml(path)
    if math.prod(given_shape(given, path) or shape) != math.prod(shape):
        raise InvalidInput(
            f"{path} is about inputs of shape {tuple(given['shape'])}, but the network's have "
            f"shape {shape}"
        )
    span = given_range(given.get("range"), path)
    if span is not None and input_range is not None and span != input_range:
        raise InvalidInput(
            f"{path} says that inputs range from {span[0]:g} to {span[1]:g}, but the input range "
            f"given is {input_range[0]:g},{input_range[1]:g}; leave out one of them"
        )
    span = span or input_range or (0.0, 1.0)
    ends = [_numbers(given.get(key, end), key, path) for key, end in zip(_ENDS, span, strict=True)]
    name = given.get("name", path.stem)
    if not isinstance(name, str) or not name.isprintable() or not name:
        raise InvalidInput(f"the name of the domain in {path} is not a line of text")
    try:
        return Domain(shape, *ends, range=span, name=name, **_conditions(given, shape, path))
    except InvalidInput as error:
        if str(path) in str(error):
            raise
        raise InvalidInput(f"{path}: {error}") from error


_ENDS = ("lower", "upper")


def given_shape(given: dict[str, Any], path: Path) -> Shape | None:
    """The shape of inputs that a file states, or None."""
    shape = given.get("shape")
    if shape is None:
        return None
    whole = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    if not whole or not shape:
        raise InvalidInput(f"shape in {path} must be whole numbers, such as [1, 28, 28]")
    return tuple(shape)


def read_toml(path: Path) -> dict[str, Any]:
    """Read the keys and values of a domain's file."""
    import tomllib  # which few runs need

    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read the domain {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the domain {path} is not a TOML file; `vhagar domain fit` makes one from data"
        ) from error
    except (ValueError, RecursionError) as error:  # TOML's errors are ValueErrors
        raise InvalidInput(f"the domain {path} is not a TOML file: {error}") from error
    _require_keys(given, "domain", path)
    return given


def _require_keys(given: Any, what: str, path: Path) -> None:
    if not isinstance(given, dict):
        raise InvalidInput(f"a {what} in {path} is a table, not {given!r}")
    unknown = sorted(set(given) - _KEYS[what])
    if unknown:
        raise InvalidInput(
            f"{path} has unknown entries: {', '.join(unknown)}; a {what} has "
            f"{', '.join(sorted(_KEYS[what]))}"
        )


def _conditions(given: dict[str, Any], shape: Shape, path: Path) -> dict[str, Any]:
    """The conditions other than the box, as arguments of `Domain`."""
    inside = given.get("perturbed_inside", False)
    if not isinstance(inside, bool):
        raise InvalidInput(f"perturbed_inside in {path} must be true or false, not {inside!r}")
    zonotope, names = given.get("zonotope"), _features(given)
    return {
        "fixed": _by_entry(given.get("fixed", {}), "fixed", names, path),
        "integer": _entries(given.get("integer", []), "integer", names, path),
        "one_hot": _groups(given.get("one_hot", []), "one_hot", names, path),
        "ordered": _groups(given.get("ordered", []), "ordered", names, path),
        "perturbed_inside": inside,
        **{key: given[key] for key in ("features", "classes") if key in given},
        "rows": [_row(row, math.prod(shape), names, path) for row in _rows(given, path)],
        "zonotope": None if zonotope is None else _zonotope(zonotope, path),
    }


def _rows(given: dict[str, Any], path: Path) -> list[Any]:
    found = given.get("rows", [])
    if not isinstance(found, list):
        raise InvalidInput(f"rows in {path} must be a list of tables, [[rows]]")
    return found


def _features(given: dict[str, Any]) -> list[str]:
    """The names that entries may be given by; `Domain` says what is wrong with others."""
    found = given.get("features", [])
    named = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return found if named else []


def _entry(given: str | int, key: str, names: list[str], path: Path) -> int:
    """The flat number of an entry that is given by its name or number."""
    if isinstance(given, str) and given in names:
        return names.index(given)
    if isinstance(given, str) and not given.isdecimal():
        known = f"they are {', '.join(names)}" if names else "none are listed as features"
        raise InvalidInput(
            f"{key} in {path} names {given!r}, which is neither the flat number of an entry nor "
            f"the name of a feature; {known}"
        )
    return int(given)


def _by_entry(given: Any, key: str, names: list[str], path: Path) -> dict[int, float]:
    if not isinstance(given, dict) or any(type(v) not in (int, float) for v in given.values()):
        raise InvalidInput(
            f"{key} in {path} must be numbers by entries (their flat numbers or names), such as "
            "{3 = 0.5}"
        )
    found = {_entry(k, key, names, path): _float(v, key, path) for k, v in given.items()}
    if len(found) < len(given):
        raise InvalidInput(f"{key} in {path} gives an entry twice, by its name and its number")
    return found


def _entries(given: Any, key: str, names: list[str], path: Path) -> list[int]:
    if not isinstance(given, list) or any(type(k) not in (int, str) for k in given):
        raise InvalidInput(
            f"{key} in {path} must be entries (their flat numbers or names), such as [0, 7]"
        )
    return [_entry(k, key, names, path) for k in given]


def _groups(given: Any, key: str, names: list[str], path: Path) -> list[list[int]]:
    """A list of groups; one group may be given without the outer brackets."""
    if isinstance(given, list) and given and all(type(k) in (int, str) for k in given):
        return [_entries(given, key, names, path)]
    if not isinstance(given, list):
        raise InvalidInput(f"{key} in {path} must be groups of entries, such as [[3, 4, 5]]")
    return [_entries(group, key, names, path) for group in given]


def _row(given: Any, size: int, names: list[str], path: Path) -> LinearRows:
    _require_keys(given, "row", path)
    weights = given.get("coefficients")
    if isinstance(weights, dict):
        weights = _by_entry(weights, "coefficients", names, path)
    elif weights is None:
        raise InvalidInput(f"a row in {path} needs coefficients")
    else:
        weights = _numbers(weights, "coefficients", path)
    ends = {key: _numbers(given[key], key, path) for key in _ROW_ENDS if key in given}
    return linear_rows(weights, size, **ends)


def _zonotope(given: Any, path: Path) -> Zonotope:
    _require_keys(given, "zonotope", path)
    lacking = sorted(_KEYS["zonotope"] - set(given))
    if lacking:
        raise InvalidInput(f"the zonotope in {path} lacks {', '.join(lacking)}")
    return Zonotope(**{key: _numbers(value, key, path) for key, value in given.items()})


def given_range(given: Any, path: Path) -> tuple[float, float] | None:
    if given is None:
        return None
    pair = isinstance(given, list) and len(given) == 2
    if not pair or any(type(end) not in (int, float) for end in given):
        raise InvalidInput(f"range in {path} must be two numbers, such as [0, 1], not {given!r}")
    low, high = (_float(end, "range", path) for end in given)
    return low, high


def _float(value: float, key: str, path: Path) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(f"{key} in {path} holds a number that is too large") from None


def _numbers(given: Any, key: str, path: Path) -> Any:
    """A number or a list as it is, or the array that a text `FILE.npz:NAME` names."""
    if not isinstance(given, str):
        return given
    file, colon, name = given.rpartition(":")
    if not colon or not file.endswith(".npz"):
        raise InvalidInput(
            f"{key} in {path} must be a number, a list of numbers, or FILE.npz:NAME, not {given!r}"
        )
    place = path.parent / file
    try:
        with np.load(place, allow_pickle=False) as arrays:
            if name not in arrays:
                raise InvalidInput(f"{place} has no array {name!r}; it has {', '.join(arrays)}")
            found = arrays[name]
    except BAD_ARRAYS as error:
        why = array_complaint(error)
        raise InvalidInput(f"cannot read {key} of {path} from {place}: {why}") from error
    if found.dtype.kind not in "fiu":
        raise InvalidInput(f"{key} of {path} in {place} is of type {found.dtype}, not of numbers")
    return found
