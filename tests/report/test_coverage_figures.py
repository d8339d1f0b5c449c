"""Coverage on the page: bars, curves, and words; and a store as a table."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from vhagar import InvalidInput, Store
from vhagar.cli.main import main
from vhagar.drawing.shapes import Rect, Text
from vhagar.report.coverage import coverage_bars, coverage_curves, coverage_sentences
from vhagar.report.data import Entry, NetworkFacts, StudyData
from vhagar.report.data_section import data_section
from vhagar.report.export import figures
from vhagar.report.page import page
from vhagar.report.pairs import pair_heatmaps, scale_end
from vhagar.report.sentences import standing, summary, tiles
from vhagar.report.spatial import spatial_heatmaps
from vhagar.result import BoundKind, Coverage, CoverageCounts, Interval
from vhagar.sweep.class_coverage import ClassCoverage, StudyCoverage
from vhagar.sweep.runner import open_study
from vhagar.sweep.snapshot import Snapshot
from vhagar.sweep.study import Study

from ..sweep.conftest import small_network
from .conftest import PRINTS

MakeEntry = Callable[..., Entry]
MakeStudy = Callable[..., StudyData]


def _covered(perturbation: str, source: int, counts: CoverageCounts) -> ClassCoverage:
    found = Coverage(100, counts, None, 9.0, 0.1)
    return ClassCoverage(PRINTS["one"], perturbation, True, source, (1, 2), True, found)


@pytest.fixture
def covered(make_entry: MakeEntry, make_study: MakeStudy) -> StudyData:
    """linf in three sizes, and an occlusion."""
    texts = ("linf(0.1)", "linf(0.05)", "linf(0.2)", "occlusion(1,1,2)")
    study = make_study(*(make_entry({1: (1.0, 2.0)}, perturbation=text) for text in texts))
    classes = [
        _covered(text, source, CoverageCounts(inputs, robust, attacked))
        for text, rows in (
            ("linf(0.1)", ((60, 30, 10), (40, 10, 20))),
            ("linf(0.05)", ((60, 50, 0), (40, 40, 0))),
            ("linf(0.2)", ((60, 0, 60), (40, 1, 30))),
            ("occlusion(1,1,2)", ((60, 60, 0), (0, 0, 0))),
        )
        for source, (inputs, robust, attacked) in enumerate(rows)
    ]
    return replace(study, coverage=StudyCoverage("data.npz", tuple(classes)))


def test_bars_have_the_counts(covered: StudyData) -> None:
    bars = coverage_bars(covered)
    assert [each.group.perturbation for each in bars] == [
        "linf(0.1)", "linf(0.05)", "linf(0.2)", "occlusion(1,1,2)",
    ]  # fmt: skip
    assert bars[0].total == CoverageCounts(100, 40, 30)
    rows = bars[0].rows()
    assert rows[0] == ("one", "linf(0.1)", "all", 100, 40, 30, 30)
    assert rows[2] == ("one", "linf(0.1)", "1", 40, 10, 20, 10)
    widths = [shape.width for shape in bars[0].draw().shapes if isinstance(shape, Rect)]
    assert sum(widths[:3]) == pytest.approx(330)
    assert widths[0] == pytest.approx(0.4 * 330)


def test_correctly_classified_inputs_have_a_bar_of_their_own(covered: StudyData) -> None:
    (first, *_) = coverage_bars(covered)
    right = CoverageCounts(20, 8, 1)
    labelled = tuple(
        replace(own, coverage=replace(own.coverage, correct=right)) for own in first.classes
    )
    bars = replace(first, classes=labelled)
    assert [row[2:] for row in bars.rows()[:2]] == [
        ("all", 100, 40, 30, 30), ("correct", 40, 16, 2, 22),
    ]  # fmt: skip
    assert len(bars.rows()) == len(first.rows()) + 1
    bars.draw()


def test_a_share_under_a_tenth_of_a_percent_is_not_nothing(covered: StudyData) -> None:
    assert covered.coverage is not None
    few = _covered("linf(0.1)", 0, CoverageCounts(10_000, 2, 3))
    study = replace(covered, coverage=StudyCoverage("data.npz", (few,)))
    assert tiles(study)[:2] == [
        ("<0.1\u00a0%", "of the data proven robust"), ("<0.1\u00a0%", "attacked with success"),
    ]  # fmt: skip
    proven, attacked = coverage_sentences(study)
    assert proven.startswith("one, linf(0.1): <0.1\u00a0% of 10000 inputs are proven robust")
    assert "3 of 10000 inputs were attacked" in attacked
    assert attacked.endswith("(<0.1\u00a0%).")
    assert "<b>&lt;0.1 %</b>" in data_section(study)


def test_bounds_that_say_nothing_about_the_data_are_counted(covered: StudyData) -> None:
    """Of class 0 under linf(0.2) nobody is robust; of one class there is no input."""
    words = " ".join(summary(covered))
    assert "1 of 7 bounds of a class says nothing about the data" in words


def test_a_curve_needs_two_sizes_of_one_perturbation(covered: StudyData) -> None:
    (curve,) = coverage_curves(covered)
    assert curve.family == "linf(s)"
    assert [(size, counts.robust) for size, counts in curve.points] == [
        (0.05, 90), (0.1, 40), (0.2, 1),
    ]  # fmt: skip
    assert curve.rows()[0] == ("one", "linf(s)", 0.05, 100, 90, 0)
    curve.draw()


def test_sizes_are_labelled_as_they_were_written_inside_the_figure(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    texts = ("linf(0.00392156862745098)", "linf(0.00784313725490196)")
    study = make_study(*(make_entry({1: (1.0, 2.0)}, perturbation=text) for text in texts))
    classes = tuple(_covered(text, 0, CoverageCounts(60, 30, 10)) for text in texts)
    (curve,) = coverage_curves(replace(study, coverage=StudyCoverage("data.npz", classes)))
    labels = {each.text: each for each in curve.draw().shapes if isinstance(each, Text)}
    assert labels["1/255"].anchor == "middle"
    assert labels["2/255"].anchor == "end"  # it would leave the figure otherwise
    assert "under linf(1/255) and linf(2/255)." in " ".join(summary(study))
    third = make_entry({1: (1.0, 2.0)}, perturbation="occlusion(1,1,2)")
    words = " ".join(summary(make_study(*study.entries, third)))
    assert "under linf(1/255), linf(2/255) and occlusion(1,1,2)." in words


def test_the_words_are_about_the_weakest_and_the_safest(covered: StudyData) -> None:
    assert coverage_sentences(covered) == [
        "Weakest: one, linf(0.2): 90 of 100 inputs were attacked with success, the largest share "
        "in class 0 (100\u00a0%).",
        "Safest: one, occlusion(1,1,2): 100\u00a0% of 60 inputs are proven robust; the smallest "
        "share is that of class 0, 100\u00a0%.",
    ]
    assert coverage_sentences(replace(covered, coverage=None)) == []
    assert covered.coverage is not None
    (last,) = covered.coverage.groups()[PRINTS["one"], "occlusion(1,1,2)", True, ""][:1]
    unharmed = replace(covered, coverage=StudyCoverage("data.npz", (last,)))
    assert coverage_sentences(unharmed)[0] == "No input was attacked with success."


def test_the_safest_is_not_called_the_weakest(covered: StudyData) -> None:
    """One attack more among inputs that are nearly all proven does not make them the weakest."""
    classes = (
        _covered("linf(0.1)", 0, CoverageCounts(100, 4, 6)),
        _covered("linf(0.05)", 0, CoverageCounts(100, 90, 7)),
    )
    study = replace(covered, coverage=StudyCoverage("data.npz", classes))
    weakest, safest = coverage_sentences(study)
    assert weakest.startswith("Weakest: one, linf(0.1): 4\u00a0% of 100 inputs are proven robust")
    assert safest.startswith("Safest: one, linf(0.05): 90\u00a0% of 100 inputs are proven robust")


def test_perturbations_down_and_networks_across(covered: StudyData) -> None:
    text = data_section(covered).replace("<wbr>", "")  # where narrow columns may break
    rows = re.findall(r'<th scope="row">(.*?)</th><td><b>(.*?)</b>.*?<small>(.*?)</small>', text)
    assert rows == [
        ("linf(0.2)", "1 %", "90 attacked; class 0: 0 %"),
        ("linf(0.1)", "40 %", "30 attacked; class 1: 25 %"),
        ("linf(0.05)", "90 %", "0 attacked; class 0: 83.3 %"),
        ("occlusion(1,1,2)", "100 %", "0 attacked; class 0: 100 %"),
    ]
    assert text.count("<th>one</th>") == 1


def test_what_was_not_asked_of_a_network_says_so(covered: StudyData) -> None:
    other = NetworkFacts("two", PRINTS["two"], "two.onnx", 3, (1, 4, 4))
    study = replace(covered, networks=(*covered.networks, other))
    assert data_section(study).count("<td>not asked</td>") == 4


def test_the_page_begins_with_the_data(covered: StudyData) -> None:
    text = page(covered)
    assert text.index("How much of the data is safe?") < text.index('id="problems"')
    assert "1 to 100\u00a0%" in text
    assert "Weakest: one, linf(0.2): 90 of 100 inputs" in text
    assert "90 attacked" in text
    assert "of the data proven robust" in text
    names = {figure.name for figure in figures(covered)}
    assert sum(name.startswith("coverage") for name in names) == 4
    assert "How much of the data" not in page(replace(covered, coverage=None))


def test_closed_bounded_and_unknown_add_up(study: StudyData) -> None:
    closed, bounded, unknown = standing(study)
    assert (closed, unknown) == (3, 1)
    assert closed + bounded + unknown == len(study.entries)
    words = {what: number for number, what in tiles(study)}
    assert words["closed: answered"] == "3"
    assert words["bounded: an interval"] == str(bounded)
    assert words["nothing proven yet"] == "1"


def test_maps_keep_closed_bounded_and_not_asked_apart(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    ends = {(0, 1): (2.0, 2.001), (0, 2): (1.0, 3.0), (1, 0): (0.0, math.inf), (2, 1): (0.0, 0.0)}
    entries = [make_entry({t: own}, source=s) for (s, t), own in ends.items()]
    upper = next(m for m in pair_heatmaps(make_study(*entries)) if m.measure == "upper")
    assert [cell.closed for cell in upper.cells] == [True, False, False, True]
    drawn = [shape for shape in upper.draw().shapes if isinstance(shape, Text)]
    assert drawn[-1].text == "2 closed (bold), 1 bounded, 1 nothing proven (?), 2 not asked"
    assert [shape.text for shape in drawn if shape.bold][1:] == ["2.01", "0"]


def test_squares_have_their_own_scale_on_each_map(
    make_entry: MakeEntry, make_study: MakeStudy
) -> None:
    places = [f"occlusion(1,{column},1)" for column in range(1, 5)]
    small = [make_entry({1: (0.5, 1.0)}, 0, text) for text in places]
    large = [make_entry({1: (5.0, 9.0)}, 2, text) for text in places]
    maps = [m for m in spatial_heatmaps(make_study(*small, *large)) if m.measure == "upper"]
    assert {m.map.source: m.largest for m in maps} == {0: 1.0, 2: 9.0}
    assert "squares: 4 bounded" in maps[0].draw().svg()


def test_a_few_outliers_do_not_use_up_the_colours() -> None:
    assert scale_end([1.0] * 9 + [1000.0]) == 1.0
    assert scale_end([2.0, math.nan, 3.0]) == 3.0
    assert scale_end([]) == 0.0
    assert scale_end([0.0] * 19 + [5.0]) == 5.0


def test_a_clipped_scale_says_so(make_entry: MakeEntry, make_study: MakeStudy) -> None:
    entries = [make_entry({t: (0.5, 1.0)}, source=s) for s in range(3) for t in range(3) if t != s]
    entries += [make_entry({t: (0.5, 1.0)}, source=s) for s in (3, 4) for t in (0, 1)]
    entries.append(make_entry({2: (0.5, 500.0)}, source=4))
    upper = next(m for m in pair_heatmaps(make_study(*entries)) if m.measure == "upper")
    assert upper.largest == 1.0
    assert "1 or more" in upper.draw().svg()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    import vhagar

    vhagar.write_onnx(small_network(), tmp_path / "small.onnx")
    study = Study((str(tmp_path / "small.onnx"),), ("linf(0.1)",), sources=(0,), confidence=True)
    store, _, _ = open_study(study, tmp_path / "s.db")
    store.begin_run({})
    number = next(n for n, question in store.problems() if question.targets == (1,))
    store.improve(number, Snapshot(1.0, {1: Interval(0.0, 0.1 + 0.2, BoundKind.TWIN)}, {}))
    return store


def test_a_store_as_a_csv_file(store: Store, tmp_path: Path) -> None:
    store.close()
    words = ["report", str(tmp_path / "s.db"), "-o", str(tmp_path / "r.html")]
    assert main([*words, "--csv", str(tmp_path / "r.csv")]) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text())))
    assert len(rows) == 3
    known = next(row for row in rows if row["target"] == "1")
    assert known["upper"] == "0.30000000000000004"
    assert (known["network"], known["bound"], known["clip"]) == ("small", "twin", "True")
    assert {row["target"] for row in rows} == {"", "1", "2"}
    assert next(row for row in rows if row["target"] == "2")["upper"] == ""


def test_a_store_as_a_table_of_pandas(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match="pip install pandas"):
        store.to_pandas()
    fake = ModuleType("pandas")
    fake.DataFrame = lambda rows, columns: (len(rows), columns)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", fake)
    count, columns = store.to_pandas()
    assert count == len(store.table()) == 3
    assert columns == list(store.table()[0])
    store.close()
