"""Regions of proofs by windows, written by hand: small networks, and multipliers at random."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vhagar_check.layers import Array, Dense, Linear, Network
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.regions import Form
from vhagar_check.window_boxes import LEAF
from vhagar_check.window_proofs import Window, WindowRegion


def dense(weight: Array, bias: Array | None = None) -> Dense:
    return Dense(weight, np.zeros(len(weight)) if bias is None else bias)


def form_of(network: Network, text: str, domain: Domain, clip: bool = True) -> Form:
    return Form(network, pieces(text, domain, clip), network, domain)


def windows_in(weight: Array) -> list[tuple[list[int], list[int]]]:
    """Each window's pixels and units: units that see the same pixels, in the order of the first."""
    found: dict[tuple[int, ...], list[int]] = {}
    for unit, row in enumerate(weight):
        seen = tuple(np.flatnonzero(row).tolist())
        if seen:
            found.setdefault(seen, []).append(unit)
    return [(list(pixels), units) for pixels, units in found.items()]


@dataclass
class Written:
    """What a WNDW block states."""

    span: Any
    tree: list[int]
    limits: list[float]
    multipliers: list[Array]  # of a window's pixels, then of their images
    trees: list[list[int]]
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def about_windows(
        cls, windows: list[tuple[list[int], list[int]]], span: Any, rng: np.random.Generator
    ) -> Written:
        """Random multipliers; two trees, one of which halves the first pixel and the shift."""
        of = [rng.normal(size=2 * len(pixels)).astype("<f4") for pixels, _ in windows]
        tree = [k % 2 for k in range(len(windows))]
        limits = rng.normal(size=len(windows)).tolist()
        return cls(span, tree, limits, of, [[0, LEAF, 1, LEAF, LEAF], [LEAF]])

    @property
    def raw(self) -> bytes:
        about = {
            "piece": 0,
            "span": self.span,
            "target": 1,
            "windows": len(self.tree),
            "boxes": [len(tree) for tree in self.trees],
            **self.about,
        }
        text = json.dumps(about).encode()
        parts = [
            struct.pack("<I", len(text)) + text,
            np.array(self.tree, "<u2").tobytes(),
            np.array(self.limits, "<f8").tobytes(),
            *(own.astype("<f4").tobytes() for own in self.multipliers),
            *(bytes(tree) for tree in self.trees),
        ]
        return b"".join(parts)

    def read(self, form: Form) -> WindowRegion:
        return WindowRegion.read(form, self.raw)


def network_of(first: Linear | Array, *last: Linear | Array) -> Network:
    layers = [dense(layer) if isinstance(layer, np.ndarray) else layer for layer in (first, *last)]
    return Network(((layers[0],), tuple(layers[1:])), (layers[0].in_size,))


def shown(window: Window) -> tuple[list[int], list[int]]:
    return window.pixels.tolist(), window.units.tolist()
