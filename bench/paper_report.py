"""The page of benchmarks, generated from the results alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from paper_figures import (
    approaches,
    draw_approaches,
    draw_gaps,
    draw_split,
    gap_curves,
    time_splits,
)
from paper_records import Record, RecordFile
from paper_rows import read_rows
from paper_table import (
    OURS,
    Comparison,
    against_here,
    against_paper,
    baselines_markdown,
    compare,
    ours_markdown,
    summary_markdown,
)

from vhagar.errors import InvalidInput
from vhagar.runtime.output_files import check_writable, write_bytes

_HEAD = """\
# Benchmarks

The rows of the paper's tables, rerun with this program and with the [baselines](baselines.md).
This page is generated from the results, as described at the end.
"""

_OTHER_NETWORKS = """\
**The networks are not the paper's.** They have the same architectures but were trained again, so
the paper's figures are for orientation only: neither bounds nor times can be compared row by row.
"""

_UNITS = """\
Bounds and gaps are percentages of the maximal confidence in the source class, averaged over the
pairs of classes. Of the interval around the maximal confidence, the end is used that makes no
bound look better than it is. Times are in minutes. The paper's figures are means over all 90
pairs, with up to three hours for each on 32 threads. Brightness and contrast are {clipping},
{as_paper}.
"""

_OTHERS = "\n## Networks that others made\n"

# Written by hand, for the page with these sections: edit it when a table is measured again.
_MACHINES = """\
| table | machine | commit | how old |
| --- | --- | --- | --- |
| the paper's rows | 42 rows, one pair each: two hardware threads each of sixteen, four at a \
time; the others: 93 runs on two cores each of sixteen, seven at a time, and 37 on two cores | \
584ceef (all rows of FMNIST, CIFAR-10 and mnist_3x50_nd, and nine of mnist_conv1 and mnist_conv2); \
8bcb5ce, 10caaae, 51e4710 | 42 rows recent, the others **old**: before quadratic bounds, the \
search by slopes and cuts |
| [networks that others made](#networks-that-others-made) | two shared cores, load average 10 to \
14 (acasxu_1_9: 4) | 4c51f73 (acasxu_1_9: d564988, malbeware_linear: 0b27088) | recent |
| local questions about them | two idle cores | 3bd765d7 | new |
| [networks of other shapes](#networks-of-other-shapes) | two shared cores, load average 11 to \
14 (max pooling: 16) | 5b680a6 (max pooling: 716ee50) | recent |
| [networks of a middle size](#networks-of-a-middle-size) | two shared cores, load average 10 | \
3211d24 | recent |

Single runs on busy cores understate the program. That one version is faster than another is claimed
only in `PERFORMANCE.md`, from paired runs in alternating order or from processor time. Each section
ends with the command that repeats it.
"""

_AGAIN = """\
## How to run it again

    python bench/paper.py all tables.csv networks/ --out results.csv --page docs/benchmarks.md \\
        --methods {methods} --timeout {timeout}

runs every row with three random pairs of classes and writes this page. `tables.csv` holds the
paper's rows, `networks/` the ONNX files; `examples/` has bundled ones. If it is stopped and started
again, it resumes where it was; `--part 1/4` runs a quarter of the rows, `--only` selects rows by
name, `--stop-after` limits the time. See `bench/README.md`.
"""


def write_report(arguments: argparse.Namespace) -> None:
    """Write the page and its figures."""
    if not arguments.results.exists():
        raise InvalidInput(f"{arguments.results} does not exist; `run` writes it")
    check_writable(arguments.out)
    records = _one_setting(RecordFile(arguments.results).records())
    rows = read_rows(arguments.tables)
    comparisons = compare(rows, records)
    if not comparisons:
        raise InvalidInput(f"{arguments.results} has no run of a row of {arguments.tables}")
    folder = arguments.out.parent / "figures"
    folder.mkdir(exist_ok=True)
    same = arguments.same_networks
    others = _others(arguments.out)
    page = [
        _HEAD,
        *([f"{arguments.note}\n"] if arguments.note else []),
        *([_MACHINES] if others else []),
        _what_was_run(records, comparisons, arguments),
        *([] if same else [_OTHER_NETWORKS]),
        _units(records),
        "## VHAGaR\n",
        "\n".join(ours_markdown(comparisons)) + "\n",
        "## The baselines\n",
        "Lower bound, or mean and half-width, or interval; minutes in brackets. NA: the method "
        "cannot handle the perturbation. No sample: no random input was of the source class. A "
        "dash: not run.\n",
        "\n".join(baselines_markdown(comparisons)) + "\n",
        "## Means and ratios\n",
        "Each line is over the rows (and, for runs made here, the pairs) that both methods have.\n",
        "\n".join(
            summary_markdown(
                [*(against_paper(comparisons) if same else []), *against_here(rows, records)]
            )
        )
        + "\n",
        *([_ahead(comparisons)] if same else []),
        *_figures(records, folder, arguments.problem),
        _again(records),
    ]
    write_bytes(arguments.out, ("\n".join(page) + others).encode())


def _others(out: Path) -> str:
    """The page's last sections, whose tables `public.py` measures: they stay as they are."""
    if not out.exists():
        return ""
    _, heading, rest = out.read_text().partition(_OTHERS)
    return heading + rest


def _one_setting(records: Sequence[Record]) -> list[Record]:
    """Runs with different limits do not belong into one table."""
    settings = {(r.timeout, r.workers, r.clip) for r in records}
    if len(settings) > 1:
        raise InvalidInput(
            "the results mix runs with different timeouts, workers or clipping: "
            f"{sorted(settings)}; keep them in files of their own"
        )
    return list(records)


def _what_was_run(
    records: Sequence[Record], comparisons: Sequence[Comparison], words: argparse.Namespace
) -> str:
    pairs = {(r.row, r.pair) for r in records}
    first = records[0]
    commit = f", commit {words.commit}" if words.commit else ""
    return (
        f"Run here: {len(comparisons)} rows, {len(pairs)} pairs of classes in all, on "
        f"{words.which}; {first.timeout:g} seconds for each run, {first.workers} worker "
        f"process(es), {words.machine}, seed {first.seed}{commit}. Sampled: {words.sampled}.\n"
    )


def _units(records: Sequence[Record]) -> str:
    clip = records[0].clip
    return _UNITS.format(
        clipping="clipped" if clip else "not clipped",
        as_paper="unlike the paper's tables" if clip else "as in the paper's tables",
    )


def _ahead(comparisons: Sequence[Comparison]) -> str:
    """Where the gap is smaller than the paper's, and where it is not."""
    gaps = [
        (one.row, one.here[OURS].gap, one.row.methods[OURS].gap)
        for one in comparisons
        if OURS in one.here
    ]
    known = [(row, ours, its) for row, ours, its in gaps if ours is not None and its is not None]
    behind = sorted(
        [(ours - its, row, ours, its) for row, ours, its in known if ours > its + 0.5],
        key=lambda found: -found[0],
    )
    lines = [
        "## Where the paper is ahead\n",
        f"The paper's figures are whole numbers, so half a percent more is no difference. In "
        f"{len(known) - len(behind)} of {len(known)} rows the gap here is not larger than the "
        f"paper's; in {len(behind)} it is:\n",
    ]
    for _, row, ours, its in behind:
        lines.append(f"- {row.network} `{row.perturbation}`: {ours:.1f} here, {its:g} in the paper")
    return "\n".join(lines) + "\n"


def _figures(records: Sequence[Record], folder: Path, wanted: str | None) -> list[str]:
    page = ["## Figures\n"]
    row, pair = _problem(records, wanted)
    bars = approaches(records, row, pair)
    title = f"{row}, class {pair[0]} to {pair[1]}"
    draw_approaches(bars, title, folder / "approaches.png")
    page.append(_picture("approaches", f"What each method knows after its time: {title}"))
    curves = gap_curves(records)
    if curves:
        draw_gaps(curves, "gap over time", folder / "gap_over_time.png")
        page.append(
            _picture(
                "gap_over_time",
                "Mean gap over the problems that all methods have run. Sampling leaves the upper "
                "bound where interval arithmetic puts it",
            )
        )
    for method in dict.fromkeys(r.method for r in records):
        split = time_splits(records, method)
        if any(one.divided for one in split):  # the default engine does everything in one phase
            draw_split(split, f"where the time of {method} goes", folder / f"time_{method}.png")
            page.append(_picture(f"time_{method}", f"Where the time of {method} goes, by network"))
    return page


def _picture(name: str, caption: str) -> str:
    return f"![{caption}](figures/{name}.png)\n\n*{caption}.*\n"


def _problem(records: Sequence[Record], wanted: str | None) -> tuple[str, tuple[int, int]]:
    """The problem to draw: the one that is asked for, or the first that most methods have run."""
    counts: dict[tuple[str, tuple[int, int]], int] = {}
    for record in records:
        if record.lower is not None:
            problem = record.row, record.pair
            counts[problem] = counts.get(problem, 0) + 1
    if wanted is None:
        return max(counts, key=lambda problem: counts[problem])
    found = [(row, pair) for row, pair in counts if f"{row} {pair[0]}:{pair[1]}" == wanted]
    if not found:
        raise InvalidInput(f"the results have no problem {wanted!r}")
    return found[0]


def _again(records: Sequence[Record]) -> str:
    methods = ",".join(dict.fromkeys(r.method for r in records))
    return _AGAIN.format(methods=methods, timeout=f"{records[0].timeout:g}")
