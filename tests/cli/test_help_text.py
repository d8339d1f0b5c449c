"""Help in terminals of every width."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from vhagar.cli.help_text import fit
from vhagar.cli.main import _parser

TEXT = """\
A sentence that is
long enough to be wrapped.

rows:
  one    the cell on the right has a second line
         that goes on
  a-left-cell-that-is-long
         and what it means
  vhagar verify model.onnx --perturbation "linf(0.1)" \\
    --source 2
"""


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _parsers(child)


@pytest.mark.parametrize("columns", [80, 132])
def test_every_command_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    parsers = list(_parsers(_parser()))
    assert len(parsers) > 15
    for parser in parsers:
        widest = max(parser.format_help().splitlines(), key=len)
        assert len(widest) <= columns, (parser.prog, widest)


def test_help_that_points_below_has_something_there() -> None:
    """Only `verify` lists the perturbations; the others name its help."""
    for parser in _parsers(_parser()):
        text = " ".join(parser.format_help().split())
        assert "see below" not in text or "perturbations (an argument" in text, parser.prog
        if "--perturbation P for example" in text:
            assert ("see below" in text) == (parser.prog == "vhagar verify"), parser.prog


def test_sentences_rows_and_commands_are_wrapped_each_in_its_way() -> None:
    assert fit(TEXT, 40).splitlines() == [
        "A sentence that is long enough to be",
        "wrapped.",
        "",
        "rows:",
        "  one    the cell on the right has a",
        "         second line that goes on",
        "  a-left-cell-that-is-long",
        "         and what it means",
        "  vhagar verify model.onnx \\",
        '    --perturbation "linf(0.1)" \\',
        "    --source 2",
    ]


def test_what_fits_is_one_line() -> None:
    wide = fit(TEXT, 100).splitlines()
    assert wide[0] == "A sentence that is long enough to be wrapped."
    assert '  vhagar verify model.onnx --perturbation "linf(0.1)" --source 2' in wide
