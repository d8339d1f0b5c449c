"""Models that ask for more than any network needs are refused before they are built."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar.errors import InvalidNetwork
from vhagar.network import onnx_node, read_onnx

from ..marks import mostly_slow


def doubled(times: int, path: Path) -> Path:
    """A tensor that is concatenated with itself again and again."""
    names = ["image", *(f"doubled{k}" for k in range(times))]
    nodes = [
        helper.make_node("Concat", [name, name], [after], axis=1)
        for name, after in itertools.pairwise(names)
    ]
    nodes.append(helper.make_node("MatMul", [names[-1], "weight"], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "doubled",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(np.eye(2, dtype=np.float32), "weight")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("times", mostly_slow([40, 200], 2))
def test_nested_concats_are_refused_while_they_are_small(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Index arrays of more entries take seconds and gigabytes."""
    built = []
    check = onnx_node.require_modest

    def noted(shape: tuple[int, ...], source: int = 0) -> None:
        check(shape, source)
        built.append(int(np.prod(shape, dtype=np.float64)))

    for module in [onnx_node, *_users()]:
        monkeypatch.setattr(module, "require_modest", noted)
    with pytest.raises(InvalidNetwork, match="too large"):
        read_onnx(doubled(times, tmp_path / "doubled.onnx"))
    assert 2**16 < max(built) <= 2**23


def _users() -> list[object]:
    import sys

    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("vhagar.network.onnx_operators")
        and getattr(module, "require_modest", None) is not None
    ]
