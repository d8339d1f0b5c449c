"""The verb `vhagar.local`: local robustness of one image in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from vhagar.dataset import read_image
from vhagar.engine import AbstractEngine
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalResult
from vhagar.local.run import verify_local
from vhagar.network import Network
from vhagar.network.as_network import as_network
from vhagar.options import Options
from vhagar.perturbation import Domain, Perturbation
from vhagar.problem import domain_of

if TYPE_CHECKING:
    from torch.nn import Module


def local(
    network: Network | str | os.PathLike[str] | Module,
    *,
    image: ArrayLike | os.PathLike[str],
    perturbation: Perturbation | str,
    source: int | str | None = None,
    targets: int | str | Sequence[int | str] | None = None,
    clip: bool = True,
    input_range: tuple[float, float] | None = None,
    input_shape: Sequence[int] | None = None,
    domain: Domain | str | os.PathLike[str] | None = None,
    engine: AbstractEngine | None = None,
    timeout: float | None = None,
    relative_gap: float | None = None,
    workers: int = 0,
    seed: int = Options.seed,
    certificate: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> LocalResult:
    """Decide whether every perturbed version of one image keeps its class, and by which margin.

    `image` is an array of the network's input, or the path of an image or .npy file. `source` is
    its class; giving it is optional, and an error if the network disagrees. The search ends with
    the answer; with a `relative_gap` it goes on until the margin is known that precisely. On the
    `device` cuda, or auto if there is a GPU, branch and bound processes more nodes at once. The
    other arguments are those of `Problem` and of `verify`.
    """
    network = as_network(network, input_shape)
    if isinstance(image, str | os.PathLike):
        image = read_image(Path(image), domain_of(network, domain, input_range))
    problem = LocalProblem(
        network,
        perturbation=perturbation,
        image=image,
        source=source,
        targets=targets,
        clip=clip,
        input_range=input_range,
        domain=domain,
    )
    return verify_local(
        problem,
        engine=engine,
        timeout=timeout,
        relative_gap=relative_gap,
        workers=workers,
        seed=seed,
        certificate=None if certificate is None else Path(certificate),
        device=device,
    )
