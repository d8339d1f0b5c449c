"""Runs a checker on all test vectors, and reports every answer that is not the expected one.

    python -m vhagar_check_vectors                     # python -m vhagar_check
    python -m vhagar_check_vectors another-checker     # any other one

The command is called with `CERTIFICATE --model MODEL`. It must exit with 0 if it proves all that
the certificate claims, and with 1 if it refuses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_SECONDS = 300
_ACCEPTED, _REFUSED = 0, 1


def main(command: list[str]) -> int:
    """The exit code: 0 if every answer is the expected one."""
    folder = Path(__file__).parent
    wrong = 0
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    for case in cases:
        files = [str(folder / case["certificate"]), "--model", str(folder / case["model"])]
        try:
            done = subprocess.run(
                [*command, *files], check=False, capture_output=True, timeout=_SECONDS
            )
            answer = {_ACCEPTED: "accepted", _REFUSED: "refused"}.get(
                done.returncode, f"neither (exit code {done.returncode})"
            )
        except subprocess.TimeoutExpired:
            answer = f"none within {_SECONDS} seconds"
        expected = "accepted" if case["accepted"] else "refused"
        if answer != expected:
            wrong += 1
            print(f"{case['name']}: {answer}, should be {expected} {case.get('because', '')}")
    print(f"{len(cases) - wrong} of {len(cases)} answers are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [sys.executable, "-m", "vhagar_check"]))
