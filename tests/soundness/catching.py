"""Plants every fault, one after the other, and says what catches it.

    python -m tests.soundness.catching [NAME ...]

Problems, truths and models are prepared by the sound program and kept as plain data: a fault can
change neither the question nor the answer. Each fault then lives in a process of its own, forked
before anything of the verifier was imported. What counts as caught: an interval that does not hold
the truth, an error that says so itself, a certificate that the checker refuses, a search that no
longer closes; or a test that fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# How small a gap is wanted; ranges of a parameter would be split for long.
_GAP, _GAP_OF_RANGES = 1e-3, 0.2
# Of the processor, not of the clock: a busy machine must not look like a fault.
_SECONDS = 20.0
Probe = dict[str, Any]


def _heavy_imports() -> None:
    """What takes long to import and is never changed: once for all."""
    import highspy  # noqa: F401
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import scipy.sparse  # noqa: F401


def _in_child(work: Callable[[], Any], answer: Path) -> int:
    """Fork; the child writes what it found, or what went wrong, and is gone."""
    child = os.fork()
    if child:
        return child
    try:
        found = work()
    except BaseException as error:
        found = {"error": repr(error)}
    answer.write_text(json.dumps(found))
    os._exit(0)


def prepared(folder: Path, numbers: list[int]) -> list[Probe]:
    """The problems with their truths, in which the sound program sees nothing wrong."""
    from ..oracle.cases import Case
    from ..oracle.exact import exact_optimum
    from .judge import stored

    probes = []
    for number in numbers:
        case = Case(number)
        problem = case.problem()
        place = folder / str(number)
        place.mkdir()
        stored(problem, place)
        probe: Probe = {
            "number": number,
            "model": str(place / "model.onnx"),
            "gap": _GAP_OF_RANGES if case.kind in ("brightness", "contrasts") else _GAP,
            "perturbation": str(problem.perturbation),
            "source": problem.source,
            "targets": list(problem.targets),
            "clip": problem.clip,
            "range": [problem.domain.lower, problem.domain.upper],
            "truths": {
                str(target): [str(truth.low), str(truth.high)]
                for target, truth in exact_optimum(problem).items()
            },
        }
        for engine in ("bab", "mip"):
            wrong = examined(probe, engine, place)
            assert wrong is None, f"without any fault, case {number}: {wrong}"
        probes.append(probe)
    return probes


def examined(probe: Probe, engine: str, folder: Path) -> str | None:
    """What is wrong with an engine's answer, if anything."""
    from vhagar import Problem, Status, verify
    from vhagar.network import read_onnx
    from vhagar.search import engine_named
    from vhagar_check import Rejected, check

    model, certificate = Path(probe["model"]), folder / "certificate"
    problem = Problem(
        read_onnx(model),
        perturbation=probe["perturbation"],
        source=probe["source"],
        targets=probe["targets"],
        clip=probe["clip"],
        input_range=tuple(probe["range"]),
    )
    try:
        with _interrupted_after(_SECONDS):
            result = verify(
                problem,
                engine=engine_named(engine),
                workers=0,
                relative_gap=probe["gap"],
                certificate=certificate if engine == "bab" else None,
            )
    except (Exception, KeyboardInterrupt) as error:
        return f"an error: {type(error).__name__}: {error}"[:160]
    wrong = _untrue(probe, result)
    if wrong is None and result.status not in (Status.CLOSED, Status.ROBUST):
        wrong = f"the oracle's test that it closes: {result.status.name}"
    if wrong is None and engine == "bab":
        try:
            verdict = check(certificate, model=model)
            if (verdict.lower, verdict.upper) != (result.lower, result.upper):
                wrong = "the checker: the certificate claims another interval"
        except Rejected as refusal:
            wrong = f"the checker: {refusal}"[:160]
    return wrong


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """As if by Ctrl-C, which leaves a result."""
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _untrue(probe: Probe, result: Any) -> str | None:
    for target, (low, high) in probe["truths"].items():
        interval = result.targets[int(target)]
        if Fraction(interval.lower) > Fraction(high):
            return f"the oracle: lower {interval.lower:.6g} of target {target} is too large"
        if interval.upper < Fraction(low):
            return f"the oracle: upper {interval.upper:.6g} of target {target} is too small"
    return f"a note: {result.notes[0]}"[:160] if result.notes else None


def caught_by(name: str, probes: dict[int, Probe], folder: Path) -> dict[str, Any]:
    """Plant a fault in this process, and look until something catches it."""
    from .faults import FAULTS
    from .planting import plant

    fault = FAULTS[name]
    plant(fault.module, fault.changes)
    begun, looked = time.perf_counter(), 0
    found, number = None, None
    for number in fault.at:
        looked += 1
        found = examined(probes[number], fault.engine, folder)
        if found is not None:
            break
    seconds = time.perf_counter() - begun
    return {"caught": found, "at": number, "looked": looked, "seconds": round(seconds, 2)}


def _by_test(name: str, test: str) -> dict[str, Any]:
    begun = time.perf_counter()
    plugins = ["-p", "tests.soundness.planting", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-n", "0", *plugins, test],
        env={**os.environ, "VHAGAR_FAULT": name},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    failed = done.returncode == 1 and " failed" in done.stdout
    return {
        "name": name,
        "caught": f"the test {test.rsplit('::', maxsplit=1)[-1]}" if failed else None,
        "looked": 1,
        "seconds": round(time.perf_counter() - begun, 2),
        **({} if failed else {"output": done.stdout[-600:] + done.stderr[-300:]}),
    }


def main(names: list[str]) -> int:
    from .faults import FAULTS

    _heavy_imports()
    survivors = 0
    chosen = names or list(FAULTS)
    numbers = sorted({n for name in chosen if not FAULTS[name].test for n in FAULTS[name].at})
    with TemporaryDirectory() as place:
        folder = Path(place)
        os.waitpid(_in_child(lambda: prepared(folder, numbers), folder / "probes.json"), 0)
        answered = json.loads((folder / "probes.json").read_text())
        if isinstance(answered, dict):
            raise SystemExit(f"the problems could not be prepared: {answered['error']}")
        probes = {probe["number"]: probe for probe in answered}
        for name in chosen:
            test, answer = FAULTS[name].test, folder / "answer.json"
            if test is not None:
                found = _by_test(name, test)
            else:
                child = _in_child(partial(caught_by, name, probes, folder), answer)
                os.waitpid(child, 0)
                found = json.loads(answer.read_text())
            survivors += found.get("caught") is None
            print(json.dumps({"name": name, **found}), flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
