"""Commands that are interrupted early, while they still import: exit 130 and no traceback.

    python -m tests.soundness.interrupts --count 200 --seed 1

Each case starts a command and signals it at a random moment. What Python itself does before the
first line of the program is not ours: there, a signal ends the process as it ends every other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MODEL = str(ROOT / "examples" / "mnist_3x10.onnx")
_ASKED = ["--perturbation", "occlusion(1,1,3)", "--source", "1", "--target", "2"]
COMMANDS = {
    "verify": ["verify", _MODEL, *_ASKED, "--timeout", "60", "--json", "result.json"],
    "certified": ["verify", _MODEL, *_ASKED, "--timeout", "60", "--certificate", "proof.cert"],
    "attack": ["attack", _MODEL, *_ASKED],
    "confidence": ["confidence", _MODEL, "--class", "1", "--timeout", "60"],
    "inspect": ["inspect", _MODEL, "--json", "model.json"],
    "export": ["export", _MODEL, *_ASKED, "--delta", "1", "--vnnlib", "question.vnnlib"],
    "sweep": ["sweep", "study.toml", "--store", "study.db"],
    "help": ["--help"],
}
_STUDY = f"""\
networks = ["{_MODEL}"]
perturbations = ["occlusion(1,1,3)"]
sources = [1]
timeout = 20
"""
# Seconds after which a command that was signalled counts as one that hangs.
_PATIENCE = 60.0
FINE = ("interrupted", "done before", "before the program")


@dataclass(frozen=True)
class Interrupted:
    """What came of one command; `outcome` is one of `FINE` or says what went wrong."""

    number: int
    command: str
    signal: str
    delay: float
    outcome: str
    errors: str = ""


def look(number: int, seed: int) -> Interrupted:
    """Interrupt one command; number and seed alone decide which, how and when."""
    rng = random.Random(f"{seed} {number}")
    name = rng.choice(list(COMMANDS))
    delay = rng.uniform(0.0, 0.1) if number % 2 else rng.uniform(0.0, 2.5)
    kind = rng.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "study.toml").write_text(_STUDY)
        given = set(os.listdir(folder))
        outcome, errors = _interrupt(COMMANDS[name], delay, kind, folder)
        left = sorted(name for name in set(os.listdir(folder)) - given if name.endswith(".tmp"))
    if left:
        outcome, errors = "a file is left", " ".join(left)
    return Interrupted(number, name, kind.name, round(delay, 4), outcome, errors)


def _interrupt(
    words: list[str], delay: float, kind: signal.Signals, folder: Path
) -> tuple[str, str]:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells have it behind `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "vhagar", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(delay)
    process.send_signal(kind)
    try:
        _, errors = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
        return "it hangs", errors[-2000:]
    return _outcome(process.returncode, kind, errors), errors[-2000:]


def _outcome(code: int, kind: signal.Signals, errors: str) -> str:
    """What an exit code and the standard error say."""
    ours = str(ROOT / "src") in errors
    if not ours and (code == -kind or "KeyboardInterrupt" in errors):
        return "before the program"
    if "Traceback" in errors or "Exception ignored" in errors:
        return "a traceback"
    if code == 130:
        return "interrupted"
    return "done before" if code == 0 and not errors else f"exit {code}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soundness.interrupts")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for number in range(options.count):
        found = look(number, options.seed)
        counts[found.outcome] += 1
        if found.outcome not in FINE:
            print(json.dumps(asdict(found)), flush=True)
    print(f"{options.count} commands interrupted, seed {options.seed}: {dict(counts)}")
    return 1 if set(counts) - set(FINE) else 0


if __name__ == "__main__":
    sys.exit(main())
