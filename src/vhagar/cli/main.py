"""The command line: arguments -> Problem -> verify -> output.

Nothing heavy is imported before the arguments are understood, so that `--help` is instant.
"""

from __future__ import annotations

import argparse
import io
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from vhagar.cli import (
    attack,
    baseline,
    compare,
    completion,
    confidence,
    config,
    convert,
    domain,
    export,
    gate,
    groups,
    guard,
    inspect,
    local,
    report,
    sweep,
    verify,
)
from vhagar.cli.help_text import HelpFormatter
from vhagar.cli.standard_output import discard_output, json_to_standard_output
from vhagar.errors import InvalidInput, VhagarError, without_control
from vhagar.runtime.lean_imports import import_sparse
from vhagar.version import __version__
from vhagar_check import cli as check

if TYPE_CHECKING:
    from vhagar.cli.session import Outcome

EXIT_ANSWERED = 0
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

# Longer lines of an error are tiring to read, however wide the terminal is.
_WIDEST = 100

_DESCRIPTION = """\
Verify the global robustness of neural networks. The answer is an interval that is valid at every
moment and tightens until it is closed: every input that is more confident than its upper end is
proven robust. (Confidence is the margin between the score of the input's class and the next highest
score.)
"""

_EPILOG = """\
examples:
  vhagar inspect model.onnx --dataset test.npz
  vhagar verify model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3
  vhagar attack model.onnx --perturbation "linf(0.1)" --source 2 --plot attack.png
  vhagar confidence model.onnx --class 2 --timeout 60
  vhagar local model.onnx --image digit.png --epsilon 8/255
  vhagar check proof.cert --model model.onnx
  vhagar sweep study.toml --store study.db
  vhagar report study.db -o report.html
  vhagar guard study.db -o guard.onnx
  vhagar domain fit data.npz -o domain.toml

exit codes:
  0    answered, even if time ran out before the interval closed
  1    inspect: the model uses unsupported operators; check, guard --check: refused
  2    bad input, or a file that cannot be read or written
  3    a requirement (--require) is violated, with proof
  4    a requirement is undecided
  130  interrupted (Ctrl-C or SIGTERM); the interval reached so far is printed
"""


# A new command is one more file, with texts, `add_arguments` and `run`, and one more line.
COMMANDS: dict[str, Any] = {
    "inspect": inspect,
    "verify": verify,
    "attack": attack,
    "confidence": confidence,
    "local": local,
    "sweep": sweep,
    "report": report,
    "compare": compare,
    "guard": guard,
    "domain": domain,
    "check": check,
    "baseline": baseline,
    "export": export,
    "convert": convert,
    "completion": completion,
}
# Whoever stops here wants to know how to go on.
_UNFINISHED: tuple[list[str], ...] = ([], ["domain"], ["baseline"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names may hold any bytes
    try:
        with _flushed():
            words = _joined(sys.argv[1:] if argv is None else argv)
            if words in _UNFINISHED:
                with suppress(SystemExit):  # with which argparse ends
                    _parser(words).parse_args([*words, "--help"])
                return EXIT_BAD_INPUT
            _require_command(words)
            parser = _parser(words)
            _require_options(parser, words)
            arguments = config.parse(parser, words)
            from vhagar.cli.files import check_files
            from vhagar.cli.interrupts import interrupts

            check_files(arguments)
            _log(arguments)
            with interrupts(), json_to_standard_output(arguments):
                if arguments.command not in (check.run, completion.run):
                    import_sparse()  # before anything else imports it
                return _exit_code(arguments.command(arguments))
    except VhagarError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        print("vhagar: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # a reader that stops listening, such as `head`, has what it wants
        discard_output()
        return EXIT_ANSWERED
    except OSError as error:
        discard_output()
        return _complain(f"cannot write the output: {error.strerror or error}")


def _require_command(words: list[str]) -> None:
    if words[0] in COMMANDS or words[0].startswith("-"):
        return
    from difflib import get_close_matches

    near = get_close_matches(words[0], COMMANDS, 1)
    guess = f"did you mean {near[0]}? The commands" if near else "the commands"
    raise InvalidInput(f"no command {words[0]!r}; {guess} are {', '.join(COMMANDS)}")


# The class that is asked about; where inputs are pushed out of it, it is the source.
_ALSO_CALLED = {"--source": "--class", "--class": "--source"}


def _require_options(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Name an option that does not exist; argparse would rather ask for those that are missing."""
    for word in words:  # the names of a command and of its part, such as `domain fit`
        nested = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not nested:
            break
        if word not in nested[0].choices:  # an option in its place, or the wrong name
            words = [word]
            break
        parser = nested[0].choices[word]
    known = parser._option_string_actions
    words = words[: words.index("--")] if "--" in words else words  # arguments follow it
    for option in (word.partition("=")[0] for word in words if word.startswith("--")):
        if option not in known:
            from difflib import get_close_matches

            near = get_close_matches(_ALSO_CALLED.get(option, option), known, 1, 0.75)
            guess = f"did you mean {near[0]}? " if near else ""
            raise InvalidInput(
                f"no option {option}; {guess}`{parser.prog} --help` lists all of them"
            )


@contextmanager
def _flushed() -> Iterator[None]:
    """What was printed is out when this ends; Python would notice a failure only at its exit."""
    try:
        yield
    finally:
        sys.stdout.flush()


def _exit_code(outcome: Outcome | int) -> int:
    from vhagar.result import Status

    if isinstance(outcome, int):
        return outcome

    for failure in outcome.failures:
        _complain(failure)
    # Whoever interrupts a run expects that something is missing.
    if outcome.result.status is Status.INTERRUPTED:
        return EXIT_INTERRUPTED
    if outcome.failures:
        return EXIT_BAD_INPUT
    return gate.exit_code(outcome.judged)


def _complain(message: str) -> int:
    text = f"vhagar: error: {without_control(message)}"
    if sys.stderr.isatty():  # which would break lines in the middle of a word
        import shutil
        import textwrap

        width = min(shutil.get_terminal_size().columns, _WIDEST)
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(wrapper.fill(line) for line in text.splitlines())
    print(text, file=sys.stderr)
    return EXIT_BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """A parser whose errors look like the program's other errors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        # The usage of a command with forty options would hide what is wrong.
        raise SystemExit(_complain(f"{message}; `{self.prog} --help` explains the options"))


def _parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of all commands, or of one that the words begin with: others have only names."""
    asked = words[0] if words and words[0] in COMMANDS else None
    whole = _Parser(prog="vhagar", description=_DESCRIPTION, epilog=_EPILOG)
    whole.set_defaults(parser=whole)  # which the command `completion` describes
    whole.add_argument("--version", action="version", version=f"vhagar {__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        parser = commands.add_parser(
            name, help=command.HELP, description=command.DESCRIPTION, epilog=command.EPILOG
        )
        if asked in (None, name, "completion"):  # which completes all of them
            command.add_arguments(parser)
    return whole


def _log(arguments: argparse.Namespace) -> None:
    """Show what the program logs: warnings, with --verbose everything, with --quiet nothing."""
    given = vars(arguments)
    level = logging.INFO if given.get("verbose") else logging.WARNING
    level = logging.ERROR if given.get("quiet") else level
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("vhagar").setLevel(level)


def _joined(argv: Sequence[str]) -> list[str]:
    """Join `--input-range -1,1` with `=`: argparse would take `-1,1` for an option."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] in groups.SIGNED:
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words
