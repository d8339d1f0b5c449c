"""The paper's ablation table, and the page that compares ours with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from records import Instance

_PUBLISHED = {"everything": 0, "MIP + dependencies": 1, "MIP": 2}


@dataclass(frozen=True)
class Published:
    """What the paper reports of one variant: minutes and percent of the maximal confidence."""

    minutes: float
    first_minutes: float
    lower: float
    upper: float
    first_lower: float


# The rows of the paper's table (tab:ablation): everything, with dependencies, MIP only. Its figures
# are means over all pairs of classes; the pair is our choice.
_3X50, _CONV1 = "mnist_3x50_pgd", "mnist_conv1"
ROWS: tuple[tuple[Instance, tuple[Published, ...]], ...] = (
    (
        Instance(1, _3X50, "brightness([0,1])", False, 2, 3),
        (
            Published(4.8, 0.1, 48, 48, 39),
            Published(8.2, 1.2, 48, 48, 30),
            Published(18.5, 1, 48, 48, 27),
        ),
    ),
    (
        Instance(2, _3X50, "brightness([0,0.1])", False, 2, 3),
        (
            Published(9.2, 0.2, 21, 21, 15),
            Published(18, 1, 21, 21, 12),
            Published(34.6, 1.1, 21, 21, 15),
        ),
    ),
    (
        Instance(3, _CONV1, "brightness([0,1])", False, 2, 3),
        (
            Published(44, 0.7, 44, 44, 36),
            Published(53, 6.5, 44, 44, 31),
            Published(91, 12, 44, 49, 23),
        ),
    ),
    (
        Instance(4, _CONV1, "occlusion(14,14,3)", True, 2, 3),
        (
            Published(0.9, 0.15, 9, 9, 7),
            Published(0.9, 0.3, 9, 9, 6),
            Published(180, 40, 4, 24, 3),
        ),
    ),
    (
        Instance(5, _CONV1, "patch([0,1],14,14,[1,3])", True, 1, 7),
        (
            Published(0.7, 0.05, 13, 13, 6),
            Published(0.9, 0.1, 13, 13, 5),
            Published(180, 0.1, 13, 34, 4),
        ),
    ),
    (
        Instance(6, _CONV1, "translation(3,3)", True, 0, 6),
        (
            Published(0.1, 0.01, 93, 93, 90),
            Published(0.3, 0.1, 93, 93, 67),
            Published(0.5, 0.1, 93, 93, 66),
        ),
    ),
)


@dataclass(frozen=True)
class Run:
    """One variant on one instance. `first_*` belong to the first lower bound above 0."""

    instance: str
    variant: str
    timeout: float
    workers: int
    status: str
    lower: float
    upper: float
    seconds: float
    first_lower: float | None
    first_seconds: float | None
    max_confidence: float

    def percent(self, value: float) -> float:
        return 100 * value / self.max_confidence


Find = Callable[[Instance, str], Run | None]


def page(find: Find, variants: Iterable[str], timeout: float, workers: int) -> str:
    """The table as a page of the documentation; rows without any run are left out."""
    variants = tuple(variants)
    lines = [_HEAD.format(timeout=f"{timeout:g}", workers=workers).strip(), ""]
    for instance, published in ROWS:
        if not any(find(instance, variant) for variant in variants):
            continue  # not measured yet
        lines += [f"## {instance}", "", *_TABLE_HEAD]
        for variant in variants:
            run = find(instance, variant)
            place = _PUBLISHED.get(variant)
            theirs = ["-"] * 5 if place is None else _theirs(published[place])
            ours = ["-"] * 6 if run is None else _ours(run)
            lines.append("| " + " | ".join([variant, *ours, *theirs]) + " |")
        lines.append("")
    return "\n".join(lines)


def _ours(run: Run) -> list[str]:
    first = ["-", "-"]
    if run.first_lower is not None and run.first_seconds is not None:
        first = [f"{run.first_seconds:.1f}", f"{run.percent(run.first_lower):.1f}"]
    return [
        f"{run.seconds:.1f}",
        first[0],
        f"{run.percent(run.lower):.1f}",
        f"{run.percent(run.upper):.1f}",
        first[1],
        run.status,
    ]


def _theirs(published: Published) -> list[str]:
    return [
        f"{60 * published.minutes:g}",
        f"{60 * published.first_minutes:g}",
        f"{published.lower:g}",
        f"{published.upper:g}",
        f"{published.first_lower:g}",
    ]


_HEAD = """
# Ablation

What does each idea of the paper contribute? This page repeats its ablation table and adds two
rows: the lambda formulation, and the default engine `bab`. Ours: one pair of classes for each
perturbation, at most {timeout} seconds in total, {workers} x86-64 cores, HiGHS. The paper's: means
over all pairs of classes, three hours, 32 threads, Gurobi. *t* is the time of the run; *t first*
and *first* are the time and value of the first lower bound above 0. Bounds are in percent of the
maximal confidence (ours: of its proven lower end), times in seconds.

    python bench/ablation.py networks/ --timeout {timeout} --out ablation.csv --page ablation.md
"""
_COLUMNS = ("t", "t first", "lower", "upper", "first")
_TABLE_HEAD = (
    "| variant | "
    + " | ".join([*_COLUMNS, "status", *(f"paper: {name}" for name in _COLUMNS)])
    + " |",
    "| --- |" + " ---: |" * 5 + " --- |" + " ---: |" * 5,
)
