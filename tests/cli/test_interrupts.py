"""Signals become KeyboardInterrupt, once per wish."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from vhagar import Result, Status
from vhagar.cli import interrupts as module
from vhagar.cli.interrupts import interrupts
from vhagar.cli.main import _exit_code
from vhagar.cli.session import Outcome


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_raise(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupts():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_an_echo_is_ignored_and_a_second_wish_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with interrupts():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        now[0] = 0.1
        os.kill(os.getpid(), signal.SIGINT)  # raises nothing
        now[0] = 5.0
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_other_threads_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def elsewhere() -> None:
        with interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def test_an_import_is_not_interrupted_but_what_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules in C crash when an exception comes out of nowhere while they are initialised."""
    (tmp_path / "takes_long.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nDONE = sum(range(1000))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGALRM)
    found = []

    def import_and_wait() -> None:
        found.append(import_module("takes_long").DONE)
        time.sleep(5.0)  # until the interrupt that was postponed

    with pytest.raises(KeyboardInterrupt), interrupts():
        import_and_wait()
    assert found == [499500]
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@pytest.mark.subprocess
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_the_program_is_imported(number: signal.Signals) -> None:
    """The signal comes out of the first module that the command line imports after its entry."""
    program = (
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'vhagar.cli.main':\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from vhagar.cli.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "vhagar: interrupted\n")


_INTERRUPTING = """
import builtins, os, signal
opened = builtins.open
def open(path, *rest, **more):
    if str(path).endswith("vhagar/__init__.pyi"):
        os.kill(os.getpid(), signal.SIGINT)
    return opened(path, *rest, **more)
builtins.open = open
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("start", [("-m", "vhagar"), ("vhagar",)])
def test_an_interrupt_before_the_first_line_of_the_program(
    start: tuple[str, ...], tmp_path: Path
) -> None:
    """The signal comes while the package itself is imported: nothing is said of it."""
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTING)
    # As pip writes it.
    (tmp_path / "vhagar").write_text(
        "import sys\nfrom vhagar.cli.entry import main\nsys.exit(main())\n"
    )
    package = Path(module.__file__).parents[2]
    command = [str(tmp_path / word) if start == ("vhagar",) else word for word in start]
    done = subprocess.run(
        [sys.executable, *command, "--version"],
        cwd=tmp_path.parent,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{package}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.subprocess
def test_other_programs_keep_their_ctrl_c() -> None:
    """Whatever it is: a program that a shell runs in the background begins by ignoring it."""
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import vhagar;"
        "print(signal.getsignal(signal.SIGINT).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "vhagar"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "default_int_handler\n"


def test_an_interrupted_run_ends_with_130_also_without_its_files(
    make_result: Callable[..., Result], capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(make_result(2.0, Status.INTERRUPTED), ("there is no certificate",))
    assert _exit_code(outcome) == 130
    assert "there is no certificate" in capsys.readouterr().err
    assert _exit_code(Outcome(make_result(2.0, Status.TIMEOUT), ("there is no certificate",))) == 2
