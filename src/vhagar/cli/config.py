"""Questions in files: `vhagar verify --config question.toml`.

The keys are the options of the command, without their dashes. What the command line says wins.
Such a file may come from somebody else, with a model: it names no Python to execute, no machine to
talk to, and no file to write outside of its own folder.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vhagar.cli import types
from vhagar.cli.files import WRITTEN
from vhagar.errors import InvalidInput

# Not in a file: what names the file, what describes the program itself, and a machine that would be
# sent Python objects.
_NO_KEYS = ("config", "help", "address")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a file of options."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="read options from a TOML file, with lines such as source = 2; options on the command "
        "line override it",
    )


def parse(whole: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line, with the options of its `--config` file where it has one."""
    path, command = _named(whole, words)
    if path is None or command is None:
        return whole.parse_args(words)
    given = _read(path, command)
    required = [action for action in command._actions if action.required]
    for action in required:
        action.required = False
        if not action.option_strings:
            action.nargs = "?"  # the model may be in the file
    for action, _ in given:
        if not isinstance(action, argparse._AppendAction):  # which would append to the marker
            command.set_defaults(**{action.dest: given})  # a marker: "not on the command line"
    arguments = whole.parse_args(words)
    found = vars(arguments)
    open_ = {
        one.dest for one, _ in given if found[one.dest] is given or found[one.dest] in ([], None)
    }
    for action, value in given:
        if action.dest in open_:
            rivals = _rivals(command, action) - open_
            overruled = any(found[rival] for rival in rivals)
            setattr(arguments, action.dest, False if overruled else value)
    missing = [action.dest for action in required if found[action.dest] is None]
    if missing:
        raise InvalidInput(
            f"neither {path} nor the command line gives the {' and the '.join(missing)}; "
            f"add a line `{missing[0]} = ...` to the file, or give it on the command line"
        )
    return arguments


def _named(
    whole: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[Path | None, argparse.ArgumentParser | None]:
    """The file that `--config` names, and the parser of the command that takes it."""
    (commands,) = (one for one in whole._actions if isinstance(one, argparse._SubParsersAction))
    command = commands.choices.get(words[0]) if words else None
    if command is None or all(action.dest != "config" for action in command._actions):
        return None, None
    only_config = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    only_config.add_argument("--config", type=Path)
    try:
        known, _ = only_config.parse_known_args(list(words[1:]))
    except argparse.ArgumentError:  # without a file: the command's own parser says so
        return None, None
    return known.config, command


def _read(path: Path, command: argparse.ArgumentParser) -> list[tuple[argparse.Action, Any]]:
    """The options in a file, each with its value."""
    import tomllib  # which few runs need

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"no file at {path}; check the path of --config") from None
    except (OSError, ValueError, RecursionError) as error:  # TOML's errors are ValueErrors
        raise InvalidInput(f"{path} is not a readable TOML file: {error}") from None
    known = {action.dest: action for action in command._actions if action.dest not in _NO_KEYS}
    found: dict[str, tuple[argparse.Action, Any]] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            choices = ", ".join(sorted(known))
            raise InvalidInput(f"{path}: unknown key {key!r}; valid keys: {choices}")
        if name in found:
            raise InvalidInput(f"{path}: {key!r} is given twice")
        try:
            found[name] = (known[name], _value(known[name], value, path.parent))
        except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
            reason = f": {error}" if isinstance(error, argparse.ArgumentTypeError) else ""
            raise InvalidInput(f"{path}: {key} cannot be {value!r}{reason}") from None
    return list(found.values())


def _value(action: argparse.Action, value: Any, folder: Path) -> Any:
    """A value as the command line would give it; files are relative to the folder of theirs."""
    if action.nargs == 0:  # a flag
        if not isinstance(value, bool):
            raise argparse.ArgumentTypeError("write true or false")
        return value
    items = value if isinstance(value, list) else [value]
    if action.type in (None, Path) and not all(isinstance(item, str) for item in items):
        raise argparse.ArgumentTypeError("write a text in quotes")
    classes = action.type in (types.label, types.named_labels)
    if classes and any(type(item) not in (int, str) for item in items):
        raise argparse.ArgumentTypeError("write the number of a class, or its name in quotes")
    if any(type(item) not in (int, float, str) for item in items):
        raise TypeError
    if isinstance(action, argparse._ExtendAction):
        return [one for item in items for one in _converted(action, item, folder)]
    if isinstance(action, argparse._AppendAction):
        return [_converted(action, item, folder) for item in items]
    # Several numbers are written with commas on the command line: an interval, a shape.
    return _converted(action, ",".join(map(str, items)), folder)


def _converted(action: argparse.Action, item: Any, folder: Path) -> Any:
    if action.type is Path:
        if action.dest in WRITTEN and item != "-" and not _is_below(folder, folder / item):
            raise argparse.ArgumentTypeError(
                "a file of options writes in its own folder only; name others on the command line"
            )
        return Path(item) if item == "-" else folder / item
    if action.dest == "perturbation" and ".py:" in item:
        raise argparse.ArgumentTypeError(
            "Python is executed only if the command line names it: use --perturbation"
        )
    converted = action.type(str(item)) if callable(action.type) else item
    if action.choices is not None and converted not in action.choices:
        choices = ", ".join(map(str, action.choices))
        raise argparse.ArgumentTypeError(f"choose from {choices}")
    return converted


def _is_below(folder: Path, path: Path) -> bool:
    """Whether a file is in a folder or below it, also where a link says otherwise."""
    root = Path(os.path.realpath(folder))
    return root in Path(os.path.realpath(path)).parents


def _rivals(command: argparse.ArgumentParser, action: argparse.Action) -> set[str]:
    """The options that exclude this one, such as --verbose and --quiet."""
    groups = [group._group_actions for group in command._mutually_exclusive_groups]
    return {other.dest for group in groups if action in group for other in group} - {action.dest}
