"""One question in a Ray cluster of two nodes: the same answers, also when a node is lost."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vhagar import Mip, Problem, Progress, verify
from vhagar.errors import InvalidInput
from vhagar.result import Status
from vhagar_check import check

from .checkpoint.conftest import small_problem

pytest.importorskip("ray", reason="Ray is not installed: pip install 'vhagar[ray]'")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes with two cores each; one cluster at a time on this machine."""
    from ray.cluster_utils import Cluster

    with (tmp_path_factory.getbasetemp().parent / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        try:
            yield found
        finally:
            found.shutdown()


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.filterwarnings("ignore")
def test_two_nodes_share_a_frontier_and_one_may_be_lost(
    cluster: Any, tmp_path: Path, in_workers: None
) -> None:
    other = cluster.add_node(num_cpus=2)
    model, proof = tmp_path / "model.onnx", tmp_path / "proof.cert"
    model.write_bytes(_onnx(small_problem()))
    problem = Problem(str(model), perturbation="linf(0.3)", source=0, targets=1)
    reference = verify(problem, timeout=5.0, workers=0)
    lost: list[bool] = []

    def lose(progress: Progress) -> None:
        if not lost and progress.seconds > 1:
            lost.append(True)
            cluster.remove_node(other, allow_graceful=False)

    result = verify(
        problem,
        timeout=40.0,
        executor="ray",
        address=cluster.address,
        workers=4,
        certificate=proof,
        on_progress=lose,
        relative_gap=1e-6,
    )
    assert lost, result
    # A search that closes right after the loss does not come to notice it.
    assert result.status is Status.CLOSED or any(
        "a worker ended early" in note for note in result.notes
    )
    assert result.nodes > 4
    assert result.lower <= reference.upper
    assert reference.lower <= result.upper
    # Two searches that close end anywhere in their gaps, so neither upper end bounds the other.
    assert result.upper <= reference.upper * (1 + 1e-3)
    verdict = check(proof, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


def _onnx(problem: Problem) -> bytes:
    from vhagar.network import onnx_bytes

    return onnx_bytes(problem.network)


def test_what_has_no_use_of_a_cluster_is_refused() -> None:
    problem = small_problem()
    with pytest.raises(InvalidInput, match="'executor'"):
        verify(problem, engine=Mip(), executor="ray")
    with pytest.raises(InvalidInput, match="unknown executor 'dask'"):
        verify(problem, executor="dask")
    with pytest.raises(InvalidInput, match="leave it out"):
        verify(problem, address="localhost:6379")
