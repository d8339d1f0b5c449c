"""The figures of a report as files: CSV with all digits, SVG and PNG."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from vhagar.drawing.figure import AbstractFigure, Cell
from vhagar.errors import InvalidInput
from vhagar.report.compare import comparisons
from vhagar.report.coverage import coverage_bars, coverage_curves
from vhagar.report.data import StudyData
from vhagar.report.gallery import witness_figure
from vhagar.report.pairs import pair_heatmaps
from vhagar.report.spatial import spatial_heatmaps
from vhagar.report.table import COLUMNS, table_rows
from vhagar.report.timeline import bounds_over_time, study_over_time
from vhagar.result.serialize import write_bytes

FORMATS = ("csv", "svg", "png")


def figures(study: StudyData) -> Iterator[AbstractFigure]:
    """Every figure of a study. A new one is one more line here and one on the page."""
    yield from pair_heatmaps(study)
    yield from spatial_heatmaps(study)
    yield from comparisons(study)
    yield from coverage_bars(study)
    yield from coverage_curves(study)
    yield study_over_time(study)
    for entry in study.entries:
        yield bounds_over_time(entry)
        witness = witness_figure(entry)
        if witness is not None:
            yield witness


def export(study: StudyData, folder: str | Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every figure in every format, and the table of all results; the files written."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write figures to {folder}: {error.strerror}") from None
    written = [folder / "results.csv"]
    write_bytes(written[0], csv_text(COLUMNS, table_rows(study)).encode())
    for figure in figures(study):
        for kind in formats:
            path = folder / f"{figure.name}.{kind}"
            write_bytes(path, _content(figure, kind))
            written.append(path)
    return written


def _content(figure: AbstractFigure, kind: str) -> bytes:
    if kind == "csv":
        return csv_text(figure.columns(), figure.rows()).encode()
    if kind == "svg":
        return figure.draw().svg(alone=True).encode()
    if kind == "png":
        return figure.draw().png()
    raise InvalidInput(f"unknown figure format {kind!r}; choose from: {', '.join(FORMATS)}")


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table as text. Numbers have all their digits; what is not known is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([repr(cell) if isinstance(cell, float) else cell for cell in row])
    return target.getvalue()
