"""Who works on a problem: names that tell whether their bearer is still alive."""

from __future__ import annotations

import os
import platform
import socket
import sys
import uuid
from pathlib import Path

from vhagar.runtime.cores import available_cores


def owner_name() -> str:
    """This process, as nobody else is called: host, process, when it began, and a number."""
    return "|".join([socket.gethostname(), str(os.getpid()), _began(os.getpid()), uuid.uuid4().hex])


def is_gone(owner: str) -> bool:
    """Whether a process is certainly no more. Of other machines that is never certain."""
    host, pid, began, _ = owner.split("|")
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it is somebody else's, and alive
    return bool(began) and _began(int(pid)) != began


def _began(pid: int) -> str:
    """When a process began, in the system's own units; empty where that cannot be known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    after_name = stat[stat.rindex(")") + 2 :].split()
    return "" if after_name[0] == "Z" else after_name[19]


def machine() -> str:
    """What the results were computed on, in words."""
    cores = available_cores()
    python = ".".join(map(str, sys.version_info[:3]))
    several = "core" if cores == 1 else "cores"
    return f"{platform.system()} {platform.machine()}, {cores} {several}, Python {python}"
