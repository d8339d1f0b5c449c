"""What a guard costs, and whether inputs that it calls robust withstand an attack.

    python bench/guard.py guard.onnx --model examples/mnist_3x10.onnx \
        --dataset examples/mnist_images.npz --attack 60

Times are medians of single calls of onnxruntime on one thread, the model's and the guard's by
turns. With `--attack`, inputs of the data set that the guard calls robust are attacked for so many
seconds in all; one success would be a bug. With `--local`, so many inputs are also decided one by
one, under the guard's first perturbation, as `vhagar local` does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from script import in_words

import vhagar
from vhagar.attack.local_attack import LocalAttack
from vhagar.dataset import read_test_set
from vhagar.guard.onnx_file import metadata
from vhagar.perturbation import Domain
from vhagar.perturbation.domain.plain import domain_of_plain
from vhagar.result import Witness, WitnessCheck

_AT_ONCE = 512


def session(content: bytes) -> Any:
    """The model in onnxruntime, on one thread."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return InferenceSession(content, options, providers=["CPUExecutionProvider"])


def microseconds(sessions: list[Any], batch: Any, calls: int) -> list[float]:
    """The median time of a call for each session; they take turns."""
    names = [each.get_inputs()[0].name for each in sessions]
    shapes = [each.get_inputs()[0].shape[1:] for each in sessions]
    feeds = [
        {name: batch.reshape(len(batch), *shape)} for name, shape in zip(names, shapes, strict=True)
    ]
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(calls):
        for own, one, feed in zip(times, sessions, feeds, strict=True):
            begun = time.perf_counter()
            one.run(None, feed)
            own.append(time.perf_counter() - begun)
    return [1e6 * median(own[calls // 10 :]) for own in times]


def questions(stated: dict[str, Any], network: vhagar.Network) -> list[dict[str, Any]]:
    """The perturbation, clipping, input range and domain of each column of `robust`."""
    span = tuple(stated["input_range"])
    kinds = dict.fromkeys(
        (bound["perturbation"], bound["name"], bound["clip"], bound.get("domain"))
        for bound in stated["bounds"]
    )
    return [
        {
            "perturbation": perturbation,
            "clip": clip,
            "input_range": span,
            "domain": domain
            and domain_of_plain(network.input_shape, span, stated["domains"][domain]),
        }
        for perturbation, _, clip, domain in kinds
    ]


def attacked(guard: Path, model: Path, inputs: Any, seconds: float) -> tuple[int, int, int]:
    """How many predictions are called robust, how many were attacked, and with what success.

    A prediction counts once for each perturbation. All are attacked quickly first, and the more
    thoroughly the longer there is time.
    """
    stated = metadata(guard.read_bytes())
    network = vhagar.read_onnx(model)
    _, label, _, robust = session(guard.read_bytes()).run(
        None, {"image": inputs.astype(np.float32).reshape(-1, *network.input_shape)}
    )
    deadline = time.monotonic() + seconds
    reached, broken = np.zeros_like(robust), np.zeros_like(robust)
    for quick in (True, False):
        for column, asked in enumerate(questions(stated, network)):
            for source in range(network.classes):
                rows = np.flatnonzero(robust[:, column] & (label == source))
                problem = vhagar.Problem(network, source=source, **asked)
                local, check = LocalAttack(problem, "cpu"), WitnessCheck(problem)
                for start in range(0, len(rows), _AT_ONCE):
                    if time.monotonic() >= deadline:
                        break
                    chunk = rows[start : start + _AT_ONCE]
                    reached[chunk, column] = True
                    for found in local.attacks(inputs[chunk], quick):
                        row = chunk[found.row]
                        verdict = check(
                            found.target, inputs[row], found.piece_index, found.parameters
                        )
                        broken[row, column] |= isinstance(verdict, Witness)
    return int(robust.sum()), int(reached.sum()), int(broken.sum())


def decided(guard: Path, model: Path, inputs: Any, count: int) -> tuple[float, int, int]:
    """Milliseconds for an input on its own, how many are robust, and how many the guard knows."""
    network = vhagar.read_onnx(model)
    asked = questions(metadata(guard.read_bytes()), network)[0]
    shape = (-1, *network.input_shape)
    feed = {"image": inputs[:count].astype(np.float32).reshape(shape)}
    robust = session(guard.read_bytes()).run(None, feed)[3][:, 0]
    results = [
        vhagar.local(network, image=image, timeout=60, **asked)
        for image in inputs[:count].reshape(shape)
    ]
    times = [1e3 * each.seconds for each in results]
    return median(times), sum(str(each.verdict.name) == "ROBUST" for each in results), robust.sum()


@in_words
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("guard", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--attack", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--local", type=int, default=0, metavar="INPUTS")
    arguments = parser.parse_args()
    network = vhagar.read_onnx(arguments.model)
    inputs, _ = read_test_set(arguments.dataset, Domain(network.input_shape))
    inputs = inputs.astype(np.float32).astype(np.float64)
    sessions = [session(path.read_bytes()) for path in (arguments.model, arguments.guard)]
    for size in (1, 64):
        calls = max(arguments.calls // size, 50)
        plain, guarded = microseconds(sessions, inputs[:size].astype(np.float32), calls)
        print(f"batch of {size}: model {plain:.1f} us, guard {guarded:.1f} us per call")
    if arguments.attack:
        robust, tried, broken = attacked(arguments.guard, arguments.model, inputs, arguments.attack)
        print(f"{robust} called robust, {tried} attacked, {broken} with success")
    if arguments.local:
        took, robust, known = decided(arguments.guard, arguments.model, inputs, arguments.local)
        print(
            f"one by one: {took:.1f} ms per input; {robust} of {arguments.local} robust, "
            f"{known} by the guard"
        )


if __name__ == "__main__":
    sys.exit(main())
