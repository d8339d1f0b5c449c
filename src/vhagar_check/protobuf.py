"""Reads protocol buffers, as which ONNX files are stored: fields of number, wire type and value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected

Value = int | bytes

# The types of constants that are read, by ONNX's number: numpy's type, and the field of values
# that are not raw.
_TYPES = {1: ("<f4", 4), 6: ("<i4", 5), 7: ("<i8", 7), 9: ("?", 5), 11: ("<f8", 10)}
_BOOL = 9
# Floats of 16 bits, which may also be stored as whole numbers: float16 and bfloat16.
_HALF, _BRAIN = 10, 16


def fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield each field's number, wire type and value; 32- and 64-bit numbers as their bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, kind, value
            continue
        if kind == 2:
            length, place = _varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise Rejected("the model file is damaged (unknown wire type)")
        if length > len(data) - place:
            raise Rejected("the model file is damaged (a field is cut off)")
        yield key >> 3, kind, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 and value < 2**64:
            return value, place
    raise Rejected("the model file is damaged (a number is cut off)")


class Message:
    """The fields of a message by number, each a list."""

    def __init__(self, data: Value) -> None:
        if isinstance(data, int):
            raise Rejected("the model file is damaged (a number where a message should be)")
        self._fields: dict[int, list[Value]] = {}
        for number, _, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def all(self, number: int) -> list[Value]:
        return self._fields.get(number, [])

    def messages(self, number: int) -> list[Message]:
        return [Message(value) for value in self.all(number)]

    def message(self, number: int) -> Message:
        """The one message of a field."""
        found = self.all(number)
        if len(found) != 1:
            raise Rejected(f"the model file is damaged (field {number} occurs {len(found)} times)")
        return Message(found[0])

    def texts(self, number: int) -> list[str]:
        found = self.all(number)
        try:
            return [value.decode() for value in found if isinstance(value, bytes)]
        except UnicodeDecodeError:
            raise Rejected("the model file is damaged (a text is no UTF-8)") from None

    def text(self, number: int) -> str:
        return next(iter(self.texts(number)[-1:]), "")

    def integer(self, number: int, default: int = 0) -> int:
        values = self.integers(number)
        return values[-1] if values else default

    def integers(self, number: int) -> list[int]:
        """The whole numbers of a field, single or packed, as signed 64-bit numbers."""
        return [single for value in self.all(number) for single in signed(value)]

    def numbers(self, number: int, form: str) -> NDArray[Any]:
        """The floats of a field, single or packed."""
        parts = [value for value in self.all(number) if isinstance(value, bytes)]
        if any(len(part) % np.dtype(form).itemsize for part in parts):
            raise Rejected("the model file is damaged (a number is cut off)")
        return np.frombuffer(b"".join(parts), form)


def signed(value: Value) -> Iterator[int]:
    """The whole numbers of a field, single or packed."""
    if isinstance(value, int):
        yield value - 2**64 if value >= 2**63 else value
        return
    place = 0
    while place < len(value):
        single, place = _varint(value, place)
        yield single - 2**64 if single >= 2**63 else single


def tensor(message: Message) -> NDArray[Any]:
    """The values of a TensorProto."""
    kind, shape = message.integer(2), message.integers(1)
    if message.all(13) or message.integer(14):
        raise Rejected("the model keeps its weights in another file; save it as one file")
    if kind in (_HALF, _BRAIN):
        return _of_16_bits(message, kind, shape)
    if kind not in _TYPES:
        raise Rejected(f"the model has a constant of a type that is not read here ({kind})")
    form, place = _TYPES[kind]
    if kind == _BOOL:
        values = _truth_values(message)
    elif message.all(9):
        values = message.numbers(9, form)
    elif form in ("<f4", "<f8"):
        values = message.numbers(place, form)
    else:
        values = np.array(message.integers(place), dtype=np.int64).astype(form)
    return _shaped(values, shape)


def _truth_values(message: Message) -> NDArray[Any]:
    """Read truth values, which are 0 or 1: what runtimes make of other numbers is their own."""
    raw = message.all(9)
    stored = message.numbers(9, "u1").tolist() if raw else message.integers(5)
    if not set(stored) <= {0, 1}:
        raise Rejected("a constant of the model has a truth value other than 0 and 1")
    return np.array(stored, dtype=np.bool_)


def _of_16_bits(message: Message, kind: int, shape: list[int]) -> NDArray[Any]:
    """Read numbers of 16 bits; a bfloat16 is the upper half of a float32."""
    if message.all(9):
        bits = message.numbers(9, "<u2")
    else:
        stored = message.integers(5)
        if any(not 0 <= number < 2**16 for number in stored):
            raise Rejected("a constant of the model has a number that does not fit 16 bits")
        bits = np.array(stored, dtype=np.uint16)
    if kind == _HALF:
        return _shaped(bits.astype("<u2").view("<f2").astype(np.float32), shape)
    return _shaped((bits.astype("<u4") << 16).view("<f4"), shape)


def _shaped(values: NDArray[Any], shape: list[int]) -> NDArray[Any]:
    if any(size < 0 for size in shape) or math.prod(shape) != len(values):
        raise Rejected("a constant of the model does not have the size it states")
    return values.reshape(shape)
