"""Test vectors of cuts: a certificate that rests on some, and forgeries of it.

`kind_vectors` writes them. The second layer sees windows of the first, so that cuts are proved in a
part of the network.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Bab, Network, Problem, verify
from vhagar.network import Affine, Convolution, Relu, onnx_bytes, read_onnx
from vhagar_check.container import split_json

from ..search.test_cone_cutting import cut_everywhere
from .editing import Certificate

Tables = list[list[np.ndarray]]
# Changes a cut's description, its coefficients on both copies and on pixels, and its leaves'
# multipliers.
CutEdit = Callable[[dict[str, Any], list[np.ndarray], Tables], None]
Edit = Callable[[Certificate], None]


def _windows() -> Network:
    rng = np.random.default_rng(0)

    def draw(*size: int) -> np.ndarray:
        return rng.normal(size=size).astype(np.float32).astype(float)

    first = Convolution(draw(2, 1, 2, 2), draw(2) / 2, (1, 4, 4))
    second = Convolution(draw(2, 2, 2, 2), draw(2) / 2, first.out_shape)
    last = Affine(draw(3, second.out_size) / 2, draw(3) / 4, second.out_shape, (3,))
    relus = Relu(first.out_shape), Relu(second.out_shape)
    return Network((first, relus[0], second, relus[1], last), (1, 4, 4))


def certified(folder: Path, text: str = "linf(0.1)") -> tuple[Path, Path]:
    """A model, and a certificate about it that has cuts."""
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(onnx_bytes(_windows()))
    problem = Problem(read_onnx(model), perturbation=text, source=0, targets=1)
    with pytest.MonkeyPatch.context() as patch:
        cut_everywhere(patch)
        engine = Bab(slopes=False, inputs=False)
        verify(problem, engine=engine, workers=0, relative_gap=0.3, certificate=path)
    assert any(region.cuts for region in Certificate.read(path).regions)
    return model, path


def in_cut(change: CutEdit) -> Edit:
    """Change the first cut of a certificate."""

    def edit(certificate: Certificate) -> None:
        region = next(region for region in certificate.regions if region.cuts)
        about, data = split_json(region.cuts[0])
        (entry,) = about["cuts"]
        ends, tables = _arrays(entry, data)
        change(entry, ends, tables)
        numbers = [part.astype("<f8").tobytes() for part in ends]
        numbers += [part.astype("<f4").tobytes() for both in tables for part in both]
        text = json.dumps(about).encode()
        region.cuts[0] = struct.pack("<I", len(text)) + text + b"".join(numbers)

    return edit


def _arrays(entry: dict[str, Any], data: bytes) -> tuple[list[np.ndarray], Tables]:
    units, leaves = len(entry["units"]), entry["tree"].count(0)
    pixels, perturbed = (len(entry.get(key, [])) for key in ("pixels", "perturbed"))
    coefficients = np.frombuffer(data, "<f8", 2 * units + pixels + perturbed).copy()
    ends = np.split(coefficients, np.cumsum([units, units, pixels]))
    place, tables = coefficients.nbytes, []
    for seen in entry["seen"]:
        shape, both = (leaves, len(seen)), []
        for _ in "pq":
            both.append(np.frombuffer(data, "<f4", leaves * len(seen), place).reshape(shape).copy())
            place += 4 * leaves * len(seen)
        tables.append(both)
    return ends, tables


def _weights(change: Callable[[np.ndarray], None]) -> Edit:
    """Change the cuts' weights in every proof of their region."""

    def edit(certificate: Certificate) -> None:
        for region in certificate.regions:
            for _, proofs in region.proofs if region.cuts else ():
                for proof in proofs:
                    if len(proof.numbers):
                        change(proof.numbers[-len(region.cuts) :])

    return edit


def _without_cuts(certificate: Certificate) -> None:
    for region in certificate.regions:
        for _, proofs in region.proofs:
            for proof in proofs:
                proof.numbers = proof.numbers[: len(proof.numbers) - len(region.cuts)]
        region.cuts = []


def _smaller_claim(certificate: Certificate) -> None:
    certificate.claim(0.999 * certificate.head["claims"]["upper"])


def _first_leaf_alone(entry: dict[str, Any], ends: list[np.ndarray], tables: Tables) -> None:
    entry["tree"] = [0]
    tables[:] = [[part[:1] for part in both] for both in tables]


def _leaf_left_out(entry: dict[str, Any], ends: list[np.ndarray], tables: Tables) -> None:
    del entry["tree"][-1]
    tables[:] = [[part[:-1] for part in both] for both in tables]


def _sign_twice(entry: dict[str, Any], ends: list[np.ndarray], tables: Tables) -> None:
    """The last leaf, of positive signs, is split by the sign of the root once more."""
    entry["tree"][-1:] = [list(entry["tree"][0]), 0, 0]
    tables[:] = [[np.vstack([part, part[-1:]]) for part in both] for both in tables]


def _negative_sign_last(entry: dict[str, Any], ends: list[np.ndarray], tables: Tables) -> None:
    """Every leaf has the multipliers of the leaf with the other signs."""
    tables[:] = [[part[::-1] for part in both] for both in tables]


def _other_copy(entry: dict[str, Any], ends: list[np.ndarray], tables: Tables) -> None:
    ends[:2] = ends[1], ends[0]


def _infinite(entry: dict[str, Any], ends: list[np.ndarray], tables: Tables) -> None:
    tables[0][0][0, 0] = np.inf


VALID = {"cuts": ("windows", certified)}
INVALID: dict[str, Edit] = {
    "cuts, a smaller claim": _smaller_claim,
    "cuts, without them": _without_cuts,
    "cuts, without weight": _weights(lambda rho: rho.fill(0.0)),
    "cuts, a negative weight": _weights(lambda rho: np.negative(rho, out=rho)),
    "cuts, more weight": _weights(lambda rho: np.multiply(rho, 1.5, out=rho)),
    "cuts, a leaf left out": in_cut(_leaf_left_out),
    "cuts, one leaf for all": in_cut(_first_leaf_alone),
    "cuts, a sign decided twice": in_cut(_sign_twice),
    "cuts, multipliers of other leaves": in_cut(_negative_sign_last),
    "cuts, a multiplier that is infinite": in_cut(_infinite),
    "cuts, the other copy": in_cut(_other_copy),
    "cuts, the pixels' coefficients negated": in_cut(
        lambda entry, ends, _: np.negative(ends[2], out=ends[2])
    ),
    "cuts, a sign of a neuron without multipliers": in_cut(
        lambda entry, *_: entry["tree"][0].__setitem__(1, 1000)
    ),
    "cuts, of a layer that there is not": in_cut(lambda entry, *_: entry.update(layer=2)),
    "cuts, a limit of their own": in_cut(lambda entry, *_: entry.update(limit=-1.0)),
}
