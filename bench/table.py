"""Runs as a Markdown table, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from records import Run


def one_line(run: Run) -> str:
    """A run as it is reported when it ends."""
    return (
        f"{run.instance.number:3d} {run.instance!s:58s} {run.engine:4s} "
        f"[{run.lower:.5g}, {run.upper:.5g}] gap {_percent(run.gap_percent)} "
        f"{run.nodes} nodes {run.seconds:.1f} s, 1 % after {_seconds(run.seconds_to_close)}"
    )


def markdown(runs: Sequence[Run], engines: Sequence[str]) -> str:
    """One row for each instance, the engines side by side; below, a row for each engine."""
    return "\n".join([*_instances(runs, engines), "", *_summary(runs, engines)])


_COLUMNS = ("lower", "upper", "gap %", "nodes", "s", "s to 1 %", "gap % x s")


def _instances(runs: Sequence[Run], engines: Sequence[str]) -> list[str]:
    heads = [f"{name} ({engine})" for engine in engines for name in _COLUMNS]
    lines = [_row(["#", "instance", *heads]), _row(["---:", "---", *["---:"] * len(heads)])]
    for instance in dict.fromkeys(run.instance for run in runs):
        cells: list[str] = []
        for engine in engines:
            found = [run for run in runs if run.instance == instance and run.engine == engine]
            cells += _cells(found[0]) if found else [""] * len(_COLUMNS)
        lines.append(_row([str(instance.number), str(instance), *cells]))
    return lines


def _cells(run: Run) -> list[str]:
    return [
        f"{run.lower:.5g}",
        f"{run.upper:.5g}",
        _percent(run.gap_percent),
        str(run.nodes),
        f"{run.seconds:.1f}",
        _seconds(run.seconds_to_close),
        _seconds(run.gap_integral),
    ]


def _summary(runs: Sequence[Run], engines: Sequence[str]) -> list[str]:
    """Only instances that every engine has finished count."""
    done = [
        [run for run in runs if run.instance == instance]
        for instance in dict.fromkeys(run.instance for run in runs)
    ]
    complete = [run for group in done if len(group) == len(engines) for run in group]
    heads = ["engine", "closed", "mean gap %", "worst gap %", "mean s", "nodes", "mean gap % x s"]
    heads.append(f"mean gap, {engines[0]} = 1")
    lines = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    first = _mean_gap(complete, engines[0])
    for engine in engines:
        own = [run for run in complete if run.engine == engine]
        gaps = [run.gap_percent for run in own if run.gap_percent is not None]
        mean = _mean_gap(complete, engine)
        ratio = f"{mean / first:.2f}" if first and mean is not None else "-"
        lines.append(
            _row(
                [
                    engine,
                    f"{sum(run.closed for run in own)} of {len(own)}",
                    _percent(mean),
                    _percent(max(gaps, default=None)),
                    f"{fmean(run.seconds for run in own):.1f}" if own else "-",
                    str(sum(run.nodes for run in own)),
                    _seconds(_mean([run.gap_integral for run in own])),
                    ratio,
                ]
            )
        )
    return lines


def _mean_gap(runs: Sequence[Run], engine: str) -> float | None:
    return _mean([run.gap_percent for run in runs if run.engine == engine])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
