"""Devices for batches, CPU or GPU, and helpers for torch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.array_types import Array
from vhagar.errors import InvalidInput, VhagarError
from vhagar.runtime.cores import available_cores
from vhagar.runtime.deadline import Deadline

if TYPE_CHECKING:
    from scipy import sparse

# Memory of one part of the work on a CPU.
_CPU_BYTES = 2**28
# Seconds of a core that importing torch and the first use of it take, and a little more: most are
# in native code that nothing can interrupt. Measured: 0.67 to 0.93 s of processor time.
_IMPORT_SECONDS = 1.25

# torch is imported only when needed, because that takes a second; so tensors have no static type.
Tensor = Any


def torch_is_imported() -> bool:
    """Whether the import is over; while it goes on, also in another thread, it is not."""
    module = sys.modules.get("torch")  # there as soon as the import begins
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def torch_comes_in_time(deadline: Deadline, core_share: float) -> bool:
    """Whether torch is there or can be imported in time by a process with that share of a core."""
    return torch_is_imported() or deadline.left > _IMPORT_SECONDS / core_share


def memory_errors() -> tuple[type[BaseException], ...]:
    """What is raised out of memory, on a CPU or a GPU; this does not import torch."""
    return (
        (MemoryError, require_torch().OutOfMemoryError) if torch_is_imported() else (MemoryError,)
    )


def require_torch() -> Any:
    """The torch module, limited to the available cores; an error that says how to install it."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise VhagarError(
            "this needs PyTorch, which is not installed; "
            "get it with: pip install 'torch>=2.5,<2.14'"
        ) from error
    _limit_once(torch)
    return torch


@cache
def _limit_once(torch: Any) -> None:
    limit_threads(torch, available_cores())


def limit_threads(torch: Any, cores: int) -> None:
    """Keep torch from starting more threads than that."""
    if torch.get_num_threads() > cores:
        torch.set_num_threads(cores)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Have torch compute on one thread.

    Threads that share small operations mostly wait for each other, the more so where other
    processes are busy.
    """
    torch = require_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def has_cuda() -> bool:
    """Whether there is a GPU that torch can use."""
    return bool(require_torch().cuda.is_available())


def cuda_is_likely() -> bool:
    """Whether NVIDIA's driver is present and its GPUs are not hidden from this process.

    Unlike `has_cuda`, this does not import torch.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    return any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg"))


def check_device(name: str) -> None:
    """Raise an error if a GPU is requested and there is none."""
    if name == "cuda" and not has_cuda():
        raise InvalidInput(
            "the device cuda was requested, but PyTorch finds no CUDA GPU; "
            "use --device cpu, or auto to use a GPU if there is one"
        )


def torch_device(name: str) -> Any:
    """The torch device of that name; `auto` is a GPU if there is one."""
    check_device(name)
    if name == "auto":
        name = "cuda" if has_cuda() else "cpu"
    return require_torch().device(name)


def device_words(device: Any) -> str:
    """The device's name, for reports."""
    if device.type == "cuda":
        return f"cuda ({require_torch().cuda.get_device_name(device)})"
    return str(device.type)


def as_numpy(tensor: Tensor) -> Array:
    """A tensor's values as an array in float64."""
    values: Array = tensor.detach().cpu().double().numpy()
    return values


def sparse_tensor(matrix: sparse.csr_array, dtype: Any, device: Any) -> Tensor:
    """A sparse matrix as a torch tensor, for products with dense ones."""
    torch, entries = require_torch(), matrix.tocoo()
    indices = [torch.as_tensor(part, dtype=torch.int64) for part in (entries.row, entries.col)]
    return torch.sparse_coo_tensor(
        torch.stack(indices),
        torch.as_tensor(entries.data, dtype=dtype),
        matrix.shape,
        device=device,
        check_invariants=False,
    ).coalesce()


@contextmanager
def full_precision() -> Iterator[None]:
    """Disable TF32, so that float32 products and convolutions have full precision."""
    torch = require_torch()
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def memory_for(device: Any) -> int:
    """Bytes of memory that one part of the work may use."""
    torch = require_torch()
    if device.type != "cuda":
        return _CPU_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return int(0.5 * free)


def in_parts(count: int, at_once: int, work: Callable[[int, int], None]) -> None:
    """Call `work(begin, end)` for consecutive parts of `range(count)`; out of memory, halve them.

    If even a single item does not fit, the error is raised.
    """
    torch = require_torch()
    begin, at_once = 0, max(1, min(at_once, count))
    while begin < count:
        end = min(begin + at_once, count)
        try:
            work(begin, end)
        except memory_errors():
            if at_once == 1:
                raise
            at_once = (at_once + 1) // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            continue
        begin = end
