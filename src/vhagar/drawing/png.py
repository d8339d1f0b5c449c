"""Small images as PNG, with the standard library alone."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """Encode an image `(rows, columns, 3)`, or `(rows, columns)` in grey, as a PNG file."""
    rows, columns = pixels.shape[:2]
    colour_type = 0 if pixels.ndim == 2 else 2
    header = struct.pack(">IIBBBBB", columns, rows, 8, colour_type, 0, 0, 0)
    flat = np.ascontiguousarray(pixels).reshape(rows, -1)
    lines = np.hstack([np.zeros((rows, 1), dtype=np.uint8), flat])  # filter 0: none
    content = zlib.compress(lines.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"IDAT", content), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """Encode an image as a data URI, so that a page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(pixels)).decode()


def _chunk(name: bytes, body: bytes) -> bytes:
    check = zlib.crc32(name + body)
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", check)
