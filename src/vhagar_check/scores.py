"""Turn the model's output into scores, as the certificate states.

In the header's `model.scores` the certificate names the value of the model that holds the scores,
if the model has several outputs, and the threshold of a model with a single score z: the scores of
its two classes are `[0, z - threshold]`. With `argmin` the smallest output wins: the scores are the
negated outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.layers import Dense, Network

_KNOWN = {"output", "threshold"}
_NEGATED = {*_KNOWN, "argmin"}


@dataclass(frozen=True)
class Stated:
    """What a certificate states about scores, after a check that it makes sense."""

    output: str | None = None
    threshold: float | None = None
    argmin: bool = False

    @classmethod
    def of(cls, given: Any) -> Stated:
        if given is None:
            return cls()
        if not isinstance(given, dict) or set(given) not in (_KNOWN, _NEGATED):
            raise Rejected("what the certificate says about scores is not understood")
        if given.get("argmin", True) is not True:
            raise Rejected("the certificate's argmin is stated, but not true")
        output, threshold = given["output"], given["threshold"]
        if not (output is None or (isinstance(output, str) and output)):
            raise Rejected("the certificate does not name an output of the model")
        if threshold is not None and not (
            type(threshold) in (int, float) and math.isfinite(threshold)
        ):
            raise Rejected("the certificate's threshold is not a finite number")
        return cls(output, None if threshold is None else float(threshold), "argmin" in given)

    def applied(self, network: Network) -> Network:
        """The network with a score for each class."""
        if self.threshold is None:
            if network.classes < 2:
                raise Rejected(
                    "the model has one score, and the certificate does not state its threshold"
                )
            return _negated(network) if self.argmin else network
        if self.argmin:
            raise Rejected("the certificate states a threshold and argmin: of one score")
        if network.classes != 1:
            raise Rejected("the certificate states a threshold, but the model has several scores")
        divide = Dense(np.array([[0.0], [1.0]]), np.array([0.0, -self.threshold]))
        stages = (*network.stages[:-1], (*network.stages[-1], divide))
        return replace(network, stages=stages)

    def __str__(self) -> str:
        parts = [] if self.output is None else [f"are taken from the model's {self.output!r}"]
        if self.threshold is not None:
            z = "the model's one score z, before any sigmoid"
            parts.append(f"are 0 and z - {self.threshold!r}, for {z}")
        if self.argmin:
            parts.append("are negated: the smallest output wins")
        return "; ".join(parts)


def _negated(network: Network) -> Network:
    size = network.classes
    negate = Dense(-np.eye(size), np.zeros(size))
    return replace(network, stages=(*network.stages[:-1], (*network.stages[-1], negate)))
