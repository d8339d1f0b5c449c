"""True certificates of tiny problems, to be damaged: all kinds of proofs, steps and pieces."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from vhagar import Network, Problem, verify
from vhagar.network import AbstractLayer, Affine, onnx_bytes

from ..oracle.cases import Case
from .judge import stored

# Cases of the oracle, and how small a gap is wanted of them: some would split for ever.
# 75 and 195 are contrast as a linear question.
BASES = {2: 1e-3, 5: 1e-3, 40: 1e-3, 46: 1e-3, 196: 1e-3, 236: 1e-3, 248: 1e-3, 1: 0.2, 3: 0.5}
BASES |= {75: 1e-3, 195: 0.05}
_START = b"VHAGCERT" + struct.pack("<I", 1)
Blocks = list[tuple[bytes, bytes]]


@dataclass(frozen=True, eq=False)
class Base:
    """A problem, its model's bytes, and its certificate as a file and as blocks without the end."""

    problem: Problem
    model: bytes
    certificate: bytes
    blocks: Blocks

    @property
    def head(self) -> Any:
        """A fresh copy of the header."""
        return json.loads(self.blocks[0][1])


@cache
def base(number: int) -> Base:
    """The certificate of a case, made now by the verifier as it is."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        case = stored(Case(number).problem(), folder)
        options = {
            "relative_gap": BASES[number],
            "certificate": folder / "certificate",
            "workers": 0,
        }
        result = verify(case.problem, **options)
        assert result.certificate is not None, result.notes
        content = (folder / "certificate").read_bytes()
        return Base(case.problem, case.model.read_bytes(), content, blocks_of(content))


@cache
def other_model(problem: Problem) -> bytes:
    """A network of the same shape with other weights."""
    rng = np.random.default_rng(5)
    layers: list[AbstractLayer] = []
    for layer in problem.network.layers:
        if isinstance(layer, Affine):
            weight = layer.weight * rng.choice([0.5, 1.0, 2.0], layer.weight.shape)
            layers.append(Affine(weight, layer.bias, layer.in_shape, layer.out_shape))
        else:
            layers.append(layer)
    return onnx_bytes(Network(tuple(layers), problem.network.input_shape))


def blocks_of(content: bytes) -> Blocks:
    """The blocks of a certificate, unpacked, without the last."""
    found, place = [], len(_START)
    while place < len(content):
        tag, _, size = struct.unpack_from("<4sII", content, place)
        place += 12
        found.append((tag, zlib.decompress(content[place : place + size])))
        place += size
    assert found[-1][0] == b"END "
    return found[:-1]


def packed(tag: bytes, raw: bytes, length: int | None = None) -> bytes:
    """A block; it may lie about its length."""
    inner = zlib.compress(raw, 6)
    return struct.pack("<4sII", tag, len(raw) if length is None else length, len(inner)) + inner


def sealed(blocks: Iterable[bytes]) -> bytes:
    """A file of packed blocks with the right digest at its end: what a forger would write."""
    content = b"".join([_START, *blocks])
    return content + packed(b"END ", hashlib.sha256(content).digest())


def forged(blocks: Blocks) -> bytes:
    return sealed(packed(tag, raw) for tag, raw in blocks)


def with_head(blocks: Blocks, head: Any) -> Blocks:
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    return [(b"HEAD", text), *blocks[1:]]


def split_json(raw: bytes) -> tuple[Any, bytes]:
    (length,) = struct.unpack_from("<I", raw)
    return json.loads(raw[4 : 4 + length]), raw[4 + length :]


def joined_json(about: Any, data: bytes) -> bytes:
    text = json.dumps(about, sort_keys=True, separators=(",", ":")).encode()
    return struct.pack("<I", len(text)) + text + data
