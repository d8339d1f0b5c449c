"""The linear stages in torch: sparse ones are the dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhagar.network import SparseAffine
from vhagar.relaxation.first_order import maps
from vhagar.relaxation.twin import Stage


def test_sparse_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(7, 9)) * (rng.random((7, 9)) < 0.3)
    stage = Stage((SparseAffine(weight, rng.normal(size=7), (9,), (7,)),))
    cpu = torch.device("cpu")
    dense = maps.map_of(stage, cpu)
    monkeypatch.setitem(maps._SMALL, "cpu", 0)
    few = maps.map_of(stage, cpu)
    assert type(few) is not type(dense)
    rows = torch.as_tensor(rng.normal(size=(4, 7)), dtype=torch.float32)
    values = torch.as_tensor(rng.normal(size=(4, 9)), dtype=torch.float32)
    torch.testing.assert_close(few.back(rows), dense.back(rows))
    torch.testing.assert_close(few.back_absolute(rows), dense.back_absolute(rows))
    torch.testing.assert_close(few.forth(values), dense.forth(values))
    torch.testing.assert_close(few.bias, dense.bias)
