"""A whole sweep: the answers, going on, sharing, and ending early."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import read_onnx, verify
from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.result import BoundKind, Interval, Witness
from vhagar.runtime.processes import ProcessPool
from vhagar.search.branch_and_bound import Bab, FirstOrder
from vhagar.sweep.database import is_unused
from vhagar.sweep.executor import Executor
from vhagar.sweep.question import Question
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.scheduler import _merged
from vhagar.sweep.settings import Settings
from vhagar.sweep.snapshot import Snapshot
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study, load_models
from vhagar.sweep.watch import Silent, SweepState

from .checks import require_sound, require_true_witnesses

ALONE = Options(workers=0)
Start = Callable[..., subprocess.Popen[str]]
ChildrenOf = Callable[[int], set[int]]


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_sweep_answers_every_question_as_verify_does(pairs: Study, tmp_path: Path) -> None:
    store = run_sweep(pairs, tmp_path / "s.db", settings=Settings(jobs=2))
    assert store.counts().get("open") is None
    network = read_onnx(pairs.networks[0])
    for number, question in store.problems():
        lower, upper = store.interval(number)
        alone = verify(question.problem(network), timeout=30, workers=0)
        assert upper is not None
        assert max(lower, alone.lower) <= min(upper, alone.upper)
    store.close()
    require_sound(tmp_path / "s.db")
    assert require_true_witnesses(tmp_path / "s.db") > 0


@pytest.mark.slow
@pytest.mark.subprocess
def test_smaller_perturbations_come_first_and_help_the_larger(pairs: Study, tmp_path: Path) -> None:
    """In the order of the study the larger one comes first."""
    study = replace(pairs, perturbations=("linf(0.1)", "linf(0.05)"), confidence=True)
    store = run_sweep(study, tmp_path / "s.db", settings=Settings(jobs=1))
    questions = dict(store.problems())
    order = [question.perturbation for question in questions.values()]
    assert order == [None] * 3 + ["linf(0.05)"] * 6 + ["linf(0.1)"] * 6
    transferred = [row for row in store.rows("events") if row["what"] == "transferred"]
    # Confidences bound everything from above, and witnesses rise to the larger perturbation.
    origins = {questions[int(row["note"].split()[-1])].perturbation for row in transferred}
    assert origins >= {None, "linf(0.05)"}
    witnesses = {(row["problem"], row["target"]): row for row in store.rows("witnesses")}
    for row in transferred:
        origin = int(row["note"].split()[-1])
        if questions[origin].perturbation == "linf(0.05)":
            assert questions[row["problem"]].perturbation == "linf(0.1)"
            target = questions[origin].targets[0]
            assert row["lower"] == witnesses[origin, target]["confidence"]


@pytest.mark.slow
@pytest.mark.subprocess
def test_upper_bounds_go_down_to_what_is_contained(pairs: Study, tmp_path: Path) -> None:
    """What has had no time of its own gains from a larger perturbation that has."""
    path = tmp_path / "s.db"
    run_sweep(replace(pairs, perturbations=("linf(0.1)",)), path).close()
    watch = _Stop(after=0)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(pairs, path, resume=True, watch=watch, settings=Settings(jobs=1))
    # Now nothing but the larger one's results is known; going on starts from them.
    store = run_sweep(replace(pairs, timeout=1e-3), path, resume=True)
    questions = dict(store.problems())
    larger = {
        (question.source, question.targets): store.interval(number)[1]
        for number, question in questions.items()
        if question.perturbation == "linf(0.1)"
    }
    for number, question in questions.items():
        upper = store.interval(number)[1]
        assert upper is not None
        assert upper <= (larger[question.source, question.targets] or 0.0)
    store.close()
    require_sound(path)


class _Stop(Silent):
    """Presses Ctrl-C after so many problems, or once something improved."""

    def __init__(self, after: int) -> None:
        self._after = after

    def begin(self, state: SweepState, timeout: float | None) -> None:
        if self._after == 0:
            raise KeyboardInterrupt

    def finished(
        self, number: int, question: Question, lower: float, upper: float | None, ending: str
    ) -> None:
        self._after -= 1
        if self._after == 0:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.subprocess
def test_an_interrupted_sweep_goes_on(
    pairs: Study, tmp_path: Path, children_of: ChildrenOf
) -> None:
    path = tmp_path / "s.db"
    before = children_of(os.getpid())
    with pytest.raises(KeyboardInterrupt):
        run_sweep(pairs, path, watch=_Stop(after=5))
    assert children_of(os.getpid()) == before
    first = require_sound(path)
    with Store(path) as store:
        assert sum(row["status"] != "open" for row in store.rows("problems")) == 5
        assert all(row["owner"] is None for row in store.rows("problems"))
        started = len([row for row in store.rows("events") if row["what"] == "started"])
    store = run_sweep(None, path, resume=True)
    assert store.counts().get("open") is None
    again = len([row for row in store.rows("events") if row["what"] == "started"]) - started
    assert again == 7  # what was done is not done again
    store.close()
    for number, (lower, upper) in require_sound(path).items():
        assert lower >= first[number][0]
        assert upper is not None
        assert upper <= (first[number][1] or float("inf"))


@pytest.mark.subprocess
def test_ctrl_c_ends_in_order(hard_model: str, tmp_path: Path, start: Start) -> None:
    path = tmp_path / "s.db"
    process = start(
        *("sweep", "--network", hard_model, "--perturbation", "linf(0.2)", "--timeout", "60"),
        *("--store", str(path), "--verbose"),
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in rest
    _require_reported("".join([*lines, rest]), path)


def _require_reported(output: str, path: Path) -> int:
    """All that was printed is in the store, or better; returns how much that was."""
    intervals = require_sound(path)
    found = re.findall(r"problem (\d+): \[([^,]+), ([^\]]+)\]", output)
    for number, lower, upper in found:
        stored = intervals[int(number)]
        assert stored[0] >= float(lower)
        if upper != "None":
            assert stored[1] is not None
            assert stored[1] <= float(upper)
    return len(found)


@pytest.mark.campaign
@pytest.mark.subprocess
def test_killed_at_random_moments_nothing_reported_is_lost(
    hard_model: str, tmp_path: Path, start: Start, request: pytest.FixtureRequest
) -> None:
    import random

    kills = request.config.getoption("--kills")
    dice, path, reported = random.Random(0), tmp_path / "s.db", 0
    words = ("--network", hard_model, "--perturbation", "linf(0.2)", "--timeout", "1.5")
    for k in range(kills):
        going_on = ("--resume",) if path.exists() else ()
        process = start("sweep", *words, "--store", str(path), "--verbose", *going_on)
        assert process.stdout is not None
        # Some at any moment from the start on, most once there is something to lose.
        output = [process.stdout.readline(), process.stdout.readline()] if k % 4 else []
        reader = threading.Thread(target=lambda o=output, p=process: o.extend(p.stdout))
        reader.start()
        time.sleep(dice.uniform(0.0, 2.5))
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        if not is_unused(path):
            reported += _require_reported("".join(output), path)
        assert "Traceback" not in "".join(output)
        if "write the report with" in "".join(output):  # all done: once more from the start
            for file in tmp_path.glob("s.db*"):
                file.unlink()
    assert reported >= kills // 2
    if not is_unused(path):
        require_true_witnesses(path)


@pytest.mark.slow
@pytest.mark.subprocess
def test_two_processes_share_a_store(pairs: Study, tmp_path: Path, start: Start) -> None:
    path = tmp_path / "s.db"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(pairs, path, watch=_Stop(after=0))
    both = [start("sweep", "--store", str(path), "--resume", "--jobs", "1") for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    require_sound(path)
    with Store(path) as store:
        assert store.counts().get("open") is None
        started = [row for row in store.rows("events") if row["what"] == "started"]
        assert len(started) == 12  # nothing was done twice
        assert len(store.rows("runs")) == 3


@pytest.mark.subprocess
def test_a_lost_workers_problem_is_run_again(
    hard_model: str, tmp_path: Path, children_of: ChildrenOf
) -> None:
    before, killed = children_of(os.getpid()), []

    class Kill(Silent):
        def improved(
            self, number: int, question: Question, lower: float, upper: float | None
        ) -> None:
            if not killed and upper is not None:
                (worker,) = children_of(os.getpid()) - before
                killed.append((number, lower, upper))
                os.kill(worker, signal.SIGKILL)

    study = Study((hard_model,), ("linf(0.2)",), sources=(0,), targets=(1,), timeout=4.0)
    store = run_sweep(study, tmp_path / "s.db", settings=Settings(jobs=1), watch=Kill())
    ((number, lower, upper),) = killed
    whats = [row["what"] for row in store.rows("events", number)]
    assert whats.count("lost") == 1
    assert whats.count("started") == 2
    assert store.counts() == {"timeout": 1}
    assert store.interval(number)[0] >= lower
    assert (store.interval(number)[1] or 0.0) <= (upper or float("inf"))
    store.close()
    require_sound(tmp_path / "s.db")


@pytest.mark.subprocess
def test_a_cancelled_task_stops_at_once(hard_model: str, children_of: ChildrenOf) -> None:
    from vhagar.sweep.messages import Improved, ProblemTask

    study = Study((hard_model,), ("linf(0.2)",), timeout=60.0)
    (model,) = load_models(study)
    before = children_of(os.getpid())
    executor = Executor(ProcessPool(), 1)
    try:
        question = Question(model.fingerprint, "linf(0.2)", 0, (1,))
        executor.submit(ProblemTask(7, question, model.network, Bab(), ALONE, 60.0))
        message = executor.next_message(30.0)
        assert isinstance(message, Improved)
        assert len(children_of(os.getpid()) - before) == 1
        executor.cancel(7)
        assert children_of(os.getpid()) == before
        while executor.next_message(0.2) is not None:
            pytest.fail("nothing is to be heard of a cancelled task")
        executor.submit(ProblemTask(8, question, model.network, Bab(), ALONE, 1.0))
        while (message := executor.next_message(30.0)) is not None:
            assert message.number == 8
            if not isinstance(message, Improved):
                break
        assert message is not None
    finally:
        executor.close()
    assert children_of(os.getpid()) == before


@pytest.mark.subprocess
def test_the_total_time_ends_a_sweep(hard_model: str, tmp_path: Path) -> None:
    study = Study((hard_model,), ("linf(0.2)",), timeout=60.0, total=3.0)
    begun = time.monotonic()
    store = run_sweep(study, tmp_path / "s.db")
    assert time.monotonic() - begun < 30  # a sanity limit, far beyond what any machine needs
    assert store.counts()["open"] >= 18
    store.close()
    require_sound(tmp_path / "s.db")


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_total_without_a_timeout_is_shared_out(hard_model: str, tmp_path: Path) -> None:
    study = Study((hard_model,), ("linf(0.2)",), sources=(0,), total=16.0)
    store = run_sweep(study, tmp_path / "s.db", settings=Settings(jobs=1))
    budgets = [row["budget"] for row in store.rows("problems")]
    # A quarter of it for the first of four, and as much as is left for the last.
    assert 0.0 < budgets[0] <= 4.0
    assert all(budget is None or budget < 16.0 for budget in budgets)
    store.close()


def test_a_problem_that_fails_does_not_stop_the_others(
    pairs: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images are needed, and the second network's inputs are none."""
    import numpy as np

    import vhagar
    from vhagar.network import Affine, Network

    flat = tmp_path / "flat.onnx"
    vhagar.write_onnx(Network((Affine(np.eye(3), np.zeros(3), (3,), (3,)),), (3,)), flat)
    with pytest.raises(InvalidInput, match="needs an image"):
        run_sweep(Study((pairs.networks[0], str(flat)), ("occlusion(1,1,2)",)), tmp_path / "s.db")
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"executor": "cloud"}, "unknown executor"),
        ({"jobs": 0}, "at least 1"),
        ({"gpus": -1.0}, "GPUs"),
        ({"workers": 0}, "at least 1"),
        ({"gpus": 1.0}, "for the executor 'ray'"),
        ({"address": "host:6379"}, "for the executor 'ray'"),
        ({"engine": FirstOrder(), "workers": 2}, "no use of"),
    ],
)
def test_settings_that_cannot_be(
    pairs: Study, tmp_path: Path, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        run_sweep(pairs, tmp_path / "s.db", settings=Settings(**settings))


def test_no_two_runs_write_the_same_certificate(tmp_path: Path) -> None:
    settings = Settings(certificates=tmp_path)
    names = [settings.options_for(number).certificate for number in (1, 1, 2)]
    assert [str(name.name)[:10] for name in names if name] == ["problem-1-"] * 2 + ["problem-2-"]
    assert len(set(names)) == 3


def test_witnesses_of_an_earlier_message_are_not_forgotten() -> None:
    """A message has only the witnesses that are new; several may come before one is stored."""
    kind, x = BoundKind.TWIN, np.zeros(4)
    first, second, better = (Witness(x, x, confidence) for confidence in (1.0, 2.0, 3.0))
    before = Snapshot(1.0, {1: Interval(1.0, 9.0, kind), 2: Interval(0.0, 9.0, kind)}, {1: first})
    now = Snapshot(2.0, {1: Interval(1.0, 8.0, kind), 2: Interval(2.0, 9.0, kind)}, {2: second})
    merged = _merged(before, now)
    assert merged.witnesses == {1: first, 2: second}
    assert (merged.seconds, merged.targets) == (2.0, now.targets)
    assert _merged(merged, Snapshot(3.0, now.targets, {1: better})).witnesses == {
        1: better,
        2: second,
    }
    assert _merged(None, now) is now
