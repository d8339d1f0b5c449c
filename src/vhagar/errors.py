"""The errors a user can meet. Each message names what is wrong and what to do about it."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

# Most nodes that are named of all that are refused for the same reason.
_NAMED = 3


def documentation(page: str) -> str:
    """Where a page of the documentation is, for messages: an installed package has no `docs/`.

    The pages have no address on the web yet; all messages take theirs from here once they do.
    """
    return f"the page {page!r} of the documentation (docs/{page}.md in the sources)"


# What damaged, encrypted or enormous .npy and .npz files can lead to.
BAD_ARRAYS = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


# All control characters but tabs and line breaks: a terminal obeys them.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_control(text: str) -> str:
    """A text, which may quote a file, with its control characters replaced."""
    return CONTROL.sub("?", text)


def in_one_line(text: str) -> str:
    """A name that a file chose for itself, without line breaks and control characters."""
    return without_control(" ".join(text.split()))


class VhagarError(Exception):
    """Root of every error that vhagar raises on purpose."""


class InvalidInput(VhagarError):
    """A value the user gave is out of its limits or does not fit the network."""


class InvalidNetwork(VhagarError):
    """The model file is damaged, incomplete, or not a classifier that can be read."""


@dataclass(frozen=True)
class Refusal:
    """A node that the reader does not translate, and why."""

    operator: str
    node: str
    reason: str

    def __str__(self) -> str:
        return f"operator {self.operator} at node {self.node!r}: {self.reason}"


class UnsupportedOperator(InvalidNetwork):
    """The model uses operators, or uses of them, that the reader does not translate: all of them.

    `operator` and `node` are those of the first refusal.
    """

    def __init__(self, refusals: Sequence[Refusal], supported: tuple[str, ...] = ()) -> None:
        self.refusals = tuple(refusals)
        self.supported = supported
        self.operator, self.node = self.refusals[0].operator, self.refusals[0].node
        if len(self.refusals) == 1:
            text = f"{self.refusals[0]}. "
        else:
            lines = "".join(
                f"\n  operator {operator} at {nodes}: {reason}"
                for operator, nodes, reason in grouped(self.refusals)
            )
            text = f"{len(self.refusals)} nodes are not supported:{lines}\n"
        super().__init__(f"{text}What is supported: see {documentation('networks')}.")


def grouped(refusals: Sequence[Refusal]) -> list[tuple[str, str, str]]:
    """Operator, nodes and reason, once for all nodes with the same reason."""
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refusals:
        groups.setdefault((refusal.operator, refusal.reason), []).append(refusal)
    found = []
    for (operator, reason), same in groups.items():
        names = ", ".join(repr(refusal.node) for refusal in same[:_NAMED])
        more = f" and {len(same) - _NAMED} more" if len(same) > _NAMED else ""
        found.append((operator, f"{'node' if len(same) == 1 else 'nodes'} {names}{more}", reason))
    return found


class SolverFailure(VhagarError):
    """A solver refused a call. Never turned into a number: its bound is lost."""


class SolverUnavailable(VhagarError):
    """The chosen solver is not installed, or its licence does not allow the model."""


def array_complaint(error: Exception) -> str:
    """What is wrong with a file of arrays; numpy offers to unpickle what it does not know."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if "pickle" in str(error):
        return "it is no file of numpy arrays, or it holds objects instead of numbers"
    return str(error)
