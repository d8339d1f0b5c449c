"""What a certificate proves, by the engine's own formula: the bounds that were announced, exactly.

Nothing of the search is used but what the certificate holds. The independent checker is another
matter; this shows that what the search recorded is what it did.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vhagar import Problem
from vhagar.perturbation import AbstractPiece
from vhagar.reduction.base import reduce_problem
from vhagar.reduction.contrast import Homogeneous
from vhagar.relaxation import Bounds, largest_confidence
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import Tightening, TwinBounds, quick_bounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.optimality_tightening import side_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.quadratic import Multipliers, differences_of, proven_bound
from vhagar.relaxation.starts import hexagons_of, maxima_of

from ..result.certificates import (
    Stored,
    StoredProof,
    StoredRegion,
    StoredTightening,
    read_certificate,
)

Target = int | None
Span = tuple[float, float] | None


class Proven:
    """Evaluates the proofs of a certificate."""

    def __init__(self, path: Path, problem: Problem) -> None:
        self.problem = problem
        self.stored: Stored = read_certificate(path, problem.network.classes)
        stated = self.stored.head["problem"].get("form")
        assert stated in (None, Homogeneous.name)
        forms = (Homogeneous(),) if stated else ()
        self.searched = reduce_problem(problem, forms).problem
        self.children = self.stored.children()
        self.proofs = self.stored.proofs()
        self._spans: dict[int, Span] = {}
        self._decisions: dict[int, tuple[Decision, ...]] = {}
        self._tree: dict[int, int] = {}
        self._region_models: dict[tuple[int, Target], RegionModel] = {}
        self._walk()

    def leaves(self) -> list[int]:
        return [node for node in range(self.stored.head["nodes"]) if node not in self.children]

    def upper(self, target: Target) -> float:
        """What is proven of a target, before any room for rounding."""
        bounds: dict[tuple[Target, int | None], float] = {}
        for k, tree in enumerate(self.stored.trees):  # by signs, and perhaps also by slopes
            name = tree["target"], tree["piece"]
            bounds[name] = min(bounds.get(name, math.inf), self._value(k))
        own = [value for (about, _), value in bounds.items() if about == target]
        ceiling = bounds.get((None, None), math.inf)
        return max(0.0, min(max(own), ceiling, self.largest()))

    def largest(self) -> float:
        domain = self.problem.domain
        box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
        return largest_confidence(self.problem.network, box, self.problem.source)

    def _walk(self) -> None:
        """Every node's decisions and part of its piece; the tree must be one."""
        for number, tree in enumerate(self.stored.trees):
            self._decisions[number], self._tree[number] = (), number
            piece = self._piece(tree["piece"])
            self._spans[number] = piece.span
        first = len(self.stored.trees)
        for parent, children in self.children.items():
            assert len(children) == 2
            low, high = (self.stored.nodes[child - first] for child in children)
            assert children[1] == children[0] + 1
            assert parent < children[0]
            assert (low["positive"], high["positive"], low["zero"], high["zero"]) == (0, 1, 0, 0)
            same = ("parent", "kind", "copy", "layer", "neuron", "at")
            assert all(low[name] == high[name] for name in same)
            for child, record in zip(children, (low, high), strict=True):
                self._tree[child] = self._tree[parent]
                self._spans[child] = self._spans[parent]
                self._decisions[child] = self._decisions[parent]
                side = bool(record["positive"])
                by_slopes = self.stored.trees[self._tree[child]].get("slopes", False)
                assert (record["kind"] == 2) == by_slopes
                if record["kind"] != 1:
                    place = (int(record[name]) for name in ("layer", "neuron", "copy"))
                    decision = Decision(*place, side)
                    assert decision.place not in {d.place for d in self._decisions[parent]}
                    assert record["at"] == 0
                    self._decisions[child] += (decision,)
                else:
                    span, at = self._spans[parent], float(record["at"])
                    assert span is not None
                    assert span[0] < at < span[1]
                    self._spans[child] = (at, span[1]) if side else (span[0], at)

    def _piece(self, number: int | None) -> AbstractPiece:
        if number is None:
            return self.problem.without_perturbation().pieces[0]
        return self.searched.pieces[number]

    def _value(self, node: int) -> float:
        own = self._own(node) if node in self.proofs else math.inf
        if node not in self.children:
            return own
        return min(own, max(self._value(child) for child in self.children[node]))

    def _own(self, node: int) -> float:
        region, proof = self.proofs[node]
        assert proof.tree == self._tree[node]
        tree = self.stored.trees[proof.tree]
        assert region.head["piece"] == tree["piece"]
        span = region.head["span"]
        assert (None if span is None else tuple(span)) == self._spans[node]
        assert (proof.kind == 4) == tree.get("slopes", False)
        if proof.kind == 4:
            return self._by_slopes(node, region, tree["target"], proof.numbers)
        region_model = self._region_model(region, tree["target"])
        for part in region.tightenings:
            assert part.head["target"] == tree["target"]
            decided = {Decision(*step[:3], bool(step[3])) for step in part.head["decisions"]}
            assert decided <= set(self._decisions[node])
        return max(self._by_formula(node, proof, region_model), region_model.bounds.level)

    def _by_formula(self, node: int, proof: StoredProof, region_model: RegionModel) -> float:
        allowed = region_model.cuts.allowed(self._decisions[node])
        if proof.kind == 0:
            return region_model.quick_upper()
        if proof.kind == 3:
            assert allowed is None
            return -math.inf
        assert allowed is not None
        duals, alpha = duals_of(region_model, proof.numbers)
        value = region_model.formula._evaluate(duals, alpha, allowed)
        if proof.kind == 1:
            assert abs(alpha.sum() - 1) < 1e-12
            return value
        assert not alpha.any()
        assert value < 0
        return -math.inf

    def _by_slopes(
        self, node: int, region: StoredRegion, target: int, numbers: np.ndarray
    ) -> float:
        bounds = stored_bounds(self.searched, self._piece(region.head["piece"]), region)
        every = differences_of(bounds, self.searched.source, target)
        assert every is not None
        known = every.settled({d.place[:2]: d.positive for d in self._decisions[node]})
        slopes = dict(zip(every.places, numbers, strict=False))
        box = numbers[len(every.places) :][known.inputs]
        multipliers = Multipliers(np.array([slopes[place] for place in known.places]), box)
        found = proven_bound(known, multipliers)
        return math.inf if found is None else found

    def _region_model(self, region: StoredRegion, target: Target) -> RegionModel:
        key = (id(region), target)
        if key not in self._region_models:
            piece = self._piece(region.head["piece"])
            if region.head["span"] is not None:
                assert piece.span is not None
                piece = replace(piece, span=tuple(region.head["span"]))
            problem = self.searched if target is not None else self.problem.without_perturbation()
            region_model = RegionModel(problem, stored_bounds(problem, piece, region), target)
            for part in region.tightenings:
                region_model = RegionModel(problem, _tightened(region_model, part), target)
            self._region_models[key] = region_model
        return self._region_models[key]


def stored_bounds(problem: Problem, piece: AbstractPiece, region: StoredRegion) -> TwinBounds:
    """The bounds of a region from what is stored of it."""
    bounds = quick_bounds(problem.network, piece)
    for entry, below in zip(region.head["refined"], region.refined, strict=True):
        _refine(bounds, entry, below)
    _require_status(bounds, region.status)
    return bounds


def _require_status(bounds: TwinBounds, stored: list[np.ndarray]) -> None:
    for layer, status in zip(bounds.hexagons, stored, strict=True):
        assert ((status == 0) == layer.off).all()
        assert ((status == 1) == layer.on).all()
        assert ((status == 3) == (layer.equal & ~layer.on & ~layer.off)).all()


def _tightened(region_model: RegionModel, part: StoredTightening) -> TwinBounds:
    """The bounds of a region with one tightening more."""
    decisions = tuple(Decision(*step[:3], bool(step[3])) for step in part.head["decisions"])
    allowed, level = region_model.cuts.allowed(decisions), part.head["level"]
    assert allowed is not None
    assert level >= max(region_model.bounds.level, 0.0)
    rows = []
    for numbers in part.numbers.astype(np.float64):
        duals, alpha = duals_of(region_model, numbers)
        duals[region_model.model.source_rows] = -alpha
        rows.append(duals)
    places = [(side[0], side[1], side[2]) for side in part.head["sides"]]
    values = side_bounds(region_model, places, np.array(rows), level, allowed)
    found = []
    for layer, known in enumerate(region_model.bounds.hexagons):
        sides = maxima_of(known)
        for (own, neuron, direction), value in zip(places, values, strict=True):
            if own == layer:
                assert value < sides[direction, neuron]
                sides[direction, neuron] = value
        found.append(hexagons_of(sides, known.ratio).meet(known).tightened())
    new = Tightening(b"", level, len(decisions), tuple(found))
    bounds = region_model.bounds.tightened(new)
    _require_status(bounds, part.status)
    return bounds


def _refine(
    bounds: TwinBounds, entry: dict[str, Any], below: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    layer, neurons, seen = entry["layer"], entry["neurons"], entry.get("seen")
    old = bounds.hexagons[layer]
    unit, ratio = np.eye(len(old))[neurons], old.ratio

    def choose(k: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        on, off = bounds.hexagons[k].on, bounds.hexagons[k].off
        p, q = np.where(on, a, 0.0), np.where(on, b, 0.0)
        some = np.flatnonzero(~on & ~off) if seen is None else seen[k]
        p[:, some], q[:, some] = below[k]
        return p, q

    sides = ((-1, 0), (1, 0), (0, -1), (0, 1), (ratio, -1), (-ratio, 1))
    on_s, on_t = (np.concatenate([side[k] * unit for side in sides]) for k in (0, 1))
    found = bounds.bound(layer, on_s, on_t, choose).reshape(6, -1)
    known = [-old.lower, old.upper, -old.lower_p, old.upper_p, -old.gap_lower, old.gap_upper]
    for values, better in zip(known, found, strict=True):
        values[neurons] = np.fmin(values[neurons], better)
    low, high, low_p, high_p, gap_low, gap_high = known
    new = Hexagons(-low, high, -low_p, high_p, -gap_low, gap_high, ratio)
    bounds.replace(layer, new.meet(old).tightened())


def duals_of(region_model: RegionModel, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row duals that hold exactly the stored numbers, and alpha."""
    model = region_model.model
    duals = np.zeros(len(model.arrays.row_lower))
    rest = numbers
    for rows in model.rows:
        pairs, equal = len(rows.pairs), len(rows.equal)
        duals[rows.pair_rows] = -rest[:pairs]
        duals[rows.pair_rows_p] = -rest[pairs : 2 * pairs]
        duals[rows.equal_rows] = -rest[2 * pairs : 2 * pairs + equal]
        rest = rest[2 * pairs + equal :]
    alpha, mu = rest[: len(model.source_rows)], rest[len(model.source_rows) :]
    assert (alpha >= 0).all()
    assert (mu >= 0).all()
    assert len(mu) == len(model.target_rows)
    duals[model.target_rows] = -mu
    return duals, alpha
