"""Random tiny problems: both engines and the certificate against the exact optimum.

They are the oracle's problems made smaller still, so that ten thousand of them take little: at most
four pixels and, but for a few flavours, four hidden neurons.
"""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from vhagar import Problem

from ..oracle.cases import KINDS, SCALES, Rng, between, change_in
from ..oracle.exact import Truth, exact_optimum
from ..oracle.networks import FLAVOURS, Layers, Shape, Wish
from .judge import Finding, require_proved, require_sound, run_bab, run_mip, stored

# Ranges of contrasts and angles never close entirely: what holds after a moment must be sound too.
_SECONDS, _SECONDS_OF_RANGES = 3.0, 0.4
_OF_RANGES = ("contrasts", "rotations")
_SHAPES: tuple[Shape, ...] = ((1, 1, 2), (1, 2, 2), (1, 1, 3), (1, 2, 1), (2, 1, 2))
_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.1, 0.9), (-0.5, 0.25))
_DRAWS = 4
# Truths as they are kept in a line of the campaign: each target's two ends.
Told = dict[str, list[str]]


class SmallWish(Wish):
    """For networks with fewer neurons."""

    def random_layers(self) -> Layers:
        choices: tuple[list[int], ...] = ([], [1], [2], [3], [4], [2, 2], [1, 2], [3, 1])
        hidden = choices[self.rng.integers(len(choices))]
        return self.layers([self.inputs, *hidden, self.classes])


def tiny_problem(number: int) -> tuple[dict[str, str], Problem]:
    """The problem of that number, the same every time, and what it is.

    Kinds, scales and flavours take turns, so that every combination comes up equally often.
    """
    kinds, flavours = list(KINDS), list(FLAVOURS)
    kind = kinds[number % len(kinds)]
    scale = SCALES[number // len(kinds) % len(SCALES)]
    flavour = flavours[number // (len(kinds) * len(SCALES)) % len(flavours)]
    what = {"kind": kind, "scale": f"{scale:g}", "flavour": flavour}
    rng = np.random.default_rng([17, number])
    for _ in range(1 if flavour == "infeasible" else _DRAWS):
        problem = _drawn(rng, kind, flavour, scale)
        change = None if flavour == "infeasible" else change_in(problem, rng)
        if change is not None:
            return what, between(problem, *change)
    return what, problem


def _drawn(rng: Rng, kind: str, flavour: str, scale: float) -> Problem:
    shape = _SHAPES[rng.integers(len(_SHAPES))]
    classes = int(rng.integers(2, 4))
    source = int(rng.integers(classes))
    others = [k for k in range(classes) if k != source]
    targets = others if rng.random() < 0.2 else [int(rng.choice(others))]
    low, high = _RANGES[0] if rng.random() < 0.8 else _RANGES[rng.integers(1, len(_RANGES))]
    wish = SmallWish(rng, shape, classes, scale, source, targets)
    return Problem(
        FLAVOURS[flavour](wish),
        perturbation=KINDS[kind](rng, shape, high - low),
        source=source,
        targets=targets,
        clip=bool(rng.random() < 0.5),
        input_range=(low, high),
    )


def look(number: int, folder: Path, known: Told | None = None) -> Finding:
    """One problem: the truth, then what each engine and the certificate say of it.

    Where the truth is known from before, only the certificate and its engine are looked at.
    """
    what, problem = tiny_problem(number)
    return judged("tiny", number, what, problem, folder, known)


def judged(
    part: str,
    number: int,
    what: dict[str, str],
    problem: Problem,
    folder: Path,
    known: Told | None = None,
) -> Finding:
    """What comes of one problem."""
    finding = Finding(part, number, ", ".join(what.values()), facts=dict(what))
    seconds = _SECONDS_OF_RANGES if what["kind"] in _OF_RANGES else _SECONDS
    truths = _from_words(known) if known is not None else _computed(problem, finding)
    finding.facts["exact"] = all(truth.exact for truth in truths.values())
    at_hand = stored(problem, folder)
    result, verdict = run_bab(at_hand, finding, seconds, folder / "certificate")
    require_sound("bab", problem, truths, result, finding)
    if verdict is not None:
        require_proved(truths, verdict, finding)
    if known is None:
        require_sound("mip", problem, truths, run_mip(at_hand, finding, seconds), finding)
    return finding


def _computed(problem: Problem, finding: Finding) -> dict[int | None, Truth]:
    begun = time.perf_counter()
    truths = exact_optimum(problem)
    finding.facts["oracle_seconds"] = round(time.perf_counter() - begun, 4)
    finding.facts["truths"] = {str(t): [str(v.low), str(v.high)] for t, v in truths.items()}
    return truths


def _from_words(known: Told) -> dict[int | None, Truth]:
    return {
        int(target): Truth(Fraction(low), Fraction(high)) for target, (low, high) in known.items()
    }
