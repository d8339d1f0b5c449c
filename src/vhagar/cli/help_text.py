"""Help that fits the terminal: sentences are wrapped, and tables and commands keep their form."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterator

# Longer lines are tiring to read, however wide the terminal is.
_WIDEST = 100

# Deeper lines continue the row above them.
_ROW_INDENT = 2

# The left cell of a row, with the blanks behind it.
_LEFT = re.compile(r" *\S.*?  +(?=\S)")


class HelpFormatter(argparse.HelpFormatter):
    """Formats descriptions and epilogues with `fit`."""

    def __init__(self, prog: str) -> None:
        # The margin is argparse's own.
        super().__init__(prog, width=min(shutil.get_terminal_size().columns - 2, _WIDEST))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.indent(fit(text, width - len(indent)), indent)


def fit(text: str, width: int) -> str:
    """Wrap a text: sentences, rows of two cells that are two blanks apart, and commands.

    Rows and commands are indented; a command begins with the program's name.
    """
    joined = re.sub(r" \\\n *", " ", text)
    return "\n".join(line for block in _blocks(joined) for line in _fitted(block, width))


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of a paragraph or of a row, each together; an empty line is its own block."""
    block: list[str] = []
    for line in text.splitlines():
        indent = _indent(line)
        goes_on = indent > _ROW_INDENT or (indent == 0 and block and _indent(block[0]) == 0)
        if block and not (line and block[0] and goes_on):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _fitted(block: list[str], width: int) -> list[str]:
    first, rest = block[0], " ".join(line.strip() for line in block[1:])
    if first.strip().startswith("vhagar ") and _indent(first):
        return _command(first, width)
    left = _LEFT.match(first) if _indent(first) else None
    if left is not None:
        return _wrap(f"{first[left.end() :]} {rest}", width, left[0], left.end())
    if rest and _indent(first):
        # The left cell is too long for the right one to stand beside it.
        return [first, *_wrap(rest, width, " " * _indent(block[1]), _indent(block[1]))]
    return _wrap(f"{first} {rest}", width, " " * _indent(first), _indent(first)) or [""]


def _wrap(text: str, width: int, start: str, hanging: int) -> list[str]:
    return textwrap.wrap(
        text.strip(),
        width,
        initial_indent=start,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _command(line: str, width: int) -> list[str]:
    """Break a command before its options, as a shell reads it."""
    lines: list[str] = []
    for part in re.split(r" (?=-)", line):
        if lines and len(f"{lines[-1]} {part} \\") <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part if not lines else " " * (_indent(line) + 2) + part)
    if len(line) <= width:
        return [line]
    return [*(f"{one} \\" for one in lines[:-1]), lines[-1]]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
