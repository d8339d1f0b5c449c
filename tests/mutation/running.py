"""Runs mutants against tests: all is imported and collected once, and each mutant is a fork.

A mutant's functions take the place of the module's own in the forked process, so it costs little
more than the tests that reach its line; the quickest of them run first, and the first failure ends
it. A mutant that hangs is caught: it is stopped by a limit on its processor time.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from .modules import source_of
from .operators import Mutant, code_of

CAUGHT, SURVIVED, UNREACHED = "caught", "survived", "unreached"
# Processor seconds that a mutant may take beyond three times what the tests take without it.
_LEAST_SECONDS = 3
# Processor seconds of tests, the quickest first, within which a mutant must be noticed.
_MOST_SECONDS = 5.0
# Seconds after which a mutant is stopped that waits for something.
_LONGEST_WAIT = 120
_MOST_MEMORY = 4 * 2**30
# Tests of other processes would not see the mutant.
_SELECTION = "not slow and not campaign and not subprocess"
_ADDRESS = Path("/proc/self/statm")


class Runner:
    """A plugin that runs mutants in the place of pytest's own loop over the tests."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        processes: int,
        without_broken: bool,
        note: Callable[[str, str], None],
    ) -> None:
        self._mutants = mutants
        self._note = note
        self._processes = processes
        self._without_broken = without_broken
        self._failed = False
        self.outcomes: dict[str, str] = {}
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        names = sorted({mutant.module for mutant in self._mutants})
        for name in names:
            import_module(name)
        paths = {str(source_of(name)): name for name in names}
        self._session = session
        self._functions = _functions_of(set(paths))
        self._reached = _Reached(self._scout(paths))
        self.broken = self._reached.broken
        if self._without_broken or not self.broken:
            self._run_all()
        return True

    def _scout(self, paths: dict[str, str]) -> list[dict[str, Any]]:
        """Run every test once as it is, and note how long it takes and what it reaches."""

        def scout(answer: Callable[[object], None]) -> None:
            for item in self._session.items:
                tracer = _Tracer(paths)
                begun = time.process_time()
                self._failed = False
                sys.settrace(tracer)
                self._run_one(item, None)
                sys.settrace(None)
                answer(
                    {
                        "name": item.nodeid,
                        "seconds": time.process_time() - begun,
                        "lines": sorted(tracer.lines),
                        "failed": self._failed,
                    }
                )

        return list(_asked(scout))

    def _run_one(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _run_all(self) -> None:
        waiting = list(reversed(self._mutants))
        running: dict[int, tuple[Mutant, Path]] = {}
        while waiting or running:
            if waiting and len(running) < self._processes:
                mutant = waiting.pop()
                chosen, seconds = self._reached.by(mutant)
                if not chosen:
                    self._tell(mutant, UNREACHED)
                    continue
                folder = Path(tempfile.mkdtemp(prefix="mutant"))
                limit = int(3 * seconds) + _LEAST_SECONDS
                running[self._fork(mutant, chosen, folder, limit)] = (mutant, folder)
                continue
            child, status = os.wait()
            mutant, folder = running.pop(child)
            shutil.rmtree(folder, ignore_errors=True)
            self._tell(mutant, SURVIVED if status == 0 else CAUGHT)

    def _tell(self, mutant: Mutant, outcome: str) -> None:
        self.outcomes[mutant.key] = outcome
        self._note(mutant.key, outcome)
        if outcome != CAUGHT:
            print(f"{outcome}: line {mutant.line}: {mutant.key}", file=sys.stderr, flush=True)

    def _fork(self, mutant: Mutant, chosen: list[str], folder: Path, limit: int) -> int:
        child = os.fork()
        if child:
            return child
        try:
            _confine(limit)
            self._session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
            self._plant(mutant)
            self._failed = False
            items = {item.nodeid: item for item in self._session.items}
            for name in chosen:
                self._run_one(items[name], None)
                if self._failed:
                    os._exit(1)
            os._exit(0)
        except BaseException:
            os._exit(1)

    def _plant(self, mutant: Mutant) -> None:
        """Give the module's functions, wherever they were imported, the mutant's code."""
        path = source_of(mutant.module)
        source = path.read_text()
        code = code_of(mutant, source, str(path))
        if mutant.constant is not None:
            _set_constant(mutant.module, mutant.constant, code)
            return
        before = _all_codes(compile(source, str(path), "exec"))
        for place, changed in _all_codes(code).items():
            for function in self._functions.get(_identity(before.get(place, changed)), []):
                function.__code__ = changed


class _Tracer:
    """Collects the lines of some files that are run."""

    def __init__(self, paths: dict[str, str]) -> None:
        self._paths = paths
        self.lines: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        name = self._paths.get(frame.f_code.co_filename)
        if name is None:
            return None
        self.lines.add((name, frame.f_lineno))
        return self


class _Reached:
    """Which tests reach a line: a file with one that does is run, those that do come first."""

    def __init__(self, scouted: list[dict[str, Any]]) -> None:
        self._tests = [
            {**test, "lines": set(map(tuple, test["lines"]))}
            for test in scouted
            if not test["failed"]
        ]
        self.broken = [test["name"] for test in scouted if test["failed"]]

    def by(self, mutant: Mutant) -> tuple[list[str], float]:
        place = (mutant.module, mutant.line)
        if mutant.constant is not None:
            chosen = [t for t in self._tests if any(p[0] == mutant.module for p in t["lines"])]
        else:
            files = {_file(test) for test in self._tests if place in test["lines"]}
            chosen = [test for test in self._tests if _file(test) in files]
        chosen.sort(key=lambda test: (place not in test["lines"], test["seconds"]))
        before = itertools.accumulate((test["seconds"] for test in chosen), initial=0.0)
        names = [
            test["name"]
            for test, spent in zip(chosen, before, strict=False)
            if spent < _MOST_SECONDS
        ]
        return names, min(sum(test["seconds"] for test in chosen), _MOST_SECONDS)


def _file(test: dict[str, Any]) -> str:
    return str(test["name"]).split("::", maxsplit=1)[0]


def _functions_of(paths: set[str]) -> dict[object, list[FunctionType]]:
    found: dict[object, list[FunctionType]] = {}
    for each in gc.get_objects():
        # Not `isinstance`, which asks some objects of torch for their class, and they warn.
        if type(each) is FunctionType and each.__code__.co_filename in paths:
            found.setdefault(_identity(each.__code__), []).append(each)
    return found


def _identity(code: CodeType) -> object:
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_code


def _all_codes(code: CodeType, place: tuple[int, ...] = ()) -> dict[tuple[int, ...], CodeType]:
    """A module's code and all code inside, by its place: the same with and without a fault."""
    found = {place: code}
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    for k, each in enumerate(inside):
        found.update(_all_codes(each, (*place, k)))
    return found


def _set_constant(module: str, name: str, code: CodeType) -> None:
    there = import_module(module)
    before = getattr(there, name)
    namespace = {"__name__": module, "__file__": there.__file__}
    # A dataclass looks its module up while it is defined.
    exec(code, namespace)
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(name) is before:
            setattr(other, name, namespace[name])


def _confine(seconds: int) -> None:
    """A process that ends after so many seconds, says nothing and stays small."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LONGEST_WAIT)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(_ADDRESS.read_text().split()[0]) if _ADDRESS.exists() else 0
    most = pages * resource.getpagesize() + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _asked(work: Callable[[Callable[[object], None]], None]) -> Iterator[Any]:
    """Run something in a forked process, and what it answers, line by line."""
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder, "answers")
        child = os.fork()
        if not child:
            with answers.open("w") as file:
                work(lambda answer: print(json.dumps(answer), file=file, flush=True))
            os._exit(0)
        os.waitpid(child, 0)
        yield from map(json.loads, answers.read_text().splitlines())


def run(
    mutants: Sequence[Mutant],
    tests: Sequence[str],
    processes: int = 1,
    without_broken: bool = False,
    note: Callable[[str, str], None] = lambda key, outcome: None,
) -> Runner:
    """What comes of each mutant, by its key; `note` hears of each at once."""
    runner = Runner(mutants, processes, without_broken, note)
    quiet = [
        "-q",
        "-n",
        "0",
        "--capture=sys",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "--every-case",
    ]
    with tempfile.TemporaryDirectory() as folder:
        pytest.main([*quiet, "-m", _SELECTION, f"--basetemp={folder}/base", *tests], [runner])
    return runner
