"""Reads cuts, and proves their limits by the formula.

The outputs of neurons that see little are bounded by a small tree of decided signs of neurons that
they depend on. Every leaf has multipliers of its own; what they prove is computed here, and the
largest of it is the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from vhagar_check.container import require_keys, split_json
from vhagar_check.cuts import Cut
from vhagar_check.errors import Rejected
from vhagar_check.formula import Decisions
from vhagar_check.layers import Floats, Indices
from vhagar_check.regions import Numbers, Region, ascending, from_tables, undecided_among

# More than useful cuts have. They limit the work, for every leaf is one evaluation of the formula,
# and what is kept of a region's cuts: the coefficients of their units.
_MOST_CUTS, _MOST_UNITS, _MOST_LEAVES, _DEEPEST = 2**16, 2**22, 2**12, 64
_KEYS = frozenset({"layer", "units", "pixels", "perturbed", "seen", "tree"})
# How many leaves are bounded at once.
_BATCH = 256

Tables = list[tuple[Floats, Floats]]


def with_cuts(region: Region, blocks: Iterable[bytes]) -> Region:
    """A region with the cuts of its CUTS blocks, as far as they are proved."""
    found: list[Cut] = []
    units = 0
    for raw in blocks:
        about, data = split_json(raw)
        require_keys(about, frozenset({"cuts"}), "description of cuts")
        entries = about["cuts"]
        if not isinstance(entries, list) or not 0 < len(entries) <= _MOST_CUTS - len(found):
            raise Rejected("a block has no cuts, or the region too many")
        reader = Numbers(data)
        for entry in entries:
            cut = _read(region, entry, reader)
            found.append(cut)
            units += len(cut.units) + len(cut.pixels) + len(cut.perturbed)
            if units > _MOST_UNITS:
                raise Rejected("the cuts of a region are about too many units and pixels")
        reader.finish()
    return replace(region, cuts=tuple(found))


def _read(region: Region, entry: Any, reader: Numbers) -> Cut:
    """Read a cut, and compute its limit."""
    require_keys(entry, _KEYS, "description of a cut")
    layer = entry["layer"]
    if type(layer) is not int or not 0 <= layer < len(region.status):
        raise Rejected("a cut is about a layer that there is not")
    units = ascending(entry["units"], len(region.status[layer]))
    if not len(units):
        raise Rejected("a cut is about no units")
    if not isinstance(entry["seen"], list):
        raise Rejected("a cut does not say which neurons have multipliers")
    seen = undecided_among(region.status[: layer + 1], entry["seen"])
    leaves = _leaves(entry["tree"], seen)
    size = region.bounds.piece.domain.size
    pixels, perturbed = (ascending(entry.get(key, []), size) for key in ("pixels", "perturbed"))
    counts = len(units), len(units), len(pixels), len(perturbed)
    a, b, c, d = (reader.take("<f8", count).astype(np.float64) for count in counts)
    tables: Tables = []
    for own in seen:
        shape = len(leaves), len(own)
        p, q = (reader.take("<f4", shape[0] * shape[1]).reshape(shape) for _ in "pq")
        tables.append((p.astype(np.float64), q.astype(np.float64)))
    numbers = a, b, c, d, *(part for both in tables for part in both)
    if not all(np.isfinite(part).all() for part in numbers):
        raise Rejected("a cut has numbers that are not finite")
    cut = Cut(layer, units, a, b, np.inf, pixels, c, perturbed, d)
    return replace(cut, limit=_limit(region, cut, leaves, seen, tables))


def _leaves(tree: Any, seen: list[Indices]) -> list[Decisions]:
    """The decisions of each leaf of a tree, which is given in preorder: 0 for a leaf, otherwise the
    neuron and the copy whose sign is decided; the negative sign comes first.

    Every inner node has both signs below it, so that the leaves cover all pairs.
    """
    if not isinstance(tree, list) or not 0 < len(tree) < 2 * _MOST_LEAVES:
        raise Rejected("a cut has no tree, or one with too many leaves")
    places = [set(own.tolist()) for own in seen]
    found: list[Decisions] = []
    waiting: list[dict[tuple[int, int, int], int]] = [{}]
    for node in tree:
        if not waiting:
            raise Rejected("the tree of a cut goes on after its last leaf")
        path = waiting.pop()
        if type(node) is int and node == 0:
            found.append(_decisions(path))
            continue
        if not isinstance(node, list) or [type(part) for part in node] != [int] * 3:
            raise Rejected("the tree of a cut has a node that is none")
        layer, neuron, copy = node
        if not 0 <= layer < len(seen) or neuron not in places[layer] or copy not in (0, 1):
            raise Rejected("the tree of a cut decides about a neuron without multipliers")
        if (layer, neuron, copy) in path or len(path) >= _DEEPEST:
            raise Rejected("the tree of a cut decides about a sign twice, or is too deep")
        waiting += [{**path, (layer, neuron, copy): sign} for sign in (1, -1)]
    if waiting:
        raise Rejected("the tree of a cut lacks a leaf")
    return found


def _decisions(path: dict[tuple[int, int, int], int]) -> Decisions:
    found = Decisions()
    for (layer, neuron, copy), sign in path.items():
        found.signs.setdefault((layer, neuron), {})[copy] = sign
    return found


def _limit(
    region: Region, cut: Cut, leaves: list[Decisions], seen: list[Indices], tables: Tables
) -> float:
    """The largest bound of the leaves; infinity if they prove none."""
    part, places, inside = region.bounds.around(cut.layer, cut.units)
    if inside is not None:
        part.append(region.bounds.hexagons[cut.layer].take(inside[cut.layer]))
        leaves = [_within(leaf, inside) for leaf in leaves]
    limit, on_pixels = -np.inf, None
    if cut.about_inputs:
        c, d = np.zeros((2, region.bounds.piece.domain.size))
        c[cut.pixels], d[cut.perturbed] = cut.c, cut.d
        on_pixels = c, d
    for begin in range(0, len(leaves), _BATCH):
        rows = slice(begin, begin + _BATCH)
        cases = leaves[rows]
        a, b = np.zeros((2, len(cases), len(part.corners[cut.layer].magnitude)))
        a[:, places], b[:, places] = cut.a, cut.b
        choose = from_tables(region.status, [(p[rows], q[rows]) for p, q in tables], seen, inside)
        values = part.upper_of_outputs(cut.layer, a, b, choose, cases, on_pixels)
        limit = max(limit, *np.where(np.isnan(values), np.inf, values).tolist())
    return float(limit) if np.isfinite(limit) else float(np.inf)


def _within(leaf: Decisions, inside: list[Indices]) -> Decisions:
    """The decisions about the neurons of a part of the network, which are counted anew there."""
    found = Decisions()
    for (layer, neuron), signs in leaf.signs.items():
        place = int(np.searchsorted(inside[layer], neuron))
        if place < len(inside[layer]) and inside[layer][place] == neuron:
            found.signs[layer, place] = signs
    return found
