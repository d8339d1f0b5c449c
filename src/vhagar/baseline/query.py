"""The query to Marabou as plain data, independent of Marabou itself.

    is there an input x, and parameters of one piece of the perturbation, such that
        score[source] - score[j] >= delta   for every j != source, at x
        score[target] - score[j] >= 0       for every j != target, at x_p ?

"No" means that the network is delta-globally robust to that piece and target. Two copies of the
network are encoded side by side; every neuron is a row for its pre-activation and a ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.network import AbstractLinear, Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.relaxed import ModelImage, add_condition_rows, add_zonotope_rows, picked
from vhagar.problem import Problem
from vhagar.solver.linear_model import Columns, LinearArrays, LinearModel


@dataclass(frozen=True, eq=False)
class Query:
    """Columns with bounds, rows, and pairs `(before, after)` of columns that a ReLU connects.

    All columns follow from the `inputs`, which Marabou must know.
    """

    arrays: LinearArrays
    relus: tuple[tuple[int, int], ...]
    inputs: Columns
    x: Columns
    image: ModelImage


class _Builder:
    def __init__(self) -> None:
        self.model = LinearModel()
        self.relus: list[tuple[int, int]] = []
        self.inputs: list[Columns] = []

    def free(self, count: int) -> Columns:
        """Add columns that rows define; Marabou derives their bounds."""
        return self.model.add_columns(np.full(count, -np.inf), np.inf)

    def relu(self, before: Columns) -> Columns:
        after = self.free(len(before))
        self.relus += zip(before.tolist(), after.tolist(), strict=True)
        return after

    def network(self, network: Network, current: Columns) -> Columns:
        """Add one copy, and return the columns of its scores."""
        for layer in network.layers:
            if isinstance(layer, AbstractLinear):
                values = self.free(layer.out_size)
                blocks = [(values, 1.0), (current, -layer.matrix)]
                self.model.add_rows(blocks, layer.flat_bias, layer.flat_bias)
                current = values
            else:
                assert isinstance(layer, Relu)
                bends = slice(None) if layer.linear is None else ~layer.linear
                after = current.copy()
                after[bends] = self.relu(current[bends])
                current = after
        return current


def delta_query(problem: Problem, piece: AbstractPiece, target: int, delta: float) -> Query:
    """Can an input with confidence at least `delta` be pushed into the target by this piece?

    Of the domain's conditions, two are left out: that entries are whole numbers, and that the
    perturbed input lies in the domain. "No" is right without them, and inputs are re-checked.
    """
    check_linear(piece)
    builder, domain = _Builder(), problem.domain
    x = builder.model.add_columns(domain.low, domain.high)
    builder.inputs.append(x)
    every = picked(x, builder.model.column_count)
    add_condition_rows(builder.model, domain, every)
    zonotope = add_zonotope_rows(builder.model, domain, every)
    if zonotope is not None:
        builder.inputs.append(zonotope.coordinates)
    image = _image(builder, piece, x)
    for inputs, label, least in ((x, problem.source, delta), (image.x_p, target, 0.0)):
        scores = builder.network(problem.network, inputs)
        leads = np.delete(-np.eye(problem.network.classes), label, axis=0)
        leads[:, label] = 1.0
        builder.model.add_rows([(scores, leads)], least, np.inf)
    arrays = builder.model.arrays()
    return Query(arrays, tuple(builder.relus), np.concatenate(builder.inputs), x, image)


def check_linear(piece: AbstractPiece) -> None:
    """Refuse pieces that Marabou's linear constraints cannot describe."""
    if not piece.exact_rows:
        raise InvalidInput(
            f"Marabou takes linear constraints only, and {piece.label} multiplies two unknowns; "
            "give a single number instead of a range, or leave this baseline out"
        )


def _image(builder: _Builder, piece: AbstractPiece, x: Columns) -> ModelImage:
    """Add the columns of `x_p`, tied to those of `x`."""
    model, formula = builder.model, piece.formula
    clipped_here = piece.map is None and piece.free_pixels is None
    if formula is not None and formula.clip and clipped_here:
        return _clipped(builder, piece, x)
    before = model.column_count
    image = piece.add_rows(model, x)
    arrays = model.arrays()
    if arrays.integer.any():
        raise InvalidInput(f"Marabou has no integer variables, which {piece.label} needs")
    # Columns without a defining equation are inputs: free pixels, the change of brightness.
    equal = arrays.row_lower == arrays.row_upper
    defined = np.zeros(model.column_count, dtype=np.bool_)
    defined[arrays.matrix[equal].indices] = True
    new = np.arange(before, model.column_count)
    builder.inputs.append(new[~(defined[new] & np.isin(new, image.x_p))])
    return image


def _clipped(builder: _Builder, piece: AbstractPiece, x: Columns) -> ModelImage:
    """Add the clipped image, without integer variables.

    `max(y, lower) = lower + relu(y - lower)`, and `min(y, upper) = upper - relu(upper - y)`.
    """
    model, domain, own = builder.model, piece.domain, piece.required_formula().map
    e = model.add_columns(own.lower, own.upper)
    builder.inputs.append(e)
    blocks = [(x, own.matrix), (e, own.directions)]
    constant, (low, high) = own.offset, own.extremes(domain)
    for leaves, end, sign in (
        (low.min() < domain.lower, domain.lower, 1.0),
        (high.max() > domain.upper, domain.upper, -1.0),
    ):
        if leaves:
            room = builder.free(domain.size)  # sign * (y - end)
            rest = sign * (constant - end)
            rows = [(room, 1.0), *((columns, -sign * part) for columns, part in blocks)]
            model.add_rows(rows, rest, rest)
            same = sparse.csr_array(sparse.eye_array(domain.size, format="csr"))
            blocks, constant = [(builder.relu(room), sign * same)], np.full(domain.size, end)
    x_p = builder.free(domain.size)
    rows = [(x_p, 1.0), *((columns, -part) for columns, part in blocks)]
    model.add_rows(rows, constant, constant)
    width = model.column_count
    return ModelImage(x_p, piece.fixed_parameters(width) or picked(e, width))
