"""Load perturbations that the command line names, by text or as `FILE.py:NAME` in a user's file.

A file is executed only if the user names it.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from vhagar.errors import InvalidInput, VhagarError
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.composition import compose
from vhagar.perturbation.parse import parse

_IN_FILE = re.compile(r"\s*(.+\.py):([A-Za-z_]\w*)\s*(?:\+(.*))?", re.DOTALL)


def named(text: str) -> Perturbation:
    """The perturbation of a text, or `FILE.py:NAME`, optionally composed with another by `+`.

    NAME is a perturbation, or a class of perturbations that needs no arguments.
    """
    match = _IN_FILE.fullmatch(text)
    if match is None:
        return parse(text)
    found = _from_file(Path(match[1]), match[2])
    return found if match[3] is None else compose(found, parse(match[3]))


def _from_file(path: Path, name: str) -> Perturbation:
    module = _executed(path)
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, Perturbation):
        try:
            found = found()
        except VhagarError:
            raise
        except Exception as error:  # it is the user's code
            raise InvalidInput(
                f"{name} in {path} cannot be made without arguments ({error}); "
                f"name an object there, such as my_own = {name}(...)"
            ) from error
    if not isinstance(found, Perturbation):
        known = sorted(
            key for key, value in vars(module).items() if isinstance(value, Perturbation)
        )
        there = f"; it has: {', '.join(known)}" if known else ""
        raise InvalidInput(f"{path} has no perturbation {name!r}{there}")
    return found


def _executed(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidInput(
            f"no file {path}; write FILE.py:NAME, where NAME is a perturbation in it"
        )
    spec = importlib.util.spec_from_file_location(f"vhagar_user_{path.stem}", path)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except VhagarError:
        raise
    except Exception as error:  # it is the user's code
        raise InvalidInput(f"{path} cannot be executed: {type(error).__name__}: {error}") from error
    return module
