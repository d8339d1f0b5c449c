"""One linear stage of a lowered graph: from the outputs of a ReLU layer to the next one's inputs.

Operations that follow one another, each on the whole of its input, are appended to the chain as
they are. From the first branch on, the rest is composed, in float64, into one sparse matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network.chain import LayerChain, require_size
from vhagar.network.graph import Linear, Tensor, Term, Value
from vhagar.network.maps import ScaleMap


@dataclass(frozen=True, eq=False)
class GraphStage:
    """The linear operations of one depth, from the values `entering` to those `leaving`."""

    entering: tuple[Value, ...]
    operations: tuple[Linear, ...]
    leaving: tuple[Tensor, ...]

    def join(self, chain: LayerChain) -> None:
        """Append the stage's layers to the chain."""
        trunk, rest = self.entering, list(self.operations)
        if len(trunk) == 1:
            uses = Counter(term.value for operation in rest for term in operation.terms)
            uses.update(item.value for item in self.leaving)
            while rest and uses[trunk[0]] == 1 and _is_plain(rest[0], trunk[0]):
                operation = rest.pop(0)
                _join_plain(operation, chain)
                trunk = (operation.output,)
        if len(self.leaving) == 1 and trunk == (self.leaving[0].value,):
            chain.reshape(self.leaving[0].shape)
            return
        matrix, offset = _composed(trunk, rest, [item.value for item in self.leaving])
        alone = len(self.leaving) == 1
        chain.sparse(matrix, offset, self.leaving[0].shape if alone else (len(offset),))


def _is_plain(operation: Linear, operand: Value) -> bool:
    return len(operation.terms) == 1 and operation.terms[0].value is operand


def _join_plain(operation: Linear, chain: LayerChain) -> None:
    operation.terms[0].map.join(chain)
    if operation.offset is not None:
        chain.scale_and_shift(np.ones(chain.shape), operation.offset.reshape(chain.shape))


def _composed(
    sources: Sequence[Value], operations: Sequence[Linear], wanted: Sequence[Value]
) -> tuple[sparse.csr_array, Array]:
    """Return the wanted values, stacked, as a linear map of the sources."""
    width = sum(value.size for value in sources)
    known: dict[Value, _Expression] = {}
    start = 0
    for value in sources:
        same = sparse.eye_array(value.size, format="csr")
        known[value] = _Expression(_shifted(same, start, width), None, start)
        start += value.size
    for operation in operations:
        known[operation.output] = _sum_of(operation, known)
    parts = [known[value] for value in wanted]
    require_size(sum(part.matrix.nnz for part in parts))
    matrix = sparse.csr_array(sparse.vstack([part.matrix for part in parts], format="csr"))
    return matrix, np.concatenate([part.full_offset for part in parts])


@dataclass(frozen=True, eq=False)
class _Expression:
    """A value as `matrix @ sources + offset`; `start` if it is a slice of the sources."""

    matrix: sparse.csr_array
    offset: Array | None
    start: int | None = None

    @property
    def full_offset(self) -> Array:
        return np.zeros(self.matrix.shape[0]) if self.offset is None else self.offset


def _sum_of(operation: Linear, known: dict[Value, _Expression]) -> _Expression:
    matrix, offset = None, operation.offset
    for term in operation.terms:
        part = _applied(term, known[term.value])
        matrix = part.matrix if matrix is None else sparse.csr_array(matrix + part.matrix)
        if part.offset is not None:
            offset = part.offset if offset is None else offset + part.offset
    return _Expression(matrix, offset)


def _applied(term: Term, operand: _Expression) -> _Expression:
    require_size(term.map.entries)
    if isinstance(term.map, ScaleMap):
        scale, shift = term.map.scale.reshape(-1), term.map.offset
        return _Expression(
            _rows_scaled(operand.matrix, scale),
            shift if operand.offset is None else operand.offset * scale + shift,
        )
    left, offset = term.map.matrix, term.map.offset
    if operand.offset is not None:
        moved = left @ operand.offset
        offset = moved if offset is None else offset + moved
    if operand.start is not None:
        return _Expression(_shifted(left, operand.start, operand.matrix.shape[1]), offset)
    require_size(int(np.diff(operand.matrix.indptr)[left.indices].sum(dtype=np.int64)))
    return _Expression(sparse.csr_array(left @ operand.matrix), offset)


def _shifted(matrix: sparse.csr_array, start: int, width: int) -> sparse.csr_array:
    """Return the matrix with its columns moved to the right in a wider one."""
    arrays = (matrix.data, matrix.indices.astype(np.int64) + start, matrix.indptr)
    return sparse.csr_array(arrays, shape=(matrix.shape[0], width))


def _rows_scaled(matrix: sparse.csr_array, scale: Array) -> sparse.csr_array:
    values = matrix.data * np.repeat(scale, np.diff(matrix.indptr))
    return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
