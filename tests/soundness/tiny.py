"""Random tiny problems: both engines and the certificate against the exact optimum."""

from __future__ import annotations

import time
from pathlib import Path

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum
from .judge import Finding, require_proved, require_sound, run_bab, run_mip, stored

# Ranges of contrasts and angles never close entirely: what holds after a moment must be sound too.
_SECONDS, _SECONDS_OF_RANGES = 20.0, 0.4


def look(number: int, folder: Path) -> Finding:
    """One problem of the exact oracle's, by its number."""
    case = Case(number)
    finding = Finding("tiny", number, str(case))
    problem = case.problem()
    begun = time.perf_counter()
    truths = exact_optimum(problem)
    finding.facts["oracle_seconds"] = round(time.perf_counter() - begun, 4)
    finding.facts["kind"], finding.facts["scale"] = case.kind, case.scale
    finding.facts["truths"] = {str(t): [str(v.low), str(v.high)] for t, v in truths.items()}
    finding.facts["exact"] = all(truth.exact for truth in truths.values())
    seconds = _SECONDS_OF_RANGES if case.of_ranges else _SECONDS
    at_hand = stored(problem, folder)
    result, verdict = run_bab(at_hand, finding, seconds, folder / "certificate")
    require_sound("bab", problem, truths, result, finding)
    if verdict is not None:
        require_proved(truths, verdict, finding)
    result = run_mip(at_hand, finding, seconds)
    require_sound("mip", problem, truths, result, finding)
    return finding
