"""One run as the user sees it: search, write the files, print the answer."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vhagar.cli import parsed
from vhagar.cli.screen import AbstractScreen, is_terminal
from vhagar.cli.standard_output import shown
from vhagar.coverage import SeenData, search_time, seen_data, with_coverage
from vhagar.dataset import attack_starts
from vhagar.errors import VhagarError
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.result import ProgressError, Result, Status
from vhagar.result.requirement import Facts, Judged, Requirement
from vhagar.result.serialize import write_json
from vhagar.result.words import details
from vhagar.runtime.output_files import check_writable
from vhagar.search import AbstractEngine
from vhagar.verify import run_engine, with_largest

# With --percent, share of the timeout for the robustness question; the rest goes to the maximal
# confidence.
_SHARE_OF_QUESTION = 0.75


@dataclass(frozen=True)
class Outcome:
    """The result of a run, the files that could not be written, and what was demanded of it."""

    result: Result
    failures: tuple[str, ...]
    judged: tuple[Judged, ...] = ()


def check_outputs(arguments: argparse.Namespace, *others: Path | None) -> None:
    """Fail before the search if a file cannot be written."""
    for path in (*others, arguments.json, arguments.plot):
        if path is not None:
            check_writable(path, arguments.model)
    if arguments.plot is not None:
        from vhagar.result.figure import figure_format

        figure_format(arguments.plot)


def run_session(
    arguments: argparse.Namespace,
    *,
    engine: AbstractEngine | None = None,
    problem_of: Callable[[argparse.Namespace], Problem] = parsed.problem,
    percent: bool = False,
    covering: bool = False,
    requirements: Sequence[Requirement] = (),
) -> Outcome:
    """Answer a command's question: search, display, write the files and print the answer.

    `percent` also searches for the maximal confidence, and `covering` counts what is proven of a
    data set. Without an `engine`, it is the one that the arguments name.
    """
    engine, options = engine or parsed.engine(arguments), parsed.options(arguments)
    verdicts = getattr(arguments, "verdicts", None)
    check_outputs(arguments, options.certificate, options.checkpoint, verdicts)
    problem, timeout = problem_of(arguments), arguments.timeout
    # Invalid options are reported before anything is displayed.
    engine.check(options)
    attack_starts(options, problem.domain)
    if arguments.plot is not None:
        from vhagar.result.figure_drawing import prepare

        prepare()
    screen = open_screen(parsed.verbosity(arguments))
    begun = time.monotonic()
    share = search_time(options, timeout) if covering else timeout
    search = _search_with_percent if percent else _search
    result = search(screen, problem, engine, options, share)
    data = seen_data(result, options) if covering else None
    if covering:
        left = None if timeout is None else begun + timeout - time.monotonic()
        result = with_coverage(result, options, left, data)
    if result.status is not Status.INTERRUPTED:  # whoever interrupts is not kept waiting
        result = with_largest(result, options.seed)
    about, facts = str(result.problem), Facts.of(result)
    judged = tuple(each.judged(about, facts, result.seconds) for each in requirements)
    failures = _deliver(screen, result, data, arguments, judged)
    if options.certificate is not None and result.certificate is None:
        failures = (f"there is no certificate {options.certificate}", *failures)
    return Outcome(result, failures, judged)


def _search(
    screen: AbstractScreen,
    problem: Problem,
    engine: AbstractEngine,
    options: Options,
    timeout: float | None,
) -> Result:
    with screen.watch(problem, timeout) as watch:
        try:
            result = run_engine(problem, engine, options, timeout=timeout, on_progress=watch)
        except ProgressError as error:  # the display has failed, not the search
            note = f"the display failed: {error.cause}"
            result = replace(error.result, notes=(*error.result.notes, note))
        watch.finish(result)
    return result


def _search_with_percent(
    screen: AbstractScreen,
    problem: Problem,
    engine: AbstractEngine,
    options: Options,
    timeout: float | None,
) -> Result:
    """Answer the question first, so that an interruption costs only the maximal confidence."""
    begun = time.monotonic()
    share = None if timeout is None else _SHARE_OF_QUESTION * timeout
    result = _search(screen, problem, engine, options, share)
    if result.status is Status.INTERRUPTED:
        return replace(result, notes=(*result.notes, "the maximal confidence was not computed"))
    reference = problem.without_perturbation()
    left = None if timeout is None else max(begun + timeout - time.monotonic(), 0.0)
    # Certificate, checkpoint and dataset are for the question, not for the maximal confidence.
    own = replace(options, certificate=None, dataset=None, checkpoint=None, resume=None)
    largest = _search(screen, reference, engine, own, left)
    status = Status.INTERRUPTED if largest.status is Status.INTERRUPTED else result.status
    notes = (*result.notes, *largest.notes)
    return replace(result, status=status, notes=notes, max_confidence=largest.interval)


def _deliver(
    screen: AbstractScreen,
    result: Result,
    data: SeenData | None,
    arguments: argparse.Namespace,
    judged: Sequence[Judged],
) -> tuple[str, ...]:
    """Write the files, then print the answer even if writing failed."""
    rows = details(result)
    rows += [("required", each.words) for each in judged]
    writers = {"json": partial(write_json, result), "plot": partial(_plot, result)}
    if getattr(arguments, "verdicts", None) is not None:
        from vhagar.cli.verdicts import write_verdicts

        writers["verdicts"] = partial(write_verdicts, result, data)
    try:
        return write_outputs(arguments, rows, **writers)
    finally:
        screen.conclude(rows, str(result))


def _plot(result: Result, path: Path) -> None:
    from vhagar.result.figure import figure_data
    from vhagar.result.figure_drawing import draw

    draw(figure_data(result), path)


def write_outputs(
    arguments: argparse.Namespace, rows: list[tuple[str, str]], **writers: Callable[[Path], None]
) -> tuple[str, ...]:
    """Write the files that the arguments name; add them to `rows`, and return what failed."""
    failures = []
    for option, write in writers.items():
        path = getattr(arguments, option)
        if path is None:
            continue
        try:
            write(path)
            rows.append(("wrote", shown(path)))
        except VhagarError as error:
            failures.append(str(error))
        except Exception as error:  # a file that cannot be written must not cost the answer
            failures.append(f"cannot write {path}: {error}")
    return tuple(failures)


def open_screen(verbosity: int) -> AbstractScreen:
    """Choose the live display in a terminal, and plain lines otherwise, as many as wanted."""
    if verbosity < 0:
        from vhagar.cli.plain import QuietScreen

        return QuietScreen()
    if is_terminal() and not verbosity:
        from vhagar.cli.terminal import LiveScreen

        return LiveScreen()
    from vhagar.cli.plain import PlainScreen

    return PlainScreen(every_change=verbosity > 0)
