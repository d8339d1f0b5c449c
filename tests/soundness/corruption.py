"""Damaged and forged certificates: what the checker accepts must be true, whoever wrote it.

Damage leaves the digest wrong, so it must be refused. A forger computes the digest anew; then what
counts is the claim. If the checker accepts one, the exact optimum of the problem that the
certificate now states, for the model it was checked with, must lie in the claimed intervals.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhagar import Problem
from vhagar.network import read_onnx
from vhagar_check import Rejected, Verdict, check

from ..oracle.exact import Truth, exact_optimum
from .bases import BASES, Base, base, other_model
from .damage import DAMAGE
from .forgeries import FORGERIES
from .judge import Finding, require_proved

# Each certificate takes a few hundredths of a second; what takes this long runs away.
_MOST_SECONDS = 30


@dataclass(frozen=True, eq=False)
class Attempt:
    """A certificate to be checked with a model; damage must be refused, whatever it claims."""

    what: str
    certificate: bytes
    model: bytes
    must_fail: bool


def attempt(number: int) -> Attempt:
    """The attempt of that number: certificates and ways take turns, the rest is drawn."""
    rng = np.random.default_rng([19, number])
    original = base(list(BASES)[number % len(BASES)])
    ways: dict[str, tuple[Callable[[Base, np.random.Generator], bytes], bool]] = {
        **{name: (way, True) for name, way in DAMAGE.items()},
        **{name: (way, False) for name, way in FORGERIES.items()},
    }
    name = list(ways)[number // len(BASES) % len(ways)]
    way, must_fail = ways[name]
    model = other_model(original.problem) if name == "another model" else original.model
    return Attempt(name, way(original, rng), model, must_fail)


def look(number: int, folder: Path) -> Finding:
    tried = attempt(number)
    finding = Finding("corruption", number, tried.what)
    certificate, model = folder / "certificate", folder / "model.onnx"
    certificate.write_bytes(tried.certificate)
    model.write_bytes(tried.model)
    finding.facts["kind"], finding.facts["outcome"] = tried.what, "refused"
    if tried.certificate == base(list(BASES)[number % len(BASES)]).certificate:
        finding.facts["outcome"] = "unchanged"
        return finding
    try:
        with _watched():
            verdict = check(certificate, model=model)
    except Rejected as refusal:
        finding.facts["refusal"] = str(refusal)
        return finding
    except BaseException as error:
        finding.wrong.append(f"the checker fails: {error!r}")
        finding.facts["outcome"] = "failed"
        return finding
    finding.facts["outcome"] = "accepted, and true"
    if tried.must_fail:
        finding.wrong.append("damage was not noticed")
    require_proved(_truths(tried.model, model, verdict), verdict, finding)
    return finding


class _RanAway(BaseException):
    pass


@contextmanager
def _watched() -> Iterator[None]:
    """Ends what takes too long."""

    def stop(*_: Any) -> None:
        raise _RanAway(f"not done after {_MOST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _truths(content: bytes, model: Path, verdict: Verdict) -> dict[int | None, Truth]:
    """The exact optimum of what the checker says that it proved."""
    question = (verdict.perturbation, verdict.clip, verdict.source, verdict.input_range)
    targets = tuple(target for target in verdict.uppers if target is not None)
    return _truths_of(content, model, question, targets)


_known: dict[Any, dict[int | None, Truth]] = {}


def _truths_of(
    content: bytes, model: Path, question: Any, targets: tuple[int, ...]
) -> dict[int | None, Truth]:
    key = (content, question, targets)
    if key not in _known:
        perturbation, clip, source, span = question
        network = read_onnx(model)
        _known[key] = exact_optimum(
            Problem(
                network,
                perturbation=perturbation,
                source=source,
                targets=targets or None,
                clip=clip,
                input_range=span,
            )
        )
    return _known[key]
