"""A group of neurons that see little, and all that they depend on: its LP and its dual formula.

The LP has some dozens of rows and takes about a millisecond. As everywhere, LPs only propose
multipliers; what a cut says is computed from these by the twin dual formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Index
from vhagar.network import SparseAffine
from vhagar.perturbation.relaxed import Expression, constants
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.cone_cuts import ConeCut, Split
from vhagar.relaxation.corners import DecidedSigns
from vhagar.relaxation.influence_cones import RelaxedCone, relaxed_cone
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.cone_branching import ConePseudocosts
from vhagar.relaxation.lp.cone_prices import PixelPrices
from vhagar.relaxation.lp.cone_signs import ConeSigns, undecided_signs
from vhagar.relaxation.lp.lambda_model import PairModel
from vhagar.relaxation.stages import Stage, magnitudes_of
from vhagar.relaxation.twin_dual import INPUTS, Backward, paying, plus_inputs, twin_bound
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.solver.lp_answer import LpAnswer
from vhagar.solver.simplex import Simplex

# Multiples of an infeasible leaf's ray that are tried, relative to its parent's multipliers.
_RAYS = (0.1, 1.0, 10.0, 100.0)
# What an LP of a cone takes, in simplex iterations times entries of a node's LP: an iteration takes
# longer for its size, and most of the time goes into what is around the LP. Measured: 0.8, 2.0 and
# 3.1 ms for one LP with 12 to 38 iterations, on a core that does 8e8 in a second.
_SLOW, _CALL = 6.0, 5e5
# Iterations of one LP, to guess its work.
_ITERATIONS = 20
# Numbers that are remembered: outputs, and the inputs that they were met at.
_MOST_KNOWN = 300_000


@dataclass(frozen=True, eq=False)
class Objective:
    """What is maximised: `a.y + b.y_p + c.x + d.x_p`, `y` and `y_p` the outputs of a cone's units.

    `x` and `x_p` are the pixels of the cone's part of the piece; `d` is empty where the image is a
    function of the input.
    """

    a: Array
    b: Array
    c: Array
    d: Array

    @property
    def stacked(self) -> Array:
        return np.concatenate([self.a, self.b, self.c, self.d])


# The signs that were decided on the way to a node; units are counted within the cone.
Path = tuple[tuple[Split, bool], ...]
# A tree in preorder, the negative child first: the sign that a node decides, or None for a leaf.
Tree = Sequence[Split | None]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A node of the search in a cone: decided signs, its LP's value and multipliers.

    `ray` shows that the node is empty, if its LP says so; `duals` are then its parent's.
    """

    path: Path
    value: float
    duals: Array
    primal: Array | None = None
    basis: Any = None
    ray: Array | None = None


class Cone:
    """A group of neurons of one ReLU layer, and all that they depend on."""

    def __init__(
        self, bounds: TwinBounds, layer: int, units: Index, deadline: Deadline = NEVER
    ) -> None:
        below = relaxed_cone(bounds, layer, units)
        size = len(units)
        outputs = SparseAffine(
            sparse.identity(size, format="csr"), np.zeros(size), (size,), (size,)
        )
        self.layer, self.units = layer, units
        self._cone = RelaxedCone(
            (*below.stages, Stage((outputs,))),
            below.piece,
            [*below.hexagons, bounds.hexagons[layer].take(units)],
            [*below.corners, bounds.corners[layer].take(units)],
            [*below.seen, units],
            below.pixels,
        )
        self._model = PairModel(self._cone, layer + 1)
        self._simplex = Simplex(self._model.arrays, 0, self._model.region_rows, deadline)
        self._deadline = deadline
        self.work = 0.0  # of all searches, in simplex iterations times entries of a node's LP
        # Outputs and inputs in both copies as they were met; `_met` are the latest ones.
        self._known = np.zeros((0, 2 * size + len(self.pixels) + len(self.images)))
        self._met: list[Array] = []

    @property
    def pixels(self) -> Index:
        """The pixels that the neurons' values depend on, in either copy."""
        return self._cone.pixels

    @property
    def first_units(self) -> Index:
        """The units of the first ReLU layer that the neurons depend on."""
        return self._cone.seen[0]

    @property
    def images(self) -> Index:
        """The pixels whose perturbed values are no function of the input; all or none."""
        return self.pixels if self.prices.image_is_free else self.pixels[:0]

    @cached_property
    def _image(self) -> Expression:
        """The perturbed values of `images`."""
        inputs = self._model.inputs
        if inputs.x_p is None or not len(self.images):
            return constants(np.zeros(0), inputs.x.matrix.shape[1])
        return inputs.x_p

    @cached_property
    def prices(self) -> PixelPrices:
        """What the pixels cost the neurons."""
        return PixelPrices(self._model.inputs, self._cone.stages[0].matrix())

    @property
    def undecided(self) -> int:
        """The number of signs that are undecided."""
        return len(self._signs.splits)

    @property
    def expected_work(self) -> float:
        """A guess at the work of one LP."""
        return _SLOW * _ITERATIONS * self.entries + _CALL

    @property
    def entries(self) -> int:
        """The relative cost of one simplex iteration in the cone."""
        return self._simplex.entries

    @cached_property
    def _signs(self) -> ConeSigns:
        equal = [hexagons.equal for hexagons in self._cone.hexagons]
        return undecided_signs(self._model, equal[: self.layer + 1])

    def cut(self, objective: Objective, tree: Tree, leaves: list[Leaf]) -> ConeCut:
        """The cut that a tree proves, from its leaves' multipliers rounded to float32."""
        chosen = np.stack([self._best(objective, leaf) for leaf in leaves])
        limit = float(self._bounds(objective, chosen, [leaf.path for leaf in leaves]).max())
        seen, multipliers = [], []
        for rows, neurons in zip(self._model.rows, self._cone.seen, strict=True):
            places = np.concatenate([rows.pairs, rows.equal])
            order = np.argsort(places)
            p = -chosen[:, np.concatenate([rows.pair_rows, rows.equal_rows])][:, order]
            q = np.zeros_like(p)
            q[:, : len(rows.pairs)] = -chosen[:, rows.pair_rows_p]
            seen.append(neurons[places[order]])
            multipliers.append((p.astype(np.float32), q[:, order].astype(np.float32)))
        named = tuple(None if split is None else self._named(split) for split in tree)
        used, used_p = np.flatnonzero(objective.c), np.flatnonzero(objective.d)
        return ConeCut(
            self.layer,
            self.units,
            objective.a,
            objective.b,
            limit,
            named,
            tuple(seen),
            tuple(multipliers),
            self.pixels[used],
            objective.c[used],
            self.images[used_p],
            objective.d[used_p],
        )

    def _named(self, split: Split) -> Split:
        """A sign with its unit as the network counts it."""
        layer, unit, copy = split
        return layer, int(self._cone.seen[layer][unit]), copy

    def _best(self, objective: Objective, leaf: Leaf) -> Array:
        """A leaf's multipliers; those of an empty one are its parent's plus much of its ray."""
        given = _rounded(leaf.duals)
        if leaf.ray is None or not leaf.ray.any():
            return given
        ray = leaf.ray * (abs(given).max(initial=1.0) / abs(leaf.ray).max())
        tried = [given] + [given + sign * times * ray for times in _RAYS for sign in (1, -1)]
        rows = _rounded(np.stack(tried))
        values = self._bounds(objective, rows, [leaf.path] * len(rows))
        return np.asarray(rows[int(np.nan_to_num(values, nan=np.inf).argmin())])

    def _bounds(self, objective: Objective, duals: Array, paths: list[Path]) -> Array:
        """Proven bounds `(rows,)` of multipliers, each where its path's signs are decided."""

        def choose(layer: int, on_z: Array, on_z_p: Array) -> tuple[Array, Array]:
            rows, on = self._model.rows[layer], self._cone.hexagons[layer].on
            p, q = np.where(on, on_z, 0.0), np.where(on, on_z_p, 0.0)
            p[:, rows.pairs] = -duals[:, rows.pair_rows]
            q[:, rows.pairs] = -duals[:, rows.pair_rows_p]
            p[:, rows.equal] = -duals[:, rows.equal_rows]
            return p, q

        decided = []
        for layer, corners in enumerate(self._cone.corners):
            codes = np.zeros((len(paths), corners.s.shape[1]), dtype=np.uint8)
            for row, path in enumerate(paths):
                for (place, unit, copy), positive in path:
                    if place == layer:
                        codes[row, unit] |= (1 if positive else 2) << (2 * copy)
            decided.append(DecidedSigns(codes, corners.cut()))
        start = np.tile(objective.a, (len(duals), 1)), np.tile(objective.b, (len(duals), 1))

        def add_pixels(layer: int, state: Backward, size: Array | None) -> Backward:
            if layer != INPUTS:
                return state
            d = objective.d if len(objective.d) else np.zeros(len(objective.c))
            return plus_inputs(state, objective.c, d, size)

        with np.errstate(over="ignore", invalid="ignore"):
            found = twin_bound(
                self._cone.stages,
                self._cone.piece,
                start,
                paying(self._cone.corners, choose, decided),
                self._magnitudes,
                add_facts=add_pixels,
            )
        return np.where(np.isnan(found), np.inf, found)

    @cached_property
    def _magnitudes(self) -> list[tuple[Array, ...]]:
        piece = self._cone.piece
        low, high = piece.image_bounds()
        inputs = np.maximum(piece.domain.magnitude, np.maximum(abs(low), abs(high)))
        entering = [inputs, *(corners.magnitude for corners in self._cone.corners)]
        return list(magnitudes_of(self._cone.stages, entering))

    def cost(self, objective: Objective) -> tuple[Array, float]:
        """The function of the LP's columns that is maximised, and its constant."""
        cost, constant, model = np.zeros(self._model.model.column_count), 0.0, self._model
        outputs = (objective.a, model.first), (objective.b, model.second)
        for factors, copy in (*outputs, (objective.c, model.inputs.x), (objective.d, self._image)):
            cost[: copy.matrix.shape[1]] += copy.matrix.T @ factors
            constant += float(copy.constant @ factors)
        return cost, constant

    def known_value(self, objective: Objective) -> float:
        """The largest value of a function of the outputs that is known so far.

        Where nothing is known, the solution of one LP is looked at.
        """
        if not (len(self._known) or self._met):
            self.aim(self.cost(objective)[0])
            answer = self.solved((), None)
            if answer.primal is not None:
                self.value_at(answer.primal, objective)
        if self._met:
            most = max(1, _MOST_KNOWN // self._known.shape[1])
            self._known = np.vstack([self._known, *self._met])[-most:]
            self._met.clear()
        return float((self._known @ objective.stacked).max(initial=-np.inf))

    def value_at(self, primal: Array, objective: Objective) -> float:
        """What the neurons make of the LP's input, which is remembered."""
        outputs = []
        for first, constant in self._first:
            values = first @ primal[: first.shape[1]] + constant
            for hexagons, (matrix, bias) in zip(self._cone.hexagons, self._dense, strict=True):
                values = matrix @ hexagons.after(values) + bias
            outputs.append(values)
        inputs = self._model.inputs.x.value(primal), self._image.value(primal)
        point = np.concatenate([*outputs, *inputs])
        self._met.append(point)
        return float(objective.stacked @ point)

    @cached_property
    def _first(self) -> list[tuple[Array, Array]]:
        """The first layer's pre-activations in both copies, as functions of the columns."""
        return [(copy.matrix.toarray(), copy.constant) for copy in self._model.entering[0]]

    @cached_property
    def _dense(self) -> list[tuple[Array, Array]]:
        """All stages but the first: matrix and bias."""
        return [(stage.matrix().toarray(), stage.bias()) for stage in self._cone.stages[1:]]

    def worths(self, objective: Objective) -> Array:
        """How much each undecided sign can matter, `(signs,)`."""
        on_outputs = [(abs(objective.a), abs(objective.b))]
        for matrix, _ in self._dense[self.layer - 1 :: -1]:
            first, second = on_outputs[-1]
            on_outputs.append((abs(matrix).T @ first, abs(matrix).T @ second))
        on_outputs.reverse()
        found = []
        for layer, unit, copy in self._signs.splits:
            worth = on_outputs[layer][copy][unit]
            if self._cone.hexagons[layer].equal[unit]:
                worth = on_outputs[layer][0][unit] + on_outputs[layer][1][unit]
            found.append(float(worth))
        return np.array(found)

    def solved(self, path: Path, basis: Any) -> LpAnswer:
        """The LP with some signs decided, from a basis."""
        self._deadline.check()
        if basis is not None:
            self._simplex.restore(basis)
        off = [self._signs.sides[split][0 if positive else 1] for split, positive in path]
        self._simplex.switch_off(distinct(np.concatenate(off)) if off else np.zeros(0, np.int64))
        answer = self._simplex.solve()
        self.work += _SLOW * answer.iterations * self.entries + _CALL
        return answer

    def aim(self, cost: Array) -> None:
        """Maximise a function of the columns, with no sign decided."""
        self._simplex.switch_off(np.zeros(0, np.int64))
        self._simplex.aim(cost)

    def decide(self) -> None:
        """From now on signs are decided: a basis stays dual feasible."""
        self._simplex.decide_signs()

    def basis(self) -> Any:
        """The basis of the last LP, for `solved`."""
        return self._simplex.basis()

    @cached_property
    def pseudocosts(self) -> ConePseudocosts:
        """What decisions gained in all searches so far."""
        return ConePseudocosts(self._signs.positive, self._signs.negative)

    def split_at(self, place: int) -> Split:
        """An undecided sign by its place among them."""
        return self._signs.splits[place]

    def place_of(self, split: Split) -> int:
        """The place of a sign among the undecided ones."""
        return self._signs.places[split]


def _rounded(duals: Array) -> Array:
    """Multipliers in float32, as a certificate has them."""
    with np.errstate(over="ignore"):
        return duals.astype(np.float32).astype(np.float64)
