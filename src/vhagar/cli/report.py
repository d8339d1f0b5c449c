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
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("store", type=Path, metavar="STORE", help="store of a sweep")
    add("-o", "--output", type=Path, metavar="FILE", help="output page (default: STORE as .html)")
    add("--csv", type=Path, metavar="FILE", help="also write all results as one CSV file")
    add("--figures", type=Path, metavar="FOLDER", help="also write figures into FOLDER")
    add(
        "--formats",
        type=lambda text: text.split(","),
        metavar="F,...",
        help="formats of the figures: csv, svg, png (default: all)",
    )
    add(
        "--kinds",
        type=lambda text: text.split(","),
        metavar="K,...",
        help="kinds of figures: pairs, spatial, comparison, coverage, study (default: these), and "
        "one for each problem: bounds, witnesses; or all",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the page and the figures and return the exit code."""
    from vhagar.cli.files import check_files
    from vhagar.report.export import (
        FORMATS,
        KINDS,
        OF_STUDIES,
        check_figures,
        figure_files,
        write_files,
    )
    from vhagar.report.page import write_page
    from vhagar.report.reading import read_store
    from vhagar.runtime.output_files import check_writable
    from vhagar.sweep.store import Store

    for option in ("formats", "kinds"):
        if vars(arguments)[option] is not None and arguments.figures is None:
            raise InvalidInput(f"--{option} is for the figures: name their folder with --figures")
    kinds = KINDS if arguments.kinds == ["all"] else arguments.kinds or OF_STUDIES
    formats = arguments.formats or FORMATS
    check_figures(formats, kinds)
    output = arguments.output or arguments.store.with_suffix(".html")
    study = read_store(arguments.store)
    folder = arguments.figures
    files = {} if folder is None else figure_files(study, folder, formats, kinds)
    check_files(arguments, files)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder, but a file; choose another for the figures")
    check_writable(output, arguments.store)
    if arguments.csv is not None:
        check_writable(arguments.csv, arguments.store)
    write_page(study, output)
    print(f"wrote {output}")
    if arguments.csv is not None:
        with Store(arguments.store) as store:
            store.to_csv(arguments.csv)
        print(f"wrote {arguments.csv}")
    if folder is not None:
        write_files(files, folder)
        print(f"wrote {len(files)} files to {folder}")
    return 0
