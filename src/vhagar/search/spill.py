"""Open nodes on disk: those with the smallest bounds, where memory cannot hold all of them."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from vhagar.search.node import Node


@dataclass(frozen=True)
class Segment:
    """Nodes that are stored together: their largest bound, their number, and their place."""

    upper: float
    count: int
    offset: int
    length: int


class Spill:
    """The segments of one target, in a file without a name that is gone with this process.

    The file is this process's own, and so is the pickle in it.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._segments: list[Segment] = []
        self._works = True

    def __len__(self) -> int:
        return sum(segment.count for segment in self._segments)

    @property
    def upper(self) -> float:
        """The largest bound of a node on disk; 0 without any."""
        return max((segment.upper for segment in self._segments), default=0.0)

    def store(self, nodes: list[Node]) -> bool:
        """Write nodes, which are sorted, best first; return whether there was room on the disk."""
        if not self._works:
            return False
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with this object)
                weakref.finalize(self, self._file.close)
            offset = self._file.seek(0, 2)
            length = self._file.write(pickle.dumps(nodes, pickle.HIGHEST_PROTOCOL))
            self._file.flush()
        except OSError:  # a full disk: they stay in memory, from now on
            self._works = False
            return False
        self._segments.append(Segment(nodes[0].upper, len(nodes), offset, length))
        return True

    def take_best(self) -> list[Node]:
        """Return the segment with the best node, and forget it here."""
        best = max(self._segments, key=lambda segment: segment.upper)
        nodes = self._read(best)
        self._segments.remove(best)
        if not self._segments and self._file is not None:
            self._file.truncate(0)
        return nodes

    def __iter__(self) -> Iterator[Node]:
        """Read all nodes, one segment at a time."""
        for segment in self._segments:
            yield from self._read(segment)

    def _read(self, segment: Segment) -> list[Node]:
        assert self._file is not None, "segments are in a file"
        self._file.seek(segment.offset)
        content = self._file.read(segment.length)
        if len(content) != segment.length:
            raise OSError("a part of the frontier that was on disk is gone")
        nodes: list[Node] = pickle.loads(content)
        return nodes
