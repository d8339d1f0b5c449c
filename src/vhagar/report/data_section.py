"""The page's section on the data set: perturbations by networks, and details for each class."""

from __future__ import annotations

from collections.abc import Sequence

from vhagar.problem import classed
from vhagar.report.coverage import CoverageBars, coverage_bars, coverage_curves
from vhagar.report.data import StudyData
from vhagar.report.html import SHARES, block, figure, paragraph, pick, select, shares, table, text
from vhagar.sweep.class_coverage import share


def data_section(study: StudyData) -> str:
    """Show how much of the data set is proven robust; empty without a data set."""
    bars = coverage_bars(study)
    if not bars or study.coverage is None:
        return ""
    bars = sorted(bars, key=_proven)
    choices = [(str(k), each.group.label) for k, each in enumerate(bars)]
    items = [f'<div data-group="{k}">{figure(each)}</div>' for k, each in enumerate(bars)]
    by_class = pick("", [select("group", "by class, for", choices)], items)
    curves = "".join(map(figure, coverage_curves(study)))
    return block(
        "data",
        "How much of the data is safe?",
        paragraph(
            f"Of the inputs of {study.coverage.dataset}: those more confident than the bound of "
            "their class are proven robust; the others were attacked, as long as there was time. "
            "Each cell names the class with the smallest proven share."
        ),
        SHARES,
        _matrix(study, bars),
        f'<div class="classes"><div>{by_class}</div><div class="curves">{curves}</div></div>',
    )


def _proven(bars: CoverageBars) -> float:
    return bars.total.robust / max(bars.total.inputs, 1)


def _matrix(study: StudyData, bars: Sequence[CoverageBars]) -> str:
    """A table with perturbations as rows, the least proven first, and networks as columns."""
    networks = {facts.fingerprint: facts.name for facts in study.networks}
    rows: dict[str, dict[str, CoverageBars]] = {}
    for each in bars:
        label = each.group.label.removeprefix(f"{each.group.network}, ")
        rows.setdefault(label, {})[each.group.fingerprint] = each
    order = sorted(rows, key=lambda label: sum(map(_proven, rows[label].values())))
    lines = (
        f'<th scope="row">{_breakable(label)}</th>'
        f"{''.join(_cell(rows[label].get(key)) for key in networks)}"
        for label in order
    )
    heads = ["<th></th>", *(f"<th>{text(name)}</th>" for name in networks.values())]
    return table(heads, lines, "matrix", "scroll lines")


def _breakable(label: str) -> str:
    """A label that a narrow column breaks between arguments, not within a number."""
    return text(label).replace("(", "(<wbr>").replace(",", ",<wbr>")


def _cell(bars: CoverageBars | None) -> str:
    """Show the share that is proven robust, the number of attacks, and the weakest class."""
    if bars is None:
        return "<td>not asked</td>"
    counts, worst = bars.total, bars.weakest
    if worst is None:
        return "<td>no input</td>"
    name = classed(bars.group.class_name(worst.source))
    weakest = f"{name}: {share(worst.coverage.classified)} %"
    return (
        f"<td><b>{text(share(counts))} %</b> {shares(counts)}"
        f"<small>{counts.attackable} attacked; {text(weakest)}</small></td>"
    )
