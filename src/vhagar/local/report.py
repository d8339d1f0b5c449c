"""The local answer in words, as JSON and as a picture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from vhagar.local.problem import LocalProblem, LocalResult, LocalVerdict
from vhagar.network.network import confidence
from vhagar.result.figure import FigureData, InputPanel, draw, largest_change, picture
from vhagar.result.numbers import down, up
from vhagar.result.serialize import write_bytes
from vhagar.version import __version__


def sentence(problem: LocalProblem, result: LocalResult) -> str:
    """The answer, with bounds rounded outward."""
    everywhere = problem.everywhere
    start = f"the image, classified {everywhere.source}, {result.verdict.value}"
    if result.verdict is LocalVerdict.BROKEN and result.witness is not None:
        how = "ties with" if result.witness.tie else "is classified"
        return f"{start}; one {how} {result.witness.target}"
    if result.verdict is LocalVerdict.ROBUST:
        return f"{start}, by a margin of at least {down(result.lower)}"
    return start


def margin_text(result: LocalResult) -> str:
    ends = (_signed(result.lower, below=True), _signed(result.upper, below=False))
    return f"[{ends[0]}, {ends[1]}]"


def _signed(value: float, below: bool) -> str:
    """Rounded outward."""
    if math.isinf(value):
        return "unknown"
    if value < 0:
        return f"-{(up if below else down)(-value)}"
    return (down if below else up)(value)


def to_dict(problem: LocalProblem, result: LocalResult) -> dict[str, Any]:
    """The whole answer in plain JSON types; what is not known is null."""
    everywhere, witness = problem.everywhere, result.witness
    network, domain = everywhere.network, everywhere.domain
    taken = network.convention
    return {
        "schema": 1,
        "vhagar": __version__,
        "question": "local",
        "network": network.name,
        "input_shape": list(network.input_shape),
        "convention": None if taken is None else taken.plain(),
        "perturbation": str(everywhere.perturbation),
        "clip": everywhere.clip,
        "input_range": [domain.lower, domain.upper],
        "source": everywhere.source,
        "targets": list(everywhere.targets),
        "image": problem.image.reshape(network.input_shape).tolist(),
        "verdict": result.verdict.name.lower(),
        "message": sentence(problem, result),
        "margin": [_finite(result.lower), _finite(result.upper)],
        "witness": None
        if witness is None or witness.x_p is None or witness.scores_p is None
        else {
            "target": witness.target,
            "margin": witness.margin,
            "tie": witness.tie,
            "piece": witness.piece,
            "parameters": list(witness.choice),
            "x_p": witness.x_p.tolist(),
            "scores": witness.scores.tolist(),
            "scores_p": witness.scores_p.tolist(),
        },
        "seconds": result.seconds,
        "engine": result.engine,
        "interrupted": result.interrupted,
        "notes": list(result.notes),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write_json(problem: LocalProblem, result: LocalResult, path: Path) -> None:
    content = json.dumps(to_dict(problem, result), allow_nan=False)
    write_bytes(path, f"{content}\n".encode())


def figure_data(problem: LocalProblem, result: LocalResult) -> FigureData:
    """The image and, where it is broken, the perturbed version and their difference."""
    everywhere, witness = problem.everywhere, result.witness
    low, high = everywhere.domain.lower, everywhere.domain.upper
    image = problem.image.reshape(everywhere.network.input_shape)
    sure = float(confidence(everywhere.network.forward(image[None]), everywhere.source)[0])
    title = f"{everywhere.network.name}: {everywhere.perturbation}, {result.verdict.name.lower()}"
    first = InputPanel(
        f"classified {everywhere.source}\nconfidence {sure:.4g}", picture(image), low, high
    )
    if witness is None or witness.x_p is None or witness.margin is None:
        return FigureData(title, first, None, None, None)
    low, high = min(low, float(witness.x_p.min())), max(high, float(witness.x_p.max()))
    fate = "an exact tie with" if witness.tie else "classified"
    words = f"perturbed: {fate} {witness.target}\nmargin {down(witness.margin)}"
    second = InputPanel(words, picture(witness.x_p), low, high)
    change = largest_change(picture(witness.x_p) - picture(image))
    reach = float(abs(change).max()) or 1.0
    words = f"difference\nlargest change {abs(change).max():.3g}"
    return FigureData(title, first, second, InputPanel(words, change, -reach, reach), None)


def write_plot(problem: LocalProblem, result: LocalResult, path: Path) -> None:
    draw(figure_data(problem, result), path)
