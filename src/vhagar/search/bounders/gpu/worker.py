"""The process that explores wide frontiers beside the workers with their linear programs."""

from __future__ import annotations

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.runtime.cores import available_cores
from vhagar.runtime.devices import device_words, torch_device
from vhagar.runtime.pool import Channel
from vhagar.search.bounders.gpu.explorer import WideExplorer
from vhagar.search.bounders.gpu.heap import NodeHeap
from vhagar.search.bounders.gpu.tasks import WideReady, WideReport, WideTask
from vhagar.search.node import first_number
from vhagar.search.node_solver import Explored

# How long a task takes, nearly.
_SECONDS = 0.7
# Cores for the bounds in float64, of every core there is.
_THREADS_SHARE = 0.25


def explore_wide(argument: tuple[Problem, Options, int, bool], channel: Channel) -> None:
    """What runs in the process: tasks in, reports out, until the parent ends it."""
    problem, options, worker, required = argument
    device = torch_device(options.device)
    if not required and device.type == "cpu":
        channel.receive()  # there is a driver and no GPU for PyTorch: nothing ever comes
    threads = max(1, int(_THREADS_SHARE * available_cores()))
    explorer = WideExplorer(problem, options, device, first_number(worker), threads=threads)
    explorer.warm_up()
    channel.send(WideReady(device_words(device)))
    heap = NodeHeap()
    while True:
        task: WideTask = channel.receive()
        explorer.lower = max(explorer.lower, task.lower)
        explorer.ceiling = min(explorer.ceiling, task.ceiling)
        heap.push(task.nodes)
        stuck, closed, done = explorer.work(heap, 10**9, _SECONDS)
        back = stuck + heap.pop(task.wanted)
        channel.send(WideReport(Explored(back, closed, done), heap.uppers()))
