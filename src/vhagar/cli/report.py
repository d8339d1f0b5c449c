"""The command `vhagar report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from vhagar.errors import InvalidInput

HELP = "write the results of a sweep as one HTML page, and as figures"

DESCRIPTION = """\
Write the results of a sweep as one self-contained HTML page. While the sweep is still running, the
page shows the results so far.
"""

EPILOG = """\
examples:
  vhagar report study.db -o report.html
  vhagar report study.db -o report.html --figures figures --formats csv,svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vhagar report`."""
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("store", type=Path, metavar="STORE", help="store of a sweep")
    add("-o", "--output", type=Path, metavar="FILE", help="output page (default: STORE as .html)")
    add("--csv", type=Path, metavar="FILE", help="also write all results as one CSV file")
    add("--figures", type=Path, metavar="FOLDER", help="also write every figure into FOLDER")
    add(
        "--formats",
        type=lambda text: text.split(","),
        metavar="F,...",
        help="formats of the figures: csv, svg, png (default: all)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the page and the figures and return the exit code."""
    from vhagar.report.data import read_store
    from vhagar.report.export import FORMATS, export
    from vhagar.report.page import write_page
    from vhagar.result.serialize import check_writable
    from vhagar.sweep.store import Store

    if arguments.formats is not None and arguments.figures is None:
        raise InvalidInput("--formats is for the figures: name their folder with --figures")
    output = arguments.output or arguments.store.with_suffix(".html")
    study = read_store(arguments.store)
    check_writable(output, arguments.store)
    if arguments.csv is not None:
        check_writable(arguments.csv, arguments.store)
    write_page(study, output)
    print(f"wrote {output}")
    if arguments.csv is not None:
        with Store(arguments.store) as store:
            store.to_csv(arguments.csv)
        print(f"wrote {arguments.csv}")
    if arguments.figures is not None:
        written = export(study, arguments.figures, arguments.formats or FORMATS)
        print(f"wrote {len(written)} files to {arguments.figures}")
    return 0
