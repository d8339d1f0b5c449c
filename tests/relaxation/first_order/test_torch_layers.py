"""The linear stages in torch: sparse ones are the dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhagar.network import SparseAffine
from vhagar.relaxation.first_order import torch_layers
from vhagar.relaxation.stages import Stage


def test_sparse_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(7, 9)) * (rng.random((7, 9)) < 0.3)
    stage = Stage((SparseAffine(weight, rng.normal(size=7), (9,), (7,)),))
    cpu = torch.device("cpu")
    ((dense,),) = (made.layers for made in torch_layers.torch_stages([stage], cpu))
    monkeypatch.setitem(torch_layers._SMALL, "cpu", 0)
    ((few,),) = (made.layers for made in torch_layers.torch_stages([stage], cpu))
    assert type(few) is not type(dense)
    rows = torch.as_tensor(rng.normal(size=(4, 7)), dtype=torch.float32)
    values = torch.as_tensor(rng.normal(size=(4, 9)), dtype=torch.float32)
    torch.testing.assert_close(few.pull(rows), dense.pull(rows))
    torch.testing.assert_close(few.absolute.pull(rows), dense.absolute.pull(rows))
    torch.testing.assert_close(few.forward(values), dense.forward(values))
    torch.testing.assert_close(few.flat_bias, dense.flat_bias)
