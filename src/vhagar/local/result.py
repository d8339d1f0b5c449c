"""The local answer, in words, as JSON and as a picture."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from enum import Enum
from html import escape
from pathlib import Path
from typing import Any

from vhagar.local.problem import LocalProblem
from vhagar.network.network import confidence, plain_conventions
from vhagar.perturbation.quotients import with_quotients
from vhagar.problem import classed
from vhagar.result import Witness
from vhagar.result.evidence import change_rows
from vhagar.result.figure import FigureData, input_panel, input_panels
from vhagar.result.figure_drawing import draw, figure
from vhagar.result.notebook import pictures
from vhagar.result.numbers import down, seconds, up
from vhagar.version import __version__


class LocalVerdict(Enum):
    """Whether the image keeps its class under every perturbation; the value is the message."""

    ROBUST = "every perturbed version keeps its class"
    BROKEN = "a perturbed version loses its class"
    UNKNOWN = "neither proven robust nor broken"


@dataclass(frozen=True, eq=False, repr=False)
class LocalResult:
    """The answer, and the interval of the smallest margin over all perturbed versions.

    A version's margin is how far it is from being classified as a target: by how much the best
    other score exceeds the target's, for the nearest target. Where a version keeps its class and
    all other classes are targets, it is the confidence in that class. It is negative, or 0 for a
    tie, if the version is classified as a target. `upper` is the margin of the worst version found;
    `lower` is proven. There is a witness if and only if the verdict is BROKEN.
    """

    problem: LocalProblem
    verdict: LocalVerdict
    lower: float
    upper: float
    witness: Witness | None
    seconds: float
    engine: str
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The answer, with bounds rounded outward."""
        everywhere = self.problem.everywhere
        clipping = "" if everywhere.clip else " without clipping"
        under = f"under {with_quotients(str(everywhere.perturbation))}{clipping}"
        noun = "input" if everywhere.domain.features else "image"
        image = f"the {noun}, classified {everywhere.source_name},"
        if self.witness is not None:
            target = everywhere.class_name(self.witness.target)
            fate = f"ties with {classed(target)}" if self.witness.tie else f"is classified {target}"
            return f"Counterexample: a version of {image} {fate} {under}."
        if self.verdict is LocalVerdict.ROBUST:
            stays = "keeps its class" if everywhere.all_others else "stays out of the targets"
            by = f"by a margin of at least {down(self.lower)}"
            return f"Proven: every version of {image} {stays} {under}, {by}."
        return f"Nothing is proven of {image} {under}. No counterexample was found."

    def __repr__(self) -> str:
        margin = margin_words(self.lower, self.upper)
        return f"LocalResult({self.verdict.name}, margin {margin}, {self.problem.everywhere})"

    def summary(self) -> str:
        """What is known, in a few lines; the last one is the answer."""
        margin = margin_words(self.lower, self.upper)
        rows = [
            *(f"note:     {note}" for note in self.notes),
            f"margin:   {margin} (the smallest over all perturbed versions)",
            f"time:     {seconds(self.seconds)} with {self.engine}",
        ]
        if self.witness is not None:
            found = change_rows(self.witness, self.problem.everywhere)
            rows += [f"{name + ':':9} {words}" for name, words in found]
        return "\n".join([*rows, str(self)])

    def to_dict(self) -> dict[str, Any]:
        """Convert the whole answer to JSON's own types; what is unknown is null."""
        everywhere, witness = self.problem.everywhere, self.witness
        network, domain = everywhere.network, everywhere.domain
        return {
            "schema": 1,
            "vhagar": __version__,
            "question": "local",
            "network": network.name,
            "input_shape": list(network.input_shape),
            **plain_conventions(network),
            "perturbation": str(everywhere.perturbation),
            "clip": everywhere.clip,
            "input_range": [domain.lower, domain.upper],
            "source": everywhere.source,
            "targets": list(everywhere.targets),
            "image": self.problem.shaped.tolist(),
            "verdict": self.verdict.name.lower(),
            "message": str(self),
            "margin": [_finite(self.lower), _finite(self.upper)],
            "witness": None if witness is None else _witness(witness),
            "seconds": self.seconds,
            "engine": self.engine,
            "interrupted": self.interrupted,
            "notes": list(self.notes),
        }

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the image and its perturbed version as a matplotlib figure; write it to `path`.

        The file is a .png, .pdf or .svg.
        """
        data = self.figure_data()
        if path is not None:
            draw(data, Path(path))
        return figure(data)

    def figure_data(self) -> FigureData:
        """The image and, if there is a witness, the perturbed version and their difference."""
        everywhere, image = self.problem.everywhere, self.problem.shaped
        title = f"{everywhere}: {self.verdict.name.lower()}"
        if self.witness is not None:
            return FigureData(title, *input_panels(self.witness, everywhere), None)
        sure = float(confidence(everywhere.network.forward(image[None]), everywhere.source)[0])
        words = f"classified {everywhere.source_name}\nconfidence {down(sure)}"
        return FigureData(title, input_panel(words, [image], everywhere), None, None, None)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        text = f"<p>{escape(str(self.problem.everywhere))}</p><p><b>{escape(str(self))}</b></p>"
        shown = "" if self.witness is None else pictures(self.witness, self.problem.everywhere)
        return f'<div>{text}<div style="display:flex;gap:1em">{shown}</div></div>'


def margin_words(lower: float, upper: float) -> str:
    """Format an interval of margins, rounded outward."""
    return f"[{_signed(lower, below=True)}, {_signed(upper, below=False)}]"


def _witness(witness: Witness) -> dict[str, Any]:
    x_p, scores_p = witness.x_p, witness.scores_p
    return {
        "target": witness.target,
        "margin": witness.margin,
        "tie": witness.tie,
        "piece": witness.piece,
        "parameters": list(witness.choice),
        "x_p": None if x_p is None else x_p.tolist(),
        "scores": witness.scores.tolist(),
        "scores_p": None if scores_p is None else scores_p.tolist(),
    }


def _signed(value: float, below: bool) -> str:
    """Format one end of an interval, rounded outward."""
    if math.isinf(value):
        return "unknown"
    if value < 0:
        return f"-{(up if below else down)(-value)}"
    return (down if below else up)(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
