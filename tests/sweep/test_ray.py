"""A real local Ray cluster: the same answers, also when a worker is killed in the midst of it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.search.branch_and_bound import Bab
from vhagar.sweep.executor import Executor, executor_for
from vhagar.sweep.messages import Completed, Improved, ProblemTask
from vhagar.sweep.question import Question
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.settings import Settings
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study, load_models
from vhagar.sweep.watch import Silent

from .checks import require_sound, require_true_witnesses

pytest.importorskip("ray", reason="Ray is not installed: pip install 'vhagar[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.subprocess,
    pytest.mark.filterwarnings("ignore"),  # Ray's own code is not free of warnings
]

from vhagar.runtime.ray_pool import RayPool  # noqa: E402

ALONE = Options(workers=0)
RAY = Settings(executor="ray", jobs=2)


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One local cluster for all tests, and one at a time: they look for its processes by name."""
    import ray

    with (tmp_path_factory.getbasetemp().parent / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from _started(ray)


def _started(ray: Any) -> Iterator[None]:
    root = str(Path(__file__).parents[2] / "src")
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


def _workers() -> set[int]:
    """The processes of actors that are alive."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=2) for line in table.stdout.splitlines()]
    return {int(row[0]) for row in rows if not row[1].startswith("Z") and "ray::_Actor" in row[2]}


def _answers(store: Store) -> dict[str, tuple[float, float | None]]:
    return {question.key: store.interval(number) for number, question in store.problems()}


def test_the_same_answers_as_local_processes(pairs: Study, tmp_path: Path) -> None:
    # Alone, one after the other: a search by one process gives the same result every time.
    local = run_sweep(pairs, tmp_path / "local.db", settings=Settings(jobs=1))
    remote = run_sweep(pairs, tmp_path / "ray.db", settings=replace(RAY, jobs=1))
    assert _answers(local) == _answers(remote)
    assert remote.counts().get("open") is None
    remote.close()
    require_sound(tmp_path / "ray.db")
    assert require_true_witnesses(tmp_path / "ray.db") > 0
    _wait_for_the_end_of(*_workers())


def test_a_killed_worker_changes_nothing(pairs: Study, tmp_path: Path) -> None:
    killed: list[int] = []

    class Kill(Silent):
        def improved(
            self, number: int, question: Question, lower: float, upper: float | None
        ) -> None:
            workers = _workers()
            # A worker may have sent its answer already: it is tried on the first three problems.
            if number not in killed and len(killed) < 3 and workers:
                killed.append(number)
                os.kill(min(workers), signal.SIGKILL)

    undisturbed = run_sweep(pairs, tmp_path / "local.db", settings=Settings(jobs=1))
    store = run_sweep(pairs, tmp_path / "ray.db", settings=replace(RAY, jobs=1), watch=Kill())
    assert killed
    whats = [row["what"] for number in killed for row in store.rows("events", number)]
    assert "lost" in whats
    assert whats.count("started") > len(killed)
    assert store.counts() == undisturbed.counts()
    for key, (lower, upper) in _answers(undisturbed).items():
        again = _answers(store)[key]
        assert upper is not None
        assert again[1] is not None
        assert max(lower, again[0]) <= min(upper, again[1])  # both hold the answer
        assert again[1] - again[0] <= 1e-3 * again[1] + 1e-6
    store.close()
    require_sound(tmp_path / "ray.db")


def test_cancelling_really_stops_a_search(hard_model: str) -> None:
    (model,) = load_models(Study((hard_model,), ("linf(0.2)",)))
    question = Question(model.fingerprint, "linf(0.2)", 0, (1,))
    executor = Executor(RayPool(), 1)
    try:
        executor.submit(ProblemTask(7, question, model.network, Bab(), ALONE, 600.0))
        assert isinstance(executor.next_message(60.0), Improved)
        (worker,) = _workers()
        executor.cancel(7)
        _wait_for_the_end_of(worker)
        assert executor.next_message(0.5) is None
        executor.submit(ProblemTask(8, question, model.network, Bab(), ALONE, 0.5))
        while isinstance(message := executor.next_message(60.0), Improved):
            assert message.number == 8
        assert isinstance(message, Completed)
    finally:
        executor.close()


def _wait_for_the_end_of(*workers: int) -> None:
    """Ray ends actors in its own time, but it does."""
    deadline = time.monotonic() + 60
    while set(workers) & _workers():
        assert time.monotonic() < deadline, "a worker goes on"
        time.sleep(0.05)


def test_gpus_are_resources(hard_model: str) -> None:
    with pytest.raises(InvalidInput, match=r"1 GPU\(s\), and it has 2 and 0"):
        executor_for(Settings(executor="ray", gpus=1.0))
    executor = executor_for(Settings(executor="ray"))
    assert executor.slots == 2
    executor.close()


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InvalidInput, match="no Ray cluster answers at 127"):
        RayPool("127.0.0.1:1")
