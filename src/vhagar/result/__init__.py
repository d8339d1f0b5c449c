"""Results: the interval, the witness (re-checked, fails closed), and how they are kept."""

from vhagar.result.result import ProgressError, Result
from vhagar.result.run import Run
from vhagar.result.values import (
    BoundKind,
    Coverage,
    CoverageCounts,
    CoverageRows,
    Estimate,
    Interval,
    Moment,
    PlausibleWitness,
    Progress,
    Status,
)
from vhagar.result.warm_start import Suggestion, WarmStart
from vhagar.result.witness import Rejection, Witness, WitnessCheck

__all__ = [
    "BoundKind",
    "Coverage",
    "CoverageCounts",
    "CoverageRows",
    "Estimate",
    "Interval",
    "Moment",
    "PlausibleWitness",
    "Progress",
    "ProgressError",
    "Rejection",
    "Result",
    "Run",
    "Status",
    "Suggestion",
    "WarmStart",
    "Witness",
    "WitnessCheck",
]
