"""Keeps a command from writing over one of its inputs, or two files to one place.

Inputs are the files that its arguments name, and those that such a file names: a study or a domain
in TOML, the file of a user's perturbation, the weights of a model that keeps them elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput

# The arguments that name files to write, of all commands but those that read such a file.
WRITTEN = frozenset((
    "certificate", "checkpoint", "csv", "file", "json", "junit", "onnx", "out", "output", "page",
    "plot", "store", "vnnlib",
))  # fmt: skip
# The arguments that may name a folder of images to read; a study calls it `dataset`.
_FOLDERS = ("data", "dataset", "image", "like")
# Where a model names a file of weights: an entry called `location`, and the length of its value.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x7f])", re.DOTALL)
# Large files that are no models.
_DATA = frozenset((".csv", ".db", ".npy", ".npz"))
READ_BY = {
    "vhagar.cli.local": {"vnnlib"},
    "vhagar.cli.report": {"store"},
    "vhagar_check.cli": {"certificate"},
}


def check_files(arguments: argparse.Namespace) -> None:
    """Raise `InvalidInput` before anything is read if an output is an input or named twice."""
    given = vars(arguments)
    written = WRITTEN - READ_BY.get(arguments.command.__module__, set())
    outputs = [(name, given[name]) for name in sorted(written) if isinstance(given.get(name), Path)]
    if not outputs:
        return
    inputs = {name: list(_files(value)) for name, value in given.items() if name not in written}
    if given.get("config") is not None:  # what it says is among the arguments, outputs included
        inputs["config"] = [given["config"]]
    folders = [Path(given[name]) for name in _FOLDERS if isinstance(given.get(name), str | Path)]
    folders += [folder for files in inputs.values() for folder in _datasets_in(files)]
    for name, path in outputs:
        # A checkpoint may take the place of the one that is resumed.
        mine = (files for each, files in inputs.items() if (name, each) != ("checkpoint", "resume"))
        if any(_is_same(path, file) for files in mine for file in files) or any(
            _is_image_in(path, folder) for folder in folders
        ):
            raise InvalidInput(f"{path} is an input and would be overwritten; choose another file")
    for k, (_, path) in enumerate(outputs):
        if any(_is_same(path, other) for _, other in outputs[:k]):
            raise InvalidInput(f"{path} is named twice; choose different files")


def _files(value: Any) -> Iterator[Path]:
    """The files that an argument names; text may be a path, optionally followed by `:NAME`."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _files(each)
    elif isinstance(value, str | os.PathLike):
        path = Path(value)
        yield path
        yield Path(str(path).rpartition(":")[0])
        yield from _weights_of(path)
        if path.suffix == ".toml":
            yield from _named_in(path)


def _named_in(path: Path) -> Iterator[Path]:
    """The files that a TOML file names, relative to its folder."""
    for _, text in _texts(path):
        yield path.parent / text
        yield path.parent / text.rpartition(":")[0]
        yield from _weights_of(path.parent / text)


def _datasets_in(files: list[Path]) -> Iterator[Path]:
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


def _is_same(path: Path, other: Path) -> bool:
    """Whether both are, or would become, the same file, also by links; devices never are."""
    with suppress(OSError, ValueError):  # names that no file can have
        if path.exists() and other.exists():
            return path.is_file() and path.samefile(other)
        return os.path.realpath(path) == os.path.realpath(other)
    return False


def _is_image_in(path: Path, folder: Path) -> bool:
    """Whether a file is an image of a folder, also by links; no other file of it is read."""
    from vhagar.dataset import IMAGES  # numpy, which few words need

    with suppress(OSError, ValueError):
        place = Path(os.path.realpath(path))
        is_image = place.suffix.lower() in IMAGES and place.is_file()
        return is_image and folder.is_dir() and place.parent.samefile(folder)
    return False
