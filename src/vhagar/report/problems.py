"""One problem on the page: the answer, the bounds over time, the witness, how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from vhagar.drawing.png import data_uri
from vhagar.perturbation.quotients import with_quotients
from vhagar.report.data import Entry, StudyData
from vhagar.report.gallery import WitnessFigure, witness_figure
from vhagar.report.html import figure, paragraph, text
from vhagar.report.sentences import answer
from vhagar.report.timeline import bounds_over_time
from vhagar.result.numbers import down, exact

# Most problems whose details a page contains: it should open at once on a phone.
MOST_PROBLEMS = 400
MOST_CARDS = 120
# Features that a card of the gallery shows.
_MOST_CHANGES = 4


def shown_problems(study: StudyData) -> Sequence[Entry]:
    """The problems whose details are on the page: all, or the least robust ones."""
    entries = study.entries
    if len(entries) <= MOST_PROBLEMS:
        return entries
    ranked = sorted(entries, key=lambda entry: -entry.lower)[:MOST_PROBLEMS]
    kept = {entry.number for entry in ranked}
    return [entry for entry in entries if entry.number in kept]


def problem_html(entry: Entry, study: StudyData) -> str:
    """Show the details of a problem."""
    found = witness_figure(entry)
    weakest = max(study.entries, key=lambda other: (bool(other.question.targets), other.lower))
    first = " data-first" if entry is weakest else ""
    parts = [
        f'<article class="problem" id="problem-{entry.number}"{first}>',
        f"<h3>{text(entry.group.label)}, {text(entry.pair)}</h3>",
        paragraph(answer(entry), "lead"),
        '<div class="two">',
        figure(bounds_over_time(entry)),
        figure(found) if found is not None else paragraph("No witness was found."),
        "</div>",
        _facts(entry, found),
        f"<pre>{text(reproduction(entry, study))}</pre>",
        "</article>",
    ]
    return "".join(parts)


def _facts(entry: Entry, found: WitnessFigure | None) -> str:
    facts = [f"{entry.status}, {entry.seconds:.1f} s, {entry.nodes} nodes"]
    if entry.kind is not None:
        facts.append(f"upper end: {entry.kind.value}")
    if found is not None and found.witness.margin is not None:
        facts.append(f"margin of the target {down(found.witness.margin)}")
        facts.append(with_quotients(found.witness.piece))
    if entry.certificate is not None:
        facts.append(f"certificate {entry.certificate}")
    facts += [f"note: {note}" for note in entry.notes]
    return paragraph("; ".join(facts))


def reproduction(entry: Entry, study: StudyData) -> str:
    """The shell command that asks the same question again."""
    question = entry.question
    network = study.network(entry.group)
    if question.perturbation is None:
        words = ["vhagar", "confidence", network.file, "--class", str(entry.source)]
    else:
        words = ["vhagar", "verify", network.file]
        words += ["--perturbation", with_quotients(question.perturbation)]
        words += ["--source", str(entry.source)]
        if entry.target is not None:
            words += ["--target", str(entry.target)]
        if not question.clip:
            words.append("--no-clip")
    if question.input_range != (0.0, 1.0):
        words += ["--input-range", ",".join(map(exact, question.input_range))]
    if question.domain is not None:
        words += ["--domain", study.domain_file or f"{question.domain}.toml"]
    words += network.conventions
    words += ["--timeout", f"{max(entry.seconds, 1):.0f}"]
    return shlex.join(words)


def _images(found: WitnessFigure) -> str:
    shown = [each for each in found.pictures() if each[0] != "difference"]
    images = "".join(
        f'<img alt="{text(heading)}" title="{text(heading)}" src="{data_uri(pixels)}">'
        for heading, pixels in shown
    )
    return f'<div class="images">{images}</div>'


def _changes(found: WitnessFigure) -> str:
    """The largest changes of features; without a perturbation, the first features."""
    shown, rest = (2, None) if found.witness.x_p is None else (3, found.moved)
    rows = "".join(
        f"<tr><td>{text(name)}</td><td>{text(' to '.join(values))}</td></tr>"
        for name, *values in (row[:shown] for row in found.features()[:rest][:_MOST_CHANGES])
    )
    return f'<table class="changes">{rows}</table>'


def card_html(entry: Entry) -> str:
    """Show a witness in the gallery."""
    found = witness_figure(entry)
    if found is None:
        return ""
    content = _changes(found) if found.tabular else _images(found)
    name = entry.group.class_name
    toward = "" if found.witness.target is None else f" to {name(found.witness.target)}"
    return (
        f'<a class="card" href="#problem-{entry.number}">{content}'
        f"<b>{text(name(entry.source) + toward)}: {text(down(found.witness.confidence))}</b>"
        f"<span>{text(entry.group.label)}</span></a>"
    )
