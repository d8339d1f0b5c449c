"""Every command that the documents show is one that the program would accept."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from vhagar.cli.main import _parser, main

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(ROOT / name / "README.md" for name in ("examples", "bench")),
]
# Lines that explain the syntax, such as `vhagar verify MODEL [options]`, are not commands.
_SYNOPSIS = re.compile(r"^(\[.*|.*\]|.*\|.*|\.\.\.|MODEL|STORE|FILE|CMD)$")


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


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Every long option of every command, with the command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _options(child)
        yield from ((parser.prog, name) for name in action.option_strings if name[:2] == "--")


def test_every_option_is_documented() -> None:
    """The command line's page has them all; those of the report are on its own page."""
    for prog, option in _options(_parser()):
        if option in ("--help", "--version"):
            continue
        page = "report.md" if prog == "vhagar report" else "command-line.md"
        text = (ROOT / "docs" / page).read_text()
        assert re.search(rf"{option}(?![\w-])", text), f"{prog}: {option} is not on {page}"


def test_commands_are_found() -> None:
    assert len(list(_commands())) > 40


@pytest.mark.parametrize("words", list(_commands()))
def test_commands_are_accepted(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing runs: the program stops once its arguments are parsed."""
    if words[0] == "vhagar" and "--config" in words:
        question = tmp_path / "question.toml"  # it is read before the arguments are
        question.write_text('model = "model.onnx"\nperturbation = "linf(0.05)"\nsource = 2\n')
        words = [*words]
        words[words.index("--config") + 1] = str(question)
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *given: Any) -> argparse.Namespace:
        parse(parser, *given)
        raise _Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    if words[0] == "vhagar":
        with pytest.raises((_Parsed, SystemExit)) as stop:
            main(words[1:])
        assert stop.type is _Parsed or stop.value.code == 0  # argparse answers --help itself
    elif words[1] == "-m" and not words[2].startswith("tests."):
        assert words[2] in ("pip", "pytest", "venv", "vhagar_check_vectors")
    else:
        _check_script(words[1:], monkeypatch)


def _check_script(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`python FILE` or `python -m MODULE`: run it up to its arguments, if it takes any."""
    module = words[1] if words[0] == "-m" else None
    path = ROOT / (Path(*module.split(".")).with_suffix(".py") if module else words[0])
    if module and path.with_suffix("").is_dir():
        module, path = f"{module}.__main__", path.with_suffix("") / "__main__.py"
    assert path.is_file()
    if "argparse" not in path.read_text():
        assert len(words) == (2 if module else 1)
        return
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [str(path), *words[2 if module else 1 :]])
    if module:
        monkeypatch.delitem(sys.modules, module, raising=False)  # other tests import it, too
    run = partial(runpy.run_module, module) if module else partial(runpy.run_path, str(path))
    with pytest.raises(_Parsed):
        run(run_name="__main__")
