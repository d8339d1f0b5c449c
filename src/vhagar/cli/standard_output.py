"""JSON on the standard output: `--json -`.

Everything else that is printed then goes to the standard error, so that the output is JSON alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

# The name of the file that is copied to the standard output.
_NAME = "the standard output"


@contextmanager
def json_to_standard_output(arguments: argparse.Namespace) -> Iterator[None]:
    """Let the option `--json -` write to the standard output."""
    if vars(arguments).get("json") != Path("-"):
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.json = Path(folder) / _NAME
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            if arguments.json.is_file():
                sys.stdout.write(arguments.json.read_text(encoding="utf-8"))


def discard_output() -> None:
    """Python flushes the standard output again at exit, which must not fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def shown(path: Path) -> str:
    """The name of an output file, for a reader."""
    return f"JSON to {_NAME}" if path.name == _NAME else str(path)
