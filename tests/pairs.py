"""Whether a piece has any parameters that take one input to another, for tests that know none."""

from __future__ import annotations

import numpy as np

from vhagar.perturbation import AbstractPiece


def related_by(piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray) -> bool:
    """Of one pair `(1, size)`, by trying whatever parameters its pixels call for."""
    candidates = _candidates(piece, x[0], x_p[0])
    every = np.ones((len(candidates), 1))
    return bool(piece.contains(every * x, every * x_p, candidates).any())


def _candidates(piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray) -> np.ndarray:
    formula, low = piece.formula, piece.domain.lower
    assert formula is not None
    own = formula.map
    rest = x_p - own.matrix @ x - own.offset
    if piece.free_pixels is not None:
        return piece.project(rest[piece.free_pixels])[None]
    if not own.count:
        return np.zeros((1, 0))
    if formula.product:
        found = ((x_p - low) / np.maximum(x - low, 1e-300))[:, None]
    elif own.count == 1:
        slopes = own.directions.toarray()[:, 0]
        found = (rest / np.where(slopes == 0, 1.0, slopes))[:, None]
    else:
        found = np.linalg.lstsq(own.directions.toarray(), rest)[0][None]
    return np.concatenate([np.stack(piece.parameter_bounds), piece.project(found)])
