"""The maps that a certificate records: perturbations that have no defining text.

Nothing is trusted: counts are compared with the rest of the block before anything is allocated.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar_check.affine import BoxAffine
from vhagar_check.container import split_json
from vhagar_check.errors import Rejected
from vhagar_check.layers import Floats
from vhagar_check.pieces import Domain
from vhagar_check.sparse import Integers, Sparse

_COUNTS = struct.Struct("<4Q")
_LARGEST = 1e9
# Most numbers of all maps together, and what each map counts in addition: as much as a small image.
_MOST_NUMBERS, _PIECE = 2**25, 100
_LONGEST_NAME = 1_000


@dataclass(frozen=True, eq=False)
class Recorded:
    """Maps as pieces; `name` is the verifier's name for them, `sha256` their numbers' hash."""

    name: str
    sha256: str
    pieces: list[BoxAffine]

    @property
    def parameters(self) -> int:
        """The largest number of parameters of a map."""
        return max(len(piece.lower) for piece in self.pieces)


def read_maps(raw: bytes, domain: Domain) -> Recorded:
    """Read the maps of a MAPS block."""
    about, data = split_json(raw)
    name, count = about["name"], len(about["maps"])
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) < _LONGEST_NAME:
        raise Rejected("the recorded maps have no proper name")
    if not isinstance(about["maps"], list) or not count:
        raise Rejected("the certificate records no map")
    reader = _Reader(data)
    pieces = [_read_map(reader, domain) for _ in range(count)]
    reader.finish()
    return Recorded(name, hashlib.sha256(data).hexdigest(), pieces)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self.numbers = 0

    def counts(self) -> tuple[int, ...]:
        return _COUNTS.unpack(self._bytes(_COUNTS.size))

    def integers(self, count: int) -> Integers:
        return np.frombuffer(self._bytes(4 * count), "<u4").astype(np.int64)

    def floats(self, count: int) -> Floats:
        found = np.frombuffer(self._bytes(8 * count), "<f8").astype(np.float64)
        if not (abs(found) <= _LARGEST).all():  # NaN fails, too
            raise Rejected("a recorded map holds NaN or a number beyond any use")
        return found

    def _bytes(self, length: int) -> bytes:
        if length > len(self._data) - self._place:
            raise Rejected("a recorded map is cut off")
        self._place += length
        return self._data[self._place - length : self._place]

    def finish(self) -> None:
        if self._place != len(self._data):
            raise Rejected("there is something after the recorded maps")


def _read_map(reader: _Reader, domain: Domain) -> BoxAffine:
    size, count, entries, moves = reader.counts()
    if size != domain.size:
        raise Rejected("a recorded map is about inputs of another size")
    reader.numbers += size + count + entries + moves + _PIECE
    if reader.numbers > _MOST_NUMBERS:
        raise Rejected("the recorded maps have too many numbers")
    matrix = _read_matrix(reader, (size, size), entries)
    directions = _read_matrix(reader, (size, count), moves)
    offset, lower, upper = (reader.floats(length) for length in (size, count, count))
    if (lower > upper).any():
        raise Rejected("a parameter of a recorded map has an empty range")
    return BoxAffine(domain, matrix, directions, offset, lower, upper)


def _read_matrix(reader: _Reader, shape: tuple[int, int], entries: int) -> Sparse:
    starts, columns = reader.integers(shape[0] + 1), reader.integers(entries)
    weights = reader.floats(entries)
    counts: Any = np.diff(starts)
    if starts[0] != 0 or starts[-1] != entries or (counts < 0).any():
        raise Rejected("the rows of a recorded map are not in order")
    rows = np.repeat(np.arange(shape[0]), counts)
    if (columns >= shape[1]).any() or ((np.diff(columns) <= 0) & (np.diff(rows) == 0)).any():
        raise Rejected("the columns of a recorded map are not in order")
    return Sparse(shape, rows, columns, weights)
