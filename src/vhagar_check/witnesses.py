"""Checks lower bounds: each has a witness, which is evaluated in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.intervals import confidence_interval
from vhagar_check.layers import Network
from vhagar_check.statement import Statement, toward


def check_witnesses(statement: Statement) -> tuple[dict[int | None, float], set[int | None]]:
    """Check the witness of every claimed lower bound; returns the bounds, and which are ties."""
    ties: set[int | None] = set()
    for goal, claim in statement.lowers.items():
        if claim <= 0:
            continue
        given = [witness for witness in statement.witnesses if witness["target"] == goal]
        if len(given) != 1:
            raise Rejected(f"the lower bound{toward(goal)} does not have one witness")
        if _margin_of(statement, goal, claim, given[0]) == 0:
            ties.add(goal)
    return dict(statement.lowers), ties


def _margin_of(
    statement: Statement, goal: int | None, claim: float, witness: Any
) -> Fraction | float:
    """The margin of a witness; refuse one that is not attacked or less confident than claimed."""
    x = np.array([float(value) for value in witness["x"]])
    inside = ((x >= statement.domain.low) & (x <= statement.domain.high)).all()
    if x.shape != (statement.domain.size,) or not inside:
        raise Rejected(f"the witness{toward(goal)} is not in the input range")
    if _confidence(statement.network, Exact.of(x), statement.source) < Fraction(claim):
        raise Rejected(f"the witness{toward(goal)} is less confident than claimed")
    if goal is None:
        return math.inf
    number = witness["piece"]
    if type(number) is not int or not 0 <= number < len(statement.pieces):
        raise Rejected(f"the witness{toward(goal)} is about a piece that there is not")
    piece, parameters = statement.pieces[number], [float(p) for p in witness["parameters"]]
    if not np.isfinite(parameters).all():
        raise Rejected(f"the witness{toward(goal)} has a parameter that is not finite")
    image = piece.exact_image(Exact.of(x).fractions(), parameters)
    margin: Fraction | float
    if image is not None:
        margin = _confidence(statement.network, Exact.of_fractions(image), goal)
    else:
        low, high = piece.image_interval(x, parameters)
        margin = confidence_interval(statement.network, low, high, goal)[0]
    if not margin >= 0:
        raise Rejected(f"the witness{toward(goal)} is not classified as the target")
    return margin


def _confidence(network: Network, x: Exact, label: int) -> Fraction:
    scores = network.exact_scores(x).fractions()
    return scores[label] - max(score for k, score in enumerate(scores) if k != label)
