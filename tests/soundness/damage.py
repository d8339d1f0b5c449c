"""Damage to a certificate file: what disks, networks and careless hands do. The digest stays."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from .bases import Base

Rng = np.random.Generator
_START = 12


def one_bit(original: Base, rng: Rng) -> bytes:
    content = bytearray(original.certificate)
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(content)


def many_bits(original: Base, rng: Rng) -> bytes:
    content = bytearray(original.certificate)
    for place in rng.choice(len(content), 20, replace=False):
        content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


def cut_off(original: Base, rng: Rng) -> bytes:
    return original.certificate[: rng.integers(len(original.certificate))]


def goes_on(original: Base, rng: Rng) -> bytes:
    return original.certificate + rng.bytes(int(rng.integers(1, 50)))


def a_stretch_of_zeros(original: Base, rng: Rng) -> bytes:
    content = bytearray(original.certificate)
    begin = int(rng.integers(len(content) - 8))
    content[begin : begin + 8] = bytes(len(content[begin : begin + 8]))
    return bytes(content)


def a_stretch_is_missing(original: Base, rng: Rng) -> bytes:
    content = original.certificate
    begin = int(rng.integers(len(content) - 1))
    return content[:begin] + content[begin + int(rng.integers(1, 30)) :]


def _places(original: Base) -> list[tuple[int, int]]:
    """Where each block, with its own header, begins and ends; the last is not among them."""
    found, place = [], _START
    for _ in original.blocks:
        _, _, size = struct.unpack_from("<4sII", original.certificate, place)
        found.append((place, place + 12 + size))
        place += 12 + size
    return found


def two_blocks_swapped(original: Base, rng: Rng) -> bytes:
    content, places = original.certificate, _places(original)
    (a, b), (c, d) = (places[k] for k in sorted(rng.choice(len(places), 2, replace=False)))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def a_block_twice(original: Base, rng: Rng) -> bytes:
    content, places = original.certificate, _places(original)
    begin, end = places[rng.integers(len(places))]
    return content[:end] + content[begin:end] + content[end:]


def a_block_less(original: Base, rng: Rng) -> bytes:
    content, places = original.certificate, _places(original)
    begin, end = places[rng.integers(len(places))]
    return content[:begin] + content[end:]


def a_wrong_length(original: Base, rng: Rng) -> bytes:
    """A length that says more or less than is there."""
    content, places = bytearray(original.certificate), _places(original)
    begin, _ = places[rng.integers(len(places))]
    field = begin + int(rng.choice([4, 8]))
    (value,) = struct.unpack_from("<I", content, field)
    wrong = int(rng.choice([0, 1, value - 1, value + 1, 2**31, 2**32 - 1]))
    struct.pack_into("<I", content, field, wrong)
    return bytes(content)


def another_version(original: Base, rng: Rng) -> bytes:
    version = struct.pack("<I", int(rng.choice([0, 2, 2**32 - 1])))
    return original.certificate[:8] + version + original.certificate[12:]


DAMAGE: dict[str, Callable[[Base, Rng], bytes]] = {
    "one bit flipped": one_bit,
    "many bits flipped": many_bits,
    "cut off": cut_off,
    "goes on": goes_on,
    "a stretch of zeros": a_stretch_of_zeros,
    "a stretch is missing": a_stretch_is_missing,
    "two blocks swapped": two_blocks_swapped,
    "a block twice": a_block_twice,
    "a block less": a_block_less,
    "a length is wrong": a_wrong_length,
    "another version": another_version,
}
