"""The cores that a process may use: affinity, and quotas of both versions of cgroups."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from vhagar.options import Options
from vhagar.runtime import cores
from vhagar.runtime.cores import available_cores
from vhagar.runtime.devices import limit_threads
from vhagar.runtime.pool import Channel
from vhagar.runtime.processes import ProcessPool
from vhagar.sweep.settings import Settings


def tell_cores(_: None, channel: Channel) -> None:
    """Send how many cores a worker may use."""
    channel.send(available_cores())


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_schedulable_cores", lambda: 8)


def fake(root: Path, groups: str, **files: str) -> Path:
    """A file system with these control groups; `__` in the name of a file is a slash."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        *folders, last = name.split("__")
        folder = root.joinpath("sys/fs/cgroup", *folders)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / last.replace("cpu_", "cpu.", 1)).write_text(text)
    return root


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),  # more than there are
        ("max 100000", 8),
        ("nonsense", 8),
        ("0 100000", 8),
        ("200000 0", 8),
    ],
)
def test_a_quota_of_version_2(tmp_path: Path, limit: str, expected: int) -> None:
    assert available_cores(fake(tmp_path, "0::/\n", cpu_max=f"{limit}\n")) == expected


def test_the_tightest_of_the_groups_around_it_counts(tmp_path: Path) -> None:
    root = fake(
        tmp_path,
        "0::/outer/inner\n",
        outer__inner__cpu_max="500000 100000",
        outer__cpu_max="300000 100000",
        cpu_max="max 100000",
    )
    assert available_cores(root) == 3


@pytest.mark.parametrize(("quota", "expected"), [("250000", 3), ("-1", 8)])
@pytest.mark.parametrize("group", ["/", "/docker/not-visible-from-inside"])
def test_a_quota_of_version_1(tmp_path: Path, quota: str, expected: int, group: str) -> None:
    root = fake(
        tmp_path,
        f"12:memory:/\n4:cpu,cpuacct:{group}\n1:name=systemd:/\n",
        cpu__cpu_cfs_quota_us=quota,
        cpu__cpu_cfs_period_us="100000",
    )
    assert available_cores(root) == expected


def test_version_1_in_a_group_of_its_own(tmp_path: Path) -> None:
    root = fake(tmp_path, "4:cpu,cpuacct:/jobs\n0::/\n")
    folder = root / "sys/fs/cgroup/cpu,cpuacct/jobs"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("400000\n")
    (folder / "cpu.cfs_period_us").write_text("200000\n")
    assert available_cores(root) == 2


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert available_cores(tmp_path) == 8


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_the_affinity_is_respected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 6})
    assert available_cores(tmp_path) == 3


def test_it_decides_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_quotas", lambda root: iter([4.0]))
    assert Options().worker_count == 4
    assert Options(workers=7).worker_count == 7
    assert Settings(workers=2).job_count == 2


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("3", 3), ("1", 1), ("64", 8), ("0", 8), ("many", 8), ("", 8)],
)
def test_a_limit_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int
) -> None:
    monkeypatch.setenv("VHAGAR_CORES", limit)
    assert available_cores(fake(tmp_path, "")) == expected


@pytest.mark.subprocess
def test_a_sweep_s_workers_keep_to_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker per problem uses one core, however many the machine has."""
    monkeypatch.delenv("VHAGAR_CORES", raising=False)
    with ProcessPool(cores=1) as pool:
        pool.start("one", (tell_cores, None))
        received = pool.next_message(math.inf, 60.0)
    assert received is not None
    assert received[1] == 1


def test_torch_keeps_to_the_available_cores() -> None:
    class Torch:
        threads = 16

        def get_num_threads(self) -> int:
            return self.threads

        def set_num_threads(self, count: int) -> None:
            self.threads = count

    torch = Torch()
    for limit, expected in ((32, 16), (4, 4), (8, 4)):
        limit_threads(torch, limit)
        assert torch.threads == expected


@pytest.mark.parametrize(
    ("workers", "processes"), [(None, True), (0, False), (1, False), (2, True)]
)
def test_one_worker_stays_in_the_process(workers: int | None, processes: bool) -> None:
    assert Options(workers=workers).processes is processes
