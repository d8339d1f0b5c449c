"""Proofs of cuts: limits hold for all pairs, and what is no proof is refused."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar_check import cone_proofs
from vhagar_check.cone_proofs import with_cuts
from vhagar_check.errors import Rejected
from vhagar_check.formula import Bounds, Decisions
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.rational import ExactBounds
from vhagar_check.regions import OFF, ON, PAIR, Region

from .test_formula import activations, network, pairs

SHAPE = (1, 4, 4)
Entry = dict[str, Any]


def convolutional(rng: np.random.Generator) -> Network:
    """Its second layer sees windows of the first: cuts are proved in a crop."""
    first = Conv(
        rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2) / 2, SHAPE, (1, 1), (0,) * 4, (1, 1), 1
    )
    second = Conv(
        rng.normal(size=(2, 2, 2, 2)), rng.normal(size=2), (2, 3, 3), (1, 1), (0,) * 4, (1, 1), 1
    )
    last = Dense(rng.normal(size=(3, 8)), rng.normal(size=3))
    return Network(((first,), (second,), (last,)), SHAPE)


def region_of(net: Network, kind: type[ExactBounds] | None = None) -> Region:
    (piece,) = pieces("linf(0.25)", Domain(net.input_shape, 0.0, 1.0), True)
    bounds = quick_bounds(net, piece, *([] if kind is None else [kind]))
    status = []
    for h in bounds.hexagons:
        own = np.where(h.off, OFF, np.where(h.on, ON, PAIR))
        status.append(own.astype(np.uint8))
    return Region(0, bounds, status)


def described(
    own: Region, rng: np.random.Generator, layer: int, units: list[int], splits: int
) -> tuple[Entry, np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """A cut with quick multipliers, and a tree that decides some signs of the first layer."""
    a, b = abs(rng.normal(size=(2, len(units))))
    bounds = own.bounds
    rows = np.zeros((2, 1, len(own.status[layer])))
    rows[0, 0, units], rows[1, 0, units] = a, b
    chosen: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def choose(k: int, on_s: np.ndarray, on_t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chosen[k] = bounds.quick(k, on_s, on_t)
        return chosen[k]

    bounds.upper_of_outputs(layer, rows[0], rows[1], choose, [Decisions()])
    seen = [np.flatnonzero(status >= PAIR) for status in own.status[: layer + 1]]
    below = [n for n in seen[0].tolist() if chosen[0][0][0, n] or chosen[0][1][0, n]]
    tree: list[Any] = [0]
    for n in below[:splits]:  # the first leaf is split
        tree = [[0, n, len(tree) % 4 // 2], *tree, 0]
    leaves = tree.count(0)
    tables = [
        tuple(np.repeat(chosen[k][side][:, own], leaves, axis=0) for side in (0, 1))
        for k, own in enumerate(seen)
    ]
    entry = {"layer": layer, "units": units, "seen": [s.tolist() for s in seen], "tree": tree}
    return entry, a, b, tables


def block(
    entry: Entry,
    a: np.ndarray,
    b: np.ndarray,
    tables: list[tuple[np.ndarray, np.ndarray]],
    *on_pixels: np.ndarray,
    **more: Any,
) -> bytes:
    text = json.dumps({"cuts": [entry], **more}).encode()
    ends = a, b, *on_pixels
    parts = [part.astype("<f8").tobytes() for part in ends]
    parts += [part.astype("<f4").tobytes() for both in tables for part in both]
    return struct.pack("<I", len(text)) + text + b"".join(parts)


@pytest.mark.parametrize("pixels", [None, [], [0, 2, 5]])
@pytest.mark.parametrize("perturbed", [None, [1, 2]])
@pytest.mark.parametrize(
    ("build", "layer", "units"),
    [
        (network, 0, [0, 1, 3, 4, 7, 8]),
        (network, 1, [0, 1, 2, 3, 4]),
        (convolutional, 0, [0, 1, 3, 4, 7, 8]),
        (convolutional, 1, [0, 4]),
    ],
)
def test_a_limit_holds_for_all_pairs(
    build: Callable[..., Network],
    layer: int,
    units: list[int],
    pixels: list[int] | None,
    perturbed: list[int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(9)
    net = build(rng)
    own = region_of(net)
    entry, a, b, tables = described(own, rng, layer, units, 3)
    assert len(entry["tree"]) == 7
    tables = [tuple(part * rng.uniform(0.5, 1.5, part.shape) for part in both) for both in tables]
    c, d = (20 * abs(rng.normal(size=len(some or []))) for some in (pixels, perturbed))
    entry |= {} if pixels is None else {"pixels": pixels}
    entry |= {} if perturbed is None else {"perturbed": perturbed}
    (cut,) = with_cuts(own, [block(entry, a, b, tables, c, d)]).cuts
    best = -np.inf
    for x, x_p in pairs(own.bounds.piece, rng, 60):
        outputs = (activations(net, part)[layer] for part in (x, x_p))
        value = sum(
            Fraction(float(c)) * max(s[n], 0)
            for weights, s in zip((a, b), outputs, strict=True)
            for n, c in zip(units, weights, strict=True)
        )
        for factors, some, image in ((c, pixels, x), (d, perturbed, x_p)):
            exact = image.fractions()
            ends = zip(some or [], factors, strict=True)
            value += sum(Fraction(float(k)) * exact[n] for n, k in ends)
        assert value <= Fraction(cut.limit)
        best = max(best, float(value))
    assert cut.limit < best + 30
    # In the whole network the same is proved as in the part on which the units depend.
    monkeypatch.setattr(Bounds, "around", lambda self, _, neurons: (self, neurons, None))
    (whole,) = with_cuts(own, [block(entry, a, b, tables, c, d)]).cuts
    assert whole.limit == pytest.approx(cut.limit, rel=1e-9)


def test_a_known_maximum_is_found() -> None:
    """`relu(x - 1/4) - relu(x - 1/2)` is at most 1/4; without decided signs, 3/8 is proved."""
    first = Dense(np.ones((2, 1)), np.array([-0.25, -0.5]))
    own = region_of(Network(((first,), (Dense(np.eye(2), np.zeros(2)),)), (1,)))
    entry = {"layer": 0, "units": [0, 1], "seen": [[0, 1]], "tree": [[0, 0, 0], 0, [0, 1, 0], 0, 0]}
    a, b, q = np.array([1.0, -1.0]), np.zeros(2), np.zeros((3, 2))
    p = np.array([[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]])
    (cut,) = with_cuts(own, [block(entry, a, b, [(p, q)])]).cuts
    assert 0.25 <= cut.limit == pytest.approx(0.25, abs=1e-12)
    # The multipliers of one leaf prove less of another: every leaf has its own.
    for order in ([1, 0, 2], [1, 2, 0]):
        (other,) = with_cuts(own, [block(entry, a, b, [(p[order], q)])]).cuts
        assert other.limit > 0.49
    # In the second copy nothing is decided.
    (other,) = with_cuts(own, [block(entry, b, a, [(q, p)])]).cuts
    assert other.limit > 0.49


FORGERIES: dict[str, tuple[str, Callable[[Entry], None]]] = {
    "a leaf missing": ("lacks a leaf", lambda e: e["tree"].pop()),
    "a leaf too many": ("after its last leaf", lambda e: e["tree"].append(0)),
    "a sign twice": ("twice", lambda e: e["tree"].__setitem__(1, list(e["tree"][0]))),
    "a split elsewhere": ("without multipliers", lambda e: e["tree"][0].__setitem__(0, 2)),
    "a split outside": ("without multipliers", lambda e: e["seen"][0].remove(e["tree"][0][1])),
    "a copy too many": ("without multipliers", lambda e: e["tree"][0].__setitem__(2, 2)),
    "no node": ("that is none", lambda e: e["tree"].__setitem__(0, None)),
    "a child that is true": ("that is none", lambda e: e["tree"].__setitem__(-1, False)),
    "no tree": ("no tree", lambda e: e.update(tree=[])),
    "a huge tree": ("too many leaves", lambda e: e.update(tree=[0] * 2**13)),
    "a tree that is none": ("no tree", lambda e: e.update(tree=0)),
    "a leaf of another number": ("that is none", lambda e: e["tree"].__setitem__(-1, 1)),
    "a node without a copy": ("that is none", lambda e: e["tree"][0].pop()),
    "a node of truths": ("that is none", lambda e: e["tree"][0].__setitem__(0, False)),
    "no layer": ("layer that there is not", lambda e: e.update(layer=2)),
    "a layer that is true": ("layer that there is not", lambda e: e.update(layer=True)),
    "a layer below": ("layer", lambda e: e.update(layer=0)),
    "a unit too many": ("that there are not", lambda e: e.update(units=[1, 5])),
    "units out of order": ("not in order", lambda e: e.update(units=[3, 1])),
    "a unit twice": ("not in order", lambda e: e.update(units=[1, 1])),
    "no units": ("no units", lambda e: e.update(units=[])),
    "nothing seen": ("which neurons", lambda e: e.update(seen=None)),
    "pixels out of order": ("not in order", lambda e: e.update(pixels=[1, 0])),
    "a pixel that there is not": ("that there are not", lambda e: e.update(pixels=[10**6])),
    "pixels without coefficients": ("too few", lambda e: e.update(pixels=[0])),
    "perturbed pixels out of order": ("not in order", lambda e: e.update(perturbed=[1, 0])),
    "a perturbed pixel that there is not": ("there are not", lambda e: e.update(perturbed=[99])),
    "perturbed pixels without coefficients": ("too few", lambda e: e.update(perturbed=[0])),
    "another key": ("not understood", lambda e: e.update(limit=-5.0)),
    "too few numbers": ("too few", lambda e: e.update(units=[0, 1, 3])),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_cuts_are_refused(name: str) -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, a, b, tables = described(own, rng, 1, [1, 3], 3)
    message, edit = FORGERIES[name]
    edit(entry)
    with pytest.raises(Rejected, match=message):
        with_cuts(own, [block(entry, a, b, tables)])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cuts": []}, "no cuts"),
        ({"cuts": {"layer": 0}}, "no cuts"),
        ({"limits": [0.0]}, "not understood"),
    ],
)
def test_a_block_has_cuts_and_nothing_else(more: Entry, message: str) -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    raw = block(*described(own, rng, 1, [1, 3], 1), **more)
    with pytest.raises(Rejected, match=message):
        with_cuts(own, [raw])


def test_numbers_behind_the_last_cut_are_refused() -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    raw = block(*described(own, rng, 1, [1, 3], 1))
    assert len(with_cuts(own, [raw, raw]).cuts) == 2
    with pytest.raises(Rejected, match="too many numbers"):
        with_cuts(own, [raw, raw + bytes(8)])


def test_a_region_has_a_limited_number_of_cuts_units_and_pixels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All blocks count together: each is small, and what is kept of them is not."""
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, *numbers = described(own, rng, 1, [2], 1)
    first = block({**entry, "pixels": [0, 2, 5]}, *numbers, np.ones(3))
    other = block(*described(own, rng, 1, [1, 3], 1))
    for name, value in (("_MOST_CUTS", 3), ("_MOST_UNITS", 8)):
        with monkeypatch.context() as patch:
            patch.setattr(cone_proofs, name, value)
            assert len(with_cuts(own, [other, other, first]).cuts) == 3
            with pytest.raises(Rejected, match="too many"):
                with_cuts(own, [other, other, first, first])


def halfway(size: int) -> Region:
    """Every unit is 0 for one half of the range of its own input."""
    stages = (Dense(np.eye(size), np.full(size, -0.5)),), (Dense(np.eye(size), np.zeros(size)),)
    return region_of(Network(stages, (size,)))


def test_every_leaf_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of three units are decided in both copies, but for one, in as many leaves as may be."""
    own, bits = halfway(3), 5
    nodes: list[Any] = [0]
    for k in range(bits):  # the last one is the first that is decided: its bit is the highest
        nodes = [[0, k // 2, k % 2], *nodes, *nodes]
    entry = {"layer": 0, "units": [0, 1, 2], "seen": [[0, 1, 2]], "tree": nodes}
    signs = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    p, q = signs[:, 0::2].astype(float), np.hstack([signs[:, 1::2], np.zeros((2**bits, 1))])
    a, b = np.ones(3), np.array([1.0, 1.0, 0.0])
    monkeypatch.setattr(cone_proofs, "_MOST_LEAVES", 2**bits)
    monkeypatch.setattr(cone_proofs, "_BATCH", 5)
    (cut,) = with_cuts(own, [block(entry, a, b, [(p, q)])]).cuts
    assert 2.5 <= cut.limit == pytest.approx(2.5)
    for useless in range(2**bits):
        other = p.copy()
        other[useless] += 100.0
        (cut,) = with_cuts(own, [block(entry, a, b, [(other, q)])]).cuts
        assert cut.limit > 50
    monkeypatch.setattr(cone_proofs, "_MOST_LEAVES", 2**bits - 1)
    with pytest.raises(Rejected, match="too many leaves"):
        with_cuts(own, [block(entry, a, b, [(p, q)])])


def test_one_leaf_is_a_tree() -> None:
    own = halfway(2)
    entry = {"layer": 0, "units": [0, 1], "seen": [[0, 1]], "tree": [0]}
    half = np.full((1, 2), 0.5)
    (cut,) = with_cuts(own, [block(entry, np.ones(2), np.zeros(2), [(half, 0 * half)])]).cuts
    assert 1 <= cut.limit == pytest.approx(1)


def test_signs_that_the_units_do_not_depend_on_decide_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neurons outside of the part of the network that is looked at, behind it and within it."""
    rng = np.random.default_rng(9)
    own = region_of(convolutional(rng))
    units = [0, 4]  # one place of both channels: they see four of nine places of two channels
    _, _, inside = own.bounds.around(1, np.array(units))
    assert inside is not None
    entry, a, b, tables = described(own, rng, 1, units, 2)
    strange = [n for n in entry["seen"][0] if n not in inside[0]]
    assert min(strange) < inside[0].max() < max(strange)
    found, expected = [], []
    for n, copy, _ in itertools.product(strange, (0, 1), range(4)):
        twice = {**entry, "tree": [[0, n, copy], *entry["tree"], *entry["tree"]]}
        # Both sides have multipliers of their own: a sign that counted would show.
        sides = [
            tuple(np.tile(part, (2, 1)) * rng.uniform(0, 2, (6, part.shape[1])) for part in both)
            for both in tables
        ]
        raw = block(twice, a, b, sides)
        found.append(with_cuts(own, [raw]).cuts[0].limit)
        with monkeypatch.context() as patch:
            patch.setattr(Bounds, "around", lambda self, _, neurons: (self, neurons, None))
            expected.append(with_cuts(own, [raw]).cuts[0].limit)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_tree_has_a_limited_depth() -> None:
    own = halfway(80)
    for depth, refused in ((64, False), (65, True)):
        tree: list[Any] = [0]
        for n in range(depth):
            tree = [[0, n, 0], *tree, 0]
        entry = {"layer": 0, "units": [0], "seen": [list(range(80))], "tree": tree}
        zeros = np.zeros((depth + 1, 80))
        raw = block(entry, np.ones(1), np.ones(1), [(zeros, zeros)])
        if refused:
            with pytest.raises(Rejected, match="too deep"):
                with_cuts(own, [raw])
        else:
            assert with_cuts(own, [raw]).cuts[0].limit < 2


@pytest.mark.parametrize("place", ["a", "p"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(place: str, value: float) -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, a, b, tables = described(own, rng, 1, [1, 3], 1)
    (a if place == "a" else tables[0][0][0])[0] = value
    with pytest.raises(Rejected, match="not finite"):
        with_cuts(own, [block(entry, a, b, tables)])


def test_numbers_without_a_bound_give_no_limit() -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, a, b, tables = described(own, rng, 1, [1, 3], 1)
    (cut,) = with_cuts(own, [block(entry, a * 1e308, b * 1e308, tables)]).cuts
    assert cut.limit == np.inf
