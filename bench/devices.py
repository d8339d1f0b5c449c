"""The attack's gradient ascent on the CPU and on a GPU, side by side.

    python bench/devices.py network.onnx "linf(0.05)" 2 3 --devices cpu,cuda --inputs 128,1024,8192

Each row is one ascent of a batch, all of it: starts, steps and the check of what was found. What
comes first on a device, such as loading its libraries, is done before and not counted. No solver is
needed, only PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import time

from script import in_words

import vhagar
from vhagar import Problem
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import attack


def ascents(problem: Problem, device: str, inputs: int, steps: int, rounds: int) -> str:
    """One line of the table: so many ascents of a batch of that size."""

    def run(size: int, count: int) -> tuple[float, float]:
        options = AttackOptions(
            inputs=size,
            gpu_inputs=size,
            steps=steps,
            rounds=count,
            regions=False,
            polish=False,
            device=device,
        )
        begun = time.perf_counter()
        lower = attack(problem, options=options).lower
        return time.perf_counter() - begun, lower

    run(inputs, 1)
    seconds, lower = run(inputs, rounds)
    speed = rounds * inputs * steps / seconds
    return f"| {device} | {inputs} | {seconds / rounds:.3f} | {speed:,.0f} | {lower:.5g} |"


@in_words
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network")
    parser.add_argument("perturbation")
    parser.add_argument("source", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("--no-clip", dest="clip", action="store_false")
    parser.add_argument("--devices", default="cpu,cuda", help="(default: %(default)s)")
    parser.add_argument("--inputs", default="128,1024,8192", help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=80, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    given = parser.parse_args()
    network = vhagar.read_onnx(given.network)
    problem = Problem(
        network,
        perturbation=given.perturbation,
        source=given.source,
        targets=given.target,
        clip=given.clip,
    )
    print("| device | inputs | s per ascent | inputs * steps per s | lower |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for inputs in given.inputs.split(","):
        for device in given.devices.split(","):
            line = ascents(problem, device, int(inputs), given.steps, given.rounds)
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
