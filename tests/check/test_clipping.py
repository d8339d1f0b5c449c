"""The clip of an affine map's image, as layers before the network."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vhagar_check import check
from vhagar_check.clipping import STAYS, behind_clip, require_clipped
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model
from vhagar_check.pieces import Domain

from .graphs import SMALL_GRAPHS
from .test_graph_verdict import certified, written

SIDES = {"below": (True, False), "above": (False, True), "both": (True, True)}


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_the_network_behind_a_clip_is_the_network_at_the_clipped_image(
    name: str, sides: str
) -> None:
    """In exact arithmetic, for networks that branch as for others."""
    rng = np.random.default_rng(7)
    network = read_model(SMALL_GRAPHS[name](1))
    size = int(np.prod(network.input_shape))
    domain = Domain(network.input_shape, -0.25, 0.5)
    below, above = ((rng.random(size) < 0.6) & side for side in SIDES[sides])
    image = rng.uniform(-1, 1.25, size)
    # Pixels that are not clipped on a side do not leave the range by more than its width.
    image[~below] = image[~below].clip(-0.5, None)
    image[~above] = image[~above].clip(None, 1.0)
    low, high = domain.ends
    clipped = [Fraction(value) for value in image.tolist()]
    clipped = [max(v, low) if cut else v for v, cut in zip(clipped, below, strict=True)]
    clipped = [min(v, high) if cut else v for v, cut in zip(clipped, above, strict=True)]
    found = behind_clip(network, (below, above), domain).exact_scores(Exact.of(image))
    expected = network.exact_scores(Exact.of_fractions(clipped))
    assert found.fractions() == expected.fractions()


@pytest.mark.parametrize("name", ["small_residual", "small_clip"])
def test_clipped_maps_are_proved_for_networks_that_branch(name: str, tmp_path: Path) -> None:
    model = written(tmp_path, name)
    result, path = certified(model, "occlusion(1,1,2)+brightness([0,0.2])")
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


def test_a_pixel_may_leave_the_range_by_no_more_than_rounding() -> None:
    """By exactly as much as that, and in one of several pieces, pixels and directions."""
    domain = Domain((2,), -1.0, 1.0)
    stays = np.full(2, -1.0), np.full(2, 1.0)
    least, most = -1.0 - 2 * STAYS, 1.0 + 2 * STAYS
    below, above = np.array([True, False]), np.array([False, True])

    def asked(low: tuple[float, float], high: tuple[float, float]) -> bool:
        image = np.array(low), np.array(high)
        pieces = [
            SimpleNamespace(image=own, leaves=lambda _: (True, True)) for own in (stays, image)
        ]
        return require_clipped(pieces, (below, above), domain)  # type: ignore[arg-type]

    assert asked((-1.0, -1.0), (1.0, 1.0))
    assert asked((-9.0, -1.0), (1.0, 9.0))
    assert not asked((-1.0, least), (1.0, 1.0))
    assert not asked((-1.0, -1.0), (most, 1.0))
    for low, high in (
        ((-1.0, np.nextafter(least, -2)), (1.0, 1.0)),
        ((-1.0, -1.0), (np.nextafter(most, 2), 1.0)),
    ):
        with pytest.raises(Rejected, match="not clipped to it"):
            asked(low, high)
