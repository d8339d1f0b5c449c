"""Random domains for random problems: boxes, conditions, groups."""

from __future__ import annotations

import numpy as np

from vhagar import Domain, Zonotope, linear_rows


def random_box(domain: Domain, rng: np.random.Generator) -> Domain:
    """Ends at random, on a grid or at the range's; some entries fixed, some whole."""
    ends = np.sort(rng.uniform(domain.lower, domain.upper, (2, domain.size)), axis=0)
    kind = rng.integers(5, size=domain.size)
    ends[0] = np.where(kind < 2, domain.lower, ends[0])
    ends[1] = np.where((kind == 1) | (kind == 2), domain.upper, ends[1])
    ends[1] = np.where(kind == 4, ends[0], ends[1])
    return Domain(domain.shape, *ends, range=(domain.lower, domain.upper), name="box")


def random_conditions(domain: Domain, rng: np.random.Generator) -> Domain:
    """Some of: rows, an equality, an order, whole numbers, a one-hot group, a zonotope."""
    box, size = random_box(domain, rng), domain.size
    low, high = box.low.copy(), box.high.copy()
    inside = rng.uniform(low, high)
    chosen, groups = rng.permutation(size), {}
    binary = domain.lower <= 0 and domain.upper >= 1
    if binary and rng.random() < 0.4:
        (k,), low[chosen[0]], high[chosen[0]] = chosen[:1].tolist(), domain.lower, domain.upper
        groups["integer"], inside[k] = [k], 1.0
    if binary and size >= 5 and rng.random() < 0.4:
        hot = chosen[1:4].tolist()
        low[hot], high[hot], inside[hot] = domain.lower, domain.upper, (1.0, 0.0, 0.0)
        groups["one_hot"] = [hot]
    if rng.random() < 0.3:
        pair = sorted(chosen[-2:].tolist(), key=lambda k: inside[k])
        groups["ordered"] = [pair]
    rows = []
    if rng.random() < 0.7:
        weights = np.round(rng.normal(size=(int(rng.integers(1, 3)), size)), 3)
        rows.append(linear_rows(weights, size, at_most=weights @ inside + rng.uniform(0, 0.3)))
    zonotope = None
    if rng.random() < 0.3:
        parts = rng.normal(size=(2, size)) * domain.width / 3
        zonotope = Zonotope(inside, parts, rng.uniform(0.2, 1.0, 2), 0.1 * domain.width)
    span = (domain.lower, domain.upper)
    return Domain(domain.shape, low, high, range=span, rows=rows, zonotope=zonotope, **groups)


def random_groups(
    shape: tuple[int, ...], span: tuple[float, float], rng: np.random.Generator
) -> Domain:
    """Whole numbers, and if there is room for them, one-hot entries and an order."""
    box = random_box(Domain(shape, *span), rng)
    low, high, size = box.low.copy(), box.high.copy(), box.size
    chosen, groups = rng.permutation(size).tolist(), {}
    if size >= 4 and rng.random() < 0.6:
        hot, chosen = chosen[:3], chosen[3:]
        low[hot], high[hot], groups["one_hot"] = *span, [hot]
    whole = chosen[: int(rng.integers(1, 4))]
    low[whole], high[whole], groups["integer"] = *span, whole
    if len(whole) >= 2 and rng.random() < 0.3:
        groups["ordered"] = [whole[:2]]
    return Domain(shape, low, high, range=span, **groups)
