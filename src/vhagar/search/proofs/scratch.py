"""Where the proofs of a search are while it goes on: a file without a name, or beside a checkpoint.

It only grows. A checkpoint says how much of it there was, and the SHA-256 of that: what a search
has written after its last checkpoint is cut off when it is resumed. Its name follows from that of
the checkpoint, so somebody else's file may be there: it is only read until it is known.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vhagar.errors import InvalidInput
from vhagar.runtime.output_files import check_writable, is_same_file

# How a file beside a checkpoint begins.
MAGIC = b"VHAGPRFS"


@dataclass(frozen=True)
class ScratchState:
    """The first `length` bytes of a file, by their SHA-256."""

    length: int = 0
    sha256: str = hashlib.sha256().hexdigest()


class Scratch:
    """A file that only grows, and whose content is known by its hash."""

    def __init__(self, file: IO[bytes], length: int = 0) -> None:
        self._file = file
        self._length = 0
        self._hash = hashlib.sha256()
        file.seek(0)
        while content := file.read(min(2**20, length - self._length)):
            self._count(content)

    def move_to(self, file: IO[bytes]) -> None:
        """Go on in another file with the same content, or in the same one opened for writing."""
        self._file = file

    def _count(self, content: bytes) -> None:
        self._hash.update(content)
        self._length += len(content)

    def keep(self, content: bytes) -> int:
        """Append the content; returns where it is."""
        offset = self._length
        self._file.seek(offset)
        self._file.write(content)
        self._count(content)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)

    def state(self) -> ScratchState:
        """What is there by now; it is on the disk afterwards."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self.known

    @property
    def known(self) -> ScratchState:
        """What is there by now."""
        return ScratchState(self._length, self._hash.hexdigest())


def proofs_beside(checkpoint: Path) -> Path:
    """The file of the proofs that belong to a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}.proofs")


@contextmanager
def scratch_beside(path: Path) -> Iterator[Scratch]:
    """A file without a name on the disk where the certificate will be: it is gone when closed."""
    check_writable(path)
    folder = Path(os.path.realpath(path)).parent if path.is_file() or not path.exists() else None
    try:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InvalidInput(f"cannot write beside {path}: {error.strerror}") from error
    with file:
        yield Scratch(file)


@contextmanager
def kept_scratch(checkpoint: Path, resumed: Path | None, state: ScratchState) -> Iterator[Scratch]:
    """The file beside a checkpoint, with what there was when the `resumed` one was written."""
    path = proofs_beside(checkpoint)
    try:
        if resumed is None:
            _require_own(path)
            with path.open("w+b") as file:
                scratch = Scratch(file)
                scratch.keep(MAGIC)
                yield scratch
            return
        earlier = proofs_beside(resumed)
        scratch = _known(earlier, state)
        if not is_same_file(earlier, path):
            _require_own(path)
            shutil.copyfile(earlier, path)
        with path.open("r+b") as file:
            scratch.move_to(file)
            file.truncate(state.length)
            yield scratch
    except OSError as error:
        raise InvalidInput(f"cannot use {path}: {error.strerror or error}") from error


def _require_own(path: Path) -> None:
    """Refuse to begin a file where there is one that no search has left."""
    if path.exists():
        with path.open("rb") as file:
            if not MAGIC.startswith(file.read(len(MAGIC))):  # or ended before it
                raise InvalidInput(
                    f"{path}, where the proofs are to be kept, holds something else; move it away, "
                    "or choose another checkpoint"
                )


def _known(path: Path, state: ScratchState) -> Scratch:
    """The content of a file, if it is the one that its checkpoint speaks of."""
    with path.open("rb") as file:
        scratch = Scratch(file, state.length)
    if scratch.known != state:
        raise InvalidInput(f"{path} does not hold the proofs of its checkpoint")
    return scratch
