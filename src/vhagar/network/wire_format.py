"""The wire format of protocol buffers, as which ONNX files are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vhagar.errors import InvalidNetwork

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def ambiguous(why: str) -> InvalidNetwork:
    """The error that refuses a file."""
    return InvalidNetwork(f"the model file can be read in two ways ({why}); export the model again")


def fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield each field's number, wire type and value: an integer, or a part of the data."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(data, place)
            yield number, wire, value
            continue
        if wire == BYTES:
            length, place = _varint(data, place)
        elif wire in (FIXED32, FIXED64):
            length = 4 if wire == FIXED32 else 8
        else:
            raise ambiguous(f"a field has the wire type {wire}")
        if length > len(data) - place:
            raise ambiguous("a field is cut off")
        yield number, wire, data[place : place + length]
        place += length


def packed_integers(data: memoryview) -> Iterator[int]:
    """The integers of one field that holds many."""
    place = 0
    while place < len(data):
        number, place = _varint(data, place)
        yield number


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 and value < 2**64:
            return value, place
    raise ambiguous("a number is cut off or too large")
