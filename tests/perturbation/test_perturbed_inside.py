"""Perturbed inputs that must lie in the domain: witnesses are found, exact, and proved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, Network, Problem, Zonotope, linear_rows, verify
from vhagar.network import Affine, onnx_bytes
from vhagar.perturbation import AbstractPiece, parse
from vhagar.perturbation.perturbed_inside import image_is_exact, inside_parameters, on_grid
from vhagar_check import check

SHAPE = (1, 2, 2)
BOX = {"lower": 0.1, "upper": 0.9, "range": (0.0, 1.0)}


def network() -> Network:
    """Class 0 where the first two entries add up to more than 1.25 and the last one is small."""
    weight, bias = np.array([[1.0, 1.0, 0.0, -0.25], [0.0] * 4]), np.array([-1.25, 0.0])
    return Network((Affine(weight, bias, SHAPE, (2,)),), SHAPE)


def piece_of(text: str, **domain: object) -> AbstractPiece:
    return parse(text).pieces(Domain(SHAPE, perturbed_inside=True, **domain))[0]


CONDITIONS = {
    "box": {},
    "row": {"rows": [linear_rows({0: 1.0, 1: -1.0}, 4, at_most=0.3)]},
    "zonotope": {"zonotope": Zonotope(np.full(4, 0.5), 0.4 * np.eye(4)[:2], 1.0, 0.4)},
}


@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize(
    "text",
    [
        "linf(0.1)",
        "features([0,1,3],[0.1,0.2,0.05])",
        "brightness([-0.1,0])",
        "contrast([0.7,1])",
    ],
)
def test_a_witness_is_found_and_proved(text: str, conditions: str, tmp_path: Path) -> None:
    domain = Domain(SHAPE, **{**BOX, **CONDITIONS[conditions]}, perturbed_inside=True)
    problem = Problem(network(), perturbation=text, source=0, targets=1, domain=domain)
    model, certificate = tmp_path / "model.onnx", tmp_path / "proof.cert"
    model.write_bytes(onnx_bytes(problem.network))
    result = verify(problem, timeout=20, workers=0, certificate=certificate)
    assert result.witness is not None
    assert result.lower > 0.05
    pair = np.stack([result.witness.x.reshape(-1), result.witness.x_p.reshape(-1)])
    assert domain.contains(pair).all()
    assert check(certificate, model=model).lower == pytest.approx(result.lower)


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    groups = {"integer": [0], "range": (0.0, 3.0)}
    domain = Domain(SHAPE, 0.0, [3.0, 0.5, 1.0, 0.0], **groups, perturbed_inside=True)
    asked = {"perturbation": "features([0,1],[1,0.125])", "source": 0, "targets": 1}
    problem = Problem(network(), domain=domain, **asked)
    model, certificate = tmp_path / "model.onnx", tmp_path / "proof.cert"
    model.write_bytes(onnx_bytes(problem.network))
    result = verify(problem, timeout=10, workers=0, certificate=certificate)
    assert result.witness is not None
    x, x_p = result.witness.x.reshape(-1), result.witness.x_p.reshape(-1)
    assert (x[0], x_p[0]) == (2, 1)
    assert 1.12 < result.lower <= 1.125 <= result.upper
    assert check(certificate, model=model).lower == pytest.approx(result.lower)


def test_changes_end_where_the_domain_ends() -> None:
    ends = {"lower": [0.1, 0.1, 0.0, 0.0], "upper": [0.9, 0.9, 1.0, 1.0], "range": (0.0, 1.0)}
    piece = piece_of("features([0,1,2],[0.5,0.5,1])", **ends, integer=[2])
    x = np.array([0.75, 0.25, 0.0, 0.5])
    found = inside_parameters(piece, x, np.array([0.5, -0.25, 0.75]))
    assert x[0] + found[0] <= 0.9 < x[0] + found[0] + 1e-6
    assert x[1] + found[1] >= 0.1 > x[1] + found[1] - 1e-6
    assert found[2] == 0


def test_sums_on_the_grid_are_exact() -> None:
    piece = piece_of("linf(0.1)", **BOX)
    rng = np.random.default_rng(3)
    x = on_grid(piece.domain, rng.uniform(0.2, 0.8, 4))
    given = rng.uniform(-0.1, 0.1, 4)
    assert not image_is_exact(piece, x, piece.apply(x[None], given[None])[0], given)
    found = inside_parameters(piece, x, given)
    assert abs(found - given).max() <= 2.0**-23
    assert image_is_exact(piece, x, piece.apply(x[None], found[None])[0], found)


@pytest.mark.parametrize("text", ["rotation(5)", "rotation([0,5])"])
def test_images_with_rounded_weights_are_not_exact(text: str) -> None:
    piece = parse(text).pieces(Domain((1, 4, 4), perturbed_inside=True))[0]
    x, parameters = np.full(16, 0.5), piece.parameter_bounds[0]
    assert not image_is_exact(piece, x, piece.apply(x[None], parameters[None])[0], parameters)


def test_another_image_is_not_the_exact_one() -> None:
    piece, x = piece_of("contrast([0.5,1])"), np.array([0.5, 0.25, 1.0, 0.0])
    for factor, same in ((0.5, True), (0.75, False)):
        assert image_is_exact(piece, x, factor * x, np.array([0.5])) is same
