"""Test vectors of domains with conditions: whole numbers and one-hot groups, rows, a zonotope.

`kind_vectors` writes them. A forgery changes one thing: a condition, a split of the tree, or the
part of the domain that a region is about.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vhagar import Domain, Network, Problem, Zonotope, linear_rows, verify
from vhagar.network import Affine, Relu, onnx_bytes, read_onnx
from vhagar_check.container import split_json
from vhagar_check.tree import RECORD

from .test_verdict import Change

Make = Callable[[Path], tuple[Path, Path]]
_SIZE, _ENTRY = 5, 3


def _network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    draw = lambda *size: rng.normal(size=size).astype(np.float32).astype(float)  # noqa: E731
    hidden = Affine(draw(6, _SIZE), draw(6), (_SIZE,), (6,))
    return Network((hidden, Relu((6,)), Affine(draw(3, 6), draw(3), (6,), (3,))), (_SIZE,))


def _whole() -> Domain:
    """A whole number, one of three kinds, and a row of the number and another entry."""
    row = linear_rows([[1.0, 0.0, 0.0, 0.0, 1.0]], _SIZE, at_most=[4.0])
    kinds = {"integer": [0], "one_hot": [[1, 2, 3]], "rows": [row]}
    return Domain((_SIZE,), 0.0, [3, 1, 1, 1, 3], range=(0.0, 3.0), **kinds)


def _rows() -> Domain:
    weights = [[1.0, 1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0, 2.0]]
    rows = linear_rows(weights, _SIZE, at_most=[1.5, 1.0])
    return Domain((_SIZE,), 0.0, 1.0, rows=[rows], ordered=[[3, 4]])


def _zonotope() -> Domain:
    parts = [[0.2, 0.1, 0.0, 0.1, 0.2], [0.0, 0.2, -0.2, 0.1, 0.0]]
    return Domain((_SIZE,), 0.0, 1.0, zonotope=Zonotope(np.full(_SIZE, 0.5), parts, 1.0, 0.15))


def _certified(seed: int, text: str, domain: Domain) -> Make:
    def make(folder: Path) -> tuple[Path, Path]:
        model, path = folder / "model.onnx", folder / "proof.cert"
        model.write_bytes(onnx_bytes(_network(seed)))
        question = {"perturbation": text, "source": 0, "targets": 1, "domain": domain}
        verify(
            Problem(read_onnx(model), **question),
            workers=0,
            timeout=60,
            relative_gap=0.1,
            certificate=path,
        )
        return model, path

    return make


VALID: dict[str, tuple[str, Make]] = {
    "whole numbers": ("five_inputs", _certified(9, "linf(0.4)", _whole())),
    "rows": ("five_other_inputs", _certified(4, "linf(0.2)", _rows())),
    "zonotope": ("five_other_inputs", _certified(4, "linf(0.2)", _zonotope())),
}


def _without(key: str) -> Change:
    """Leave out a condition, without which there are more inputs."""
    return lambda _, head: head["problem"]["domain"].pop(key)


def _row_to(value: float | None) -> Change:
    return lambda _, head: head["problem"]["domain"]["rows"][0].update(at_most=value)


def _zonotope_times(key: str, factor: float) -> Change:
    def change(_: Any, head: dict[str, Any]) -> None:
        zonotope = head["problem"]["domain"]["zonotope"]
        zonotope[key] = [factor * value for value in zonotope[key]]

    return change


def _splits(name: str, value: float) -> Change:
    """Change one field of every split by an entry, alike on both sides."""

    def change(blocks: list[tuple[str, bytes]], _: Any) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag == "TREE":
                records = np.frombuffer(raw, RECORD).copy()
                records[name][records["kind"] == _ENTRY] = value
                blocks[k] = tag, records.tobytes()

    return change


def _regions(edit: Callable[[list[Any]], None]) -> Change:
    """Change the ranges of entries that a region is about, in the first one that has some."""

    def change(blocks: list[tuple[str, bytes]], _: Any) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag == "REGN" and split_json(raw)[0].get("entries"):
                about, data = split_json(raw)
                edit(about["entries"])
                text = json.dumps(about, sort_keys=True).encode()
                blocks[k] = tag, struct.pack("<I", len(text)) + text + data
                return
        raise AssertionError("no region is about a part of the domain")

    return change


def _other_side(entries: list[Any]) -> None:
    """Of an entry that is 0 or 1."""
    entries[0][1:] = [1.0 - end for end in reversed(entries[0][1:])]


INVALID: dict[str, tuple[str, Change]] = {
    "whole numbers, not one of three": ("whole numbers", _without("one_hot")),
    "whole numbers, split between them": ("whole numbers", _splits("at", 0.5)),
    "whole numbers, split elsewhere": ("whole numbers", _splits("at", 7.0)),
    "whole numbers, split of another entry": ("whole numbers", _splits("neuron", 4)),
    "whole numbers, a split of a parameter": ("whole numbers", _splits("kind", 1)),
    "whole numbers, a region of the other side": ("whole numbers", _regions(_other_side)),
    "whole numbers, a region of all": ("whole numbers", _regions(list.clear)),
    "rows, without them": ("rows", _without("rows")),
    "rows, a wider one": ("rows", _row_to(2.5)),
    "rows, one without an end": ("rows", _row_to(None)),
    "zonotope, without it": ("zonotope", _without("zonotope")),
    "zonotope, wider ranges": ("zonotope", _zonotope_times("ranges", 2.0)),
    "zonotope, larger residuals": ("zonotope", _zonotope_times("residual", 2.0)),
}
