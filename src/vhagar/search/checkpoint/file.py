"""The file of a checkpoint: JSON and arrays of numbers, compressed, behind their SHA-256.

    8 bytes   "VHAGCKPT"
    4 bytes   the format, little-endian like all that follows
    32 bytes  SHA-256 of the rest
    8 bytes   length of the content before it was compressed
    the rest  the content, compressed by zlib: 4 bytes with the length of the JSON, the JSON, and
              the arrays one after the other, in the order in which the JSON gives their lengths

Nothing in it is ever executed. It is written next to its place and moved there, so that a failure
at any moment leaves the file as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import InvalidInput
from vhagar.runtime.output_files import open_in_one_step

MAGIC, FORMAT = b"VHAGCKPT", 3
_HEAD = struct.Struct("<8sI32s")
_LENGTH, _JSON_LENGTH = struct.Struct("<Q"), struct.Struct("<I")
# Speed matters more than size.
_LEVEL = 1

Arrays = Mapping[str, NDArray[np.generic]]


def write_checkpoint(path: Path, about: dict[str, Any], arrays: Arrays) -> None:
    """Replace the file in one step, once all of it is on the disk."""
    lengths = {name: len(array) for name, array in arrays.items()}
    text = json.dumps({**about, "arrays": lengths}, allow_nan=False).encode()
    packer = zlib.compressobj(_LEVEL)
    parts = [_JSON_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays.values())]
    stored = [packer.compress(part) for part in parts] + [packer.flush()]
    length = _LENGTH.pack(sum(map(len, parts)))
    digest = hashlib.sha256(length)
    for part in stored:
        digest.update(part)
    with open_in_one_step(path) as file:
        file.write(_HEAD.pack(MAGIC, FORMAT, digest.digest()))
        file.write(length)
        file.writelines(stored)
        file.flush()
        os.fsync(file.fileno())


def read_checkpoint_file(
    path: Path, dtypes: Mapping[str, np.dtype[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The JSON and the arrays; `dtypes` says of what type the arrays are that may be there."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"no checkpoint at {path}; check the path") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return _parsed(_content(content), dtypes)
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error, struct.error) as error:
        raise InvalidInput(f"{path} is no whole checkpoint: {error}") from None


def _content(stored: bytes) -> bytes:
    if len(stored) < _HEAD.size + _LENGTH.size or not stored.startswith(MAGIC):
        raise ValueError("it does not begin like one, or ends too early")
    _, found, digest = _HEAD.unpack_from(stored)
    if found != FORMAT:
        raise ValueError(f"it is of format {found}, and this version reads format {FORMAT}")
    rest = memoryview(stored)[_HEAD.size :]
    if hashlib.sha256(rest).digest() != digest:
        raise ValueError("its content does not have the SHA-256 that it states")
    (length,) = _LENGTH.unpack_from(rest)
    if length > 1100 * len(rest):  # zlib never makes less of bytes than a part in 1,032
        raise ValueError("it claims to hold more than it can")
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(rest[_LENGTH.size :], length + 1)
    if len(content) != length or not unpacker.eof or unpacker.unused_data:
        raise ValueError("its content does not have the length that it states")
    return content


def _parsed(
    content: bytes, dtypes: Mapping[str, np.dtype[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    (size,) = _JSON_LENGTH.unpack_from(content)
    at = _JSON_LENGTH.size + size
    about = json.loads(content[_JSON_LENGTH.size : at])
    arrays, lengths = {}, about.pop("arrays")
    if not isinstance(lengths, dict):
        raise ValueError("it does not say how long its arrays are")
    for name, count in lengths.items():
        if (
            not isinstance(count, int)
            or not 0 <= count * dtypes[name].itemsize <= len(content) - at
        ):
            raise ValueError(f"its array {name!r} is incomplete")
        arrays[name] = np.frombuffer(content, dtypes[name], count, at)
        at += arrays[name].nbytes
    if at != len(content):
        raise ValueError("there is more in it than it says")
    return about, arrays
