"""Names for the processes that work on problems, from which one can tell whether they still run."""

from __future__ import annotations

import os
import platform
import socket
import sys
import uuid
from pathlib import Path

from vhagar.result.numbers import counted
from vhagar.runtime.cores import available_cores


def owner_name() -> str:
    """A unique name for this process: host, process id, start time, and a random number."""
    return "|".join([socket.gethostname(), str(os.getpid()), _began(os.getpid()), uuid.uuid4().hex])


def is_gone(owner: str) -> bool:
    """Whether a process has certainly ended; about other machines that is never certain."""
    host, pid, began, _ = owner.split("|")
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # another user's process, and alive
    return bool(began) and _began(int(pid)) != began


def _began(pid: int) -> str:
    """When a process began, in the system's own units; empty if that is unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    after_name = stat[stat.rindex(")") + 2 :].split()
    return "" if after_name[0] == "Z" else after_name[19]


def machine() -> str:
    """Describe the machine that computes the results."""
    cores, python = counted(available_cores(), "core"), ".".join(map(str, sys.version_info[:3]))
    return f"{platform.system()} {platform.machine()}, {cores}, Python {python}"
