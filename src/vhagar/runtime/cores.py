"""How many cores this process may use, which is often fewer than the machine has."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def available_cores(root: Path = Path("/")) -> int:
    """The cores that this process may use: no more than its affinity and its cgroups allow.

    A quota of one and a half cores counts as two. `root` is where `/proc` and `/sys` are.
    """
    quota = min(_quotas(root), default=math.inf)
    cores = _schedulable_cores()
    return cores if quota >= cores else max(math.ceil(quota), 1)


def _schedulable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """The limits of all control groups around this process, in cores."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return  # not Linux, or hidden
    mounts = root / "sys/fs/cgroup"
    for group in groups:
        _, controllers, path = group.split(":", 2)
        inside = PurePosixPath(path.lstrip("/"))
        # Each group is limited by those around it. In a container its own path may not be visible,
        # and the outermost folder is the container's.
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
    """The quota in cores; infinite where there is none, which is written `max` or -1."""
    if not (quota.isdigit() and period.isdigit() and int(quota) and int(period)):
        return math.inf
    return int(quota) / int(period)
