"""A gradient attack on the versions of one image: cheap, and hence tried first.

Every target starts from the middle of the parameters' box and from a random corner; the first step
from the middle leads to the corner that the gradient points to. Signed steps of decreasing size
ascend the target's lead over the source. Where the scores are nearly linear they end in corners of
the box, as attacks on L-infinity balls do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.sampling import STEP_RATIO
from vhagar.attack.score_gradients import leads, scores_and_pull
from vhagar.local.versions import FixedMap
from vhagar.network import Network

# Number of steps from each start; the first is as long as the box is wide.
_STEPS = 12
# Most targets that are attacked; those with the largest scores are chosen.
_MOST_TARGETS = 12


def attack(
    network: Network,
    versions: FixedMap,
    source: int,
    targets: tuple[int, ...],
    rng: np.random.Generator,
    stop: Callable[[], bool],
    beat_all: bool = False,
) -> Array:
    """The parameters of the best version that was found for one of the likeliest targets.

    A target has to beat the source; with `beat_all`, whichever other class scores highest.
    """
    middle, half = (versions.lower + versions.upper) / 2, (versions.upper - versions.lower) / 2
    scores = network.forward(versions.image(middle[None]))[0]
    likely = sorted(targets, key=lambda target: -scores[target])[:_MOST_TARGETS]
    labels = np.repeat(likely, 2)  # from the middle, and from a corner
    points = np.tile(middle, (len(labels), 1))
    corners = rng.choice([-1.0, 1.0], points.shape)
    points[1::2] += (half * corners)[1::2]
    best, lead = points.copy(), np.full(len(labels), -np.inf)
    for step in range(_STEPS + 1):
        found, uphill = _gradients(network, versions, points, labels, None if beat_all else source)
        better = found > lead
        best[better], lead[better] = points[better], found[better]
        if step == _STEPS or stop() or (lead > 0).any() or not half.any():
            break
        size = 2 * STEP_RATIO**step
        points = points + size * half * np.sign(uphill)
        points = np.clip(points, versions.lower, versions.upper)
    return np.asarray(best[lead.argmax()])


def _gradients(
    network: Network,
    versions: FixedMap,
    parameters: Array,
    labels: NDArray[np.int64],
    source: int | None,
) -> tuple[Array, Array]:
    """The target's lead over all classes, and the gradient of its lead over the source or all."""
    values = versions.image(parameters)
    inside = (values > versions.floor) & (values < versions.ceiling)
    scores, pull = scores_and_pull(network, values)
    lead, upstream = leads(scores, labels)
    if source is not None:
        upstream = upstream.clip(min=0.0)
        upstream[:, source] = -1.0
    # Where a pixel is at an end of its range, a step may still lead back inside.
    at_end = np.where(inside, 1.0, 0.5)
    return lead, versions.pull(pull(upstream) * at_end)
