"""The question: a network, a perturbation, a source class and target classes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.network.as_network import as_network
from vhagar.perturbation import AbstractPiece, Domain, Perturbation, parse
from vhagar.perturbation.affine import identity_piece
from vhagar.perturbation.domain.emptiness import require_inputs
from vhagar.perturbation.domain.file import read_domain
from vhagar.perturbation.domain.names import number_of
from vhagar.perturbation.maps import AffineMap, fingerprint

if TYPE_CHECKING:
    from torch.nn import Module

# How a name begins that needs no "class" before it: the word, and what tells it from others.
_SAYS_CLASS = re.compile(r"class[^a-z]", re.IGNORECASE)

# A target class; None where nothing is attacked.
Target = int | None


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """How confident can an input of class `source` be and still be pushed into a target?

    `network` is a `Network`, the path of an ONNX file, or a PyTorch module; for a module the shape
    of one input is needed, too (`input_shape`). How a model takes an image (channels last, a mean
    to subtract) is said to `read_onnx` or `from_torch`.

    `perturbation` is an object or its textual form. `targets` is one class, several, or None for
    all classes but the source; a class is a number, or a name that the domain has for it. `clip`
    keeps perturbed pixels in the input range; without it brightness, contrast and user-defined maps
    may leave it (the other perturbations never do). `input_range` is the interval of every input
    entry, 0 to 1 unless given. `domain` says which of these inputs the question is about, if not
    all: a `Domain`, or the path of its file. Perturbed inputs need not lie in the domain; they are
    clipped to the input range. `pieces` are those of the perturbation over the domain.

    Without a perturbation the question is how confident the network can be at all in the source
    class; there are no targets then.
    """

    network: Network
    perturbation: Perturbation | None
    source: int
    targets: tuple[int, ...]
    clip: bool
    domain: Domain
    pieces: tuple[AbstractPiece, ...]

    def __init__(
        self,
        network: Network | str | os.PathLike[str] | Module,
        *,
        perturbation: Perturbation | str | None,
        source: int | str,
        targets: int | str | Sequence[int | str] | None = None,
        clip: bool = True,
        input_range: tuple[float, float] | None = None,
        input_shape: Sequence[int] | None = None,
        domain: Domain | str | os.PathLike[str] | None = None,
    ) -> None:
        network = as_network(network, input_shape)
        if isinstance(perturbation, str):
            perturbation = parse(perturbation)
        store = object.__setattr__
        domain = domain_of(network, domain, input_range)
        if perturbation is not None:
            if not isinstance(perturbation, Perturbation):
                kind = type(perturbation).__name__
                raise InvalidInput(
                    f'a perturbation is a text such as "linf(0.05)" or an object, not {kind}'
                )
            perturbation = perturbation.settled(domain)
        store(self, "network", network)
        store(self, "perturbation", perturbation)
        store(self, "source", class_number(network, domain, source, "source"))
        store(self, "clip", clip)
        store(self, "domain", domain)
        store(self, "targets", self._checked_targets(targets))
        store(self, "pieces", self._own_pieces())

    def without_perturbation(self) -> Problem:
        """How confident the network can be in the source class at all."""
        return Problem(self.network, perturbation=None, source=self.source, domain=self.domain)

    def rewritten(
        self, network: Network, pieces: tuple[AbstractPiece, ...], domain: Domain
    ) -> Problem:
        """The same question about another network and other pieces, which a reduction has made."""
        changed = copy(self)
        for name, value in (("network", network), ("pieces", pieces), ("domain", domain)):
            object.__setattr__(changed, name, value)
        return changed

    def _checked_targets(self, targets: int | str | Sequence[int | str] | None) -> tuple[int, ...]:
        if self.perturbation is None:
            if targets is not None:
                raise InvalidInput("targets make sense only with a perturbation")
            return ()
        if targets is None:
            return tuple(k for k in range(self.network.classes) if k != self.source)
        several = isinstance(targets, Iterable) and not isinstance(targets, str)
        given: list[Any] = list(targets) if several else [targets]  # type: ignore[arg-type]
        own = self.network, self.domain
        checked = sorted({class_number(*own, target, "target") for target in given})
        if not checked:
            raise InvalidInput("give at least one target class, or None for all others")
        if self.source in checked:
            raise InvalidInput(
                f"{classed(self.source_name)} is both source and target; a target must be another "
                "class"
            )
        return tuple(checked)

    @property
    def recorded_maps(self) -> tuple[AffineMap, ...]:
        """The perturbation's maps if its text does not define them; empty if it does."""
        if self.perturbation is None or self.perturbation.by_text:
            return ()
        return tuple(piece.map for piece in self.pieces if piece.map is not None)

    @cached_property
    def map_fingerprint(self) -> str | None:
        """The SHA-256 of the recorded maps, by which certificates name them."""
        return fingerprint(self.recorded_maps) if self.recorded_maps else None

    def _own_pieces(self) -> tuple[AbstractPiece, ...]:
        """The pieces of the perturbation over the network's input domain."""
        if self.perturbation is None:
            return (identity_piece(self.domain),)
        return self.perturbation.pieces(self.domain, self.clip)

    @property
    def all_others(self) -> bool:
        """Whether every class but the source is a target."""
        return len(self.targets) == self.network.classes - 1

    def class_name(self, label: int | None) -> str:
        """What a class is called: the domain's name for it, or its number."""
        return "none" if label is None else self.domain.class_name(label)

    @property
    def source_name(self) -> str:
        return self.class_name(self.source)

    @property
    def target_names(self) -> str:
        """The target classes, as `3 or 5`."""
        return listed([self.class_name(target) for target in self.targets], "or")

    def __str__(self) -> str:
        """The question in a few words: `mnist_conv1, occlusion(14,14,3), class 2 to 3`."""
        name, over = self.network.name, "" if self.domain.whole else f", over {self.domain}"
        if self.perturbation is None:
            return f"{name}, maximal confidence in {classed(self.source_name)}{over}"
        targets = "any other" if self.all_others else self.target_names
        unclipped = "" if self.clip else " unclipped"
        asked = f"{self.perturbation.shown}{unclipped}, {classed(self.source_name)} to {targets}"
        return f"{name}, {asked}{over}"

    def __repr__(self) -> str:
        return f"Problem({self})"

    @property
    def search_targets(self) -> tuple[Target, ...]:
        """What is searched one by one: each target, or None where nothing is attacked."""
        return self.targets or (None,)


def domain_of(
    network: Network,
    given: Domain | str | os.PathLike[str] | None,
    input_range: tuple[float, float] | None,
) -> Domain:
    """The domain of a network's inputs that a user means."""
    found = _domain_of(network, given, input_range)
    require_inputs(found)
    return found


def _domain_of(
    network: Network,
    given: Domain | str | os.PathLike[str] | None,
    input_range: tuple[float, float] | None,
) -> Domain:
    shape = network.input_shape
    if given is None:
        return Domain(shape, *(input_range or (0.0, 1.0)))
    if not isinstance(given, Domain | str | os.PathLike):
        kind = type(given).__name__
        raise InvalidInput(f"a domain is a vhagar.Domain or the path of its file, not {kind}")
    if not isinstance(given, Domain):
        given, input_range = read_domain(os.fspath(given), shape, input_range), None
    if len(given.classes) not in (0, network.classes):
        raise InvalidInput(
            f"the domain names {len(given.classes)} classes, but the network has {network.classes}"
        )
    if given.shape != shape:
        raise InvalidInput(
            f"the domain is about inputs of shape {given.shape}, but the network's have shape "
            f"{shape}"
        )
    if input_range not in (None, (given.lower, given.upper)):
        raise InvalidInput(
            f"the domain's range is [{given.lower:g},{given.upper:g}]; leave out input_range"
        )
    return given


def listed(labels: Sequence[int | str], word: str) -> str:
    """`3`, `3 or 5`, `3, 5 or 7`."""
    if len(labels) == 1:
        return str(labels[0])
    return f"{', '.join(map(str, labels[:-1]))} {word} {labels[-1]}"


def classed(name: str) -> str:
    """`class 3`; a name such as `class_1` says already what it is."""
    return name if _SAYS_CLASS.match(name) else f"class {name}"


def class_number(network: Network, domain: Domain, label: int | str, what: str) -> int:
    """The number of a class that is given by its number or, if the domain names it, its name."""
    if isinstance(label, str):
        return number_of(label, domain.classes, network.classes, f"{what} class")
    if isinstance(label, bool) or not isinstance(label, Integral):
        raise InvalidInput(f"the {what} class must be a whole number, not {label!r}")
    if not 0 <= label < network.classes:
        raise InvalidInput(
            f"the {what} class {label} does not exist; "
            f"the network's classes are 0 to {network.classes - 1}"
        )
    return int(label)
