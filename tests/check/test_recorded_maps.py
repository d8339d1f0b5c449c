"""MAPS blocks, number by number: what is read of them, and what is refused."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
import pytest

from vhagar_check import maps as module
from vhagar_check.errors import Rejected
from vhagar_check.maps import Recorded, read_maps
from vhagar_check.pieces import Domain

from .asking import with_json

DOMAIN = Domain((3,), -1.0, 1.0)
# A map of three entries with two parameters: rows of the matrix and of the directions.
MATRIX = ([0, 2, 2, 3], [0, 2, 1], [0.5, -2.0, 1e9])
DIRECTIONS = ([0, 1, 1, 3], [1, 0, 1], [1.0, 0.25, -0.25])
REST = ([0.0, 1.0, -1.0], [-0.5, 0.0], [0.5, 0.0])


def sparse(starts: Any, columns: Any, weights: Any) -> bytes:
    parts = (np.array(starts, "<u4"), np.array(columns, "<u4"), np.array(weights, "<f8"))
    return b"".join(part.tobytes() for part in parts)


def record(
    matrix: Any = MATRIX, directions: Any = DIRECTIONS, rest: Any = REST, size: int = 3
) -> bytes:
    counts = struct.pack("<4Q", size, len(rest[1]), len(matrix[1]), len(directions[1]))
    ends = b"".join(np.array(part, "<f8").tobytes() for part in rest)
    return counts + sparse(*matrix) + sparse(*directions) + ends


def block(*records: bytes, name: Any = "own", maps: Any = None, more: bytes = b"") -> bytes:
    about = {"name": name, "maps": [{}] * len(records) if maps is None else maps}
    return with_json(about, b"".join(records) + more)


def test_a_map_is_read_as_it_was_written() -> None:
    found = read_maps(block(record()), DOMAIN)
    (piece,) = found.pieces
    assert (piece.matrix.row.tolist(), piece.matrix.column.tolist()) == ([0, 0, 2], [0, 2, 1])
    assert piece.matrix.weight.tolist() == MATRIX[2]
    assert piece.directions.row.tolist() == [0, 2, 2]
    assert piece.directions.column.tolist() == DIRECTIONS[1]
    assert piece.directions.weight.tolist() == DIRECTIONS[2]
    assert (piece.matrix.shape, piece.directions.shape) == ((3, 3), (3, 2))
    assert [piece.offset.tolist(), piece.lower.tolist(), piece.upper.tolist()] == list(REST)
    assert found.name == "own"
    assert found.sha256 == hashlib.sha256(record()).hexdigest()


def test_several_maps_follow_one_another() -> None:
    other = record(directions=([0, 0, 0, 0], [], []), rest=([0.0] * 3, [], []))
    found = read_maps(block(record(), other, record()), DOMAIN)
    assert [len(piece.lower) for piece in found.pieces] == [2, 0, 2]
    assert found.parameters == 2
    assert Recorded("own", "", found.pieces[1:]).parameters == 2
    assert Recorded("own", "", found.pieces[:2]).parameters == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"matrix": ([1, 2, 2, 3], *MATRIX[1:])}, "rows"),
        ({"matrix": ([0, 2, 2, 2], *MATRIX[1:])}, "rows"),
        ({"matrix": ([0, 2, 2, 4], *MATRIX[1:])}, "rows"),
        ({"matrix": ([0, 2, 1, 3], *MATRIX[1:])}, "rows"),
        ({"matrix": (MATRIX[0], [0, 3, 1], MATRIX[2])}, "columns"),
        ({"matrix": (MATRIX[0], [2, 0, 1], MATRIX[2])}, "columns"),
        ({"matrix": (MATRIX[0], [2, 2, 1], MATRIX[2])}, "columns"),
        ({"directions": (DIRECTIONS[0], [2, 0, 1], DIRECTIONS[2])}, "columns"),
        ({"directions": (DIRECTIONS[0], [1, 1, 1], DIRECTIONS[2])}, "columns"),
        ({"matrix": (*MATRIX[:2], [0.5, np.nan, 1.0])}, "NaN"),
        ({"matrix": (*MATRIX[:2], [0.5, -1.0000001e9, 1.0])}, "beyond any use"),
        ({"directions": (*DIRECTIONS[:2], [np.inf, 0.0, 1.0])}, "beyond any use"),
        ({"rest": ([0.0, 1.0, np.nan], *REST[1:])}, "NaN"),
        ({"rest": (REST[0], [-0.5, 0.5], [0.5, 0.0])}, "empty range"),
        ({"rest": (REST[0], [0.6, 0.0], [0.5, 0.0])}, "empty range"),
        ({"size": 4}, "another size"),
    ],
)
def test_what_is_no_map(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read_maps(block(record(**given)), DOMAIN)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (block(record(), name=""), "no proper name"),
        (block(record(), name=7), "no proper name"),
        (block(record(), name=["own"]), "no proper name"),
        (block(record(), name="own\n"), "no proper name"),
        (block(record(), name="n" * 1000), "no proper name"),
        (block(), "no map"),
        (block(record(), maps={"a": {}}), "no map"),
        (block(record(), maps="a"), "no map"),
        (block(record(), more=b"\0"), "something after"),
        (block(record()[:-1]), "cut off"),
        (block(record(), maps=[{}] * 2), "cut off"),
        (block(record(), record()[:50]), "cut off"),
    ],
)
def test_what_is_no_block(raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read_maps(raw, DOMAIN)


def test_names_up_to_their_longest() -> None:
    for name in ("n", "n" * 999):
        assert read_maps(block(record(), name=name), DOMAIN).name == name


def test_numbers_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries, parameters, and what each map costs in addition."""
    each = 3 + 2 + 3 + 3 + 100
    monkeypatch.setattr(module, "_MOST_NUMBERS", 2 * each)
    assert len(read_maps(block(record(), record()), DOMAIN).pieces) == 2
    with pytest.raises(Rejected, match="too many numbers"):
        read_maps(block(record(), record(), record()), DOMAIN)
    monkeypatch.setattr(module, "_MOST_NUMBERS", 2 * each - 1)
    with pytest.raises(Rejected, match="too many numbers"):
        read_maps(block(record(), record()), DOMAIN)
    monkeypatch.setattr(module, "_MOST_NUMBERS", each)
    assert read_maps(block(record()), DOMAIN)
    larger = struct.pack("<4Q", 3, 2, 4, 3)  # refused by its counts, though nothing follows
    with pytest.raises(Rejected, match="too many numbers"):
        read_maps(block(larger), DOMAIN)
