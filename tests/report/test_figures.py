"""The data behind the figures, and that each of them can be drawn and written."""

from __future__ import annotations

import csv
import io
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from vhagar.drawing.colours import luminance, ramp, ramp_pixels, text_on
from vhagar.drawing.figure import csv_text
from vhagar.drawing.png import png_bytes
from vhagar.drawing.shapes import Rect, Text
from vhagar.errors import InvalidInput
from vhagar.report.compare import comparisons
from vhagar.report.data import Entry, StudyData
from vhagar.report.export import KINDS, OF_STUDIES, export, figures
from vhagar.report.gallery import witness_figure
from vhagar.report.pairs import measured, pair_cells, pair_heatmaps, short
from vhagar.report.spatial import spatial_heatmaps
from vhagar.report.table import COLUMNS, table_rows
from vhagar.report.timeline import StudyOverTime, bounds_over_time, study_over_time
from vhagar.result.timeline import ticks
from vhagar.result.values import percentages

MakeEntry = Callable[..., Entry]
MakeStudy = Callable[..., StudyData]


def test_a_heatmap_has_every_pair(study: StudyData) -> None:
    first = pair_heatmaps(study)[0]
    assert (first.group.network, first.measure) == ("one", "lower")
    assert (first.sources, first.targets) == ((0, 1), (0, 1, 2))
    found = {(cell.source, cell.target): (cell.lower, cell.upper) for cell in first.cells}
    assert found == {
        (0, 1): (2.0, 3.0),
        (0, 2): (0.0, 0.0),
        (1, 0): (1.5, 9.0),
        (1, 2): (0.0, math.inf),
    }
    assert first.largest == 9.0  # of this map: another network's scores have another unit


def test_several_problems_about_one_pair_meet(make_entry: MakeEntry) -> None:
    both = make_entry({1: (1.0, 9.0), 2: (0.0, 3.0)})
    alone = make_entry({1: (2.0, 10.0)})
    for entries in ((both, alone), (alone, both)):
        cell = pair_cells(entries)[0]
        assert (cell.lower, cell.upper, cell.number) == (2.0, 9.0, alone.number)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [(1.0, 3.0, (1.0, 3.0, 2.0)), (1.0, math.inf, (1.0, None, None)), (0.0, math.inf, (None,) * 3)],
)
def test_what_is_not_known_is_no_number(
    lower: float, upper: float, expected: tuple[float | None, ...]
) -> None:
    for measure, value in zip(("lower", "upper", "gap"), expected, strict=True):
        found = measured(lower, upper, measure)
        assert math.isnan(found) if value is None else found == value


@pytest.mark.parametrize(
    "value", [1e-7, 0.0049, 0.1234, 9.994, 9.996, 99.94, 99.96, 999.5, 1499, 1501, 5e4]
)
def test_numbers_in_cells_are_short_and_on_the_safe_side(value: float) -> None:
    low, high = short(value, downward=True), short(value, downward=False)
    assert len(low) <= 5
    assert len(high) <= 5
    assert float(low) <= value <= float(high)


def test_a_spatial_map_takes_the_largest_bound_of_the_squares(study: StudyData) -> None:
    maps = {(one.map.target, one.measure): one for one in spatial_heatmaps(study)}
    assert {target for target, _ in maps} == {None, 1, 2}
    lower, upper = maps[1, "lower"].pixels(), maps[1, "upper"].pixels()
    assert lower.shape == (4, 4)
    assert lower[0, 0] == 0.0
    assert lower[3, 3] == 1.5
    assert upper[0, 3] == 2.0
    # Any target: the largest over the targets.
    assert maps[None, "upper"].pixels()[0, 0] == 2.0
    assert maps[None, "lower"].pixels()[0, 0] == 0.25


def test_any_target_needs_all_of_them(make_entry: MakeEntry, make_study: MakeStudy) -> None:
    """A target that was not asked about might exceed every bound."""
    squares = [
        make_entry({1: (1.0, 2.0)}, perturbation="occlusion(1,1,2)"),
        make_entry({2: (1.0, 5.0)}, perturbation="occlusion(1,1,2)"),
        make_entry({1: (1.0, 2.0)}, perturbation="occlusion(3,3,2)"),
    ]
    maps = {(one.map.target, one.measure): one for one in spatial_heatmaps(make_study(*squares))}
    pixels = maps[None, "upper"].pixels()
    assert pixels[0, 0] == 5.0
    assert np.isnan(pixels[3, 3])


def test_overlapping_squares(make_entry: MakeEntry, make_study: MakeStudy) -> None:
    squares = [
        make_entry({1: (1.0, 2.0)}, perturbation="patch([0,1],1,1,3)"),
        make_entry({1: (3.0, 4.0)}, perturbation="patch([0,1],2,2,3)"),
    ]
    lower = spatial_heatmaps(make_study(*squares))[0].pixels()
    assert lower[0, 0] == 1.0
    assert lower[1, 1] == lower[3, 3] == 3.0
    assert np.isnan(lower[0, 3])


def test_patches_of_nearly_equal_limits_are_two_pictures(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    """A bound for the smaller limit says nothing about the larger one."""
    squares = [
        make_entry({1: (1.0, 2.0)}, perturbation=f"patch([0,{limit}],{place},{place},3)")
        for limit in (0.1, 0.1000000001)
        for place in (1, 2)
    ]
    found = spatial_heatmaps(make_study(*squares))
    assert {one.map.kind for one in found} == {
        "patch of width 3, limit 0.1",
        "patch of width 3, limit 0.1000000001",
    }


def test_a_comparison_says_only_what_is_proven(study: StudyData) -> None:
    first = next(one for one in comparisons(study) if one.second.network == "two")
    found = {(one.source, one.target): one.more_robust for one in first.verdicts}
    expected = {(0, 1): "first", (0, 2): "first", (1, 0): "second", (1, 2): "unasked"}
    assert found == expected
    assert "A is proven more robust for 2 of 4" in first.sentence
    assert "and 1 cannot be compared" in first.sentence


def test_networks_are_compared_by_what_they_can_reach(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    """A network whose scores are ten times as large is not ten times less robust."""
    entries = [
        make_entry({target: (size * 2.0, size * 2.01)}, network=network)
        for target in (1, 2)
        for network, size in (("one", 1.0), ("two", 10.0))
    ]
    study = make_study(*entries)
    keys = sorted(study.largest)
    reach = {key: (20.0, 20.01) if "111" in key else (200.0, 200.1) for key in keys}
    (comparison,) = comparisons(replace(study, largest=reach))
    assert [each.more_robust for each in comparison.verdicts] == ["open", "open"]
    assert "equal to within" in comparison.sentence
    (unknown,) = comparisons(replace(study, largest={}))
    assert [each.more_robust for each in unknown.verdicts] == ["unasked", "unasked"]
    assert "2 cannot be compared" in unknown.sentence


def test_percentages_are_rounded_outward() -> None:
    low, high = percentages((1.0, 3.0), (7.0, 9.0)) or (0.0, 0.0)
    assert low <= Fraction(100) / 9
    assert high >= Fraction(300) / 7
    assert percentages((1.0, 3.0), None) is None
    assert percentages((1.0, 3.0), (0.0, 9.0)) == (low, 100.0)
    assert percentages((0.0, 0.0), (7.0, 9.0)) == (0.0, 0.0)


def test_one_network_is_compared_with_itself_in_its_own_units(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    entries = [
        make_entry({target: ends}, perturbation=text)
        for target in (1, 2)
        for text, ends in (("linf(0.1)", (1.0, 2.0)), ("linf(0.2)", (3.0, 4.0)))
    ]
    (comparison,) = comparisons(replace(make_study(*entries), largest={}))
    assert [each.more_robust for each in comparison.verdicts] == ["first", "first"]


def test_intervals_that_meet_prove_nothing(make_entry: MakeEntry, make_study: MakeStudy) -> None:
    bounds = {1: ((1.0, 3.0), (2.0, 5.0)), 2: ((4.0, 6.0), (1.0, 4.0))}
    entries = [
        make_entry({target: pair[k]}, network=network)
        for target, pair in bounds.items()
        for k, network in enumerate(("one", "two"))
    ]
    (comparison,) = comparisons(make_study(*entries))
    assert [verdict.more_robust for verdict in comparison.verdicts] == ["open", "open"]


def test_a_witness_is_shown_as_it_is(study: StudyData) -> None:
    figure = witness_figure(study.entries[1])
    assert figure is not None
    (_, x), (_, x_p), (_, change) = figure.pictures()
    assert x.shape == x_p.shape == (4, 4)
    assert x[3, 3] == 255
    assert x_p[0, 1] == 0
    assert change.shape == (4, 4, 3)
    assert (change[3, 3] == change[2, 3]).all()  # nothing changed there
    assert (change[1, 1] != change[3, 3]).any()
    assert witness_figure(study.entries[2]) is None


def test_bounds_over_time(study: StudyData) -> None:
    data = bounds_over_time(study.entries[1])
    assert data.rows() == [(2, 0.0, 0.0, 60.0), (2, 1.5, 2.0, 3.0)]
    assert data.ceiling == pytest.approx(12.6)  # the first bound must not squeeze the rest


@pytest.mark.parametrize("gap", [0.0, 0.28, 0.3, 0.32, 1.0])
def test_words_of_lines_that_end_side_by_side_do_not_cover_each_other(gap: float) -> None:
    drawing = StudyOverTime((0.0, 1.0), (0.0, 0.3), (1.0, gap)).draw()
    words = [each for each in drawing.shapes if isinstance(each, Text) and each.bold]
    assert {each.text for each in words} == {"closed", "mean gap"}
    assert abs(words[0].y - words[1].y) >= words[0].size
    assert max(each.y for each in words) < drawing.height


def test_the_study_over_time(make_entry: MakeEntry, make_study: MakeStudy) -> None:
    closed = make_entry({2: (0.0, 0.0)}, status="robust")
    study = make_study(make_entry({1: (1.0, 2.0)}), closed)
    data = study_over_time(study)
    assert data.seconds == (0.0, 0.0, 1.0, 1.0)
    # Out of time is not answered.
    assert data.answered == (0.0, 0.0, 0.0, 0.5)
    assert data.gaps == (1.0, 0.75, 0.75, 0.25)


@pytest.mark.parametrize("end", [1e-3, 0.7, 1.0, 3.0, 99.0, 1234.0])
def test_ticks_are_round_and_few(end: float) -> None:
    found = ticks(end)
    assert found[0] == 0.0
    assert 3 <= len(found) <= 6
    assert found[-1] <= end * (1 + 1e-9)


def test_the_table_has_a_row_for_each_target(study: StudyData) -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table_rows(study)]
    assert len(rows) == sum(len(entry.targets) for entry in study.entries)
    assert rows[1]["certificate"] == "proof-7.json"
    assert rows[1]["percent"] == pytest.approx(15.0)  # 3 of at least 20
    assert rows[4]["upper"] is None


def test_networks_that_share_a_name_are_told_apart(study: StudyData, tmp_path: Path) -> None:
    """By their fingerprints, which are nowhere else in the names of files."""
    prints = [facts.fingerprint[:6] for facts in study.networks]
    alike = [replace(one, group=replace(one.group, network="one")) for one in study.entries]
    for data, told in ((study, False), (replace(study, entries=tuple(alike)), True)):
        written = export(data, tmp_path / "figures", ["csv"])
        assert any(f"-{each}" in path.name for path in written for each in prints) is told


@pytest.mark.slow
def test_every_figure_is_written_in_every_format(study: StudyData, tmp_path: Path) -> None:
    written = export(study, tmp_path / "figures")
    found = list(figures(study))
    assert len({figure.name for figure in found}) == len(found)
    assert len(written) == 1 + 3 * len(found)
    for path in written:
        content = path.read_bytes()
        assert re.fullmatch(r"[A-Za-z0-9.-]+", path.name)
        if path.suffix == ".svg":
            assert "var(--" not in content.decode()  # a file of its own knows its colours
            assert ET.fromstring(content).tag.endswith("svg")
        elif path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
        else:
            header, *rows = csv.reader(io.StringIO(content.decode()))
            assert all(len(row) == len(header) for row in rows)


def test_a_table_keeps_all_digits() -> None:
    text = csv_text(("a", "b"), [(0.1 + 0.2, None), ("x,y", 3)])
    assert text == 'a,b\n0.30000000000000004,\n"x,y",3\n'


@pytest.mark.parametrize(
    "name", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "=\r=1", "-1\n"]
)
def test_no_name_becomes_a_formula(name: str) -> None:
    text = csv_text(("name", "number"), [(name, -0.5)])
    _, *rows = csv.reader(io.StringIO(text, newline=""))
    assert rows == [["'" + name.replace("\r", " "), "-0.5"]]


def test_names_that_are_numbers_stay_as_they_are() -> None:
    assert csv_text(("a", "b"), [("-1", "+0.5"), ("x=1", -1)]) == "a,b\n-1,+0.5\nx=1,-1\n"


def test_only_the_kinds_that_are_asked_for_are_written(study: StudyData, tmp_path: Path) -> None:
    witnesses = {figure.name for figure in figures(study, ["witnesses"])}
    written = export(study, tmp_path, ["csv"], ["witnesses"])
    assert {path.stem for path in written} == {"results", *witnesses}
    parts = [figure.name for kind in KINDS for figure in figures(study, [kind])]
    assert sorted(parts) == sorted(figure.name for figure in figures(study))
    of_studies = {figure.name for figure in figures(study, OF_STUDIES)}
    assert of_studies
    assert not of_studies & witnesses
    with pytest.raises(InvalidInput, match="choose from: pairs, spatial"):
        export(study, tmp_path, ["csv"], ["pears"])


def test_a_format_that_is_unknown(study: StudyData, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="csv, svg, png"):
        export(study, tmp_path, ["bmp"])


def test_drawings_stay_within_their_frame(study: StudyData) -> None:
    for figure in figures(study):
        drawing = figure.draw()
        for shape in drawing.shapes:
            if isinstance(shape, Rect):
                assert -0.5 <= shape.x <= shape.x + shape.width <= drawing.width + 0.5
                assert -0.5 <= shape.y <= shape.y + shape.height <= drawing.height + 0.5
            elif isinstance(shape, Text) and shape.anchor == "start" and not shape.turned:
                # Letters are a little more than half as wide as high.
                assert shape.x + 0.56 * shape.size * len(shape.text) <= drawing.width + 4, shape


def test_markup_in_names_is_harmless(make_entry: MakeEntry) -> None:
    entry = make_entry({1: (1.0, 2.0)}, perturbation="<script>alert(1)</script>&")
    assert "<script>" not in bounds_over_time(entry).draw().svg(alone=True)


def test_the_ramp_darkens_steadily_and_text_on_it_can_be_read() -> None:
    colours = [ramp(share) for share in np.linspace(0, 1, 101)]
    lights = [luminance(colour) for colour in colours]
    assert all(before > after for before, after in pairwise(lights))
    for colour in colours:
        one, two = sorted((luminance(colour), luminance(text_on(colour))))
        assert (two + 0.05) / (one + 0.05) >= 4.0
    assert (ramp_pixels(np.array([np.nan])) != ramp_pixels(np.array([0.0]))).any()


@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 3)])
def test_pictures_come_back_as_they_were(shape: tuple[int, ...]) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, size=shape).astype(np.uint8)
    with Image.open(io.BytesIO(png_bytes(pixels))) as image:
        assert np.array_equal(np.asarray(image), pixels)
