"""The number of cores that this process may use, often fewer than the machine has."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# An environment variable: how many cores a process may use at most, and those that it starts.
LIMIT = "VHAGAR_CORES"


def available_cores(root: Path = Path("/")) -> int:
    """The number of cores that the process's affinity, its cgroups and `VHAGAR_CORES` allow.

    A quota of one and a half cores counts as two. `root` is the folder of `/proc` and `/sys`.
    """
    quota = min(_quotas(root), default=math.inf)
    cores = min(_schedulable_cores(), _limit())
    return int(cores) if quota >= cores else max(math.ceil(quota), 1)


def _limit() -> float:
    given = os.environ.get(LIMIT, "")
    return int(given) if given.isdecimal() and int(given) > 0 else math.inf


def _schedulable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """The quotas, in cores, of all control groups that contain this process."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return  # not Linux, or hidden
    mounts = root / "sys/fs/cgroup"
    for group in groups:
        _, controllers, path = group.split(":", 2)
        inside = PurePosixPath(path.lstrip("/"))
        # Each group is also limited by its parents. In a container, the group's own path may not be
        # visible; the outermost folder is then the container's.
        for around in (inside, *inside.parents):
            if controllers == "":  # version 2
                yield _quota_of(mounts / around / "cpu.max")
            elif "cpu" in controllers.split(","):  # version 1
                yield _old_quota_of(mounts / controllers / around)
                yield _old_quota_of(mounts / "cpu" / around)


def _quota_of(file: Path) -> float:
    words = _words(file)
    return _ratio(words[0], words[1]) if len(words) == 2 else math.inf


def _old_quota_of(folder: Path) -> float:
    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    return _ratio(quota[0], period[0]) if quota and period else math.inf


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _ratio(quota: str, period: str) -> float:
    """The quota in cores; infinite if there is none, written as `max` or -1."""
    if not (quota.isdigit() and period.isdigit() and int(quota) and int(period)):
        return math.inf
    return int(quota) / int(period)
