"""Build pieces of HTML; every text from outside is escaped by `text`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from vhagar.drawing.figure import AbstractFigure
from vhagar.result import CoverageCounts


def text(value: object) -> str:
    return escape(str(value))


def block(identifier: str, heading: str, *parts: str) -> str:
    """A section of the page."""
    return (
        f'<section class="block" id="{identifier}"><h2>{text(heading)}</h2>{"".join(parts)}'
        "</section>"
    )


def paragraph(words: str, kind: str = "note") -> str:
    return f'<p class="{kind}">{text(words)}</p>'


def bullets(lines: Iterable[str]) -> str:
    return f'<ul class="plain">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>'


def figure(data: AbstractFigure, caption: str = "") -> str:
    """A figure, perhaps with a line above it."""
    above = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure>{above}{data.draw().svg()}</figure>"


def select(name: str, label: str, choices: Sequence[tuple[str, str]]) -> str:
    """A drop-down list of values with their labels, hidden if there is only one choice."""
    options = "".join(f'<option value="{text(key)}">{text(word)}</option>' for key, word in choices)
    hidden = " hidden" if len(choices) < 2 else ""
    return f'<label{hidden}>{text(label)} <select data-name="{name}">{options}</select></label>'


def buttons(name: str, choices: Sequence[str], chosen: str) -> str:
    """A row of buttons, one of which is pressed."""
    found = "".join(
        f'<button type="button" data-value="{text(word)}" '
        f'aria-pressed="{"true" if word == chosen else "false"}">{text(word)}</button>'
        for word in choices
    )
    return f'<span class="choice" data-name="{name}" role="group">{found}</span>'


def pick(kind: str, controls: Sequence[str], items: Sequence[str], missing: str = "") -> str:
    """A set of figures, one of which is shown at a time."""
    nothing = f'<p class="note missing" hidden>{text(missing)}</p>' if missing else ""
    return (
        f'<div data-pick class="{kind}"><div class="controls">{"".join(controls)}</div>'
        f'<div class="pick">{"".join(items)}</div>{nothing}</div>'
    )


def key(entries: Sequence[tuple[str, str]]) -> str:
    """A legend of colours and their meanings."""
    found = "".join(
        f'<span class="key"><i style="background:var(--{colour})"></i>{text(word)}</span>'
        for colour, word in entries
    )
    return f"<p>{found}</p>"


# What the colours of `shares` mean.
SHARES = key(
    [
        ("robust", "proven robust"),
        ("unknown", "not known"),
        ("attackable", "attacked with success"),
    ]
)


def table(heads: Iterable[str], rows: Iterable[str], kind: str = "", box: str = "scroll") -> str:
    """A table that scrolls by itself: cells of its head and rows of cells, both as HTML."""
    named = f' class="{kind}"' if kind else ""
    return (
        f'<div class="{box}" tabindex="0"><table{named}><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table></div>"
    )


def cells(values: Iterable[object], tag: str = "td") -> str:
    """Cells of a table; every value is escaped."""
    return "".join(f"<{tag}>{text(value)}</{tag}>" for value in values)


def head(name: str, lead: str, tiles: Iterable[tuple[str, str]], *below: str) -> str:
    """The head of a page: its name, a paragraph, and a few key numbers with their labels."""
    boxes = "".join(
        f'<div class="tile"><b>{text(number)}</b><span>{text(what)}</span></div>'
        for number, what in tiles
    )
    return (
        f'<header><h1>{text(name)}</h1><p class="lead">{text(lead)}</p>'
        f'<div class="tiles">{boxes}</div>{"".join(below)}</header>'
    )


def document(name: str, sections: Sequence[tuple[str, str, str]], head: str, foot: str = "") -> str:
    """A self-contained page; each section is its anchor, the word in the menu, and its content."""
    links = "".join(f'<a href="#{anchor}">{word}</a>' for anchor, word, _ in sections)
    folder = resources.files("vhagar.report")
    style, script = ((folder / file).read_text("utf-8") for file in ("style.css", "script.js"))
    return (
        '<!doctype html><html lang="en" class="no-js"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(name)} - robustness report</title><style>{style}</style></head><body>"
        f'<nav><strong>VHAGaR</strong>{links}<button id="theme" type="button">light/dark</button>'
        f"</nav><main>{head}{''.join(content for _, _, content in sections)}"
        f"{foot}</main><script>{script}</script></body></html>\n"
    )


def shares(counts: CoverageCounts) -> str:
    """A bar of the inputs' shares: proven robust on the left, attacked on the right."""
    robust, attackable = (
        100 * number / max(counts.inputs, 1) for number in (counts.robust, counts.attackable)
    )
    what = f"{counts.robust} robust, {counts.unknown} not known, {counts.attackable} attacked"
    return (
        f'<span class="shares" title="{what}"><i style="width:{robust:.2f}%"></i>'
        f'<i style="width:{attackable:.2f}%"></i></span>'
    )
