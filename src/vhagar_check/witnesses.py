"""Checks lower bounds: each has a witness, which is evaluated in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.intervals import confidence_interval, steepness
from vhagar_check.layers import Floats, Network
from vhagar_check.pieces import Domain, Piece
from vhagar_check.statement import Statement, toward


def check_witnesses(statement: Statement) -> tuple[dict[int | None, float], set[int | None]]:
    """Check the witness of every claimed lower bound; return the bounds, and which are ties."""
    ties: set[int | None] = set()
    for target, claim in statement.lowers.items():
        if claim == -math.inf or (claim <= 0 and statement.image is None):
            continue
        given = [witness for witness in statement.witnesses if witness["target"] == target]
        if len(given) != 1:
            raise Rejected(f"the lower bound{toward(target)} does not have one witness")
        judge = _margin_of if statement.image is None else _margin_at_image
        if judge(statement, target, claim, given[0]) == 0:
            ties.add(target)
    return dict(statement.lowers), ties


def _margin_of(
    statement: Statement, target: int | None, claim: float, witness: Any
) -> Fraction | float:
    """The margin of a witness; refuse one that is not attacked, or less confident than claimed."""
    x = np.array([float(value) for value in witness["x"]])
    domain = statement.domain
    inside = x.shape == (domain.size,) and bool(np.isfinite(x).all())
    pixels = Exact.of(x).fractions() if inside else []
    if not inside or not domain.contains(pixels, witness.get("coordinates")):
        where = "input range" if statement.domain.box is None else "domain"
        raise Rejected(f"the witness{toward(target)} is not in the {where}")
    if _confidence(statement.network, Exact.of(x), statement.source) < Fraction(claim):
        raise Rejected(f"the witness{toward(target)} is less confident than claimed")
    if target is None:
        return math.inf
    margin = _confidence_of_image(statement, target, x, witness)
    if not margin >= 0:
        raise Rejected(f"the witness{toward(target)} is not classified as the target")
    return margin


def _margin_at_image(
    statement: Statement, target: int | None, claim: float, witness: Any
) -> Fraction | float:
    """The confidence in the target of a version of the image; `Rejected` if less than claimed."""
    x = np.array([float(value) for value in witness["x"]])
    if target is None or statement.image is None or x.tolist() != statement.image.tolist():
        raise Rejected(
            f"the witness{toward(target)} is not of the image that the certificate names"
        )
    margin = _confidence_of_image(statement, target, x, witness)
    if not margin >= claim:
        raise Rejected(f"the version{toward(target)} is less confident than claimed")
    return margin


def image_confidence(statement: Statement) -> Fraction:
    """The confidence of the one image in the source class."""
    assert statement.image is not None
    return _confidence(statement.network, Exact.of(statement.image), statement.source)


def _confidence_of_image(
    statement: Statement, target: int, x: Floats, witness: Any
) -> Fraction | float:
    """The confidence in the target of `x` perturbed by the witness's parameters."""
    number = witness["piece"]
    if type(number) is not int or not 0 <= number < len(statement.pieces):
        raise Rejected(f"the witness{toward(target)} is about a piece that there is not")
    piece, parameters = statement.pieces[number], [float(p) for p in witness["parameters"]]
    if not np.isfinite(parameters).all():
        raise Rejected(f"the witness{toward(target)} has a parameter that is not finite")
    image = piece.exact_image(Exact.of(x).fractions(), parameters)
    _require_inside(statement, target, image, witness)
    if image is None:
        return _least_confidence(statement, target, piece, x, parameters)
    image = _clipped(image, statement.domain) if _clips(statement) else image
    return _confidence(statement.network, Exact.of_fractions(image), target)


def _least_confidence(
    statement: Statement, target: int, piece: Piece, x: Floats, parameters: list[float]
) -> Fraction | float:
    """A lower bound on the confidence at an image that is not rational.

    Floats see which neurons are off, rationals how near to a tie the scores are.
    """
    network, domain, clips = statement.network, statement.domain, _clips(statement)
    low, high = piece.image_interval(x, parameters)
    if clips:
        low, high = (np.clip(end, domain.low, domain.high) for end in (low, high))
    certain = confidence_interval(network, low, high, target)[0]
    steep = steepness(network, target)
    if (certain > 0 and statement.image is None) or not math.isfinite(steep):
        return certain  # what else is found takes its time, or says nothing
    image, error = piece.near_image(Exact.of(x).fractions(), parameters)
    image = _clipped(image, domain) if clips else image
    nearly = _confidence(network, Exact.of_fractions(image), target) - Fraction(steep) * error
    return certain if certain > nearly else nearly


def _clips(statement: Statement) -> bool:
    """Whether to clip images; if a certificate is about all inputs, its network does."""
    return statement.image is not None and statement.clip


def _clipped(image: list[Fraction], domain: Domain) -> list[Fraction]:
    low, high = domain.ends
    return [max(low, min(high, value)) for value in image]


def _require_inside(
    statement: Statement, target: int, image: list[Fraction] | None, witness: Any
) -> None:
    """Refuse a perturbed input outside of the domain, if it must lie in the domain, too."""
    conditions = statement.domain.conditions
    if conditions is None or not conditions.perturbed_inside:
        return
    if image is None or not statement.domain.contains(image, witness.get("coordinates_p")):
        raise Rejected(f"the perturbed input of the witness{toward(target)} is not in the domain")


def _confidence(network: Network, x: Exact, label: int) -> Fraction:
    scores = network.exact_scores(x).fractions()
    return scores[label] - max(score for k, score in enumerate(scores) if k != label)
