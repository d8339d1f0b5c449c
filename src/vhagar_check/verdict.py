"""Checks a certificate against a model file, and states what it proves.

The steps: read the header and the model; evaluate the witness of each lower bound in exact
arithmetic; bound the neurons of each region and evaluate the proofs in it; combine the bounds of
each search tree's nodes into one of its root.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from vhagar_check.box_supports import Box
from vhagar_check.conditions import Conditions
from vhagar_check.container import scan
from vhagar_check.errors import Rejected, Unproved
from vhagar_check.evaluation import ProofGroup, evaluate, proof_groups
from vhagar_check.layers import Floats
from vhagar_check.maps import Recorded
from vhagar_check.rational import exact_work
from vhagar_check.statement import Statement, toward
from vhagar_check.witnesses import check_witnesses, image_confidence

# The errors that a damaged file can raise, wherever the damage is.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)

# A claim that is missed by at most this share of the largest absolute score, or by this much,
# may be missed by rounding alone. It is then decided in rational arithmetic, if that takes at most
# this many products.
_ROUNDING_SHARE, _ROUNDING_TINY, _MOST_EXACT_PRODUCTS = 1e-9, 2.0**-800, 2**22


@dataclass(frozen=True)
class Verdict:
    """What was proved; a lower bound of 0 needs no proof, and infinity means that none is known."""

    perturbation: str | None
    clip: bool
    source: int
    input_range: tuple[float, float]
    model: str
    lower: float
    upper: float
    uppers: dict[int | None, float]
    lowers: dict[int | None, float]
    ties: set[int | None] = field(default_factory=set)
    proofs: int = 0
    nodes: int = 0
    recorded: Recorded | None = None  # the perturbation's maps, if the certificate records them
    convention: str = ""
    input_shape: tuple[int, ...] = ()
    scores: str = ""
    # SHA-256 of the one image that the statement is about: its entries as float64, little-endian.
    # `lowers` and `uppers` are then about the confidence in each target of all of its versions.
    image: str | None = None
    # The box of inputs that the statement is about, if it is not the whole input range.
    box: Box | None = None
    # Further conditions on these inputs.
    conditions: Conditions | None = None
    # What happens at the ends of the input range, in words.
    clipping: str = ""

    @property
    def domain(self) -> str | None:
        """The SHA-256 of the numbers of the domain; None if the statement is about all inputs."""
        if self.box is None:
            return None
        numbers = b"".join((end + 0.0).astype("<f8").tobytes() for end in self.box)
        more = b"" if self.conditions is None else self.conditions.numbers
        return hashlib.sha256(numbers + more).hexdigest()

    def __str__(self) -> str:
        """What was proved, in words."""
        from vhagar_check.cli import in_words

        return in_words(self)


def check(
    certificate: str | os.PathLike[str], *, model: str | os.PathLike[str], workers: int = 1
) -> Verdict:
    """Prove the claims of a certificate about a model file, or raise `Rejected` saying why not.

    `workers` is the number of processes.
    """
    try:
        return _check(Path(certificate), Path(model), workers)
    except _DAMAGE as error:
        raise Rejected(f"the certificate or the model is malformed ({error})") from error


def _check(certificate: Path, model: Path, workers: int) -> Verdict:
    blocks = scan(certificate)
    statement = Statement(certificate, model, blocks)
    groups = proof_groups([block for block in blocks if block.tag != "MAPS"])
    lowers, ties = check_witnesses(statement)
    values, count = evaluate(statement, groups, workers)
    lower, upper = max(lowers.values()), max(statement.claims.values())
    if statement.image is None:
        _require_claims(statement, _upper_bounds(statement, values, groups, count, workers))
        if (statement.claimed["lower"], statement.claimed["upper"]) != (lower, upper):
            raise Rejected("the overall claim is not the largest of the targets' claims")
    else:
        _require_claims(statement, statement.upper_bounds(values, math.inf))
        if not image_confidence(statement) > 0:
            raise Rejected(f"the image is not classified {statement.source}")
    return Verdict(
        perturbation=statement.perturbation,
        clip=statement.clip,
        source=statement.source,
        input_range=(statement.domain.low, statement.domain.high),
        model=statement.model_hash,
        lower=lower,
        upper=upper,
        uppers=dict(statement.claims),
        lowers=lowers,
        ties=ties,
        proofs=count,
        nodes=statement.tree.count,
        recorded=statement.recorded,
        convention=statement.convention,
        input_shape=statement.domain.shape,
        scores=statement.scores,
        image=None if statement.image is None else _sha256(statement.image),
        box=statement.domain.box,
        conditions=statement.domain.conditions,
        clipping=statement.clipping,
    )


def _upper_bounds(
    statement: Statement, values: Floats, groups: list[ProofGroup], count: int, workers: int
) -> dict[int | None, float]:
    """The proved bound of each target, in rational arithmetic if only rounding misses a claim."""
    rounded = statement.confidences()[1]
    uppers = statement.upper_bounds(values, rounded)
    missed = any(not uppers[target] <= claim for target, claim in statement.claims.items())
    work = exact_work(statement.form.network, len(groups), count)
    if not missed or work > _MOST_EXACT_PRODUCTS:
        return uppers
    ceiling = min(rounded, statement.ceiling(exact=True))
    # Weights may differ so much in size that float64 knows next to nothing about the scores.
    in_doubt = ceiling < rounded / 2 or _missed_by_rounding(
        uppers, statement.claims, statement.score_size()
    )
    if not in_doubt:
        return uppers
    exact, _ = evaluate(statement, groups, workers, exact=True)
    return statement.upper_bounds(np.fmin(values, exact), ceiling)


def _sha256(image: Floats) -> str:
    return hashlib.sha256(image.astype("<f8").tobytes()).hexdigest()


def _require_claims(statement: Statement, uppers: dict[int | None, float]) -> None:
    for target, claim in statement.claims.items():
        if not uppers[target] <= claim:
            raise Unproved(
                f"the upper bound {claim!r}{toward(target)} is not proved; "
                f"what the certificate proves is {uppers[target]!r}",
                uppers,
            )


def _missed_by_rounding(
    uppers: dict[int | None, float], claims: dict[int | None, float], largest: float
) -> bool:
    """Whether claims are missed, but only by so little that rounding can explain it."""
    missed = [
        uppers[target] - claim for target, claim in claims.items() if not uppers[target] <= claim
    ]
    room = _ROUNDING_SHARE * largest if math.isfinite(largest) else 0.0
    return bool(missed) and max(missed) <= room + _ROUNDING_TINY
