"""The files that the arguments of a command name, as far as they are read.

A study or a domain in TOML names others, as do the text of a user's perturbation and a model that
keeps its weights elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

# Where a model names a file of weights: an entry called `location`, and the length of its value.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x7f])", re.DOTALL)
# Large files that are no models.
_DATA = frozenset((".csv", ".db", ".npy", ".npz"))


def named_files(value: Any) -> Iterator[Path]:
    """The files that an argument names; text may be a path, optionally followed by `:NAME`."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from named_files(each)
    elif isinstance(value, str | os.PathLike):
        path = Path(value)
        yield from _called(path)
        for inner in _named_in(path):
            yield from _called(inner)
            for innermost in _named_in(inner):  # a study names a domain, which names arrays
                yield from _called(innermost)


def _called(path: Path) -> Iterator[Path]:
    """What text may mean: a file, with its weights if it is a model, or a file and a name in it."""
    yield path
    yield Path(str(path).rpartition(":")[0])
    yield from _weights_of(path)


def _named_in(path: Path) -> list[Path]:
    """What the texts of a TOML file may name, relative to its folder; nothing of other files."""
    return [path.parent / text for _, text in _texts(path)] if path.suffix == ".toml" else []


def datasets_in(files: list[Path]) -> Iterator[Path]:
    """The data sets that the TOML files among some files name."""
    for path in files:
        if path.suffix == ".toml":
            yield from (path.parent / text for key, text in _texts(path) if key == "dataset")


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """The texts of a TOML file, each with its key; none where it is no such file."""
    import tomllib  # which few runs need

    with suppress(OSError, ValueError, RecursionError):
        waiting: list[tuple[str, Any]] = [("", tomllib.loads(path.read_text(encoding="utf-8")))]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, dict):
                waiting += value.items()
            elif isinstance(value, list):
                waiting += [(key, each) for each in value]
            elif isinstance(value, str):
                yield key, value


def _weights_of(path: Path) -> Iterator[Path]:
    """The files in which a model keeps its weights, if it does: named in its bytes, as it is read
    only later."""
    with suppress(OSError, ValueError):  # any text may be asked about; readers say what is wrong
        if path.suffix in _DATA or not path.is_file() or not path.stat().st_size:
            return
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            for found in _LOCATION.finditer(content):
                low, high = (*found[1], 0)[:2]
                name = content[found.end() : found.end() + low % 128 + 128 * high]
                with suppress(UnicodeDecodeError):
                    yield path.parent / name.decode()


def is_image_in(path: Path, folder: Path) -> bool:
    """Whether a file is an image of a folder, also by links; no other file of it is read."""
    from vhagar.dataset import IMAGES  # numpy, which few words need

    with suppress(OSError, ValueError):
        place = Path(os.path.realpath(path))
        is_image = place.suffix.lower() in IMAGES and place.is_file()
        return is_image and folder.is_dir() and place.parent.samefile(folder)
    return False
