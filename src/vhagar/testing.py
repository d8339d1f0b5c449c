"""Robustness in a test suite: `assert_robust` fails with the answer in words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.perturbation import Domain, Perturbation
from vhagar.problem import Problem
from vhagar.result import Result
from vhagar.result.requirement import Facts, Judgement, Requirement
from vhagar.verify import verify

if TYPE_CHECKING:
    from torch.nn import Module


def assert_robust(
    network: Network | str | os.PathLike[str] | Module,
    *,
    perturbation: str | Perturbation,
    source: int,
    targets: int | Sequence[int] | None = None,
    upper: float | None = None,
    coverage: float | None = None,
    dataset: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
    input_range: tuple[float, float] | None = None,
    input_shape: Sequence[int] | None = None,
    domain: Domain | str | os.PathLike[str] | None = None,
) -> Result:
    """Fail unless it is proven that the network is as robust as demanded; returns the result.

    `upper` is the largest bound that is accepted, `coverage` the smallest share of the inputs in
    `dataset` that must be proven robust. What is undecided fails, too, and the message says so.
    """
    demands = [
        Requirement(quantity, limit)
        for quantity, limit in (("upper", upper), ("coverage", coverage))
        if limit is not None
    ]
    if not demands:
        raise InvalidInput("demand something: upper=..., coverage=..., or both")
    if coverage is not None and dataset is None:
        raise InvalidInput("coverage is the share of a data set; give it as `dataset`")
    problem = Problem(
        network,
        perturbation=perturbation,
        source=source,
        targets=targets,
        input_range=input_range,
        input_shape=input_shape,
        domain=domain,
    )
    result = verify(problem, timeout=timeout, dataset=dataset)
    facts = Facts.of(result)
    failed = [each.words(facts) for each in demands if each.judge(facts) is not Judgement.MET]
    if failed:
        raise AssertionError(f"{'; '.join(failed)}\n{result.summary()}")
    return result
