"""Domains and fits in words: what is narrowed down, and a table of the features."""

from __future__ import annotations

from collections.abc import Sequence

from vhagar.fitting.fit import Fit
from vhagar.perturbation import Domain
from vhagar.problem import classed
from vhagar.result.numbers import counted, share

# Features that a table shows; the rest is counted.
_MOST_ROWS = 60


def domain_lines(domain: Domain) -> list[str]:
    """A domain in a few lines; features with names are a table."""
    shape = " x ".join(map(str, domain.shape))
    span = f"from {domain.lower:g} to {domain.upper:g}"
    lines = [f"domain {domain}: inputs of {shape} entries {span}"]
    if domain.features:  # whose ranges have nothing in common
        lines = [
            f"domain {domain}: inputs of {shape} features",
            f"perturbed features may leave their ranges, as far as the input range, {span}",
        ]
        if domain.perturbed_inside:
            lines[1] = "perturbed inputs must lie in the domain, too"
    if domain.whole:
        lines.append("all of these inputs")
    if domain.restricted.any() and not domain.features:
        width = float((domain.high - domain.low).mean() / domain.width)
        lines.append(
            f"the ranges of {int(domain.restricted.sum())} of {domain.size} entries are narrower; "
            f"on average an entry has {100 * width:.3g} % of the input range"
        )
    fixed = int((domain.low == domain.high).sum())
    if fixed:
        lines.append(f"{fixed} entries have one value" if fixed > 1 else "1 entry has one value")
    if domain.zonotope is not None:
        residual = float(domain.zonotope.residual.mean())
        lines.append(
            f"a zonotope of {domain.zonotope.count} components; residuals are {residual:.3g} on "
            "average"
        )
    if domain.own_rows is not None:
        rows = domain.own_rows.count
        lines.append(counted(rows, "linear row"))
    if domain.classes:
        lines.append(f"classes: {', '.join(domain.classes)}")
    if domain.features or domain.groups.any:
        lines += ["", *table_lines(*feature_rows(domain))]
    return lines


def feature_rows(domain: Domain) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The heads and the rows of a table of the entries: name, range and kind."""
    kinds = entry_kinds(domain)
    rows: list[tuple[str, ...]] = [
        (str(k), domain.entry_name(k), f"{domain.low[k]:.6g}", f"{domain.high[k]:.6g}", kinds[k])
        for k in range(domain.size)
    ]
    return ("entry", "feature", "from", "to", "kind"), rows


def entry_kinds(domain: Domain) -> list[str]:
    """What every entry is beside a number in a range, in words: whole, or part of a group."""
    kinds = ["" for _ in range(domain.size)]
    for k in domain.groups.integer:
        kinds[k] = "integer"
    for number, group in enumerate(domain.groups.one_hot, 1):
        for k in group:
            kinds[k] = f"one-hot {number}"
    for number, group in enumerate(domain.groups.ordered, 1):
        for k in group:
            kinds[k] = (kinds[k] + f", ordered {number}").removeprefix(", ")
    return kinds


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of text, numbers to the right; long tables end in a count."""
    shown = rows[:_MOST_ROWS]
    widths = [max(len(row[k]) for row in (heads, *shown)) for k in range(len(heads))]
    lines = []
    for row in (heads, *shown):
        cells = [
            cell.ljust(width) if head in ("feature", "kind") else cell.rjust(width)
            for head, cell, width in zip(heads, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    if len(rows) > len(shown):
        lines.append(f"... and {len(rows) - len(shown)} more")
    return lines


def coverage_lines(found: Fit) -> list[str]:
    """How much of the held-out half is inside, in all and class by class."""
    inside, count = found.covered
    if not count:
        return []
    lines = [f"{inside} of {count} held-out inputs ({share(inside, count)} %) are inside"]
    for label, (own, total) in (found.classes or {}).items():
        name = found.domain.class_name(label)
        lines.append(f"  {classed(name)}: {own} of {total} ({share(own, total)} %)")
    return lines
