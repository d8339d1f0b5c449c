"""Where the proofs of a search are while it goes on: a file without a name, or beside a checkpoint.

It only grows. A checkpoint says how much of it there was, and the SHA-256 of that: what a search
has written after its last checkpoint is cut off when it is resumed. Its name follows from that of
the checkpoint, so somebody else's file may be there: it is only read until it is known.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vhagar.errors import InvalidInput
from vhagar.runtime.output_files import check_writable, is_same_file

try:
    import fcntl
except ImportError:  # Windows, where nobody can tell whether a file is in use
    fcntl = None  # type: ignore[assignment]

# How a file beside a checkpoint begins.
MAGIC = b"VHAGPRFS"
# Bytes that are read at once.
_PIECE = 2**20


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
        while content := file.read(min(_PIECE, length - self._length)):
            self._count(content)

    def copy_to(self, file: IO[bytes]) -> None:
        """Go on in another file, which is empty."""
        file.seek(0)
        for offset in range(0, self._length, _PIECE):
            length = min(_PIECE, self._length - offset)
            content = self.read(offset, length)
            if len(content) != length:
                raise OSError("the proofs that are to be copied have become shorter")
            file.write(content)
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
    earlier = None if resumed is None else proofs_beside(resumed)
    try:
        if earlier is None:
            with _begun(path) as file:
                scratch = Scratch(file)
                scratch.keep(MAGIC)
                yield scratch
        elif is_same_file(earlier, path):
            with path.open("r+b") as file:
                _claim(file, path)
                scratch = _known(file, earlier, state)
                file.truncate(state.length)
                yield scratch
        else:
            with earlier.open("rb") as source:
                scratch = _known(source, earlier, state)
                with _begun(path) as file:
                    scratch.copy_to(file)
                    yield scratch
    except OSError as error:
        raise InvalidInput(f"cannot use {path}: {error.strerror or error}") from error


@contextmanager
def _begun(path: Path) -> Iterator[IO[bytes]]:
    """An empty file that is this search's own; one that no search has left stays as it is."""
    with path.open("r+b" if path.exists() else "x+b") as file:
        _claim(file, path)
        if not MAGIC.startswith(file.read(len(MAGIC))):  # or ended before it
            raise InvalidInput(
                f"{path}, where the proofs are to be kept, holds something else; move it away, "
                "or choose another checkpoint"
            )
        file.seek(0)
        file.truncate()
        yield file


def _claim(file: IO[bytes], path: Path) -> None:
    """Refuse a file in which another search keeps its proofs now: each would spoil the other's.

    The claim ends with the process. Without locks, as on some network drives, nobody can tell.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InvalidInput(
            f"another run keeps its proofs in {path} now; choose another checkpoint"
        ) from None
    except OSError:
        return


def _known(file: IO[bytes], path: Path, state: ScratchState) -> Scratch:
    """The content of a file, if it is the one that its checkpoint speaks of."""
    scratch = Scratch(file, state.length)
    if scratch.known != state:
        raise InvalidInput(f"{path} does not hold the proofs of its checkpoint")
    return scratch
