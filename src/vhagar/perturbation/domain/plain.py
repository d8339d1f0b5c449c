"""Domains in JSON's own types, and back."""

from __future__ import annotations

import math
from typing import Any

from vhagar.perturbation.domain.domain import Domain, Shape
from vhagar.perturbation.domain.linear_rows import rows_of_plain
from vhagar.perturbation.domain.zonotope import Zonotope

# Optional arguments that are written as they are.
_OPTIONAL = ("integer", "one_hot", "ordered", "perturbed_inside", "features", "classes")


def plain_domain(domain: Domain) -> dict[str, Any] | None:
    """A domain in JSON's own types; None if it is all of the range."""
    if domain.whole:
        return None
    ends = {"lower": domain.low.tolist(), "upper": domain.high.tolist()}
    found = {"name": domain.name, "sha256": domain.fingerprint, **ends, **domain.groups.plain()}
    if domain.own_rows is not None:
        found["rows"] = domain.own_rows.plain()
    if domain.zonotope is not None:
        found["zonotope"] = domain.zonotope.plain()
    if domain.perturbed_inside:
        found["perturbed_inside"] = True
    return {**found, **domain.names.plain()}


def domain_of_plain(shape: Shape, span: tuple[float, float], given: Any) -> Domain:
    """The domain that `plain_domain` has described, for inputs of a shape and range."""
    if given is None:
        return Domain(shape, *span)
    zonotope = given.get("zonotope")
    return Domain(
        shape,
        given["lower"],
        given["upper"],
        range=span,
        name=given["name"],
        rows=rows_of_plain(given.get("rows", ()), math.prod(shape)),
        zonotope=None if zonotope is None else Zonotope(**zonotope),
        **{key: given[key] for key in _OPTIONAL if key in given},
    )
