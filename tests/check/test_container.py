"""The certificate file: lengths, limits, order and the digest."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from vhagar_check import container
from vhagar_check.container import parse_json, require_keys, scan, split_json, unpack
from vhagar_check.errors import Rejected

START = b"VHAGCERT" + struct.pack("<I", 1)
# As docs/certificate.md has them.
LIMITS = {
    b"HEAD": 2**26,
    b"MAPS": 2**28,
    b"TREE": 2**24,
    b"REGN": 2**28,
    b"REFN": 2**28,
    b"SPEC": 2**28,
    b"TIGH": 2**28,
    b"CUTS": 2**24,
    b"BOXS": 2**28,
    b"WNDW": 2**24,
    b"PROF": 2**24,
    b"END ": 32,
}


def block(tag: bytes, raw: bytes, stated: int | None = None, stored: bytes | None = None) -> bytes:
    stored = zlib.compress(raw) if stored is None else stored
    return tag + struct.pack("<II", len(raw) if stated is None else stated, len(stored)) + stored


def sealed(content: bytes, digest: bytes | None = None) -> bytes:
    return content + block(b"END ", digest or hashlib.sha256(content).digest())


def _scan(tmp_path: Path, content: bytes) -> list[tuple[str, bytes]]:
    path = tmp_path / "a.cert"
    path.write_bytes(content)
    with path.open("rb") as file:
        return [(each.tag, unpack(file, each)) for each in scan(path)]


def test_blocks_come_back_in_order(tmp_path: Path) -> None:
    content = START + block(b"HEAD", b"{}") + block(b"TREE", b"x" * 100) + block(b"PROF", b"")
    found = _scan(tmp_path, sealed(content))
    assert found == [("HEAD", b"{}"), ("TREE", b"x" * 100), ("PROF", b"")]
    assert _scan(tmp_path, sealed(START)) == []


@pytest.mark.parametrize("tag", LIMITS)
def test_the_limits_are_those_of_the_format(tag: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.cert"
    for more, words in ((0, "cut off"), (1, "wrong length")):
        path.write_bytes(START + block(tag, b"", LIMITS[tag] + more) + block(b"HEAD", b""))
        with pytest.raises(Rejected, match="goes on" if tag == b"END " and not more else words):
            scan(path)


@pytest.mark.parametrize("size", [*range(1, 9), 2**20, 2**20 + 1, 3 * 2**20])
def test_the_digest_is_of_every_byte(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = hashlib.shake_128(b"noise").digest(size)
    content = START + block(b"HEAD", noise)
    assert _scan(tmp_path, sealed(content)) == [("HEAD", noise)]
    monkeypatch.setattr(container, "_CHUNK", 7)
    if size < 100:
        assert _scan(tmp_path, sealed(content)) == [("HEAD", noise)]
    for place in (len(START) + 1, len(content) // 2, len(content) - 1):
        changed = bytearray(sealed(content))
        changed[place] ^= 1
        with pytest.raises(Rejected):
            _scan(tmp_path, bytes(changed))


CUT = zlib.compress(b"abcdef" * 50)[:-4]
HEAD = START + block(b"HEAD", b"{}")
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "does not begin"),
    "half a start": (START[:9], "does not begin"),
    "another magic": (b"VHAGCERU" + START[8:], "does not begin"),
    "version 0": (START[:8] + struct.pack("<I", 0), "version 0"),
    "no block": (START, "cut off"),
    "no end": (HEAD, "cut off"),
    "half a block's head": (sealed(HEAD)[: len(HEAD) + 5], "cut off"),
    "an unknown block": (sealed(START + block(b"HEAR", b"{}")), "unknown kind"),
    "one byte too long": (START + block(b"HEAD", b"", 2**26 + 1), "wrong length"),
    "an end of 33 bytes": (HEAD + block(b"END ", bytes(33)), "wrong length"),
    "stored beyond the file": (
        START + b"HEAD" + struct.pack("<II", 2, 100) + bytes(50),
        "wrong length",
    ),
    "stored to the last byte": (
        START + b"HEAD" + struct.pack("<II", 2, 50) + bytes(50),
        "cut off",
    ),
    "stored one byte beyond": (
        START + b"HEAD" + struct.pack("<II", 2, 51) + bytes(50),
        "wrong length",
    ),
    "an empty digest": (sealed(HEAD, bytes(32)), "digest is wrong"),
    "more after the end": (sealed(HEAD) + b"\0", "goes on"),
    "blocks after the end": (sealed(HEAD) + block(b"HEAD", b"{}"), "goes on"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(name: str, tmp_path: Path) -> None:
    content, words = BROKEN[name]
    with pytest.raises(Rejected, match=words):
        _scan(tmp_path, content)


UNPACKED: dict[str, tuple[bytes, str]] = {
    "no zlib": (block(b"HEAD", b"{}", 2, b"no zlib"), "cannot be unpacked"),
    "longer than stated": (block(b"HEAD", b"{}", 1), "length it states"),
    "one byte longer": (block(b"HEAD", b"x" * 300, 299), "length it states"),
    "shorter than stated": (block(b"HEAD", b"{}", 3), "length it states"),
    "without its end": (block(b"HEAD", b"", 300, CUT), "length it states"),
    "something behind": (
        block(b"HEAD", b"", 2, zlib.compress(b"{}") + b"\0"),
        "length it states",
    ),
}


@pytest.mark.parametrize("name", UNPACKED)
def test_blocks_that_do_not_unpack_are_refused(name: str, tmp_path: Path) -> None:
    content, words = UNPACKED[name]
    with pytest.raises(Rejected, match=words):
        _scan(tmp_path, sealed(START + content))


def test_no_more_is_unpacked_than_is_stated(tmp_path: Path) -> None:
    """Not even where nothing is stated: zlib takes a limit of 0 for none."""
    content = sealed(START + block(b"HEAD", bytes(2**25), 0))
    tracemalloc.start()
    with pytest.raises(Rejected, match="length it states"):
        _scan(tmp_path, content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_json_is_read_in_one_way() -> None:
    assert parse_json(b'{"a": [1, 2.5, null, {"b": true}]}') == {"a": [1, 2.5, None, {"b": True}]}
    for text in (b'{"a": 1, "a": 1}', b'[{"a": {"b": 1, "b": 2}}]', b"NaN", b"[Infinity]", b"{",
                 b"-Infinity", b"\xff", b"[" * 100_000):  # fmt: skip
        with pytest.raises(Rejected, match="not readable"):
            parse_json(text)


def test_json_followed_by_numbers() -> None:
    text = b'{"a": 1}'
    whole = struct.pack("<I", len(text)) + text
    assert split_json(whole + b"rest") == ({"a": 1}, b"rest")
    assert split_json(whole) == ({"a": 1}, b"")
    for raw in (b"", b"\0\0\0", whole[:-1], struct.pack("<I", len(text) + 1) + text):
        with pytest.raises(Rejected, match="too short"):
            split_json(raw)
    with pytest.raises(Rejected, match="not readable"):
        split_json(bytes(4))


@pytest.mark.parametrize("given", [{"a": 1, "b": 2, "c": 3}, {"c": 3}, [], "ab", None])
def test_unknown_keys_are_refused(given: Any) -> None:
    require_keys({"a": 1}, frozenset("ab"), "thing")
    require_keys({"a": 1, "b": 2}, frozenset("ab"), "thing")
    require_keys({}, frozenset("ab"), "thing")
    with pytest.raises(Rejected, match="keys that are not understood"):
        require_keys(given, frozenset("ab"), "thing")
