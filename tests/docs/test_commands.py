"""Every command that the documents show is one that the program would accept."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from vhagar.cli.main import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(ROOT / name / "README.md" for name in ("examples", "bench")),
]
# Lines that explain the syntax, such as `vhagar verify MODEL [options]`, are not commands.
_SYNOPSIS = re.compile(r"^(\[.*|.*\]|\||\.\.\.|MODEL|STORE|FILE|CMD)$")


class _Parsed(Exception):
    """The arguments were understood."""


def _commands() -> Iterator[Any]:
    for document in DOCUMENTS:
        text = document.read_text().replace("\\\n", " ")
        for line in _code_lines(text):
            words = shlex.split(line, comments=True)
            if words and not any(_SYNOPSIS.match(word) for word in words):
                yield pytest.param(words, id=f"{document.name}: {' '.join(words)[:60]}")


def _code_lines(text: str) -> Iterator[str]:
    """Lines of code blocks, fenced or indented, that begin with `vhagar` or `python`."""
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif (fenced or line.startswith("    ")) and re.match(r"\s*(vhagar|python) ", line):
            yield line.strip()


def test_commands_are_found() -> None:
    assert len(list(_commands())) > 40


@pytest.mark.parametrize("words", list(_commands()))
def test_commands_are_accepted(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs: the program stops once its arguments are parsed."""
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *given: Any) -> argparse.Namespace:
        parse(parser, *given)
        raise _Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    if words[0] == "vhagar":
        with pytest.raises((_Parsed, SystemExit)) as stop:
            main(words[1:])
        assert stop.type is _Parsed or stop.value.code == 0  # argparse answers --help itself
    elif words[1] == "-m":
        _check_module(words[2:], monkeypatch)
    else:
        monkeypatch.syspath_prepend(str((ROOT / words[1]).parent))
        monkeypatch.setattr(sys, "argv", words[1:])
        with pytest.raises(_Parsed):
            runpy.run_path(str(ROOT / words[1]), run_name="__main__")


def _check_module(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m`: only modules of this project are run, up to their arguments."""
    module, *arguments = words
    if not module.startswith("tests."):
        assert module in ("pip", "pytest", "venv"), module
        return
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    assert path.is_file(), path
    if "argparse" in path.read_text():
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        monkeypatch.delitem(sys.modules, module, raising=False)  # other tests import it, too
        with pytest.raises(_Parsed):
            runpy.run_module(module, run_name="__main__")
