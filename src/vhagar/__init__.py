"""VHAGaR: an anytime verifier of neural networks' global robustness.

import vhagar

problem = vhagar.Problem("model.onnx", perturbation="occlusion(14,14,3)", source=2, targets=3)
result = vhagar.verify(problem, timeout=60)
print(result)

What there is stands in `__init__.pyi`, and nowhere else.
"""

import sys


def _is_the_program() -> bool:
    """Whether `vhagar` or `python -m vhagar` is being started, not some other program."""
    script = getattr(sys.modules["__main__"], "__file__", None) or ""
    return script.endswith("/vhagar") or (sys.argv[0] == "-m" and "vhagar" in sys.orig_argv)


if _is_the_program():
    # Nothing has begun: Ctrl-C ends the process without words until `cli.entry` has its handler.
    import _signal  # type: ignore[import-not-found]

    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

# As type checkers understand it. Nothing else is imported here, not even `__future__`: all of this
# runs before the command line's own first line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _exports() -> dict[str, tuple[str, str]]:
    """For each public name, its module and what it is called there."""
    found = {}
    with open(f"{__file__.removesuffix('.py')}.pyi", encoding="utf-8") as table:
        for line in table:
            if line.startswith("from "):
                _, module, _, original, _, name = line.split()
                found[name] = (module, original)
    return found


# Names are imported when first asked for, so that `import vhagar` and `vhagar --help` stay instant.
_EXPORTS = _exports()

__all__ = [name for name in _EXPORTS if not name.startswith("_")]


def __getattr__(name: str) -> "Any":
    if name not in _EXPORTS:
        raise AttributeError(f"module 'vhagar' has no attribute {name!r}")
    from importlib import import_module

    module, original = _EXPORTS[name]
    return getattr(import_module(module), original)


def __dir__() -> list[str]:
    return list(_EXPORTS)


class _Package(type(sys)):  # type: ignore[misc]
    """Keeps public functions apart from modules of the same name, such as `vhagar.verify`.

    Importing a module makes it an attribute of its package, where it would hide the function.
    """

    def __setattr__(self, name: str, value: "Any") -> None:
        if not (name in _EXPORTS and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
