"""Compositions of two perturbations: first an affine one, then brightness or linf.

The second is applied to the image of the first; with `clip` the result is clipped once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.perturbation.affine import STAYS, AffinePiece
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.brightness import Brightness
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.linf import Linf
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.piece import AbstractPiece
from vhagar.solver.linear_model import Columns

SECOND = (Brightness, Linf)


@dataclass(frozen=True)
class Composition(Perturbation):
    """`first+second`, such as `occlusion(14,14,3)+linf(0.05)`."""

    first: Perturbation
    second: Perturbation

    name = "composition"

    def __post_init__(self) -> None:
        if not self.first.affine or not isinstance(self.second, SECOND):
            raise InvalidInput(
                f"{self.first} and {self.second} cannot be composed; first comes occlusion, "
                "translation, rotation (only one angle) or a user-defined map, then brightness "
                "or linf"
            )

    @property
    def by_text(self) -> bool:  # type: ignore[override]
        return self.first.by_text

    def settled(self, domain: Domain) -> Composition:
        return Composition(self.first.settled(domain), self.second)

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AbstractPiece, ...]:
        self.second.pieces(domain, clip)  # checks its parameters
        return tuple(self._pieces(domain, clip))

    def _pieces(self, domain: Domain, clip: bool) -> Iterator[AbstractPiece]:
        for piece in self.first.pieces(domain, False):
            label = f"{piece.label}+{self.second}"
            assert isinstance(piece, AffinePiece)  # true of all that can come first
            if isinstance(self.second, Linf):
                # For a perturbation that its text does not define, a certificate needs the map.
                source = _whole_pixels(piece) if self.by_text else None
                if source is not None:
                    every = np.ones(domain.size, dtype=np.bool_)
                    limit = self.second.limit
                    yield LinfBallPiece(domain, label, limit, every, source, piece.facts)
                    continue
                if not clip:
                    raise InvalidInput(
                        f"linf keeps within the input range, so {self} is clipped to it; "
                        "leave out --no-clip (clip=False)"
                    )
            if clip:
                self._require_inside(piece)
            yield AffinePiece(domain, label, self._on_top(piece.map, label), clip, piece.facts)

    def _require_inside(self, piece: AbstractPiece) -> None:
        """Refuse a first part that leaves the input range: clipping once would not be the same."""
        low, high = piece.image_bounds()
        room = STAYS * piece.domain.width
        if low.min() < piece.domain.lower - room or high.max() > piece.domain.upper + room:
            unclipped = "" if isinstance(self.second, Linf) else ", or pass --no-clip (clip=False)"
            raise InvalidInput(
                f"{self.first} leaves the input range, so it would be clipped before and after "
                f"{self.second}; compose a map that stays inside{unclipped}"
            )

    def _on_top(self, start: AffineMap, label: str) -> AffineMap:
        size = start.size
        names: tuple[str, ...]
        if isinstance(self.second, Brightness):
            added, names = np.ones((size, 1)), ("brightness",)
            low, high = (np.array([end]) for end in self.second.span)
        else:
            assert isinstance(self.second, Linf)
            added, names = sparse.eye_array(size), tuple(f"change {k}" for k in range(size))
            low, high = (np.full(size, sign * self.second.limit) for sign in (-1, 1))
        return AffineMap(
            start.matrix,
            sparse.csr_array(sparse.hstack([start.directions, added], format="csr")),
            start.offset,
            np.concatenate([start.lower, low]),
            np.concatenate([start.upper, high]),
            (*start.names, *names),
            label,
        )

    def arguments(self) -> tuple[str, ...]:
        return str(self.first), str(self.second)

    def __str__(self) -> str:
        return f"{self.first}+{self.second}"


def compose(first: Perturbation, second: Perturbation) -> Composition:
    """Apply first an affine perturbation, then brightness or linf."""
    return Composition(first, second)


def _whole_pixels(piece: AffinePiece) -> Columns | None:
    """The source pixel of each image pixel, -1 for black; None if the piece does anything else."""
    own = piece.map
    entries = np.diff(own.matrix.indptr)
    taken = own.matrix.indices
    black = (own.offset == piece.domain.lower) | (entries == 1)
    if not (piece.exact_apply and black.all()) or len(np.unique(taken)) != len(taken):
        return None
    source = np.full(piece.domain.size, -1, dtype=np.int64)
    source[entries == 1] = taken
    return source
