"""The page of two models side by side."""

from __future__ import annotations

from pathlib import Path

from vhagar.perturbation.quotients import with_quotients
from vhagar.report.html import (
    SHARES,
    block,
    cells,
    document,
    figure,
    head,
    paragraph,
    shares,
    table,
    text,
)
from vhagar.report.two_models import CoverageVerdict, ModelComparison
from vhagar.result import CoverageCounts
from vhagar.runtime.output_files import write_bytes
from vhagar.sweep.class_coverage import over, share

_PROVEN = {"first": "A", "second": "B", "open": "overlap", "unasked": "not asked"}


def write_two(found: ModelComparison, path: str | Path) -> None:
    """Write the page of a comparison."""
    write_bytes(Path(path), two_page(found).encode())


def two_page(found: ModelComparison) -> str:
    """Build the page as HTML text."""
    name = f"{found.first.name} and {found.second.name}"
    sections = [("data", "Data", _data(found)), ("pairs", "Pairs", _pairs(found))]
    shown = [section for section in sections if section[2]]
    return document(name, shown, _head(found, name))


def _head(found: ModelComparison, name: str) -> str:
    tiles = [
        (str(found.count("first")), "pairs: A proven more robust"),
        (str(found.count("second")), "pairs: B proven more robust"),
        (str(found.count("open")), "pairs: intervals overlap"),
        (str(found.count("unasked")), "pairs: not asked of both"),
    ]
    lead = (
        f"A is {found.first.name}, B is {found.second.name}. {found.conclusion} "
        "Bounds are compared in percent of the "
        "maximal confidence that each network can reach in a class, because scores have no common "
        "unit. A smaller bound is more robust."
    )
    return head(name, lead, tiles)


def _data(found: ModelComparison) -> str:
    if not found.coverages:
        return ""
    heads = ("perturbation", "class", "A", "", "B", "", "more robust")
    return block(
        "data",
        "How much of the data is safe?",
        paragraph(
            "Of the inputs that each network puts into a class, the share that is proven robust. "
            "One is better for certain where more is proven of it than can be true of the other."
        ),
        SHARES,
        table([cells(heads, "th")], map(_row, found.coverages)),
    )


def _row(verdict: CoverageVerdict) -> str:
    label = "all" if verdict.source is None else str(verdict.source)
    sides = "".join(_side(counts) for counts in (verdict.first, verdict.second))
    return (
        f"{cells([with_quotients(verdict.perturbation) + over(verdict.domain), label])}{sides}"
        f"{cells([_PROVEN[verdict.more_robust]])}"
    )


def _side(counts: CoverageCounts | None) -> str:
    if counts is None or not counts.inputs:
        return "<td>no input</td><td></td>"
    return f'<td class="number">{text(share(counts))} %</td><td>{shares(counts)}</td>'


def _pairs(found: ModelComparison) -> str:
    parts = [
        f"<article><h3>{text(f'{pair.first.shown}{over(pair.first.domain_name)}')}</h3>{paragraph(pair.sentence)}"
        f'<div class="three">{figure(pair)}</div></article>'
        for pair in found.pairs
    ]
    return block(
        "pairs",
        "Every pair of classes",
        paragraph(
            "A or B: that one is proven more robust. =: the intervals overlap. -: not asked."
        ),
        *parts,
    )
