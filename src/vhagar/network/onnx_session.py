"""A model file evaluated by onnxruntime: a second opinion that shares no code with ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import VhagarError


class OnnxSession:
    """A session of onnxruntime in one thread, which says nothing of its own accord."""

    def __init__(self, model: bytes) -> None:
        onnxruntime = _import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises error classes of its own
            raise VhagarError(
                "onnxruntime cannot load the model, so no witness can be checked; if it is in "
                f"another precision, export it in float32: {error}"
            ) from error
        self._input = self._session.get_inputs()[0]

    def outputs(self, image: Array) -> Array:
        """The outputs `(1, size)` of one input in the model's own shape and precision."""
        kind = np.float64 if "double" in self._input.type else np.float32
        (found,) = self._session.run(None, {self._input.name: image.astype(kind)})
        return np.asarray(found, dtype=np.float64).reshape(1, -1)


def _import_onnxruntime() -> Any:
    """Import onnxruntime, which is late: Ctrl-C meanwhile is Ctrl-C and no failed import."""
    try:
        import onnxruntime
    except ImportError as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    return onnxruntime
