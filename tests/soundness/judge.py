"""Whether an engine's interval and its certificate hold what is known to be true.

A claim is wrong, or it is not: there is no tolerance here, and nothing is excused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from vhagar import Problem, Result, verify
from vhagar.network import read_onnx, write_onnx
from vhagar.search.mip.engine import Mip
from vhagar_check import Rejected, Verdict, check

from ..oracle.exact import Truth, overall, rational_confidence, rationals, with_network


@dataclass
class Finding:
    """What came of one case: everything that was wrong with it, and what was seen."""

    part: str
    number: int
    what: str
    wrong: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Stored:
    """A problem whose network was written to a file and read again, as users have it."""

    problem: Problem
    model: Path


def stored(problem: Problem, folder: Path) -> Stored:
    model = folder / "model.onnx"
    write_onnx(problem.network, model)
    return Stored(with_network(problem, read_onnx(model)), model)


def run_bab(
    case: Stored, finding: Finding, timeout: float, certificate: Path
) -> tuple[Result, Verdict | None]:
    """The engine's result, and what the checker proves from its certificate, if anything."""
    options = {"certificate": certificate, "workers": 0}
    result = _run(case, finding, timeout, options)
    begun = time.perf_counter()
    verdict = None
    try:
        verdict = check(certificate, model=case.model)
        finding.facts["proofs"] = verdict.proofs
        if (verdict.lower, verdict.upper) != (result.lower, result.upper):
            finding.wrong.append("the certificate claims another interval than the result")
    except Rejected as refusal:
        finding.facts["refused"] = str(refusal)
    except Exception as error:  # whatever it is, it is a fault
        finding.wrong.append(f"the checker fails: {error!r}")
    finding.facts["check_seconds"] = round(time.perf_counter() - begun, 4)
    finding.facts["bytes"] = certificate.stat().st_size if certificate.exists() else None
    return result, verdict


def run_mip(case: Stored, finding: Finding, timeout: float) -> Result:
    return _run(case, finding, timeout, {"engine": Mip(), "workers": 0})


def _run(case: Stored, finding: Finding, timeout: float, options: dict[str, Any]) -> Result:
    begun = time.perf_counter()
    result = verify(case.problem, timeout=timeout, **options)
    finding.facts[result.engine] = {
        "status": result.status.name,
        "lower": result.lower,
        "upper": result.upper,
        "nodes": result.nodes,
        "seconds": round(time.perf_counter() - begun, 4),
    }
    if result.notes:
        finding.facts[result.engine]["notes"] = list(result.notes)
    return result


def require_sound(
    name: str, problem: Problem, truths: dict[int | None, Truth], result: Result, finding: Finding
) -> None:
    """Every interval the engine ever stated holds the exact optimum."""
    whole = overall(truths)
    for moment in result.history:
        _require_inside(f"{name}, at {moment.seconds:.3f} s", moment, whole, finding)
    _require_inside(name, result, whole, finding)
    if result.targets.keys() != truths.keys():
        finding.wrong.append(f"{name}: not the targets of the problem")
    for target, interval in result.targets.items():
        _require_inside(f"{name}, target {target}", interval, truths[target], finding)
    witness = result.witness
    if result.lower != (witness.confidence if witness else 0.0):
        finding.wrong.append(f"{name}: the lower bound is not the witness's confidence")
    if witness is not None:
        x = rationals(witness.x)
        if Fraction(witness.confidence) > rational_confidence(problem.network, x, problem.source):
            finding.wrong.append(f"{name}: the witness is less confident than stated")


def require_proved(truths: dict[int | None, Truth], verdict: Verdict, finding: Finding) -> None:
    """What the checker accepted is true."""
    whole = overall(truths)
    _require_inside("the certificate", verdict, whole, finding)
    for target, truth in truths.items():
        if verdict.lowers[target] > truth.high or verdict.uppers[target] < truth.low:
            finding.wrong.append(f"the certificate, target {target}: {verdict!r} against {truth}")


def _require_inside(name: str, interval: Any, truth: Truth, finding: Finding) -> None:
    if not Fraction(interval.lower) <= truth.high:
        finding.wrong.append(f"{name}: lower {interval.lower!r} is above {float(truth.high)!r}")
    # An upper bound may be infinite, which is above everything.
    if not truth.low <= interval.upper:
        finding.wrong.append(f"{name}: upper {interval.upper!r} is below {float(truth.low)!r}")
