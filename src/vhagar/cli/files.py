"""Keeps a command from writing over one of its inputs, or two files to one place.

Inputs are the files that its arguments name, and those that such a file names (`named_files`).
Outputs are the files that arguments name, those that are written beside them under a name made from
theirs, and those that a command chooses itself, which it adds before it writes anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vhagar.cli.named_files import datasets_in, is_image_in, named_files
from vhagar.errors import InvalidInput
from vhagar.runtime.output_files import is_same_file

# The arguments that name files to write, of all commands but those that read such a file.
WRITTEN = frozenset((
    "certificate", "checkpoint", "csv", "file", "json", "junit", "onnx", "out", "output", "page",
    "plot", "store", "verdicts", "vnnlib",
))  # fmt: skip
# The arguments that may name a folder of images to read; a study calls it `dataset`.
_FOLDERS = ("data", "dataset", "image", "like")
READ_BY = {
    "vhagar.cli.local": {"vnnlib"},
    "vhagar.cli.report": {"store"},
    "vhagar_check.cli": {"certificate"},
}
# Folders that a command fills. A report's figures are checked when their names are known; a sweep's
# certificates have names that no file had before.
FILLED = {"vhagar.cli.report": {"figures"}, "vhagar.cli.sweep": {"certificates"}}
# What SQLite keeps beside a store while it is open.
_OF_SQLITE = ("-wal", "-shm", "-journal")
# Outputs that may replace an input: a search that is resumed goes on in its own files.
_KEPT_UP = frozenset([("checkpoint", "resume"), ("proofs", "proofs")])


def check_files(arguments: argparse.Namespace, written: Iterable[Path] = (), **read: Any) -> None:
    """Raise `InvalidInput` before anything is written if an output is an input or named twice.

    `written` are further outputs and `read` further inputs, where a command learns of them only
    from its files.
    """
    outputs = [*_outputs(arguments), *(("", path) for path in written)]
    if not outputs:
        return
    own = _not_written(arguments)
    inputs = {name: list(named_files(value)) for name, value in own.items()}
    if own.get("config") is not None:  # its texts are among the arguments, outputs included
        inputs["config"] = [Path(own["config"])]
    inputs |= {f"{name} that is read": list(named_files(value)) for name, value in read.items()}
    if isinstance(own.get("resume"), Path):  # a sweep's is a flag
        inputs["proofs"] = [_proofs_of(own["resume"])]
    named = [each.get(name) for each in (own, read) for name in _FOLDERS]
    folders = [Path(each) for each in named if isinstance(each, str | Path)]
    folders += [folder for files in inputs.values() for folder in datasets_in(files)]
    for name, path in outputs:
        # A checkpoint may take the place of the one that is resumed, and so may its proofs.
        mine = (inputs[each] for each in inputs if (name, each) not in _KEPT_UP)
        if any(is_same_file(path, file) for files in mine for file in files) or any(
            is_image_in(path, folder) for folder in folders
        ):
            raise InvalidInput(f"{path} is an input and would be overwritten; choose another file")
    for k, (_, path) in enumerate(outputs):
        if any(is_same_file(path, other) for name, other in outputs[:k] if name):
            raise InvalidInput(f"{path} is named twice; choose different files")


def _not_written(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments that name no outputs."""
    written = _written(arguments)
    return {name: value for name, value in vars(arguments).items() if name not in written}


def _written(arguments: argparse.Namespace) -> frozenset[str]:
    return WRITTEN - READ_BY.get(arguments.command.__module__, frozenset())


def _outputs(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    """The files that are written, each with its argument: those that are named, and beside them."""
    given, command = vars(arguments), arguments.command.__module__
    paths = {name: given[name] for name in sorted(_written(arguments)) if name in given}
    if command == "vhagar.cli.report" and paths["output"] is None:
        paths["output"] = given["store"].with_suffix(".html")
    if isinstance(given.get("resume"), Path) and paths["checkpoint"] is None:
        paths["checkpoint"] = given["resume"]  # which is kept up to date
    return [
        pair
        for name, path in paths.items()
        if isinstance(path, Path)
        for pair in ((name, path), *_beside(command, name, path))
    ]


def _beside(command: str, name: str, path: Path) -> list[tuple[str, Path]]:
    """The files that are written beside another under a name that is made from its own."""
    if name == "checkpoint":
        return [("proofs", _proofs_of(path))]
    if name == "store":
        return [(name, path.with_name(path.name + end)) for end in _OF_SQLITE]
    if command == "vhagar.cli.domain" and name == "output" and path.suffix in ("", ".toml"):
        return [(name, path.with_suffix(".npz"))] if path.name else []
    return []


def _proofs_of(checkpoint: Path) -> Path:
    from vhagar.search.proofs.scratch import proofs_beside  # the search, which few words need

    return proofs_beside(checkpoint)
