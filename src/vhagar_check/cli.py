"""The command line: arguments, and the verdict in words."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vhagar_check.errors import Rejected

if TYPE_CHECKING:
    from vhagar_check.maps import Recorded
    from vhagar_check.verdict import Verdict

PROVED, REFUSED, UNSAID, INTERRUPTED = 0, 1, 2, 130
_LEAVE = "; perturbed inputs may leave it."
# Most entries of a domain that are listed one by one.
_MOST_LISTED = 12

HELP = "check a certificate, independently of the verifier"
DESCRIPTION = """\
Prove what a certificate claims about a model, trusting neither the verifier nor any solver.
"""
EPILOG = """\
example:
  vhagar check proof.cert --model model.onnx

exit codes:
  0    everything that the certificate claims is proved
  1    refused, and why
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    parser.add_argument("certificate", metavar="FILE", type=Path, help="the certificate")
    parser.add_argument("--model", required=True, type=Path, help="the ONNX file it is about")
    parser.add_argument(
        "--workers", type=int, default=_cores(), help="processes (default: all cores)"
    )


def _cores() -> int:
    """The cores that this process may be scheduled on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a certificate; return 0 if everything that it claims is proved, 1 if not, 2 if nobody
    can be told, and 130 if Ctrl-C ends it."""
    parser = argparse.ArgumentParser(
        prog="python -m vhagar_check",
        description=DESCRIPTION,
        epilog=EPILOG.replace("vhagar check", "python -m vhagar_check"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # a full disk, say
        _discard_output()
        print(f"cannot write the verdict: {error.strerror or error}", file=sys.stderr)
        return UNSAID


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict and return the exit code."""
    from vhagar_check.verdict import check

    for path in (arguments.certificate, arguments.model):
        if not os.path.isfile(path):  # which no name makes fail
            print(f"REFUSED: there is no file {path}", file=sys.stderr)
            return REFUSED
    try:
        verdict = check(
            arguments.certificate, model=arguments.model, workers=max(1, arguments.workers)
        )
    except Rejected as rejection:
        print(f"REFUSED: {rejection}", file=sys.stderr)
        return REFUSED
    _say(in_words(verdict))
    return PROVED


def _say(text: str) -> None:
    """Print the verdict, even into a pipe that is closed early, as by `head`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _discard_output()


def _discard_output() -> None:
    """Otherwise the unwritten rest would raise an error again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_words(verdict: Verdict) -> str:
    """State what was proved, and about what."""
    lines = [
        f"PROVED by {verdict.proofs} proofs over a tree of {verdict.nodes} nodes, for the model",
        f"with SHA-256 {verdict.model}:",
        "",
        f"- Inputs x are {_inputs(verdict)}.",
        *_domain(verdict),
    ]
    if verdict.convention:
        lines += [f"- The model takes an input x {verdict.convention}."]
    if verdict.scores:
        lines += [f"- The scores {verdict.scores}."]
    source = verdict.source
    if verdict.image is not None:
        lines += _about_image(verdict)
    elif verdict.perturbation is None:
        lines += [
            f"- No input has a confidence in class {source} above {verdict.upper!r}.",
        ]
        if verdict.lower > 0:
            lines.append(f"- One input has at least {verdict.lower!r}.")
    else:
        lines += _robust_above(verdict)
        if verdict.recorded is not None:
            lines += _recorded(verdict.recorded)
        if verdict.lower > 0:
            lines += [
                f"- One input of class {source} with a confidence of at least",
                f"  {verdict.lower!r} is pushed there{_tie(verdict)}.",
            ]
        if verdict.upper == 0:
            lines.append("- In other words: no input of that class can be pushed there at all.")
    lines += [
        "",
        "A confidence is the lead of a class's score over all others. Scores are what the model",
        "gives before any softmax, sigmoid or other activation at its end.",
        "These are statements about real numbers, for the weights as they are stored. A runtime",
        "that computes in float32 can differ from them by its rounding.",
    ]
    return "\n".join(lines)


def _robust_above(verdict: Verdict) -> list[str]:
    """State the bound; if there are several targets, that of each of them on a line of its own."""
    targets = sorted(target for target in verdict.uppers if target is not None)
    several = len(targets) > 1
    where = "each of these classes" if several else f"class {targets[0]}"
    lines = [
        f"- Every input that the network puts into class {verdict.source}",
        f"  with a confidence above {verdict.upper!r} stays out of",
        f"  {where} under {_perturbation(verdict)} ({verdict.clipping}){',' if several else '.'}",
    ]
    if several:
        each = [f"    class {target} above {_short(verdict.uppers[target])}" for target in targets]
        lines += ["  and of a single one above its own bound:", ",\n".join(each) + "."]
    return lines


def _about_image(verdict: Verdict) -> list[str]:
    """State what was proved about one image; numbers are exact."""
    lines = [
        "- One image is looked at. The SHA-256 of its entries, as float64 in the order above, is",
        f"  {verdict.image}.",
        f"  The network puts it into class {verdict.source}.",
        f"- Its versions are those under {_perturbation(verdict)} ({verdict.clipping}).",
    ]
    if verdict.recorded is not None:
        lines += _recorded(verdict.recorded)
    for target in sorted(target for target in verdict.uppers if target is not None):
        least, most = verdict.lowers[target], verdict.uppers[target]
        if math.isfinite(most):
            what = "stays out of" if most < 0 else "has at most this confidence in"
            lines.append(f"- Every version {what} class {target}: confidence at most {most!r}.")
        if least >= 0:
            tie = " (a tie)" if target in verdict.ties else ""
            lines.append(
                f"- One version is put into class {target}: confidence at least {least!r}{tie}."
            )
    if verdict.upper < 0:
        lines.append("- In other words: the image is robust against these classes.")
    elif verdict.lower >= 0:
        lines.append("- In other words: the image is not robust.")
    return lines


def _inputs(verdict: Verdict) -> str:
    """Say which inputs the statements are about; numbers are exact."""
    low, high = verdict.input_range
    sizes = "x".join(map(str, verdict.input_shape))
    axes = {2: " (rows, columns)", 3: " (channels, rows, columns)"}.get(len(verdict.input_shape))
    what = f"images of {sizes} pixels{axes}" if axes else f"inputs of {sizes} entries"
    return f"{what}, each from {low!r} to {high!r}"


def _domain(verdict: Verdict) -> list[str]:
    """Say which of these inputs the statements are about; nothing if it is all of them."""
    if verdict.box is None:
        return []
    (bottom, top), (low, high) = verdict.input_range, verdict.box
    narrowed = [k for k in range(len(low)) if low[k] > bottom or high[k] < top]
    conditions = verdict.conditions
    words = [] if conditions is None else conditions.words
    leave = conditions is None or not conditions.perturbed_inside
    lines = [
        f"- Of these, only inputs of a domain count{_LEAVE if leave else '.'} It narrows the",
        f"  range of {len(narrowed)} of {len(low)} entries. The SHA-256 of all entries' lower and",
        f"  then upper ends{' and of what follows' if words else ''} is",
        f"  {verdict.domain},",
        "  which `vhagar domain show` prints for the same domain.",
        *(f"  Of these inputs: {word}." for word in words),
    ]
    if words and not verdict.lower > 0:  # else a witness satisfies them
        lines += [
            "  Whether any input satisfies all of this was not proved: if none does, what follows",
            "  is about no input.",
        ]
    if len(narrowed) <= _MOST_LISTED:
        lines += [f"  Entry {k} is from {float(low[k])!r} to {float(high[k])!r}." for k in narrowed]
    return lines


def _perturbation(verdict: Verdict) -> str:
    recorded = verdict.recorded
    return str(verdict.perturbation) if recorded is None else "the map recorded in the certificate"


def _recorded(recorded: Recorded) -> list[str]:
    """Describe recorded maps, and how to compare them with the intended ones."""
    count = len(recorded.pieces)
    what = "It is" if count == 1 else f"It is any of {count} maps,"
    return [
        f"- {what} `x_p = A x + B e + c` with up to {recorded.parameters} parameter(s), which the",
        f"  certificate calls {recorded.name!r}. No text says what it does: what was proved is",
        "  about the numbers with SHA-256",
        f"  {recorded.sha256},",
        "  which `vhagar verify` prints for the same map.",
    ]


def _short(value: float) -> str:
    return "nothing" if math.isinf(value) else repr(value)


def _tie(verdict: Verdict) -> str:
    best = max(verdict.lowers, key=lambda target: verdict.lowers[target])
    return ", to a tie with the target" if best in verdict.ties else ""
