"""The program's first lines: from here on Ctrl-C ends it quietly, while it still imports, too.

A KeyboardInterrupt in the middle of an import ends in a traceback, or in a crash of an extension
module. As long as nothing runs there is nothing to clean up: the process just ends.
"""

# The module `signal` wraps this one in enums, whose import takes longer than all else here.
import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

# The exit code of `cli.main`, which is not imported yet.
_INTERRUPTED = 130
# New objects between two collections of garbage: imports make very many, and hardly any garbage.
_SELDOM = 200_000


def _leave(number: int, frame: object) -> None:
    try:
        os.write(2, b"vhagar: interrupted\n")
    finally:  # whoever closed the standard error does not read it
        os._exit(_INTERRUPTED)


def _open_what_was_closed() -> None:
    """Discard what is written to streams that were closed from the beginning (`vhagar ... >&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def main() -> int:
    """Run the command line and end the process; the entry point of the program."""
    gc.set_threshold(_SELDOM)
    _open_what_was_closed()
    _signal.signal(_signal.SIGINT, _leave)
    _signal.signal(_signal.SIGTERM, _leave)
    from vhagar.cli.main import main as run

    code = run()
    threads = sys.modules.get("vhagar.runtime.threads")
    if threads is None or not threads.has_abandoned_work():
        atexit._run_exitfuncs()
    # All is written. Waiting for abandoned work would be in vain, and so would waiting for the
    # interpreter to take apart all that was ever imported.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
