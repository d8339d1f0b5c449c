"""Say a study in plain English, with numbers rounded outward: every sentence is true as printed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from vhagar.problem import classed, listed
from vhagar.report.coverage import coverage_sentences
from vhagar.report.data import Entry, StudyData
from vhagar.result.numbers import counted, down, interval, share, span, up
from vhagar.sweep.class_coverage import total

_ANSWERED = ("closed", "robust")


def answered(study: StudyData) -> list[Entry]:
    """The entries whose interval is closed."""
    return [entry for entry in study.entries if entry.status in _ANSWERED]


def summary(study: StudyData) -> list[str]:
    """Summarise the study's findings in a few sentences."""
    total, done = len(study.entries), len(answered(study))
    subject = _subject(study)
    robust = [entry for entry in study.entries if entry.upper == 0]
    data = coverage_sentences(study)
    sentences = [*data, f"{counted(total, 'question')} about {subject}."]
    if done:
        words = f"{done} of them {'is' if done == 1 else 'are'} answered: the interval is closed"
        if robust:
            words += f", and for {len(robust)} nothing can be attacked, whatever the confidence"
        sentences.append(f"{words}.")
    else:
        sentences.append("None is answered in full: every interval is still open.")
    still_open = [entry for entry in study.entries if entry.status == "open"]
    if still_open:
        verb = "is" if len(still_open) == 1 else "are"
        sentences.append(f"{counted(len(still_open), 'question')} {verb} not finished yet.")
    sentences += _vacuous(study)
    if data:
        return sentences  # the data set says it all; confidences of networks have no common unit
    attacks = [entry for entry in study.entries if entry.group.perturbation is not None]
    sentences += _weakest(attacks)
    sentences += _strongest(attacks)
    return sentences


def _vacuous(study: StudyData) -> list[str]:
    """Count the bounds that say next to nothing, in general and about the data set."""
    sentences = []
    vacuous = sum(map(study.is_vacuous, study.entries))
    if vacuous:
        sentences.append(
            f"{counted(vacuous, 'bound')} {_say(vacuous)} next to nothing: "
            "no input was found that is clearly more confident."
        )
    classes = () if study.coverage is None else study.coverage.classes
    counts = [one.coverage.classified for one in classes if one.coverage.classified.inputs]
    silent = sum(not one.robust for one in counts)
    if silent:
        sentences.append(
            f"{silent} of {counted(len(counts), 'bound')} of a class {_say(silent)} nothing about "
            "the data: no input of the class is more confident."
        )
    return sentences


def _say(number: int) -> str:
    return "says" if number == 1 else "say"


def _subject(study: StudyData) -> str:
    networks = [facts.name for facts in study.networks]
    perturbations = list(dict.fromkeys(group.shown for group in study.groups))
    about = _some(networks, "networks")
    return about + (f" under {_some(perturbations, 'perturbations')}" if perturbations else "")


def _some(names: Sequence[str], noun: str) -> str:
    return listed(names, "and") if len(names) <= 3 else f"{len(names)} {noun}"


def _weakest(entries: Sequence[Entry]) -> list[str]:
    """Name the most confident attackable input."""
    worst = max(entries, key=lambda entry: entry.lower, default=None)
    if worst is None or worst.witness is None:
        return []
    fate = "brings it to a tie with" if worst.witness.tie else "pushes it into"
    return [
        f"The most confident counterexample is an input of {_class(worst)} with confidence "
        f"{down(worst.lower)}: {worst.question.shown} {fate} class "
        f"{_name(worst, worst.witness.target)}."
    ]


def _strongest(entries: Sequence[Entry]) -> list[str]:
    """Name the smallest proven bound."""
    known = [entry for entry in entries if math.isfinite(entry.upper)]
    best = min(known, key=lambda entry: entry.upper, default=None)
    if best is None:
        return []
    pushed = f"can be pushed into {_target(best)} by {best.question.shown}"
    if best.upper == 0:
        return [f"Most robust: no input of {_class(best)} {pushed}, whatever its confidence."]
    above = f"with confidence above {up(best.upper)}"
    return [f"Most robust: no input of {_class(best)} {above} {pushed}."]


def tiles(study: StudyData) -> list[tuple[str, str]]:
    """A few key numbers, each with its label."""
    closed, bounded, unknown = standing(study)
    work = sum(entry.seconds for entry in study.entries)
    found = [
        (str(len(study.entries)), "questions"),
        (str(closed), "closed: answered"),
        (str(bounded), "bounded: an interval"),
        (str(unknown), "nothing proven yet"),
        (_duration(work), "of search"),
    ]
    return [*_data_tiles(study), *found]


def _data_tiles(study: StudyData) -> list[tuple[str, str]]:
    """The shares of a data set that are proven robust, and the largest that was attacked."""
    groups = {} if study.coverage is None else study.coverage.groups()
    parts = [counts for counts in map(total, groups.values()) if counts.inputs]
    if not parts:
        return []
    few, many = (f(parts, key=lambda own: own.robust / own.inputs) for f in (min, max))
    least, top = share(few.robust, few.inputs), share(many.robust, many.inputs)
    worst = max(parts, key=lambda own: own.attackable / own.inputs)
    most = share(worst.attackable, worst.inputs)
    proven = least if least == top else f"{least} to {top}"
    how = "attacked, at worst" if len(parts) > 1 else "attacked with success"
    return [(f"{proven}\u00a0%", "of the data proven robust"), (f"{most}\u00a0%", how)]


def standing(study: StudyData) -> tuple[int, int, int]:
    """Count the questions that are closed, bounded but open, and without any upper bound."""
    closed = len(answered(study))
    unknown = sum(not math.isfinite(entry.upper) for entry in study.entries)
    return closed, len(study.entries) - closed - unknown, unknown


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def answer(entry: Entry) -> str:
    """State the answer to one question in a sentence."""
    question, source = entry.question, _class(entry)
    if question.perturbation is None:
        return f"The maximal confidence in {source} {_is_between(entry)}."
    asked = f"{question.shown}{'' if question.clip else ' without clipping'}"
    pushed = f"can be pushed into {_target(entry)} by {asked}"
    if entry.upper == 0:
        return f"Proven: no input of {source} {pushed}, whatever its confidence."
    if not math.isfinite(entry.upper):
        one = f"; one with confidence {down(entry.lower)} can be attacked"
        return f"Nothing is proven yet about {source} under {asked}{one if entry.lower else ''}."
    low, high = interval(entry.lower, entry.upper)
    proven = f"Proven: no input of {source} with confidence above {high} {pushed}"
    if entry.witness is None:
        return f"{proven}. No counterexample was found."
    name = _name(entry, entry.witness.target)
    if entry.witness.tie:
        return f"{proven}. Counterexample at {low}: an exact tie with {classed(name)}."
    which = "" if entry.target is not None else f", pushed into {classed(name)}"
    return f"{proven}. Counterexample at {low}{which}."


def _target(entry: Entry) -> str:
    """`class 3`, or any other class than the source."""
    return "another class" if entry.target is None else classed(_name(entry, entry.target))


def _class(entry: Entry) -> str:
    """`class 2`, or `class 2 in the domain NAME`."""
    within = f" in the domain {entry.group.domain_name}" if entry.group.domain_name else ""
    return f"{classed(_name(entry, entry.source))}{within}"


def _name(entry: Entry, label: int | None) -> str:
    """The name of a class, or its number."""
    return str(label) if label is None else entry.question.class_name(label)


def _is_between(entry: Entry) -> str:
    if not math.isfinite(entry.upper):
        return f"is at least {down(entry.lower)}"
    return f"is {span(entry.lower, entry.upper)}"


def how(study: StudyData) -> list[str]:
    """Say what the bounds rely on."""
    kinds = Counter(entry.kind.value for entry in study.entries if entry.kind is not None)
    sentences = [f"{counted(count, 'upper bound')}: {kind}." for kind, count in kinds.most_common()]
    witnesses = sum(len(entry.witnesses) for entry in study.entries)
    sentences.append(
        f"{counted(witnesses, 'lower bound')}: a witness each, re-checked by a separate forward "
        "pass with its rounding error bounded, and by onnxruntime on the model file itself."
    )
    transferred = sum(entry.transferred for entry in study.entries)
    if transferred:
        sentences.append(
            f"{counted(transferred, 'result')} transferred between perturbations of which one "
            "contains the other: witnesses to the larger one, where they were checked again, and "
            "upper bounds to the smaller one."
        )
    certificates = sum(entry.certificate is not None for entry in study.entries)
    if certificates:
        sentences.append(f"{counted(certificates, 'certificate')}, named in the table.")
    return sentences
