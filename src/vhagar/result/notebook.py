"""Results in notebooks: what `_repr_html_` shows."""

from __future__ import annotations

import math
from html import escape

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.drawing.colours import diverging_pixels
from vhagar.drawing.png import data_uri
from vhagar.problem import Problem, classed
from vhagar.result.evidence import coverage_words, feature_changes
from vhagar.result.figure import has_units, largest_change, picture
from vhagar.result.numbers import down, gap, interval
from vhagar.result.timeline import BoundsOverTime
from vhagar.result.values import AbstractResult
from vhagar.result.witness import Witness
from vhagar.result.words import final_sentence, outcome

_MOST_TARGETS = 12
_MOST_FEATURES = 40
# For light and dark notebooks alike.
_COLOURS = (
    "--ink:currentColor;--muted:#808a96;--grid:#80808040;"
    "--attackable:#d55e00;--robust:#0072b2;--unknown:#e6c35c66"
)


def result_html(result: AbstractResult) -> str:
    """Show a result as HTML: question and answer, the witness, and the bounds over time."""
    low, high = interval(result.lower, result.upper)
    head = f"<b>[{low}, {high}]</b> {escape(outcome(result))}"
    parts = [
        f"<p>{escape(_question(result.problem))}</p>",
        f"<p><b>{escape(final_sentence(result))}</b></p>",
        f"<p>{head}; gap {escape(gap(result.lower, result.upper))}</p>",
    ]
    if result.coverage is not None:
        words = coverage_words(result.coverage, result.problem.source_name)
        parts.append(f"<p>data set: {escape(words)}</p>")
    if math.isfinite(result.upper):
        parts.append(f"<p><small>upper end: {escape(result.kind.value)}</small></p>")
    row = _over_time(result)
    if result.witness is not None:
        row += pictures(result.witness, result.problem)
    parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:1em;{_COLOURS}">{row}</div>')
    if len(result.targets) > 1:
        parts.append(_targets(result))
    parts += [f"<p><small>note: {escape(note)}</small></p>" for note in result.notes]
    return f"<div>{''.join(parts)}</div>"


def _question(problem: Problem) -> str:
    """The network, the perturbation and the classes."""
    network = problem.network
    shape = "x".join(map(str, network.input_shape))
    size = f"{shape} inputs, {network.hidden_neurons} hidden neurons, {network.classes} classes"
    if problem.perturbation is None:
        return f"{network.name} ({size}); maximal confidence in {classed(problem.source_name)}"
    targets = "any other" if problem.all_others else problem.target_names
    how = f"{problem.perturbation.shown}{'' if problem.clip else ', unclipped'}"
    return f"{network.name} ({size}); {how}; {classed(problem.source_name)} to {targets}"


def _over_time(result: AbstractResult) -> str:
    moments = tuple(moment for moment in result.history if math.isfinite(moment.upper))
    drawing = BoundsOverTime.of(0, "this result", moments).draw()
    return f'<div style="width:26em">{drawing.svg()}</div>'


def pictures(witness: Witness, problem: Problem) -> str:
    """The witness, its image and their difference, side by side; features are a table."""
    if has_units(problem.domain):
        return _features(witness, problem)
    shown = [("input", witness.x, f"confidence {down(witness.confidence)}")]
    if witness.x_p is not None:
        name = problem.class_name(witness.target)
        shown.append(("perturbed", witness.x_p, f"classified {name}"))
    low = min(0.0, *(float(x.min()) for _, x, _ in shown))
    high = max(1.0, *(float(x.max()) for _, x, _ in shown))
    images = []
    for heading, x, caption in shown:
        shades = np.round(255 * (_flat(picture(x)) - low) / (high - low)).astype(np.uint8)
        images.append(_image(heading, shades, caption))
    if witness.x_p is not None:
        change = _flat(largest_change(picture(witness.x_p) - picture(witness.x)))
        reach = float(abs(change).max())
        images.append(_image("difference", diverging_pixels(change, reach), f"up to {reach:.3g}"))
    return "".join(images)


def _features(witness: Witness, problem: Problem) -> str:
    """The features of a witness before and after, those that change in bold."""
    changed = set(feature_changes(witness, problem.domain))
    heads = ["feature", f"input: confidence {down(witness.confidence)}"]
    columns = [witness.x.reshape(-1)]
    if witness.x_p is not None:
        heads.append(f"perturbed: classified {problem.class_name(witness.target)}")
        columns.append(witness.x_p.reshape(-1))
    rows = ["".join(f"<th>{escape(head)}</th>" for head in heads)]
    for k, name in enumerate(problem.domain.features[:_MOST_FEATURES]):
        cells = [escape(name), *(f"{values[k]:.6g}" for values in columns)]
        mark = "b" if k in changed else "span"
        rows.append("".join(f"<td><{mark}>{cell}</{mark}></td>" for cell in cells))
    more = len(problem.domain.features) - _MOST_FEATURES
    rows += [f"<td>and {more} more</td>"] if more > 0 else []
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _flat(values: Array) -> Array:
    """Turn an input that is not an image into a row of pixels."""
    return values if values.ndim > 1 else values[None]


def _image(heading: str, pixels: NDArray[np.uint8], caption: str) -> str:
    style = "width:9em;height:9em;image-rendering:pixelated;display:block"
    return (
        f"<div><b>{heading}</b><img alt='{heading}' style='{style}' src='{data_uri(pixels)}'>"
        f"<small>{escape(caption)}</small></div>"
    )


def _targets(result: AbstractResult) -> str:
    ranked = sorted(result.targets.items(), key=lambda item: (-item[1].upper, -item[1].lower))
    rows = "".join(
        "<tr><td>to {}</td><td>{}</td><td>{}</td></tr>".format(
            escape(result.problem.class_name(target)), *interval(known.lower, known.upper)
        )
        for target, known in ranked[:_MOST_TARGETS]
    )
    return f"<table><tr><th></th><th>lower</th><th>upper</th></tr>{rows}</table>"
