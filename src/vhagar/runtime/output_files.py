"""The one place that writes files: whole or not at all, and never over an input.

A file is written next to its place and moved there, so that a failure leaves the earlier one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vhagar.errors import InvalidInput


def check_writable(path: str | Path, *inputs: str | Path | None) -> None:
    """Raise now, before the computation, what `write_bytes` would raise after it.

    No output may replace one of the `inputs`, not even under another name of the same file.
    """
    path = Path(path)
    for given in inputs:
        if given is not None and is_same_file(path, Path(given)):
            raise InvalidInput(f"{path} is an input and would be overwritten; choose another file")
    try:
        target = _target(path)
        if _is_special(target):
            if not os.access(target, os.W_OK):
                raise PermissionError(0, "it is not writable", str(path))
            return
        scratch = _scratch(target)
        try:
            with scratch.open("xb"):
                pass
        finally:  # even if Ctrl-C comes right after the file is created
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {path}: {error.strerror}; choose another place"
        ) from error


def is_same_file(path: Path, other: Path) -> bool:
    """Whether both are, or would become, the same file, also by links; devices never are."""
    with suppress(OSError, ValueError):  # names that no file can have
        if path.exists() and other.exists():
            return path.is_file() and path.samefile(other)
        return os.path.realpath(path) == os.path.realpath(other)
    return False


def write_bytes(path: Path, content: bytes) -> None:
    """Write a temporary file next to `path`, then move it there."""
    with open_in_one_step(path) as file:
        file.write(content)


@contextmanager
def open_in_one_step(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file next to `path` that is moved there at the end, if nothing fails.

    A disk error is raised as `InvalidInput`: the user named a place that cannot be written.
    """
    try:
        with _opened(_target(path)) as file:
            yield file
    except OSError as error:
        raise InvalidInput(
            f"cannot write {path}: {error.strerror or error}; choose another place"
        ) from error


@contextmanager
def _opened(target: Path) -> Iterator[BinaryIO]:
    if _is_special(target):  # a device or a pipe is written to, never replaced
        with target.open("wb") as file:
            yield file
        return
    scratch = _scratch(target)
    scratch.unlink(missing_ok=True)  # one that was left, or a link that leads elsewhere
    try:
        with scratch.open("xb") as file:
            yield file
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _target(path: Path) -> Path:
    """Resolve all symbolic links, down to the file itself."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(0, "it is a directory", str(path))
    return target


def _is_special(target: Path) -> bool:
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


def _scratch(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")
