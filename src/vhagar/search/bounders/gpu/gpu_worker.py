"""The process that bounds nodes in batches, beside the workers with their linear programs."""

from __future__ import annotations

from dataclasses import replace

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.runtime.cores import available_cores
from vhagar.runtime.devices import device_words, torch_device
from vhagar.runtime.pool import Channel
from vhagar.search.bounders.gpu.bounder import GpuBounder
from vhagar.search.bounders.gpu.messages import GpuReady, GpuReport, GpuTask
from vhagar.search.node import Numbers, first_number
from vhagar.search.node_heap import NodeHeap
from vhagar.search.node_solver import solver_with

# Seconds that a task takes, approximately.
_SECONDS = 0.7
# Share of the cores for the bounds in float64.
_THREADS_SHARE = 0.25


def explore_on_gpu(argument: tuple[Problem, Options, int, bool], channel: Channel) -> None:
    """What runs in the process: tasks in, reports out, until the parent ends it."""
    problem, options, worker, required = argument
    device = torch_device(options.device)
    if not required and device.type == "cpu":
        channel.receive()  # there is a driver and no GPU for PyTorch: nothing ever comes
    threads = max(1, int(_THREADS_SHARE * available_cores()))
    bounder = GpuBounder(problem, device, Numbers(first_number(worker)), threads=threads)
    bounder.warm_up()
    solver = solver_with(bounder, problem, options)
    channel.send(GpuReady(device_words(device)))
    heap = NodeHeap()
    while True:
        task: GpuTask = channel.receive()
        solver.incumbent.update(task.lower, task.ceiling)
        heap.push(task.nodes)
        explored = solver.explore_heap(heap, 10**9, _SECONDS)
        back = explored.open + heap.pop(task.wanted)
        channel.send(GpuReport(replace(explored, open=back), heap.uppers()))
