"""What a perturbation is: a union of pieces over a domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from vhagar.perturbation.domain import Domain
from vhagar.perturbation.piece import AbstractPiece


class Perturbation(ABC):
    """A perturbation with its range. `str` gives the textual form that `parse` reads."""

    name: ClassVar[str]
    # Whether every piece is an affine map, on top of which another perturbation can come.
    affine: bool = False
    # Whether the textual form defines it; otherwise a certificate contains the maps.
    by_text: bool = True

    def settled(self, domain: Domain) -> Perturbation:
        """The same perturbation over a domain; a user's code is called once, here."""
        return self

    @abstractmethod
    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AbstractPiece, ...]:
        """The union of pieces over a domain; parameters outside their limits are errors."""

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """The arguments in textual form."""

    @property
    def shown(self) -> str:
        """The textual form in sentences, which may be shorter."""
        return str(self)

    @property
    def canonical(self) -> str:
        """The textual form in certificates, which know numbers of features and not their names."""
        return str(self)

    def __str__(self) -> str:
        return f"{self.name}({','.join(self.arguments())})"
