"""The page of a study: one self-contained HTML file."""

from __future__ import annotations

import time
from pathlib import Path

from vhagar.report.compare import MOST_COMPARISONS, comparisons
from vhagar.report.data import Group, StudyData
from vhagar.report.data_section import data_section
from vhagar.report.html import (
    block,
    bullets,
    buttons,
    cells,
    document,
    figure,
    head,
    key,
    paragraph,
    pick,
    select,
    table,
    text,
)
from vhagar.report.pairs import (
    MEASURES,
    PairCell,
    PairHeatmap,
    cell_words,
    most_robust,
    pair_heatmaps,
    ranked,
)
from vhagar.report.problems import MOST_CARDS, card_html, problem_html, shown_problems
from vhagar.report.sentences import how, summary, tiles
from vhagar.report.spatial import spatial_heatmaps
from vhagar.report.table import table_html
from vhagar.report.timeline import study_over_time
from vhagar.runtime.output_files import write_bytes
from vhagar.version import __version__

_MOST_RANKED = 5
_FIRST_CARDS = 18  # the same number is in style.css
_MEANING = key(
    [
        ("attackable", "attackable: an input this confident was found"),
        ("unknown", "not known"),
        ("robust", "robust: proven"),
    ]
)


_CONFIDENCE = (
    "The confidence of an input is the margin between its class's score and the next highest. "
    "An input with more confidence than the upper bound of its class is proven robust."
)


def write_page(study: StudyData, path: str | Path) -> None:
    """Write the page of a study."""
    write_bytes(Path(path), page(study).encode())


def page(study: StudyData) -> str:
    """Build the page as HTML text."""
    sections = [
        ("data", "Data", data_section(study)),
        ("pairs", "Pairs", _pairs(study)),
        ("spatial", "Image", _spatial(study)),
        ("compare", "Compare", _compare(study)),
        ("gallery", "Witnesses", _gallery(study)),
        ("problems", "Problem", _problems(study)),
        ("time", "Time", _time(study)),
        ("table", "Table", _table(study)),
        ("how", "How", _how(study)),
    ]
    shown = [(name, word, content) for name, word, content in sections if content]
    name = study.name or "study"
    lead = " ".join(summary(study))
    return document(name, shown, head(name, lead, tiles(study), paragraph(_CONFIDENCE)), _footer())


def _pairs(study: StudyData) -> str:
    heatmaps = pair_heatmaps(study)
    if not heatmaps:
        return ""
    groups = list(dict.fromkeys(heatmap.group for heatmap in heatmaps))
    choices = [(str(groups.index(group)), group.label) for group in groups]
    items = [
        f'<div data-group="{groups.index(heatmap.group)}" data-measure="{heatmap.measure}" '
        f'class="beside">{figure(heatmap)}{_ranking(heatmap)}</div>'
        for heatmap in heatmaps
    ]
    return block(
        "pairs",
        "Every pair of classes",
        paragraph(
            "How confident can an input of the source class be and still be pushed into the target "
            "class? Dark pairs are weak. Choose a cell to see its problem."
        ),
        pick(
            "pairs",
            [select("group", "for", choices), buttons("measure", list(MEASURES), "upper")],
            items,
        ),
    )


def _ranking(heatmap: PairHeatmap) -> str:
    """List the weakest and the most robust pairs."""
    weakest = ranked(heatmap.cells)
    several = min(_MOST_RANKED, len(weakest) // 2)
    parts = [
        f"<h3>{heading}</h3><ol>{''.join(_ranked_item(heatmap.group, cell) for cell in found)}</ol>"
        for heading, found in (
            ("weakest pairs", weakest[:several]),
            ("most robust pairs", most_robust(heatmap.cells)[:several]),
        )
    ]
    return f"<aside>{''.join(parts)}</aside>"


def _ranked_item(group: Group, cell: PairCell) -> str:
    name = text(f"{group.class_name(cell.source)} to {group.class_name(cell.target)}")
    return f'<li><a href="#problem-{cell.number}">{name}</a> {text(cell_words(cell))}</li>'


def _spatial(study: StudyData) -> str:
    heatmaps = spatial_heatmaps(study)
    if not heatmaps:
        return ""
    maps = list(dict.fromkeys(heatmap.map for heatmap in heatmaps))
    kinds = list(dict.fromkeys(one.kind_label for one in maps))
    pairs = list(dict.fromkeys(one.pair for one in maps))
    items = [
        f'<div data-kind="{text(one.kind_label)}" data-classes="{text(one.pair)}" class="three">'
        f"{''.join(figure(heatmap) for heatmap in heatmaps if heatmap.map is one)}</div>"
        for one in maps
    ]
    return block(
        "spatial",
        "Over the image",
        paragraph(
            "Where does a square do the most harm? Each pixel has the largest bound among the "
            "squares that cover it. Rows and columns count from 1."
        ),
        pick(
            "",
            [
                select("kind", "squares", [(kind, kind) for kind in kinds]),
                select("classes", "class", [(pair, pair) for pair in pairs]),
            ],
            items,
            "The study does not ask about this.",
        ),
    )


def _compare(study: StudyData) -> str:
    found = comparisons(study)
    if not found:
        return ""
    heatmaps = {(one.group, one.measure): one for one in pair_heatmaps(study)}
    items = [
        f'<div data-pair="{k}"><p class="note">{text(one.sentence)}</p><div class="three">'
        f"{figure(heatmaps[one.first, 'upper'], f'A: {one.first.label}')}"
        f"{figure(heatmaps[one.second, 'upper'], f'B: {one.second.label}')}"
        f"{figure(one, 'the smaller bound, where it is proven')}</div></div>"
        for k, one in enumerate(found)
    ]
    choices = [(str(k), one.title) for k, one in enumerate(found)]
    more = f" The first {MOST_COMPARISONS} are shown." if len(found) == MOST_COMPARISONS else ""
    return block(
        "compare",
        "Side by side",
        paragraph(
            "Two networks, or two perturbations, pair by pair. The smaller bound is the more "
            "robust one; it is proven where the intervals do not meet (=: they overlap; -: not "
            "asked of both). Networks are compared in percent of the maximal confidence that each "
            f"can reach, because scores have no common unit.{more}"
        ),
        pick("", [select("pair", "compare", choices)], items),
    )


def _gallery(study: StudyData) -> str:
    found = [entry for entry in study.entries if entry.witness is not None]
    entries = [entry for entry in found if entry.question.targets] or found
    if not entries:
        return ""
    confident = sorted(entries, key=lambda entry: -entry.lower)[:MOST_CARDS]
    nearest = ""
    if any(entry.neighbour is not None for entry in entries):
        nearest = ", beside the nearest input of the data set"
    shown = "" if len(entries) <= MOST_CARDS else f" The {MOST_CARDS} most confident are shown."
    return block(
        "gallery",
        "Witnesses",
        paragraph(
            "Inputs that were attacked with success, most confident first: the input and its "
            f"perturbed version{nearest}. Choose one to see it closely.{shown}"
        ),
        f'<div class="cards">{"".join(card_html(entry) for entry in confident)}</div>',
        f'<p><button type="button" id="more-cards">show all {len(confident)}</button></p>'
        if len(confident) > _FIRST_CARDS
        else "",
    )


def _problems(study: StudyData) -> str:
    entries = shown_problems(study)
    if not entries:
        return ""
    options = "".join(
        f'<option value="problem-{entry.number}">{text(entry.group.label)}, {text(entry.pair)}'
        "</option>"
        for entry in entries
    )
    rest = len(study.entries) - len(entries)
    left_out = f" {rest} more robust ones are in the table only." if rest else ""
    return block(
        "problems",
        "One problem",
        '<div class="controls"><label class="problem-picker">problem '
        f'<select id="problem-picker">{options}</select></label></div>',
        paragraph(left_out) if left_out else "",
        _MEANING,
        f'<div class="pick">{"".join(problem_html(entry, study) for entry in entries)}</div>',
    )


def _time(study: StudyData) -> str:
    data = study_over_time(study)
    if not data.seconds:
        return ""
    return block(
        "time",
        "How the study went",
        paragraph(
            "The share of questions that are closed, and the mean gap in percent of the upper "
            "bound, over the time in which the study was running."
        ),
        figure(data),
    )


def _table(study: StudyData) -> str:
    return block(
        "table",
        "All results",
        paragraph("Printed ends are rounded outward. Click a head to sort."),
        '<div class="controls"><label>show <input type="search" id="filter" '
        'placeholder="for example linf closed"></label></div>',
        _MEANING,
        table_html(study),
    )


def _how(study: StudyData) -> str:
    networks = [
        cells([facts.name, facts.file, "x".join(map(str, facts.input_shape))])
        + f"<td class=number>{facts.classes}</td>{cells([facts.fingerprint[:16]])}"
        for facts in study.networks
    ]
    runs = [
        cells([_clock(run.started), _clock(run.ended), run.version, run.executor, run.machine])
        for run in study.runs
    ]
    return block(
        "how",
        "What was proved, and how",
        bullets(how(study)),
        table([cells(["network", "file", "input", "classes", "fingerprint"], "th")], networks),
        "<p></p>",
        table([cells(["from", "to", "vhagar", "work", "machine"], "th")], runs),
    )


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _footer() -> str:
    return (
        f"<footer>Written by vhagar {text(__version__)}. Lower ends are witnesses, upper "
        "ends are proofs; every number on this page is rounded to the safe side.</footer>"
    )
