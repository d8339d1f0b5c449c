"""Write the figures of a report to files: CSV with all digits, SVG and PNG."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from vhagar.drawing.figure import AbstractFigure, csv_text
from vhagar.errors import InvalidInput
from vhagar.report.compare import comparisons
from vhagar.report.coverage import coverage_bars, coverage_curves
from vhagar.report.data import StudyData
from vhagar.report.gallery import witness_figure
from vhagar.report.pairs import pair_heatmaps
from vhagar.report.spatial import spatial_heatmaps
from vhagar.report.table import COLUMNS, table_rows
from vhagar.report.timeline import bounds_over_time, study_over_time
from vhagar.runtime.output_files import write_bytes

FORMATS = ("csv", "svg", "png")

# A new figure takes one more line here and one on the page.
_KINDS: dict[str, Callable[[StudyData], Iterable[AbstractFigure]]] = {
    "pairs": pair_heatmaps,
    "spatial": spatial_heatmaps,
    "comparison": comparisons,
    "coverage": lambda study: (*coverage_bars(study), *coverage_curves(study)),
    "study": lambda study: [study_over_time(study)],
    "bounds": lambda study: map(bounds_over_time, study.entries),
    "witnesses": lambda study: filter(None, map(witness_figure, study.entries)),
}
KINDS = tuple(_KINDS)
# Kinds with one figure for each problem of a study, which are made only on request.
OF_PROBLEMS = ("bounds", "witnesses")
OF_STUDIES = tuple(kind for kind in KINDS if kind not in OF_PROBLEMS)


def figures(study: StudyData, kinds: Sequence[str] = KINDS) -> Iterator[AbstractFigure]:
    """Make the figures of a study of the requested kinds."""
    for kind in kinds:
        yield from _KINDS[kind](study)


def check_figures(formats: Sequence[str], kinds: Sequence[str]) -> None:
    """Raise an error if there is no such format or kind of figures."""
    for what, given, known in (("format", formats, FORMATS), ("kind", kinds, KINDS)):
        for name in given:
            if name not in known:
                choices = ", ".join(known)
                raise InvalidInput(f"unknown {what} of figures {name!r}; choose from: {choices}")


def export(
    study: StudyData,
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
    kinds: Sequence[str] = KINDS,
) -> list[Path]:
    """Write figures in every format and the table of all results; return the files' paths."""
    files = figure_files(study, folder, formats, kinds)
    write_files(files, folder)
    return list(files)


def figure_files(
    study: StudyData,
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
    kinds: Sequence[str] = KINDS,
) -> dict[Path, Callable[[], bytes]]:
    """The files that `export` writes, each with what makes its content."""
    check_figures(formats, kinds)
    files: dict[Path, Callable[[], bytes]] = {Path(folder, "results.csv"): partial(_table, study)}
    for name, figure in _named(study, kinds).items():
        for kind in formats:
            files[Path(folder, f"{name}.{kind}")] = partial(_content, figure, kind)
    return files


def write_files(files: Mapping[Path, Callable[[], bytes]], folder: str | Path) -> None:
    """Write files of a folder, which is made where it does not exist."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write figures to {folder}: {error.strerror}") from None
    for path, content in files.items():
        write_bytes(path, content())


def _table(study: StudyData) -> bytes:
    return csv_text(COLUMNS, table_rows(study)).encode()


def _named(study: StudyData, kinds: Sequence[str]) -> dict[str, AbstractFigure]:
    """The figures by name; fingerprints are left out unless networks share their names."""
    found = {figure.name: figure for figure in figures(study, kinds)}
    prints = "|".join(re.escape(facts.fingerprint[:6]) for facts in study.networks)
    short = {re.sub(rf"-({prints})(?=-|$)", "", name): figure for name, figure in found.items()}
    return short if len(short) == len(found) else found


def _content(figure: AbstractFigure, kind: str) -> bytes:
    if kind == "csv":
        return csv_text(figure.columns(), figure.rows()).encode()
    if kind == "svg":
        return figure.draw().svg(alone=True).encode()
    return figure.draw().png()
