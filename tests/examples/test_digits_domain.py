"""`examples/digits_domain.py` closes its question over all images and over digits like 3s."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from vhagar import Domain, Status

from .loading import example_named


@pytest.fixture(scope="module")
def example() -> ModuleType:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    return example_named("digits_domain")


def test_both_bounds_are_closed_and_drawn(example: ModuleType, tmp_path: Path) -> None:
    data = example.Digits.load()
    network, accuracy = example.trained(data)
    assert accuracy > 0.9
    fit = example.fitted(data)
    inside, held = fit.covered
    assert inside >= 0.95 * held
    domains = (Domain(example.SHAPE), fit.domain)
    answers = [example.answer(network, each, data, timeout=600.0, workers=0) for each in domains]
    for domain, found in zip(domains, answers, strict=True):
        assert found.result.status is Status.CLOSED
        assert found.near is not None
        assert found.near.label in range(10)
        assert domain.contains(found.result.witness.x.reshape(1, -1)).all()
        assert found.robust <= found.inside <= found.images
        assert "test images inside are robust" in found.line()
    # Inputs of the domain are among all inputs.
    assert answers[1].result.lower <= answers[0].result.upper
    example.draw(answers, tmp_path / "both.png")
    assert (tmp_path / "both.png").stat().st_size > 1000
