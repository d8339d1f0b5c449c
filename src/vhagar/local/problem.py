"""The question of local robustness."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.network.as_network import as_network
from vhagar.network.network import confidence
from vhagar.perturbation import Domain, Perturbation
from vhagar.perturbation.domain.outside import why_outside
from vhagar.problem import Problem, domain_of

if TYPE_CHECKING:
    from torch.nn import Module


@dataclass(frozen=True, eq=False, init=False)
class LocalProblem:
    """Does every perturbed version of `image` stay out of the targets?

    The image is rounded to float32, so that it is the same in every precision. `source` is its
    class, and may be given to be sure of it. The other arguments are those of `Problem`, which is
    the same question about all inputs (`everywhere`); a domain must contain the image, and does
    not matter otherwise, so that one with `perturbed_inside` is refused.
    """

    everywhere: Problem
    image: Array  # (size,)

    def __init__(
        self,
        network: Network | str | os.PathLike[str] | Module,
        *,
        perturbation: Perturbation | str,
        image: ArrayLike,
        source: int | str | None = None,
        targets: int | str | Sequence[int | str] | None = None,
        clip: bool = True,
        input_range: tuple[float, float] | None = None,
        input_shape: Sequence[int] | None = None,
        domain: Domain | str | os.PathLike[str] | None = None,
    ) -> None:
        network = as_network(network, input_shape)
        x = _fitting(image, network)
        inputs = domain_of(network, domain, input_range)
        if inputs.perturbed_inside:
            raise InvalidInput(
                f"the domain {inputs} requires perturbed inputs to lie in it (perturbed_inside), "
                "which questions about one image do not take into account; leave that out"
            )
        scores = network.forward(x[None])
        found = int(scores.argmax())
        problem = Problem(
            network,
            perturbation=perturbation,
            source=found if source is None else source,
            targets=targets,
            clip=clip,
            domain=inputs.range_only,
        )
        x = _in_range(x, image, problem.domain)
        if not confidence(scores, problem.source)[0] > 0:
            if found == problem.source:
                raise InvalidInput(
                    f"the image has no class to keep: another score is as high as that of class "
                    f"{problem.source_name}; choose another image"
                )
            raise InvalidInput(
                f"the image is classified {problem.class_name(found)}, not {problem.source_name}; "
                "leave the source class out, or choose another image"
            )
        if not inputs.contains(x[None])[0]:
            raise InvalidInput(f"the image is not in the domain {inputs}{why_outside(inputs, x)}")
        object.__setattr__(self, "everywhere", problem)
        object.__setattr__(self, "image", x)

    @property
    def shaped(self) -> Array:
        """The image in the network's input shape."""
        return self.image.reshape(self.everywhere.network.input_shape)

    def __repr__(self) -> str:
        return f"LocalProblem({self.everywhere})"


def _fitting(image: ArrayLike, network: Network) -> Array:
    """The image as a vector, rounded to float32; an error unless it fits the network."""
    x = np.asarray(image, dtype=np.float32).astype(np.float64).reshape(-1)
    if x.size != network.input_size or not np.isfinite(x).all():
        raise InvalidInput(
            f"an image of {x.size} values does not fit the network's input "
            f"{network.input_shape}, or is not finite"
        )
    return x


def _in_range(x: Array, image: ArrayLike, domain: Domain) -> Array:
    """The image without what rounding put outside of the input range; an error if that is more."""
    inside: Array = np.clip(x, domain.lower, domain.upper)
    moved = abs(inside - np.asarray(image, dtype=np.float64).reshape(-1)).max()
    if moved > 1e-6 * max(1.0, domain.magnitude):
        raise InvalidInput(
            f"the image leaves the input range [{domain.lower:g},{domain.upper:g}]; give the range "
            "with --input-range"
        )
    return inside
