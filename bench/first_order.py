"""How fast first-order bounds are: nodes of a search, and all bounds of a network.

    python bench/first_order.py network.onnx "occlusion(14,14,9)" 2 3 --device cuda
    python bench/first_order.py network.onnx "linf(0.05)" 2 3 --nodes 4096,65536 --steps 20

Nodes are random decisions about random neurons. Every bound starts from the quick choice.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from script import in_words

import vhagar
from vhagar import Problem
from vhagar.relaxation.first_order.build import whole_dual
from vhagar.relaxation.first_order.dual import Steps
from vhagar.relaxation.first_order.objective import ConfidenceObjective
from vhagar.relaxation.first_order.refine import device_bounds
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.runtime.devices import torch_device


def timed(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds, all work of the device included."""
    begun = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def random_codes(bounds: TwinBounds, nodes: int, decisions: int, device: torch.device) -> list[Any]:
    """Each node decides so many signs, in either copy."""
    rng = np.random.default_rng(0)
    ends = np.cumsum([0, *(len(h) for h in bounds.hexagons)])
    places = rng.integers(0, ends[-1], (nodes, decisions))
    signs = rng.choice([1, 2, 4, 8], (nodes, decisions)).astype(np.uint8)
    codes = np.zeros((nodes, ends[-1]), dtype=np.uint8)
    np.put_along_axis(codes, places, signs, axis=1)
    parts = [codes[:, low:high] for low, high in itertools.pairwise(ends)]
    return [torch.as_tensor(np.ascontiguousarray(part), device=device) for part in parts]


def bound_nodes(
    problem: Problem, bounds: TwinBounds, nodes: int, steps: int, device: torch.device
) -> float:
    """Seconds to bound so many nodes."""
    codes = random_codes(bounds, nodes, 20, device)
    stages = torch_stages(bounds.stages, device)

    def work() -> None:
        objective = ConfidenceObjective(
            problem.network.classes,
            problem.source,
            torch.full((nodes,), problem.targets[0], device=device),
        )
        dual = whole_dual(bounds, len(bounds.stages) - 1, stages, device, codes)
        dual.run(objective, dual.begin(objective), Steps(steps, 0.01, 0.1))

    timed(work, device)  # compiles, and finds its memory
    return min(timed(work, device) for _ in range(3))


@in_words
def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", type=Path)
    parser.add_argument("perturbation")
    parser.add_argument("source", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--nodes", default="1024")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args(given)
    device = torch_device(arguments.device)
    network = vhagar.read_onnx(arguments.network)
    problem = Problem(
        network,
        perturbation=arguments.perturbation,
        source=arguments.source,
        targets=arguments.target,
    )
    piece = problem.pieces[0]
    print(f"{network.name}, {piece.label}, {network.hidden_neurons} neurons, {device}")
    if device.type == "cuda":
        device_bounds(network, piece, device)  # compiles
        best = min(timed(lambda: device_bounds(network, piece, device), device) for _ in "123")
        print(f"all bounds, chosen on the GPU and proven in float64: {best:.3f} s", flush=True)
    best = min(timed(lambda: quick_bounds(network, piece), device) for _ in "123")
    print(f"all bounds, float64 on one core: {best:.3f} s", flush=True)
    bounds = quick_bounds(network, piece)
    for nodes in map(int, arguments.nodes.split(",")):
        seconds = bound_nodes(problem, bounds, nodes, arguments.steps, device)
        print(
            f"{nodes} nodes, {arguments.steps} steps: {seconds:.3f} s, "
            f"{nodes / seconds:,.0f} node bounds/s",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
