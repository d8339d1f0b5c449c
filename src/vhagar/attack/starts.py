"""Starting points of the ascent: the paper's hyper-input, and others that need no dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.array_types import Array
from vhagar.attack.model import TorchNetwork, torch_confidence
from vhagar.attack.sampling import FEW_ENTRIES
from vhagar.dataset import CHUNK
from vhagar.errors import InvalidInput
from vhagar.network import confidence
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.runtime.devices import Tensor, require_torch

# Random candidates per start, if there is no dataset.
_CHOICE = 4
# Where starts are sampled: the number of candidates, and the share of their entries that is at an
# end of the range.
# Measured: an ACAS Xu network, five entries: 2 of 300,000 inputs are in class 0, all at ends.
_MANY_CANDIDATES, _AT_ENDS = 200_000, 0.3
# Of these candidates, one in so many over a domain with conditions.
_FEWER = 10
# Steps of the ascent that makes random starts confident, and the first step relative to the input
# range.
_ASCENT_STEPS, _ASCENT_STEP = 20, 0.1
# Shares of the starts that ascend to a high confidence, that lie between two such inputs, and that
# are grown until source and target lead together.
_ASCENDED, _BETWEEN, _GROWN = 0.2, 0.15, 0.15
# The largest share of what is negative that ReLUs let through while an input is grown.
# Measured: on a network of VNN-COMP's mnistfc (256x2), 0 finds no attack at all, 0.1 finds one of
# confidence 0.80, and 0.02 one of 1.22.
LEAK = 0.03

# Raises an error once there is no time left; called every few hundredths of a second.
Check = Callable[[], object]


def checked_dataset(dataset: ArrayLike | None, domain: Domain) -> Array:
    """The dataset as flat rows in the domain; no rows without a dataset."""
    if dataset is None:
        return np.zeros((0, domain.size))
    try:
        values = np.asarray(dataset, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the dataset is not an array of numbers ({error})") from error
    if values.shape[1:] not in (domain.shape, (domain.size,)):
        raise InvalidInput(
            f"the dataset has shape {values.shape}, but the network takes inputs of shape "
            f"{domain.shape}; it must have one row of that shape per input"
        )
    flat = values.reshape(len(values), domain.size)
    if not ((flat >= domain.lower) & (flat <= domain.upper)).all():
        raise InvalidInput(
            f"the dataset must lie in the input range [{domain.lower:g},{domain.upper:g}]; "
            "are these bytes that should be divided by 255?"
        )
    return domain.project(flat)


def hyper_input(
    problem: Problem,
    model: TorchNetwork,
    dataset: Array,
    count: int,
    rng: np.random.Generator,
    check: Check = lambda: None,
) -> Array:
    """`count` inputs of the source class at uniform steps in the order of confidence.

    They come from the dataset and equally many random inputs. If too few belong to the source
    class, the most confident ones are taken whatever their class.
    """
    domain = problem.domain
    number = max(len(dataset), count if len(dataset) else _CHOICE * count)
    random = domain.approached(rng.uniform(domain.low, domain.high, (number, domain.size)))
    if domain.size <= FEW_ENTRIES:
        random = np.concatenate([random, _sampled(domain, rng)])
    inputs = np.concatenate([dataset, random])
    confidence_in_source = confidences(model, inputs, problem.source, check)
    ranked = inputs[np.argsort(-confidence_in_source, kind="stable")]
    classified = int((confidence_in_source > 0).sum())
    if classified <= count:
        return ranked[:count]
    step = classified // count
    return ranked[: step * count : step]


def dimmed(starts: Array, domain: Domain, rng: np.random.Generator) -> Array:
    """Every other start nearer to the low end of the domain, each by a factor of its own.

    Most pixels of an image are dark, those of random inputs are not. Where attacks are rare, the
    ascent may find them from dark inputs only.
    """
    factors = np.ones((len(starts), 1))
    factors[::2] = rng.uniform(size=(len(factors[::2]), 1))
    return domain.approached(domain.low + factors * (starts - domain.low))


def _sampled(domain: Domain, rng: np.random.Generator) -> Array:
    """Many inputs, with entries at the ends of their range more often than by chance."""
    # Each has to be moved into a domain that has more conditions than ranges.
    count = _MANY_CANDIDATES // _FEWER if domain.constrained else _MANY_CANDIDATES
    shape = count, domain.size
    inside = rng.uniform(domain.low, domain.high, shape)
    ends = np.where(rng.choice([False, True], shape), domain.high, domain.low)
    return domain.approached(np.where(rng.uniform(size=shape) < _AT_ENDS, ends, inside))


def confidences(
    model: TorchNetwork, inputs: Array, label: int, check: Check = lambda: None
) -> Array:
    """Return the confidence of every input in a class, computed chunk by chunk."""
    if not len(inputs):
        return np.zeros(0)
    torch = require_torch()
    parts = []
    with torch.no_grad():
        for k in range(0, len(inputs), CHUNK):
            check()
            parts.append(model.scores(model.tensor(inputs[k : k + CHUNK])))
    scores: Array = torch.cat(parts).cpu().double().numpy()
    return confidence(scores, label)


def more_starts(
    problem: Problem,
    model: TorchNetwork,
    starts: Array,
    dataset: Array,
    rng: np.random.Generator,
    check: Check = lambda: None,
) -> Array:
    """Replace some of the starts by inputs that ascended, class means, mixtures, and grown inputs.

    A mixture of a confident input of the source class and one of a target class is near the
    decision boundary that the attack must cross; a grown input is near it, too.
    """
    count = len(starts)
    ascending, between = int(_ASCENDED * count), int(_BETWEEN * count)
    if ascending < 2:
        return starts
    labels = [problem.source, *problem.targets]
    chosen = np.array([labels[k % len(labels)] for k in range(ascending)])
    rows = rng.permutation(count)
    growing, rows = rows[ascending + between :][: int(_GROWN * count)], rows[: ascending + between]
    ascended = _raised(problem, model, starts[rows[:ascending]], chosen, check)
    for k, mean in enumerate(_class_means(problem, dataset, labels[:ascending])):
        ascended[k] = ascended[k] if mean is None else mean
    first, second = rng.integers(ascending, size=(2, between))
    share = rng.uniform(size=(between, 1))
    # Inputs that ascended towards a target are used only in mixtures.
    own = ascended[chosen == problem.source]
    result = starts.copy()
    result[rows[: len(own)]] = own
    result[rows[ascending:]] = share * ascended[first] + (1 - share) * ascended[second]
    result[growing] = grown(problem, model, len(growing), rng, check)
    return result


def grown(
    problem: Problem,
    model: TorchNetwork,
    count: int,
    rng: np.random.Generator,
    check: Check = lambda: None,
) -> Array:
    """Inputs that the network grows by itself: first of the source class, then also of a target.

    They start at noise of all strengths, between dark and as bright as it gets. At first ReLUs leak
    a little, so that neurons that are off have a say, too.
    """
    domain = problem.domain
    strength = rng.uniform(size=(count, 1))
    noise = rng.uniform(size=(count, domain.size)) * strength
    low, high = model.tensor(domain.low), model.tensor(domain.high)
    current = model.tensor(domain.low + (domain.high - domain.low) * noise)
    targets = problem.targets or (problem.source,)
    rivals = model.tensor([targets[k % len(targets)] for k in range(count)]).long()
    own = rivals * 0 + problem.source
    for second in (own, rivals):
        for k in range(_ASCENT_STEPS):
            check()
            left = 1 - k / _ASCENT_STEPS
            current.requires_grad_(True)
            scores = model.leaky_scores(current, LEAK * left)
            total = _joint_lead(scores, own, second).sum()
            (gradient,) = require_torch().autograd.grad(total, current)
            size = _ASCENT_STEP * left * (high - low)
            current = (current.detach() + size * gradient.sign()).clamp(low, high)
    result: Array = current.cpu().double().numpy()
    return result


def _joint_lead(scores: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """By how much the lesser of two classes leads over all others; both may be the same."""
    torch = require_torch()
    pair = torch.stack([first, second], dim=1)
    excluded = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, pair, True)
    others = scores.masked_fill(excluded, -torch.inf).amax(dim=1)
    # With two classes in all there are no others: then they are to be close.
    both = scores.gather(1, pair)
    return both.amin(dim=1) - torch.where(torch.isneginf(others), both.amax(dim=1), others)


def _raised(
    problem: Problem, model: TorchNetwork, x: Array, labels: NDArray[np.int64], check: Check
) -> Array:
    """The inputs after gradient ascent on the confidence in one class each."""
    torch = require_torch()
    domain = problem.domain
    current, chosen = model.tensor(x), model.tensor(labels).long()
    low, high = model.tensor(domain.low), model.tensor(domain.high)
    for k in range(_ASCENT_STEPS):
        check()
        current.requires_grad_(True)
        total = torch_confidence(model.scores(current), chosen).sum()
        (gradient,) = torch.autograd.grad(total, current)
        size = _ASCENT_STEP * (1 - k / _ASCENT_STEPS) * (high - low)
        current = (current.detach() + size * gradient.sign()).clamp(low, high)
    result: Array = current.cpu().double().numpy()
    return result


def _class_means(problem: Problem, dataset: Array, labels: Sequence[int]) -> list[Array | None]:
    """The mean of the dataset's inputs that the network classifies as each label, if any."""
    if not len(dataset):
        return [None for _ in labels]
    found = problem.network.forward(dataset).argmax(axis=1)
    return [
        np.asarray(dataset[found == label].mean(axis=0)) if (found == label).any() else None
        for label in labels
    ]
