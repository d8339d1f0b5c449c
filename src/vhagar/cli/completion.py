"""The command `vhagar completion`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from vhagar.cli.groups import NAMES

HELP = "print a script that completes commands and options in a shell"

DESCRIPTION = """\
Print a script for the shell that completes commands, options and their choices, and file names.
"""

EPILOG = """\
To use it, add one line to the shell's start-up file.

bash, in ~/.bashrc:
  eval "$(vhagar completion bash)"
zsh, in ~/.zshrc:
  autoload -U bashcompinit && bashcompinit && eval "$(vhagar completion zsh)"
fish, in ~/.config/fish/config.fish:
  vhagar completion fish | source
"""

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to run the script")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    whole: argparse.ArgumentParser = arguments.parser
    # zsh runs the script of bash by its bashcompinit.
    print(_fish(whole) if arguments.shell == "fish" else _bash(whole), end="")
    return 0


def _commands(whole: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (group,) = (item for item in whole._actions if isinstance(item, argparse._SubParsersAction))
    return dict(group.choices)


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[Sequence[str], Any]]:
    for action in parser._actions:
        if action.option_strings:
            yield action.option_strings, action


def _values(strings: Sequence[str], action: Any) -> str:
    """What an option may be, where that is a choice; otherwise the shell offers files."""
    return " ".join(map(str, action.choices or NAMES.get(strings[-1], ())))


def _bash(whole: argparse.ArgumentParser) -> str:
    """One case for every option with choices, and one for every command."""
    commands = _commands(whole)
    values, words = [], []
    for name, parser in commands.items():
        for strings, action in _options(parser):
            if choices := _values(strings, action):
                pattern = "|".join(f"{name}:{string}" for string in strings)
                values.append(f"    {pattern}) words='{choices}' ;;")
        every = " ".join(string for strings, _ in _options(parser) for string in strings)
        words.append(f"    {name}) words='{every}' ;;")
    return _BASH.format(
        commands=" ".join(commands), values="\n".join(values), words="\n".join(words)
    )


def _fish(whole: argparse.ArgumentParser) -> str:
    lines = []
    for name, parser in _commands(whole).items():
        about = _quoted(parser.description)
        lines.append(f"complete -c vhagar -n __fish_use_subcommand -a {name} -d {about}")
        for strings, action in _options(parser):
            forms = " ".join(
                f"-l {string[2:]}" if string.startswith("--") else f"-s {string[1:]}"
                for string in strings
            )
            taken = " -r" if action.nargs != 0 else ""
            if choices := _values(strings, action):
                taken = f" -x -a {_quoted(choices)}"
            where = f"-n '__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c vhagar {where} {forms}{taken} -d {_quoted(action.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str | None) -> str:
    first = " ".join((text or "").replace("%%", "%").split()).split(". ")[0]
    return "'" + first.replace("\\", "\\\\").replace("'", "\\'") + "'"


_BASH = """\
_vhagar() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=''
  local command="${{COMP_WORDS[1]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{commands} --help --version' -- "$current"))
    return
  fi
  case "$command:$before" in
{values}
  esac
  if [ -z "$words" ] && [[ "$current" == -* ]]; then
    case "$command" in
{words}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -o bashdefault -F _vhagar vhagar
"""
