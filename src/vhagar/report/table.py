"""Show all problems in one table, on the page and for other programs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vhagar.drawing.figure import Cell
from vhagar.report.data import Entry, StudyData
from vhagar.report.html import table, text
from vhagar.result.numbers import interval

COLUMNS = (
    *("problem", "network", "perturbation", "domain", "source", "target", "lower", "upper", "gap"),
    *("percent", "status", "seconds", "nodes", "bound", "engine", "version", "certificate"),
)
# The columns of the page's table that hold no numbers.
_WORDS = ("network", "perturbation", "interval", "status", "certificate")


def table_rows(study: StudyData) -> list[list[Cell]]:
    """Make one row for each target of each problem, with all digits; unknown values are None."""
    rows: list[list[Cell]] = []
    for entry in study.entries:
        for each in entry.targets:
            finite = math.isfinite(each.upper)
            rows.append(
                [
                    *(entry.number, entry.group.network, entry.question.perturbation),
                    entry.group.domain_name or None,
                    *(entry.source, each.target, each.lower),
                    each.upper if finite else None,
                    each.gap if finite else None,
                    _percent(entry, study),
                    *(entry.status, entry.seconds, entry.nodes),
                    None if each.kind is None else each.kind.name.lower(),
                    *(entry.engine, entry.version, entry.certificate),
                ]
            )
    return rows


def _percent(entry: Entry, study: StudyData) -> float | None:
    """The upper end in percent of the maximal confidence, for which a lower bound is enough."""
    largest = None if entry.group.perturbation is None else study.largest_of(entry)
    if largest is None or largest[0] <= 0 or not math.isfinite(entry.upper):
        return None
    return min(100 * entry.upper / largest[0], 100.0)


def table_html(study: StudyData) -> str:
    """Build a sortable table with one row for each problem."""
    certificates = any(entry.certificate is not None for entry in study.entries)
    percents = any(_percent(entry, study) is not None for entry in study.entries)
    heads = [
        *("network", "perturbation", "source", "target", "lower", "upper", "gap %", "interval"),
        *(["% of max"] if percents else []),
        *("status", "s", "nodes"),
        *(["certificate"] if certificates else []),
    ]
    cells = (
        f"<th{'' if head in _WORDS else ' class=number'}><button type=button>{text(head)}"
        "</button></th>"
        for head in heads
    )
    largest = max((e.upper for e in study.entries if math.isfinite(e.upper)), default=1.0)
    rows = (
        "".join(_cells(entry, study, largest, percents, certificates)) for entry in study.entries
    )
    return table(cells, rows, "sortable")


def _cells(
    entry: Entry, study: StudyData, largest: float, percents: bool, certificates: bool
) -> Sequence[str]:
    low, high = interval(entry.lower, entry.upper)
    gap = 100 * entry.relative_gap
    target = "any" if entry.question.targets else "none"
    if entry.target is not None:
        target = entry.group.class_name(entry.target)
    asked = entry.question.shown or "none: maximal confidence"
    found = [
        f"<td>{text(entry.group.network)}</td>",
        f"<td>{text(asked + entry.question.over)}</td>",
        _number(entry.source, entry.group.class_name(entry.source)),
        _number(-1 if entry.target is None else entry.target, target),
        _number(entry.lower, f'<a href="#problem-{entry.number}">{text(low)}</a>', raw=True),
        _number(min(entry.upper, 1e308), high),
        _number(gap, f"{math.ceil(10 * gap) / 10:.1f}" if math.isfinite(gap) else f"{gap}"),
        f"<td>{_bar(entry, largest)}</td>",
    ]
    if percents:
        share = _percent(entry, study)
        shown = "" if share is None else f"{math.ceil(10 * share) / 10:.1f}"
        said = " vacuous" if study.is_vacuous(entry) else ""
        found.append(_number(-1 if share is None else share, shown + said))
    found += [
        f"<td>{text(entry.status)}</td>",
        _number(entry.seconds, f"{entry.seconds:.1f}"),
        _number(entry.nodes, str(entry.nodes)),
    ]
    if certificates:
        found.append(f"<td>{text(entry.certificate or '')}</td>")
    return found


def _number(value: float, shown: object, raw: bool = False) -> str:
    inside = shown if raw else text(shown)
    return f'<td class="number" data-value="{value!r}">{inside}</td>'


def _bar(entry: Entry, largest: float) -> str:
    """Draw the interval on a square-root scale from 0 to the study's largest bound."""
    if not math.isfinite(entry.upper):
        return '<span class="bar"><i style="width:100%"></i></span>'
    low, high = (math.sqrt(end / (largest or 1.0)) for end in (entry.lower, entry.upper))
    parts = "".join(f'<i style="width:{100 * share:.1f}%"></i>' for share in (high, low))
    return f'<span class="bar">{parts}</span>'
