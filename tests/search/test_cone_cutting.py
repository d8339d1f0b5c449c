"""The search with cone cuts wherever it finds some: intervals and certificates that hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Network, Problem, verify
from vhagar.network import Affine, Relu, SparseAffine, write_onnx
from vhagar.relaxation.lp import cone_separation
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.search.bounders import cone_cutting
from vhagar.search.branch_and_bound import Bab

from ..marks import mostly_slow
from ..oracle.exact import exact_optimum
from ..oracle.test_engines import require_sound

KINDS = (
    ("linf(0.2)", True),
    ("brightness([0,0.3])", True),
    ("brightness([0,0.3])", False),
    ("contrast([1.1,2])", True),
    ("occlusion(1,1,1)", True),
    ("translation(0,1)", True),
    ("rotation(30)", True),
    ("patch([0,0.3],1,1,1)", True),
)


def halves(seed: int) -> Network:
    """Two layers whose two units each see one half of a small image, and one behind them."""
    rng = np.random.default_rng(seed)

    def draw(*size: int) -> np.ndarray:
        return np.round(8 * rng.normal(size=size)) / 8

    first, second = np.zeros((4, 4)), np.zeros((4, 4))
    for half in (slice(0, 2), slice(2, 4)):
        first[half, half], second[half, half] = draw(2, 2), draw(2, 2)
    return Network(
        (
            SparseAffine(first, draw(4) / 4, (1, 2, 2), (4,)),
            Relu((4,)),
            SparseAffine(second, draw(4) / 4, (4,), (4,)),
            Relu((4,)),
            Affine(draw(2, 4), draw(2) / 4, (4,), (2,)),
        ),
        (1, 2, 2),
    )


def cut_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Look for cuts at every node, whatever they cost."""
    patch.setattr(cone_separation, "_LARGEST_PART", math.inf)
    patch.setattr(cone_separation, "may_help", lambda bounds: True)
    patch.setattr(cone_cutting, "_SHARE", math.inf)
    patch.setattr(cone_cutting, "_WORTH", 1e-6)
    patch.setattr(cone_cutting.ConeCutting, "_enough", lambda *given: 0.0)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cuts are looked for at every node; the numbers of those found."""
    cut_everywhere(monkeypatch)
    found, separate = [], RegionModel.separate

    def counted(model: RegionModel, *given: object) -> bool:
        new = separate(model, *given)  # type: ignore[arg-type]
        found.append(len(model.formula.cuts))
        return new

    monkeypatch.setattr(RegionModel, "separate", counted)
    return found


@pytest.mark.parametrize(("text", "clip"), mostly_slow(KINDS, 8))
def test_intervals_hold_the_optimum_and_certificates_are_proved(
    text: str, clip: bool, cuts: list[int], tmp_path: Path
) -> None:
    weighed = 0
    for seed in range(6):
        network, path = halves(seed), tmp_path / f"{seed}.onnx"
        write_onnx(network, path)
        problem = Problem(path, perturbation=text, source=0, targets=1, clip=clip)
        certificate = tmp_path / f"{seed}.cert"
        result = verify(
            problem,
            engine=Bab(slopes=False, inputs=False),
            workers=1,
            timeout=20,
            certificate=certificate,
        )
        require_sound(problem, exact_optimum(problem), result)
        assert vhagar.check(certificate, model=path).upper <= result.upper
        weighed += b"CUTS" in certificate.read_bytes()
    # Of these, there are some in every few networks.
    if text.startswith(("linf", "brightness")):
        assert sum(cuts)
    if text.startswith("linf"):
        assert weighed
