"""Domains as files: TOML, with long arrays in .npz files beside it.

range = [0.0, 1.0]             # of all inputs; 0 to 1 unless given
lower = 0.1                    # a number, one per channel, or one for each entry
upper = "twos.npz:upper"       # an array of an .npz file, relative to this file
"""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.perturbation.domain import Domain, Shape

_KEYS = frozenset(("range", "lower", "upper", "name"))


def read_domain(
    path: str | Path, shape: Shape, input_range: tuple[float, float] | None = None
) -> Domain:
    """The domain of a file, for inputs of a shape.

    `input_range` is the range of all inputs, which the file may state, too.
    """
    path = Path(path)
    given = _toml(path)
    span = _range(given.get("range"), path)
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
        return Domain(shape, *ends, range=span, name=name)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


_ENDS = ("lower", "upper")


def _toml(path: Path) -> dict[str, Any]:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read the domain {path}: {error.strerror}") from error
    except ValueError as error:  # TOML's own error is one
        raise InvalidInput(f"the domain {path} is not a TOML file: {error}") from error
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise InvalidInput(
            f"{path} has unknown entries: {', '.join(unknown)}; a domain has "
            f"{', '.join(sorted(_KEYS))}"
        )
    return given


def _range(given: Any, path: Path) -> tuple[float, float] | None:
    if given is None:
        return None
    pair = isinstance(given, list) and len(given) == 2
    if not pair or any(type(end) not in (int, float) for end in given):
        raise InvalidInput(f"range in {path} must be two numbers, such as [0, 1], not {given!r}")
    return float(given[0]), float(given[1])


def _numbers(given: Any, key: str, path: Path) -> Any:
    """A number or a list as it is, or the array that a text names."""
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
            return arrays[name]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"cannot read {key} of {path} from {place}: {error}") from error
