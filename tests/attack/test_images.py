"""The images in torch are those of the pieces, and their gradients are true."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhagar.attack import images
from vhagar.attack.images import torch_piece
from vhagar.perturbation import PERTURBATIONS, AbstractPiece, Domain, parse

_TEXTS = [
    "linf(0.1)",
    "linf(1)",
    "features([0,7],[0.2,0.1])",
    "patch([0,0.5],2,2,[1,3])",
    "brightness([-0.2,0.3])",
    "contrast([0.5,1.5])",
    "occlusion([1,2],2,2)",
    "translation(1,[0,2])",
    "rotation(10)",
    "rotation([-100,30])",
]
_COMPOSED = [
    "occlusion(1,2,2)+linf(0.1)",
    "translation(1,-1)+brightness([-0.2,0.3])",
    "rotation(10)+linf(0.2)",
]
_DOMAINS = [Domain((1, 5, 5)), Domain((2, 4, 5), -1.0, 2.0)]

_CASES = [
    (piece, f"{text} clip={clip} {domain.shape}")
    for text in _TEXTS + _COMPOSED
    for clip in ((True, False) if text.startswith(("brightness", "contrast")) else (True,))
    for domain in _DOMAINS
    for piece in parse(text).pieces(domain, clip)
]
pieces = pytest.mark.parametrize(
    "piece", [piece for piece, _ in _CASES], ids=[name for _, name in _CASES]
)


def _tensor(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _points(piece: AbstractPiece, count: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(3)
    domain = piece.domain
    x = rng.uniform(domain.lower, domain.upper, (count, domain.size))
    low, high = piece.parameter_bounds
    return _tensor(x), _tensor(rng.uniform(low, high, (count, len(low))))


def test_every_perturbation_is_here() -> None:
    assert {text.split("(")[0] for text in _TEXTS} == {kind.name for kind in PERTURBATIONS}


@pieces
def test_image_is_that_of_the_piece(piece: AbstractPiece) -> None:
    x, parameters = _points(piece)
    low, high = piece.parameter_bounds
    parameters[0], parameters[1] = _tensor(low), _tensor(high)
    x[0], x[1] = piece.domain.lower, piece.domain.upper
    image = torch_piece(piece, _tensor).apply(x, parameters)
    expected = piece.apply(x.numpy(), parameters.numpy())
    np.testing.assert_allclose(image, expected, rtol=0, atol=1e-12)
    single = torch_piece(piece, lambda values: torch.tensor(values, dtype=torch.float32))
    np.testing.assert_allclose(
        single.apply(x.float(), parameters.float()), expected, rtol=0, atol=1e-4
    )


@pieces
def test_gradients_are_those_of_differences(piece: AbstractPiece) -> None:
    apply = torch_piece(piece, _tensor).apply
    x, parameters = _points(piece)
    weights = _tensor(np.random.default_rng(4).normal(size=x.shape))
    step = 1e-7
    for variable in (0, 1):
        given = [x.clone(), parameters.clone()]
        given[variable].requires_grad_(True)
        value = (apply(*given) * weights).sum(dim=1)
        if not value.requires_grad:  # an image that parameters have no say in
            assert len(piece.parameter_bounds[0]) == 0
            continue
        (gradients,) = torch.autograd.grad(value.sum(), given[variable], allow_unused=True)
        for entry in range(0, given[variable].shape[1], 3):
            moved = [part.detach().clone() for part in given]
            moved[variable][:, entry] += step
            above = (apply(*moved) * weights).sum(dim=1)
            moved[variable][:, entry] -= 2 * step
            below = (apply(*moved) * weights).sum(dim=1)
            expected = (above - below) / (2 * step)
            np.testing.assert_allclose(gradients[:, entry], expected, rtol=1e-4, atol=1e-5)


@pieces
def test_projection_is_into_the_box(piece: AbstractPiece) -> None:
    adapter = torch_piece(piece, _tensor)
    x, parameters = _points(piece)
    far = adapter.project(x, 10 * parameters - 3)
    low, high = piece.parameter_bounds
    assert ((far >= _tensor(low)) & (far <= _tensor(high))).all()
    if piece.free_pixels is not None:
        start = x.numpy() @ piece.formula.map.matrix.T.toarray() + piece.formula.map.offset
        moved = _tensor(start)[:, piece.free_pixels] + far
        room = 1e-12
        assert (moved >= piece.domain.lower - room).all()
        assert (moved <= piece.domain.upper + room).all()
    # What the clip hides is given up, and nothing else.
    far_image = adapter.apply(x, 10 * parameters - 3)
    np.testing.assert_allclose(adapter.apply(x, far), far_image, rtol=0, atol=1e-12)


def test_pieces_without_a_formula_work_too(monkeypatch: pytest.MonkeyPatch) -> None:
    (piece,) = parse("occlusion(1,1,2)").pieces(_DOMAINS[0])
    monkeypatch.setattr(images, "_formula", lambda piece: None)
    x, parameters = _points(piece)
    x.requires_grad_(True)
    image = torch_piece(piece, _tensor).apply(x, parameters)
    expected = piece.apply(x.detach().numpy(), parameters.numpy())
    np.testing.assert_allclose(image.detach(), expected, rtol=0, atol=1e-12)
    (gradients,) = torch.autograd.grad(image.sum(), x)
    assert (gradients == 1).all()
