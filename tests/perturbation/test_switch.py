"""A decoder in front of a classifier: a switch among the inputs turns the perturbation on."""

from __future__ import annotations

import numpy as np

from vhagar import Domain, Network, Problem, Status, UserPerturbation, verify
from vhagar.network import Affine, Relu

# Two latent entries in [0, 1] make three pixels in [0, 1]; the perturbation blackens the last one.
HIDDEN = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
DECODED = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, -1.0], [0.0, 0.25, 0.75]])
KEPT = np.diag([1.0, 1.0, 0.0])
CLASSIFIED = np.array([[0.25, -0.5, 1.0], [0.5, 0.5, -0.25]])


def scores(z: np.ndarray, perturbed: bool) -> np.ndarray:
    image = np.maximum(z @ HIDDEN.T, 0.0) @ DECODED.T
    assert ((image >= 0) & (image <= 1)).all()
    return (image @ KEPT if perturbed else image) @ CLASSIFIED.T


def switched() -> Network:
    """`relu(x - w) + relu(P x - 1 + w)` of `x = G(z)`, classified; the last input is `w`."""
    first = np.block([[HIDDEN, np.zeros((3, 1))], [np.zeros((1, 2)), np.ones((1, 1))]])
    off, on = (np.full((3, 1), end) for end in (-1.0, 1.0))
    second = np.block([[DECODED, off], [KEPT @ DECODED, on]])
    bias = np.array([0.0, 0.0, 0.0, -1.0, -1.0, -1.0])
    layers = (
        Affine(first, np.zeros(4), (3,), (4,)),
        Relu((4,)),
        Affine(second, bias, (4,), (6,)),
        Relu((6,)),
        Affine(np.hstack([CLASSIFIED, CLASSIFIED]), np.zeros(2), (6,), (2,)),
    )
    return Network(layers, (3,))


def test_all_images_of_a_decoder_are_asked_about() -> None:
    """The optimum over the images is as good as any of a fine grid, and not better by much."""
    flipped = UserPerturbation(offset=1.0, pixels=[2])
    domain = Domain((3,), fixed={2: 0.0})
    problem = Problem(switched(), perturbation=flipped, source=0, targets=1, domain=domain)
    result = verify(problem, timeout=30, workers=0)
    z = np.stack(np.meshgrid(*[np.linspace(0, 1, 257)] * 2), axis=-1).reshape(-1, 2)
    before, after = scores(z, False), scores(z, True)
    attacked = (after[:, 1] > after[:, 0]) & (before[:, 0] > before[:, 1])
    best = float((before[:, 0] - before[:, 1])[attacked].max())
    assert result.status is Status.CLOSED
    assert result.upper >= best > 0.1
    assert result.lower <= best + 0.02
    latent = result.witness.x.reshape(-1)[None, :2]
    assert scores(latent, False).argmax() == 0
    assert scores(latent, True).argmax() == 1
