"""The three forms of a guard, as functions of a batch of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from vhagar import Guard

Run = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
Form = Callable[[Guard, Path], Run]


def plain(guard: Guard, folder: Path) -> Run:
    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        found = guard(x)
        return found.scores, found.label, found.confidence, found.robust

    return run


def by_onnxruntime(guard: Guard, folder: Path) -> Run:
    from onnxruntime import InferenceSession

    guard.save(folder / "guard.onnx")
    session = InferenceSession(folder / "guard.onnx", providers=["CPUExecutionProvider"])
    names = ["scores", "class", "confidence", "robust"]
    return lambda x: tuple(session.run(names, {"image": x.astype(np.float32)}))


def by_torch(guard: Guard, folder: Path) -> Run:
    import torch

    module = guard.module()
    return lambda x: tuple(part.numpy() for part in module(torch.from_numpy(x)))


FORMS: tuple[Form, ...] = (plain, by_onnxruntime, by_torch)
