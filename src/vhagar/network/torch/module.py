"""PyTorch modules as networks: exported, converted to ONNX, read, and compared with the module.

Through ONNX, every later step has what it would have for a file: the second opinion of the witness
check, a model to save, certificates about it. Nothing is unpickled here, and no other tracer is
tried if `torch.export` fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput, InvalidNetwork
from vhagar.network.conventions import Numbers
from vhagar.network.network import Network
from vhagar.network.onnx_reader import read_model
from vhagar.network.torch.aten import INCREASING
from vhagar.network.torch.conversion import Conversion
from vhagar.runtime.devices import require_torch

# Random inputs of each kind on which module and network are compared.
_SAMPLES = 16
# Largest difference, relative to the largest score; the order of float32 operations explains less.
_TOLERANCE = 1e-4


def from_torch(
    module: Any,
    *,
    input_shape: Sequence[int] | None = None,
    name: str | None = None,
    layout: str = "chw",
    image_shape: Sequence[int] | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    threshold: float | None = None,
) -> Network:
    """Convert a `torch.nn.Module`, in evaluation mode, or a program of `torch.export` to a network.

    `input_shape` is that of one input, without a batch; a program has its own. The other options
    are those of `read_onnx`.
    A softmax, log-softmax, sigmoid or tanh at the end is ignored: confidence is a difference of
    scores. The network is compared with the module on random inputs; a difference is an error.
    """
    torch = require_torch()
    if isinstance(module, torch.export.ExportedProgram):
        name, program = name or "program", module
        batch, shape = _program_shape(program, input_shape)
        module = program.module()
    elif isinstance(module, torch.nn.Module):
        if isinstance(module, torch.jit.ScriptModule):
            raise InvalidInput("pass the module that this TorchScript was made from, or export it")
        if input_shape is None:
            raise InvalidInput("give the shape of one input, such as input_shape=(1, 28, 28)")
        name, program, batch = name or type(module).__name__, None, None
        shape = tuple(int(size) for size in input_shape)
    else:
        raise InvalidInput(
            "from_torch takes a torch.nn.Module or an ExportedProgram, not "
            f"{type(module).__name__}; vhagar.load_weights fills a module with a file of weights"
        )
    with _evaluating(module, program is None):
        dtype = _precision(module, torch)
        exported = program if batch == 1 else _exported(module, shape, dtype, torch)
        conversion = Conversion(exported, torch)
        model = conversion.model(name)
        network = read_model(model, name, layout, image_shape, mean, std, threshold=threshold)
        plain = read_model(model, name)
        _compare(module, plain, shape, conversion.tail, dtype, torch)
    # The network's own model, which `save_model` writes, gives one score per class.
    return replace(network, scores=None)


def _program_shape(program: Any, given: Sequence[int] | None) -> tuple[int | None, tuple[int, ...]]:
    """The batch size of an exported program, None if it is open, and the shape of one input."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = [node for node in nodes if specs[node.name].target is None]
    if len(inputs) != 1:
        raise InvalidNetwork(f"the program takes {len(inputs)} tensors; a classifier takes one")
    sizes = [size if isinstance(size, int) else None for size in inputs[0].meta["val"].shape]
    if len(sizes) < 2 or None in sizes[1:] or sizes[0] not in (1, None):
        shape = " x ".join("?" if size is None else str(size) for size in sizes)
        raise InvalidInput(
            f"the program takes a tensor of shape {shape} (? stands for open); export it for a "
            "batch of 1 or an open one, and fixed sizes"
        )
    one = tuple(size for size in sizes[1:] if size is not None)
    if given is not None and tuple(given) != one:
        raise InvalidInput(f"the program takes inputs of shape {one}, not {given}")
    return sizes[0], one


@contextmanager
def _evaluating(module: Any, switch: bool = True) -> Iterator[None]:
    """Put every part into evaluation mode, and restore its mode afterwards.

    An exported program has one mode, which cannot be switched.
    """
    if not switch:
        yield
        return
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _precision(module: Any, torch: Any) -> Any:
    kinds = {part.dtype for part in module.parameters() if part.is_floating_point()}
    if len(kinds) > 1 or kinds - {torch.float32, torch.float64}:
        raise InvalidInput(f"the module's precision is {kinds}; convert it with .float()")
    return kinds.pop() if kinds else torch.float32


def _exported(module: Any, shape: tuple[int, ...], dtype: Any, torch: Any) -> Any:
    device = next((part.device for part in module.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            return torch.export.export(
                module, (torch.zeros(1, *shape, dtype=dtype, device=device),)
            )
    except Exception as error:  # torch has many exceptions for what it cannot trace
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidNetwork(
            f"torch.export cannot trace the module for an input of shape {(1, *shape)}: {first}"
        ) from error


def _compare(
    module: Any, network: Network, shape: tuple[int, ...], tail: str | None, dtype: Any, torch: Any
) -> None:
    rng = np.random.default_rng(0)
    inputs = np.concatenate(
        [rng.random((_SAMPLES, *shape)), rng.normal(scale=3.0, size=(_SAMPLES, *shape))]
    ).astype(np.float32)
    device = next((part.device for part in module.parameters()), torch.device("cpu"))
    with torch.no_grad():
        # One by one: a module may be written for one input at a time.
        theirs = torch.cat(
            [module(torch.tensor(x[None], dtype=dtype, device=device)).cpu() for x in inputs]
        )
    ours = torch.tensor(network.forward(inputs.astype(np.float64)))
    if network.scores is not None:  # one score z, of which the network makes [0, z]
        ours = ours[:, 1:]
    if tail in INCREASING:
        ours = getattr(torch, tail)(ours)
    elif tail is not None:
        ours = getattr(torch.nn.functional, tail)(ours, dim=-1)
    theirs = theirs.double().reshape(ours.shape)
    error = float((ours - theirs).abs().max())
    largest = max(float(theirs.abs().max()), 1e-6)
    if not error <= _TOLERANCE * largest:
        raise InvalidNetwork(
            f"the converted network differs from the module by {error:.3g} on scores of up to "
            f"{largest:.3g}; does the module depend on the batch, on randomness or on "
            "earlier inputs?"
        )
