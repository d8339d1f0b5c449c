"""The certificate file: blocks of compressed bytes under one digest.

No length is trusted: each is compared with the rest of the file and with the limit of its kind
of block before anything is allocated.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vhagar_check.errors import Rejected

MAGIC = b"VHAGCERT"
VERSION = 1
# Most bytes of each kind of block, unpacked.
_LIMITS = {
    b"HEAD": 2**26,
    b"MAPS": 2**28,
    b"TREE": 2**24,
    b"REGN": 2**28,
    b"REFN": 2**28,
    b"TIGH": 2**28,
    b"CUTS": 2**24,
    b"SPEC": 2**28,
    b"BOXS": 2**28,
    b"WNDW": 2**24,
    b"PROF": 2**24,
    b"END ": 32,
}
_BLOCK = struct.Struct("<4sII")
_CHUNK = 2**20


@dataclass(frozen=True)
class Block:
    """The position of a block's payload in the file, and its compressed and raw lengths."""

    tag: str
    offset: int
    raw: int
    stored: int


def scan(path: Path) -> list[Block]:
    """List all blocks but END, after checking the digest in END."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(len(MAGIC) + 4)
        if start[: len(MAGIC)] != MAGIC or len(start) != len(MAGIC) + 4:
            raise Rejected("this is no certificate: it does not begin as one")
        (version,) = struct.unpack("<I", start[len(MAGIC) :])
        if version != VERSION:
            raise Rejected(f"the certificate has version {version}; this checker reads {VERSION}")
        blocks = _headers(file, size)
        if not blocks or blocks[-1].tag != "END":
            raise Rejected("the certificate has no end: it is cut off")
        last = blocks.pop()
        if last.offset + last.stored != size:
            raise Rejected("the certificate goes on after its end")
        if unpack(file, last) != _digest(file, last.offset - _BLOCK.size):
            raise Rejected("the certificate's digest is wrong: it was damaged or altered")
    return blocks


def _headers(file: BinaryIO, size: int) -> list[Block]:
    blocks: list[Block] = []
    while not blocks or blocks[-1].tag != "END":
        header = file.read(_BLOCK.size)
        if len(header) != _BLOCK.size:
            break
        tag, raw, stored = _BLOCK.unpack(header)
        offset = file.tell()
        if tag not in _LIMITS or raw > _LIMITS[tag] or stored > size - offset:
            raise Rejected("a block of the certificate has an unknown kind or a wrong length")
        blocks.append(Block(tag.decode().strip(), offset, raw, stored))
        file.seek(stored, 1)
    return blocks


def _digest(file: BinaryIO, length: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0:
        part = file.read(min(length, _CHUNK))
        if not part:
            break
        digest.update(part)
        length -= len(part)
    return digest.digest()


def unpack(file: BinaryIO, block: Block) -> bytes:
    """Decompress a block, to no more bytes than it states."""
    file.seek(block.offset)
    machine = zlib.decompressobj()
    try:
        raw = machine.decompress(file.read(block.stored), block.raw + 1)
    except zlib.error as error:
        raise Rejected(f"a {block.tag} block cannot be unpacked ({error})") from error
    if len(raw) != block.raw or not machine.eof or machine.unused_data:
        raise Rejected(f"a {block.tag} block does not have the length it states")
    return raw


def parse_json(raw: bytes) -> Any:
    """Parse JSON, refusing NaN, infinities and keys that occur twice."""
    try:
        return json.loads(
            raw.decode(), parse_constant=_refuse_constant, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as error:
        raise Rejected(f"a part of the certificate is not readable JSON ({error})") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number here")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated key: readers differ on which of its values counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def require_keys(given: Any, known: frozenset[str], what: str) -> None:
    """Refuse keys that are not understood: they could change the meaning."""
    if not isinstance(given, dict) or not given.keys() <= known:
        extra = sorted(given.keys() - known) if isinstance(given, dict) else "none"
        raise Rejected(f"the {what} of the certificate has keys that are not understood: {extra}")


def split_json(raw: bytes) -> tuple[Any, bytes]:
    """Split a block into the JSON that it begins with and the numbers that follow."""
    if len(raw) < 4:
        raise Rejected("a block of the certificate is too short")
    (length,) = struct.unpack("<I", raw[:4])
    if length > len(raw) - 4:
        raise Rejected("a block of the certificate is too short for its description")
    return parse_json(raw[4 : 4 + length]), raw[4 + length :]
