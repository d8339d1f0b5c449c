"""The paper's figures: their data is what the files say, and drawing runs nothing."""

from __future__ import annotations

import cProfile
import math
import shutil
from itertools import pairwise
from pathlib import Path
from types import CodeType

import figures
import numpy as np
import profiling
import pytest
from figure_data import (
    Stage,
    facts_of,
    read_splits,
    read_stages,
    read_study,
    write_splits,
    write_stages,
)
from figure_drawing import draw_stages, side_by_side
from paper_figures import TimeSplit
from paper_records import Record, RecordFile

from vhagar import InvalidInput, Network, Problem
from vhagar.drawing.shapes import Area, Drawing, Line, Rect, Text
from vhagar.network import Affine, Relu
from vhagar.options import MIP_PARTS
from vhagar.report.data import NetworkFacts
from vhagar.report.pairs import pair_heatmaps
from vhagar.report.spatial import spatial_heatmaps
from vhagar.result import BoundKind, Moment
from vhagar.search.mip.engine import Mip

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
HEAD = (
    "problem,network,perturbation,source,target,lower,upper,gap,percent,status,seconds,nodes,"
    "bound,engine,version,certificate\n"
)
TAIL = ",,,closed,1.0,3,twin,bab,1,\n"
PAIRS = HEAD + "".join(
    f'{number},mnist_3x10,"occlusion(14,14,5)",{source},{target},{lower},{upper}{TAIL}'
    for number, (source, target, lower, upper) in enumerate(
        [(0, 1, 1.0, 2.0), (1, 0, 0.5, 0.5), (1, 2, 0.0, "")], start=1
    )
)
# Two squares and two targets, in the words of a grid.
SPATIAL = HEAD + "".join(
    f'{number},mnist_3x10,"occlusion({row},1,4)",0,{target},{target},{10 * number + target}{TAIL}'
    for number, row in ((1, 1), (2, 5))
    for target in range(1, 10)
)


def facts(name: str) -> NetworkFacts:
    return NetworkFacts(name, "f" * 16, f"{name}.onnx", 10, (1, 28, 28))


STAGES = [
    Stage("(a) MIP", (Moment(0.5, 0.0, 9.0), Moment(1.25, 0.0, 8.0))),
    Stage("(b) with dependencies", (Moment(1.0, 2.0, 3.0),)),
]


def record(method: str) -> Record:
    network, perturbation, (source, target) = figures.ALL_APPROACHES
    return Record(
        *(network, perturbation, False, source, target, method, 60.0, 2, 0),
        *("timeout", "twin", 1.0, 20.0, 60.0, 9.0, 9.5),
    )


def test_stages_are_written_and_read(tmp_path: Path) -> None:
    write_stages(tmp_path / "stages.csv", STAGES)
    assert read_stages(tmp_path / "stages.csv") == STAGES
    with pytest.raises(InvalidInput, match="no run to draw"):
        draw_stages([], "this", tmp_path / "none.png")


def test_a_watched_run_only_ever_tightens() -> None:
    network = Network(
        (
            Affine(np.array([[1.0, -1.0]]), np.zeros(1), (2,), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,)),
        ),
        (2,),
    )
    problem = Problem(network, perturbation="linf(0.125)", source=0, targets=1)
    stage = profiling.watched(problem, "all", Mip(without=MIP_PARTS), 60.0)
    assert stage.name == "all"
    assert stage.moments[-1].lower <= 0.25 <= stage.moments[-1].upper <= 0.26
    for before, after in pairwise(stage.moments):
        assert before.seconds <= after.seconds
        assert before.lower <= after.lower <= after.upper <= before.upper


def test_a_study_is_read_from_its_table(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    study = read_study(path, facts, unclipped="occlusion")
    assert [(entry.source, entry.target) for entry in study.entries] == [(0, 1), (1, 0), (1, 2)]
    assert study.entries[0].targets[0].kind is BoundKind.TWIN
    assert math.isinf(study.entries[2].upper)
    upper = next(one for one in pair_heatmaps(study) if one.measure == "upper")
    assert upper.group.label == "mnist_3x10, occlusion(14,14,5) unclipped"
    assert [cell.upper for cell in upper.cells] == [2.0, 0.5, math.inf]
    assert upper.largest == 2.0
    assert read_study(path, facts, unclipped="brightness").entries[0].group.clip
    with pytest.raises(InvalidInput, match="does not exist"):
        read_study(tmp_path / "missing.csv", facts)


def test_a_grid_is_read_from_its_table(tmp_path: Path) -> None:
    path = tmp_path / "spatial.csv"
    path.write_text(SPATIAL)
    study = read_study(path, facts)
    assert len(study.entries) == 2
    maps = {one.map.target: one for one in spatial_heatmaps(study) if one.measure == "upper"}
    assert set(maps) == {None, *range(1, 10)}
    assert [square.upper for square in maps[3].map.squares] == [13.0, 23.0]
    # Of all targets at once, the largest.
    assert [(square.lower, square.upper) for square in maps[None].map.squares] == [
        (9.0, 19.0),
        (9.0, 29.0),
    ]


def test_the_facts_of_a_bundled_network() -> None:
    found = facts_of(EXAMPLES / "mnist_3x10.onnx")
    assert (found.name, found.classes, found.input_shape) == ("mnist_3x10", 10, (1, 28, 28))


def test_splits_are_written_and_read(tmp_path: Path) -> None:
    splits = {
        "bab": [TimeSplit("a linf(0.1)", {"bounds": 1.0, "rest": 0.25})],
        "mip": [TimeSplit("a linf(0.1)", {"attack": 2.0}), TimeSplit("b", {"attack": 0.0})],
    }
    write_splits(tmp_path / "split.csv", splits)
    assert read_splits(tmp_path / "split.csv") == splits


def _calls(profile: cProfile.Profile, folder: Path) -> None:
    """Functions of the names that a profile of the default engine looks for."""
    code = {
        "relaxation/lp/region_model.py": "def evaluate(): tick(2)",
        "search/branch.py": "def children(): tick(3); evaluate()",
        "search/bounders/lp.py": "def _polish(): tick(5)\ndef _bound(): evaluate()\n"
        "def _branch(): _bound(); children(); _polish(); tick(7)",
    }
    names: dict[str, object] = {"tick": _CLOCK.tick}
    for file, text in code.items():
        compiled: CodeType = compile(text, str(folder / file), "exec")
        exec(compiled, names)
    profile.runcall(names["_branch"])  # type: ignore[arg-type]


class _Clock:
    now = 0.0

    def tick(self, seconds: float) -> None:
        self.now += seconds


_CLOCK = _Clock()


def test_what_branching_evaluates_counts_as_branching(tmp_path: Path) -> None:
    profile = cProfile.Profile(timer=lambda: _CLOCK.now)
    _calls(profile, tmp_path)
    found = profiling.split_of(profile, "bab", 20.0)
    assert found == {
        "bounds of neurons": 0.0,
        "bounds of nodes": 2.0,
        "branching": 5.0,
        "witnesses": 5.0,
        profiling.REST: 8.0,
    }


@pytest.mark.parametrize("engine", list(profiling.PARTS))
def test_the_parts_of_the_engines_are_where_the_profile_looks(engine: str) -> None:
    for file, name in profiling.PARTS[engine].values():
        assert f"def {name}(" in (ROOT / "src" / "vhagar" / file).read_text()
    bounder = ROOT / "src" / "vhagar" / "search" / "bounders" / "lp.py"
    for caller in profiling._ONLY_FROM.values():
        assert f"def {caller}(" in bounder.read_text()


@pytest.mark.slow
def test_a_profiled_run_has_all_parts() -> None:
    model, parts = EXAMPLES / "mnist_3x10.onnx", profiling.PARTS["bab"]
    found = profiling.profiled(model, "occlusion(14,14,1)", (2, 3), "bab", 120.0)
    assert found.name == "mnist_3x10 occlusion(14,14,1)"
    assert list(found.seconds) == [*parts, profiling.REST]
    assert found.seconds["bounds of neurons"] > 0
    with pytest.raises(InvalidInput, match="no parts of 'guess'"):
        profiling.profiled(model, "linf(0.1)", (2, 3), "guess", 1.0)


def test_drawings_lie_side_by_side() -> None:
    one = Drawing(100, 50, "one", [Text(1, 2, "a"), Line([(0, 0), (3, 4)]), Area([(1, 1)], "ink")])
    two = Drawing(80, 60, "two", [Rect(5, 5, 1, 1, "ink")])
    found = side_by_side([one, two, two], ["x", "y", "z"], columns=2)
    gap, heading = 18, 34
    assert (found.width, found.height) == (2 * (100 + gap), 2 * (60 + heading))
    (line,) = (shape for shape in found.shapes if isinstance(shape, Line))
    assert list(line.points) == [(0, heading), (3, 4 + heading)]
    boxes = [(shape.x, shape.y) for shape in found.shapes if isinstance(shape, Rect)]
    assert boxes == [(100 + gap + 5, heading + 5), (5, 60 + 2 * heading + 5)]


def test_all_figures_are_drawn_from_files(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "pairs.csv").write_text(PAIRS)
    (results / "spatial.csv").write_text(SPATIAL)
    write_splits(results / "time_split.csv", {"bab": [TimeSplit("a", {"b": 1.0, "c": 2.0})]})
    file = RecordFile(results / "figures.csv")
    for method in ("random", "vhagar"):
        file.add(record(method))
    write_stages(results / "stages.csv", STAGES)
    out = tmp_path / "out"
    out.mkdir()
    given = ["draw", str(EXAMPLES), "--results", str(results), "--out", str(out)]
    assert figures.main(given) == 0
    names = ["all_approaches", "pairs", "spatial", "stages", "time_split_bab"]
    assert sorted(path.stem for path in out.iterdir()) == names
    for path in out.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    assert figures.main(["run", str(tmp_path), "--out", str(out)]) == 2
    assert "has no network mnist" in capsys.readouterr().err
    assert figures.main(["run", str(EXAMPLES), "--out", str(out), "--methods", "guess"]) == 2
    assert "there is no method guess" in capsys.readouterr().err


def test_the_stored_results_can_be_drawn(tmp_path: Path) -> None:
    results = ROOT / "bench" / "results"
    shutil.copytree(results, tmp_path / "results")
    out = tmp_path / "out"
    out.mkdir()
    given = ["draw", str(EXAMPLES), "--results", str(tmp_path / "results"), "--out", str(out)]
    assert figures.main(given) == 0
    drawn = {path.name for path in out.iterdir()}
    assert drawn <= {path.name for path in (ROOT / "docs" / "figures").iterdir()}
    assert all(path.stat().st_size < 150_000 for path in out.iterdir())
