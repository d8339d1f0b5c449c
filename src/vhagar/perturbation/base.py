"""The base class of perturbations, which are unions of pieces over a domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from vhagar.perturbation.domain import Domain
from vhagar.perturbation.piece import AbstractPiece
from vhagar.perturbation.quotients import with_quotients


class Perturbation(ABC):
    """A perturbation with its range. `str` gives the textual form that `parse` reads."""

    name: ClassVar[str]
    # Whether every piece is an affine map, so that another perturbation can be composed with it.
    affine: bool = False
    # Whether the textual form defines the perturbation; otherwise a certificate contains its maps.
    by_text: bool = True

    def settled(self, domain: Domain) -> Perturbation:
        """The perturbation resolved for a domain; a user's code is called once, here."""
        return self

    @abstractmethod
    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AbstractPiece, ...]:
        """The pieces whose union is the perturbation; parameters beyond their limits are errors."""

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """The arguments in textual form."""

    @property
    def shown(self) -> str:
        """The textual form for use in sentences, possibly abbreviated, with numbers as `2/255`."""
        return with_quotients(str(self)) if self.by_text else str(self)

    @property
    def canonical(self) -> str:
        """The textual form in certificates, which identify features by number and not by name."""
        return str(self)

    def __str__(self) -> str:
        return f"{self.name}({','.join(self.arguments())})"
