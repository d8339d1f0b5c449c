"""The comparison with the paper: it goes on where it was stopped, and its tables say what is so."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import paper
import pytest
from paper_figures import (
    approaches,
    draw_approaches,
    draw_gaps,
    draw_split,
    gap_curves,
    time_splits,
)
from paper_records import Record, RecordFile
from paper_rows import Figures, PaperRow, chosen, data_file, network_file, pairs_of, read_rows
from paper_table import (
    against_here,
    against_paper,
    baselines_markdown,
    compare,
    figures_of,
    ours_markdown,
    summary_markdown,
)

from vhagar import InvalidInput, Network, write_onnx
from vhagar.network import Affine, Relu
from vhagar.runtime.deadline import Deadline
from vhagar.search import AbstractEngine

HEAD = (
    "table,network,max_confidence_mean,dataset_max_percent,perturbation,lower_percent,"
    "upper_percent,minutes,marabou_lower_percent,marabou_upper_percent,marabou_minutes,"
    "dataset_sampling_percent,dataset_sampling_minutes,random_sampling_percent,"
    "random_sampling_half_width,random_sampling_minutes\n"
)
TABLES = HEAD + (
    "t:one,tiny,1,1,linf(0.125),30,34,2,20,120,180,10,0.5,1.5,0.25,0.1\n"
    't:one,tiny,1,1,"contrast([1,2])",0.5,1.5,180,NA,NA,NA,0.2,0.5,0.08,0.5,0.7\n'
    "t:two,tiny,1,1,linf(0.125),30,34,2,20,120,180,10,0.5,1.5,0.25,0.1\n"
    "t:two,elsewhere,1,1,linf(0.125),1,1,1,1,1,1,1,1,1,1,1\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes: `relu(x1 - x2)` against constants 1/4 and -1, with a dataset."""
    network = Network(
        (
            Affine(np.array([[1.0, -1.0]]), np.zeros(1), (2,), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0], [0.0]]), np.array([0.0, 0.25, -1.0]), (1,), (3,)),
        ),
        (2,),
    )
    write_onnx(network, tmp_path / "tiny.onnx")
    np.savez(tmp_path / "tiny.npz", np.array([[0.8, 0.4], [1.0, 0.0]]))
    (tmp_path / "tables.csv").write_text(TABLES)
    return tmp_path


def run(folder: Path, *arguments: str) -> int:
    given = [str(folder / "tables.csv"), str(folder), "--out", str(folder / "out.csv")]
    settings = ["--workers", "1", "--timeout", "600", "--samples", "100"]
    return paper.main(["run", *given, *settings, *arguments])


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "out.csv").open(newline="") as file:
        return list(csv.DictReader(file))


RANDOM = ("--methods", "random", "--pairs", "0:1,0:2")


def test_a_run_goes_on_where_it_was_stopped(folder: Path) -> None:
    assert run(folder, *RANDOM) == 0
    found = lines(folder)
    assert [(r["perturbation"], r["source"], r["target"]) for r in found] == [
        ("linf(0.125)", "0", "1"),
        ("contrast([1,2])", "0", "1"),
        ("linf(0.125)", "0", "2"),
        ("contrast([1,2])", "0", "2"),
    ]
    before = (folder / "out.csv").read_text()
    assert run(folder, *RANDOM) == 0
    assert (folder / "out.csv").read_text() == before  # not even the times
    # One line is lost, and the last one was being written when the program was killed.
    kept = before.splitlines(keepends=True)
    (folder / "out.csv").write_text("".join([*kept[:1], *kept[2:4], kept[4][:30]]))
    assert run(folder, *RANDOM) == 0
    after = (folder / "out.csv").read_text().splitlines(keepends=True)
    assert after[:3] == [kept[0], *kept[2:4]]
    assert {(r["perturbation"], r["target"]) for r in lines(folder)} == {
        (r["perturbation"], r["target"]) for r in found
    }
    assert len(after) == 5


def test_other_settings_are_other_runs(folder: Path) -> None:
    run(folder, *RANDOM, "--only", "linf")
    assert len(lines(folder)) == 2
    run(folder, *RANDOM, "--only", "linf", "--seed", "1")
    run(folder, *RANDOM, "--only", "linf", "--timeout", "700")
    assert len(lines(folder)) == 6


def test_nothing_new_is_started_after_the_time(folder: Path) -> None:
    assert run(folder, *RANDOM, "--stop-after", "0") == 0
    assert not (folder / "out.csv").exists()


def test_ctrl_c_keeps_what_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    original = paper.Bench.run

    def interrupted(self: Any, job: Any) -> Record:
        if done:
            raise KeyboardInterrupt
        done.append(job)
        return original(self, job)

    monkeypatch.setattr(paper.Bench, "run", interrupted)
    assert run(folder, *RANDOM) == 130
    assert len(lines(folder)) == 1


def test_ours_and_sampling_on_the_same_problem(folder: Path) -> None:
    methods = "vhagar,dataset,random"
    assert run(folder, "--methods", methods, "--pairs", "0:1", "--only", "linf") == 0
    ours, dataset, random = RecordFile(folder / "out.csv").records()
    assert (ours.method, ours.status, ours.kind) == ("vhagar", "closed", "twin")
    assert ours.lower is not None
    assert ours.upper is not None
    assert ours.lower <= 0.25 <= ours.upper
    assert ours.maximum_lower <= 0.75 <= ours.maximum_upper
    assert dataset.lower == pytest.approx(0.15)
    assert random.mean is not None
    assert 0 < random.mean < 0.25
    assert random.half_width == pytest.approx(
        random.maximum_upper * (np.log(40) / (2 * random.samples)) ** 0.5
    )
    assert ours.moments[-1].lower == pytest.approx(ours.lower)
    assert set(ours.phases) == {"bounds", "search"}


def test_what_a_method_cannot_take_is_said_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(AbstractEngine):
        name = "marabou"

        def search(self, run: Any, deadline: Deadline) -> bool:
            raise InvalidInput("linear constraints only")

    monkeypatch.setattr(paper, "MarabouEngine", Refusing)
    arguments = ("--methods", "marabou", "--pairs", "0:1", "--only", "contrast")
    for _ in range(2):
        assert run(folder, *arguments) == 0
    (record,) = RecordFile(folder / "out.csv").records()
    assert (record.status, record.lower, record.upper) == ("not applicable", None, None)
    assert record.note == "linear constraints only"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--methods", "guess"), "no method 'guess'"),
        (("--only", "conv9"), "no row is left"),
        (("--part", "3/2"), "is no part"),
        (("--methods", "dataset", "--data", "/nowhere"), "no dataset for tiny"),
    ],
)
def test_mistakes_are_named(
    folder: Path, arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == 2
    assert complaint in capsys.readouterr().err
    assert not (folder / "out.csv").exists()


ROW = PaperRow("tiny", "linf(0.125)", {"vhagar": Figures(30, 34, 2)})


def test_rows_and_parts(folder: Path) -> None:
    rows = read_rows(folder / "tables.csv")
    assert [str(row) for row in rows] == [  # the same row of another table comes once
        "tiny linf(0.125)",
        "tiny contrast([1,2])",
        "elsewhere linf(0.125)",
    ]
    assert rows[0].methods["vhagar"] == Figures(30, 34, 2)
    assert rows[0].methods["random"] == Figures(1.5, None, 0.1, 0.25)
    assert rows[1].methods["marabou"] == Figures()
    assert chosen(rows, "contrast;elsewhere", None) == rows[1:]
    parts = [chosen(rows, None, f"{k}/2") for k in (1, 2)]
    assert parts == [[rows[0], rows[2]], [rows[1]]]


def test_random_pairs_are_the_same_every_time_and_more_of_them_are_others() -> None:
    two, five = (pairs_of(ROW, count, 10, 0) for count in ("2", "5"))
    assert two == five[:2]
    assert len(set(five)) == 5
    assert all(source != target for source, target in five)
    assert pairs_of(ROW, "5", 10, 1) != five
    assert pairs_of(replace(ROW, network="other"), "5", 10, 0) != five
    assert len(pairs_of(ROW, "1000", 3, 0)) == 6
    assert pairs_of(ROW, "2:3,0:1", 10, 0) == [(2, 3), (0, 1)]


def test_bundled_files_stand_for_the_papers() -> None:
    examples = Path(__file__).parents[2] / "examples"
    names = ["mnist_3x10", "mnist_3x50_pgd", "mnist_conv1", "mnist_conv2"]
    for network in [*names, "fmnist_conv1", "cifar10_conv1"]:
        assert network_file(examples, network) is not None
        assert data_file(examples, network) is not None
    assert network_file(examples, "mnist_3x50_nd") is None
    assert data_file(examples, "mnist_conv1") != data_file(examples, "fmnist_conv1")


def record(method: str, pair: tuple[int, int] = (0, 1), **numbers: Any) -> Record:
    blank = Record(
        *("tiny", "linf(0.125)", False, *pair, method, 60.0, 2, 0, "timeout", "twin"),
        *(1.0, 2.0, 30.0, 4.0, 5.0),
    )
    return replace(blank, **numbers)


def test_percentages_look_no_better_than_they_are() -> None:
    # lower 1 of a maximum of at most 5, upper 2 of one of at least 4; the mean over two pairs.
    figures = figures_of([record("vhagar"), record("vhagar", (1, 2), lower=0.0, seconds=90.0)])
    assert figures == Figures(pytest.approx(10.0), pytest.approx(50.0), pytest.approx(1.0))
    assert figures.gap == pytest.approx(40.0)
    # A maximum that is not known makes a percentage that is not known, and no small one.
    unknown = figures_of([record("vhagar"), record("vhagar", maximum_lower=0.0)])
    assert unknown.upper is None
    assert unknown.gap is None


def test_sampling_has_no_upper_bound_of_its_own() -> None:
    assert figures_of([record("dataset")]).upper is None
    random = figures_of([record("random", mean=0.5, half_width=0.1), record("random")])
    assert random.lower == pytest.approx(10.0)
    assert random.half_width == pytest.approx(2.5)
    assert random.upper is None
    # Nothing of the class was drawn; and a question that cannot be taken.
    assert figures_of([record("random")]) == Figures(minutes=0.5)
    assert figures_of([record("marabou", lower=None, upper=None, seconds=None)]) == Figures()


def test_means_and_ratios(folder: Path) -> None:
    rows = read_rows(folder / "tables.csv")
    records = [
        record("vhagar"),
        record("vhagar", (1, 2), lower=5.0, upper=4.0),
        record("marabou", upper=6.0),  # on one of the two pairs
    ]
    comparisons = compare(rows, records)
    assert [str(one.row) for one in comparisons] == ["tiny linf(0.125)"]
    assert comparisons[0].pairs == {"vhagar": 2, "marabou": 1}
    (here,) = against_here(rows, records)
    # Ours on that pair alone: 20 to 50 %; Marabou 20 to 150 %.
    assert here.ours == Figures(pytest.approx(20.0), pytest.approx(50.0), pytest.approx(0.5))
    assert here.gap_ratio == pytest.approx(130 / 30)
    assert here.lower_ratio == pytest.approx(1.0)
    paper_lines = {one.name: one for one in against_paper(comparisons)}
    assert paper_lines["vhagar, paper"].other == Figures(30, 34, 2)
    assert paper_lines["vhagar, paper"].gap_ratio == pytest.approx(4 / (75 - 60))
    assert paper_lines["marabou, paper"].gap_ratio == pytest.approx(100 / (75 - 60))
    assert paper_lines["dataset, paper"].gap_ratio is None


def test_the_tables_as_text(folder: Path) -> None:
    rows = read_rows(folder / "tables.csv")
    records = [record("vhagar"), record("random", mean=0.5, half_width=0.1)]
    comparisons = compare(rows, records)
    text = ours_markdown(comparisons)[-1]
    assert text == ("| tiny | `linf(0.125)` | 1 | 30 | 34 | 4.0 | 2.0 | 20 | 50 | 30 | 0.5 |")
    text = baselines_markdown(comparisons)[-1]
    assert "| 20 to 120 (180 min) | - |" in text
    assert "| 1.5 +- 0.2 (0.1 min) | 10 +- 2.5 (0.5 min) |" in text
    others = [record("random", seconds=1.0), record("dataset", seconds=1.0)]
    others.append(record("marabou", lower=None, upper=None, seconds=None))
    text = baselines_markdown(compare(rows, others))[-1]
    assert "| no sample |" in text
    assert "| 20 (<0.1 min) |" in text
    assert "| 20 to 120 (180 min) | NA |" in text
    assert summary_markdown(against_here(rows, records))[-1].startswith("| random, here | 1 | 10 |")


HISTORY = "[[0.1, 0.0, 8.0], [1.0, 1.0, 4.0], [10.0, 2.0, 2.0]]"


def test_gaps_over_time() -> None:
    slow = record("marabou", history="[[0.2, 0.0, 8.0], [20.0, 0.0, 4.0]]")
    lonely = record("vhagar", (1, 2), history="[[0.1, 0.0, 800.0]]")  # Marabou has not run it
    ours, other = gap_curves([record("vhagar", history=HISTORY), slow, lonely])
    assert (ours.name, other.name) == ("VHAGaR", "Marabou")
    assert ours.seconds == other.seconds
    assert ours.seconds[0] == pytest.approx(0.2)  # when both had an interval
    assert ours.seconds[-1] == pytest.approx(60.0)
    assert (ours.gap[0], ours.gap[-1]) == (pytest.approx(200.0), pytest.approx(0.0))
    assert (other.gap[0], other.gap[-1]) == (pytest.approx(200.0), pytest.approx(100.0))
    at_two = next(k for k, time in enumerate(ours.seconds) if time > 2.0)
    assert ours.gap[at_two] == pytest.approx(75.0)
    assert gap_curves([]) == []


def test_bounds_of_one_problem_and_where_the_time_goes() -> None:
    records = [
        record("vhagar", timings='{"bounds": 1.0, "search": 3.0}'),
        record("vhagar", (1, 2), timings='{"bounds": 3.0, "search": 5.0, "attack": 2.0}'),
        record("marabou", lower=None, upper=None),
        record("dataset", lower=0.5, upper=9.0),
    ]
    found = approaches(records, "tiny linf(0.125)", (0, 1))
    assert [(one.name, one.lower, one.upper) for one in found] == [
        ("VHAGaR", 1.0, 2.0),
        ("dataset sampling", 0.5, 9.0),
    ]
    (split,) = time_splits(records, "vhagar")
    assert split.seconds == {"bounds": 2.0, "search": 4.0, "attack": 1.0}
    assert split.divided
    assert not replace(split, seconds={"bounds": 0.01, "search": 4.0}).divided


def test_the_pictures_are_drawn(tmp_path: Path) -> None:
    records = [
        record("vhagar", history=HISTORY, timings='{"bounds": 1.0, "search": 3.0}'),
        record("dataset", history=HISTORY),
    ]
    draw_approaches(approaches(records, records[0].row, (0, 1)), "a", tmp_path / "a.png")
    draw_gaps(gap_curves(records), "b", tmp_path / "b.png")
    draw_split(time_splits(records, "vhagar"), "c", tmp_path / "c.png")
    for name in "abc":
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def report(folder: Path, *arguments: str) -> int:
    given = [str(folder / "tables.csv"), str(folder / "out.csv"), "--out", str(folder / "page.md")]
    return paper.main(["report", *given, *arguments])


def test_everything_at_once_is_resumed_and_names_its_commits(folder: Path) -> None:
    given = [str(folder / "tables.csv"), str(folder), "--out", str(folder / "all.csv")]
    settings = ["--timeout", "5", "--confidence-timeout", "5", "--workers", "1", "--pairs", "1"]
    page = folder / "page.md"
    for _ in range(2):
        assert paper.main(["all", *given, *settings, "--page", str(page)]) == 0
    text = page.read_text()
    (commit,) = (folder / "all.commits").read_text().splitlines()
    assert f"seed 0, commit {commit}." in text
    assert "on the paper's networks" in text


def test_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(folder) == 2
    assert "does not exist" in capsys.readouterr().err
    file = RecordFile(folder / "out.csv")
    for one in (record("vhagar", history=HISTORY), record("marabou", history=HISTORY, upper=9.0)):
        file.add(one)
    assert report(folder, "--networks", "networks of the test", "--note", "A first look.") == 0
    page = (folder / "page.md").read_text()
    assert "**The networks are not the paper's.**" in page
    assert "1 rows, 1 pairs of classes in all, on networks of the test; 60 seconds" in page
    assert "A first look.\n" in page
    assert "| vhagar, paper |" not in page  # not comparable
    assert "| marabou, here | 1 |" in page
    for name in ("approaches", "gap_over_time"):
        assert f"(figures/{name}.png)" in page
        assert (folder / "figures" / f"{name}.png").exists()
    assert report(folder, "--same-networks") == 0
    page = (folder / "page.md").read_text()
    assert "not the paper's" not in page
    assert "| vhagar, paper | 1 |" in page
    assert "In 0 of 1 rows the gap here is not larger than the paper's; in 1 it is:" in page
    assert "- tiny `linf(0.125)`: 30.0 here, 4 in the paper" in page
    assert report(folder, "--problem", "tiny linf(0.125) 5:6") == 2
    file.add(record("vhagar", timeout=600.0))
    assert report(folder) == 2
    assert "different timeouts" in capsys.readouterr().err
