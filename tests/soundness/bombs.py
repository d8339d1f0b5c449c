"""Small certificates that would cost a careless reader all its time or memory.

Each is checked in a process of its own, which reports how long it took and how much memory it had:

    python -m tests.soundness.bombs [NAME ...]
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from .bases import Base, base, forged, joined_json, packed, sealed, with_head

_BASE = 196
_RECORD = np.dtype("<u4,u1,u1,u1,u1,<i4,<u4,<f8")


@dataclass(frozen=True)
class Cost:
    """What the checker said, and what it took."""

    answer: str
    seconds: float
    mebibytes: float


def _block_of_zeros(tag: bytes, size: int, stated: int) -> Callable[[Base], bytes]:
    """A block that unpacks to far more than it takes, or than it states."""

    def build(original: Base) -> bytes:
        inner = zlib.compress(bytes(size), 9)
        block = struct.pack("<4sII", tag, stated, len(inner)) + inner
        whole = [packed(name, raw) for name, raw in original.blocks]
        return sealed([*whole[:1], block, *whole[1:]])

    return build


def _many_blocks_of_zeros(original: Base) -> bytes:
    whole = [packed(name, raw) for name, raw in original.blocks]
    return sealed([*whole[:1], *([packed(b"TREE", bytes(24 * 2**19))] * 20), *whole[1:]])


def _head_of(text: bytes) -> Callable[[Base], bytes]:
    return lambda original: forged([(b"HEAD", text), *original.blocks[1:]])


def _many_trees(original: Base) -> bytes:
    head = original.head
    head["trees"] = [{"target": None, "piece": None}] * 500_000
    return forged(with_head(original.blocks, head))


def _many_targets(original: Base) -> bytes:
    head = original.head
    head["problem"]["targets"] = [head["problem"]["targets"][0]] * 2_000_000
    return forged(with_head(original.blocks, head))


def _perturbation(text: str) -> Callable[[Base], bytes]:
    def build(original: Base) -> bytes:
        head = original.head
        head["problem"]["perturbation"] = text
        return forged(with_head(original.blocks, head))

    return build


def _a_long_chain(original: Base) -> bytes:
    """A tree that is one path of a hundred thousand steps, with a proof at every node."""
    head, steps = original.head, 100_000
    roots = len(head["trees"])
    records = np.zeros(2 * steps, _RECORD)
    numbers = np.arange(steps)
    parents = np.where(numbers == 0, 0, roots + 2 * numbers - 1)
    records["f0"] = np.repeat(parents, 2)
    records["f3"] = np.tile([0, 1], steps)
    head["nodes"] = roots + len(records)
    region = next(raw for tag, raw in original.blocks if tag == b"REGN")
    count = 2 * steps
    nodes = (roots + np.arange(count)).astype("<u4").tobytes()
    proofs = joined_json({"tree": 0, "count": count}, nodes + bytes([3]) * count)
    tree = (b"TREE", records.tobytes())
    return forged(with_head([original.blocks[0], tree, (b"REGN", region), (b"PROF", proofs)], head))


def _many_regions(original: Base) -> bytes:
    """The bounds of the same region over and over."""
    region = next(block for block in original.blocks if block[0] == b"REGN")
    return forged([*original.blocks, *([region] * 20_000)])


def _refined_over_and_over(original: Base) -> bytes:
    blocks = list(original.blocks)
    place = next(k for k, block in enumerate(blocks) if block[0] == b"REGN")
    about = {"piece": 0, "span": None, "layers": [2**40], "refined": [{"layer": 1}] * 10**6}
    blocks[place] = (b"REGN", joined_json(about, b""))
    return forged(blocks)


BOMBS: dict[str, Callable[[Base], bytes]] = {
    "zeros": _block_of_zeros(b"TREE", 2**24, 2**24),
    "more zeros than stated": _block_of_zeros(b"TREE", 2**28, 2**20),
    "a region of zeros": _block_of_zeros(b"REGN", 2**28, 2**28),
    "many blocks of zeros": _many_blocks_of_zeros,
    "a header of lists": _head_of(b"[" + b"[]," * 5_000_000 + b"[]]"),
    "a header of objects": _head_of(b'{"a":[' + b"{}," * 5_000_000 + b"{}]}"),
    "a header of digits": _head_of(b"[" + b"9" * 5_000_000 + b"]"),
    "a deep header": _head_of(b"[" * 10_000_000),
    "many trees": _many_trees,
    "many targets": _many_targets,
    "a million pieces": _perturbation("translation([-500,499],[-500,499])"),
    "very many pieces": _perturbation("translation([-1e9,1e9],[-1e9,1e9])"),
    "absurdly many pieces": _perturbation("occlusion([1,1e300],[1,1e300],[1,1e300])"),
    "digits": _perturbation("linf(0." + "1" * 1_000_000 + ")"),
    "brackets": _perturbation("linf(" + "[" * 1_000_000 + ")"),
    "a long chain": _a_long_chain,
    "many regions": _many_regions,
    "refined over and over": _refined_over_and_over,
}


def costs(names: list[str]) -> dict[str, Cost]:
    """Check bombs, each in a process of its own, forked from one that has everything ready."""
    command = [sys.executable, "-m", f"{__package__}.bombs", *names]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("name"): Cost(**line) for line in lines}


def _cost(name: str, original: Base) -> Cost:
    from vhagar_check import Rejected, check

    content = BOMBS[name](original)
    with TemporaryDirectory() as folder:
        certificate, model = Path(folder) / "certificate", Path(folder) / "model.onnx"
        certificate.write_bytes(content)
        model.write_bytes(original.model)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        try:
            answer = f"accepted {check(certificate, model=model)}"
        except Rejected as refusal:
            answer = f"refused: {refusal}"
        taken = time.perf_counter() - begun
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return Cost(answer[:200], round(taken, 3), round(memory, 1))


def main(names: list[str]) -> None:
    original = base(_BASE)
    for name in names or BOMBS:
        child = os.fork()
        if not child:
            print(json.dumps({"name": name, **asdict(_cost(name, original))}), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
