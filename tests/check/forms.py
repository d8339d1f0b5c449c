"""Forms of operators: small models that are read as a runtime reads them, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

from .graphs import Build, runtime_scores

Case = Callable[[Build], str]
IMAGE, VECTOR, ROWS = ["batch", 2, 4, 4], ["batch", 6], ["batch", 2, 5]


@dataclass(frozen=True)
class Form:
    """A model of a few nodes; `words` are in the refusal, and None if it is read."""

    case: Case
    words: str | None
    shape: list[Any]
    opset: int

    def judge(self) -> None:
        b = Build(self.shape, opset=self.opset)
        out = self.case(b)
        if self.words is not None:
            with pytest.raises(Rejected, match=self.words):
                read_model(b.model(out))
            return
        data = b.model(out if len(self.shape) < 2 else b("Flatten", out))
        network = read_model(data)
        inputs = np.random.default_rng(7).random((2, *network.input_shape)).astype(np.float32)
        for x, expected in zip(inputs, runtime_scores(data, inputs), strict=True):
            exact = network.exact_scores(Exact.of(x.reshape(-1).astype(np.float64))).fractions()
            found = [float(value) for value in exact]
            assert found == pytest.approx(expected.reshape(-1), rel=1e-5, abs=1e-5)


def no(words: str, case: Case, shape: list[Any] = VECTOR, opset: int = 13) -> Form:
    return Form(case, words, shape, opset)


def yes(case: Case, shape: list[Any] = VECTOR, opset: int = 13) -> Form:
    return Form(case, None, shape, opset)


def node(kind: str, *constants: Any, first: bool = False, **attributes: Any) -> Case:
    """One node on the input and constants, which come before it with `first`."""

    def build(b: Build) -> str:
        names = [each if isinstance(each, str) else b.constant(*_typed(each)) for each in constants]
        return str(b(kind, *([*names, "x"] if first else ["x", *names]), **attributes))

    return build


def _typed(values: Any) -> tuple[Any, Any]:
    """Arrays keep their type; lists of whole numbers are int64, all others float32."""
    array = np.asarray(values)
    whole = np.int64 if array.dtype.kind == "i" else np.float32
    return array, array.dtype if isinstance(values, np.ndarray) else whole


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def doubles(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)
