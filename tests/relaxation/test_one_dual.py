"""All ways to compute the twin dual are one: numpy, torch in both precisions, parts and wholes.

The reference is the formula in rational arithmetic, with the very multipliers that a way chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from vhagar.relaxation.corners import DecidedSigns
from vhagar.relaxation.first_order.build import hexagon_tensors
from vhagar.relaxation.first_order.dual import Dual, LayerMultipliers, Steps, support_of_piece
from vhagar.relaxation.first_order.fused import offset
from vhagar.relaxation.first_order.hulls import Hulls
from vhagar.relaxation.first_order.objective import FixedObjective
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.quick_multipliers import quick_payment
from vhagar.relaxation.twin_dual import Backward, Payment, backward, paying

from ..marks import mostly_slow
from ..oracle.exact import rationals
from .samples import BUILDS, PERTURBATIONS, Rng, domain_of, network_of, pieces_of

CPU = torch.device("cpu")
ROWS = 3
SCALES = (1e-6, 1.0, 1e6)
# Of the error of plain sums: convolutions in float32 may be computed by other ones.
ROOM = 16

Start = tuple[Any, Any]
every_build = pytest.mark.parametrize("build", BUILDS)
every_perturbation = pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 4))


def sample(
    build: str, text: str, clip: bool, number: int, scale: float | None = None
) -> tuple[TwinBounds, Rng, Start]:
    rng = np.random.default_rng([number, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, scale or SCALES[rng.integers(3)])
    bounds = quick_bounds(network, pieces_of(text, clip, domain_of(build))[0])
    start = rng.normal(size=(2, ROWS, network.classes))
    start[1, 0] = -start[0, 0]
    return bounds, rng, (start[0], start[1])


def any_numbers(bounds: TwinBounds, rng: Rng) -> list[np.ndarray]:
    """Multipliers `(2, rows, neurons)` of each layer that float32 holds, some of them wild."""
    found = []
    for known in bounds.hexagons:
        size = 10.0 ** rng.integers(-3, 4, (2, ROWS, len(known)))
        numbers = np.float32(size * rng.normal(size=size.shape)).astype(np.float64)
        found.append(np.where(rng.random(size.shape) < 0.2, 0.0, numbers))
    return found


def any_codes(bounds: TwinBounds, rng: Rng) -> list[np.ndarray]:
    """Decided signs `(rows, neurons)` of each layer, contradictions among them."""
    signs = [rng.choice([0, 0, 0, 1, 2], (2, ROWS, len(h))) for h in bounds.hexagons]
    return [(first + 4 * second).astype(np.uint8) for first, second in signs]


def exact(
    bounds: TwinBounds, start: Start, numbers: list[np.ndarray], cut: list[np.ndarray] | None
) -> tuple[np.ndarray, ...]:
    """Coefficients on the input, the constant and whether it is finite, in rational numbers.

    It is not where decisions leave some neuron no corner.
    """
    a, b = (rationals(part) for part in start)
    constant, finite = np.array([Fraction(0)] * len(a)), np.ones(len(a), bool)
    for k in range(len(bounds.stages) - 1, -1, -1):
        for layer in reversed(bounds.stages[k].layers):
            matrix, bias = rationals(layer.matrix.toarray()), rationals(layer.flat_bias)
            constant = constant + (a + b) @ bias
            a, b = a @ matrix, b @ matrix
        if not k:
            break
        p, q = (rationals(part) for part in numbers[k - 1])
        known = bounds.corners[k - 1]
        best, seen = np.full(a.shape, Fraction(0)), np.zeros(a.shape, bool)
        for corner, bits in zip(known, known.cut(), strict=True):
            s, t, z, z_p = (rationals(part) for part in corner)
            value = a * z + b * z_p - p * s - q * t
            left = np.ones(a.shape, bool) if cut is None else (cut[k - 1] & bits) == 0
            best = np.where(left & (~seen | (value > best)), value, best)
            seen |= left
        constant, finite = constant + best.sum(axis=1), finite & seen.all(axis=1)
        a, b = p, q
    return a, b, constant, finite


def require_bounded(
    bounds: TwinBounds, found: Backward, truth: tuple[np.ndarray, ...], room: int = 1
) -> None:
    """Wherever the input is, the truth is no more than what was found and its error."""
    size = rationals(bounds.input_magnitude)
    parts = (found.a, found.b, found.constant, found.error)
    a, b, constant, error = (np.asarray(part, dtype=np.float64) for part in parts)
    off = (abs(truth[0] - rationals(a)) + abs(truth[1] - rationals(b))) @ size
    for row, (expected, finite) in enumerate(zip(truth[2], truth[3], strict=True)):
        if not finite:
            assert constant[row] == -np.inf
            continue
        if not np.isfinite(constant[row] + error[row]):  # beyond float32
            assert constant[row] + error[row] != -np.inf
            continue
        assert expected + off[row] <= Fraction(constant[row]) + room * Fraction(error[row])
        # No more is added than there is to add: the other side holds as well.
        assert Fraction(constant[row]) <= expected + off[row] + room * Fraction(error[row])


def tensors(values: Sequence[Any], kind: Any) -> list[torch.Tensor]:
    return [torch.as_tensor(part, dtype=kind) for part in values]


def magnitudes(bounds: TwinBounds, kind: Any) -> list[tuple[torch.Tensor, ...]]:
    return [tuple(tensors(sizes, kind)) for sizes in bounds.magnitudes(len(bounds.stages) - 1)]


def in_numpy(
    bounds: TwinBounds, start: Start, numbers: list[np.ndarray], codes: list[np.ndarray] | None
) -> Backward:
    decided = codes and [
        DecidedSigns(own, known.cut()) for own, known in zip(codes, bounds.corners, strict=True)
    ]
    pay = paying(bounds.corners, lambda layer, a, b: tuple(numbers[layer]), decided or None)
    return backward(bounds.stages, start, pay, bounds.magnitudes(len(bounds.stages) - 1))


def in_torch(
    bounds: TwinBounds, start: Start, numbers: list[np.ndarray], codes: list[np.ndarray] | None
) -> Backward:
    kind = torch.float64
    corners = [known.mapped(torch.tensor) for known in bounds.corners]
    decided = codes and [
        DecidedSigns(torch.as_tensor(own), torch.as_tensor(known.cut()))
        for own, known in zip(codes, bounds.corners, strict=True)
    ]
    chosen = [tensors(part, kind) for part in numbers]
    pay = paying(corners, lambda layer, a, b: tuple(chosen[layer]), decided or None)
    stages = torch_stages(bounds.stages, CPU, kind)
    first, second = tensors(start, kind)
    return backward(stages, (first, second), pay, magnitudes(bounds, kind))


def hulls_of(bounds: TwinBounds) -> list[Hulls]:
    return [Hulls.of(hexagon_tensors(known, CPU)) for known in bounds.hexagons]


def in_float32(bounds: TwinBounds, start: Start, numbers: list[np.ndarray]) -> Backward:
    """By the fused kernels. Linear units are as if on there, so their multipliers are their own."""
    kind, hulls = torch.float32, hulls_of(bounds)

    def pay(layer: int, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        free = torch.zeros((6, *a.shape))
        free[4:] = torch.as_tensor(numbers[layer])
        linear = bounds.hexagons[layer].linear
        if linear is not None:
            free[:, :, torch.tensor(linear)] = torch.tensor([1.0, 0, 0, 1, 0, 0])[:, None, None]
        p, q, _, _, r = offset(a, b, free, hulls[layer])
        numbers[layer] = np.stack([p.double().numpy(), q.double().numpy()])
        return p, q, r

    first, second = tensors(start, kind)
    stages = torch_stages(bounds.stages, CPU)
    return backward(stages, (first, second), pay, magnitudes(bounds, kind))


@every_build
@every_perturbation
def test_every_way_bounds_its_own_rounding(build: str, text: str, clip: bool) -> None:
    bounds, rng, start = sample(build, text, clip, 81)
    start = tuple(np.float32(part).astype(np.float64) for part in start)
    for codes in (None, any_codes(bounds, rng)):
        numbers = any_numbers(bounds, rng)
        truth = exact(bounds, start, numbers, codes)
        with np.errstate(invalid="ignore"):
            require_bounded(bounds, in_numpy(bounds, start, numbers, codes), truth)
        require_bounded(bounds, in_torch(bounds, start, numbers, codes), truth)
    own = any_numbers(bounds, rng)
    found = in_float32(bounds, start, own)
    require_bounded(bounds, found, exact(bounds, start, own, None), ROOM)


@every_build
@every_perturbation
def test_numpy_and_torch_agree(build: str, text: str, clip: bool) -> None:
    """Number for number up to rounding, errors and contradictions included."""
    bounds, rng, start = sample(build, text, clip, 82)
    for codes in (None, any_codes(bounds, rng)):
        numbers = any_numbers(bounds, rng)
        with np.errstate(invalid="ignore"):
            ours = in_numpy(bounds, start, numbers, codes)
        state = in_torch(bounds, start, numbers, codes)
        a, b, constant, error = (
            part.numpy() for part in (state.a, state.b, state.constant, state.error)
        )
        # The last product's rounding, at the size of its terms.
        slack = 1e-9 * max(abs(part).max(initial=0.0) for part in (ours.a, ours.b))
        np.testing.assert_allclose(a, ours.a, rtol=1e-9, atol=slack)
        np.testing.assert_allclose(b, ours.b, rtol=1e-9, atol=slack)
        finite = np.isfinite(ours.constant)
        np.testing.assert_array_equal(np.isfinite(constant), finite)
        assert (abs(constant[finite] - ours.constant[finite]) <= 2 * ours.error[finite]).all()
        np.testing.assert_allclose(error, ours.error, rtol=1e-6)
        for own, known in zip(codes or (), bounds.corners, strict=False):
            cut = known.cut()
            empty = DecidedSigns(torch.as_tensor(own), torch.as_tensor(cut)).empty().numpy()
            left = (own[None] & cut[:, None]) == 0
            np.testing.assert_array_equal(empty, ~left.any(axis=0).all(axis=1))


@every_build
@every_perturbation
def test_decisions_of_all_rows_and_of_each_cut_the_same(build: str, text: str, clip: bool) -> None:
    bounds, rng, start = sample(build, text, clip, 83)
    numbers, codes = any_numbers(bounds, rng), any_codes(bounds, rng)
    codes = [np.repeat(own[:1], ROWS, axis=0) for own in codes]
    masks = []
    for own, known in zip(codes, bounds.corners, strict=True):
        masks.append(np.where((own[0] & known.cut()) == 0, 0.0, -np.inf))
    pay = paying(bounds.corners, lambda layer, a, b: tuple(numbers[layer]), masks)
    sizes = bounds.magnitudes(len(bounds.stages) - 1)
    with np.errstate(invalid="ignore"):
        found = backward(bounds.stages, start, pay, sizes)
        np.testing.assert_array_equal(
            found.constant, in_numpy(bounds, start, numbers, codes).constant
        )


def recorded(pay: Payment, seen: list[tuple[Any, ...]]) -> Payment:
    def noted(layer: int, a: Any, b: Any) -> tuple[Any, Any, Any]:
        paid = pay(layer, a, b)
        seen.append((*paid, a, b))
        return paid

    return noted


@every_build
@every_perturbation
def test_the_quick_choice_is_the_same_everywhere(build: str, text: str, clip: bool) -> None:
    """In numpy, in torch, and where the ascent begins; and its offsets are the corners'."""
    bounds, _, start = sample(build, text, clip, 84)
    ours: list[tuple[Any, ...]] = []
    theirs: list[tuple[Any, ...]] = []
    backward(bounds.stages, start, recorded(quick_payment(bounds.corners), ours))
    corners = [known.mapped(torch.tensor) for known in bounds.corners]
    stages = torch_stages(bounds.stages, CPU, torch.float64)
    first, second = tensors(start, torch.float64)
    backward(stages, (first, second), recorded(quick_payment(corners), theirs))
    dual = Dual(
        bounds.stages, [Hulls.of(h) for h in bounds.hexagons], support_of_piece(bounds.piece)
    )
    frees = dual.begin(FixedObjective(*start))
    begun: list[tuple[Any, ...]] = []
    choose = LayerMultipliers(tuple(free.now for free in frees)).choice()
    backward(bounds.stages, start, recorded(paying(bounds.corners, choose), begun))
    for known, *ways in zip(reversed(bounds.corners), ours, theirs, begun, strict=True):
        p, q, r, a, b = ways[0]
        slack = 1e-9 * (abs(a) + abs(b) + 1e-300)
        for other in ways[1:]:
            assert (abs(np.asarray(other[0]) - p) <= slack).all()
            assert (abs(np.asarray(other[1]) - q) <= slack).all()
            assert (abs(np.asarray(other[2]) - r) <= slack * known.magnitude).all()


@every_build
@every_perturbation
def test_the_ascent_proves_what_it_reports(build: str, text: str, clip: bool) -> None:
    """In numpy and, in both precisions, in torch; and it never ends above where it began.

    In float32 it may begin elsewhere: a rule that is nearly as good for one layer may be worse for
    the next ones.
    """
    bounds, _, start = sample(build, text, clip, 85, scale=1.0)
    support = support_of_piece(bounds.piece)

    def in_tensors(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.as_tensor(part).to(a) for part in support(a.numpy(), b.numpy()))

    duals = [
        (Dual(bounds.stages, [Hulls.of(h) for h in bounds.hexagons], support), start),
        (
            Dual(
                torch_stages(bounds.stages, CPU, torch.float64),
                [Hulls(h.mapped(wide_tensor)) for h in bounds.hexagons],
                in_tensors,
            ),
            tensors(start, torch.float64),
        ),
        (
            Dual(torch_stages(bounds.stages, CPU), hulls_of(bounds), in_tensors),
            tensors(start, torch.float32),
        ),
    ]
    quick = bounds.bound(len(bounds.stages) - 1, *start)
    for dual, given in duals:
        objective = FixedObjective(*given)
        frees = dual.begin(objective)
        best = np.asarray(dual.run(objective, frees, Steps(5, 0.01)), dtype=np.float64)
        chosen = LayerMultipliers(tuple(np.asarray(free.kept) for free in frees))
        proven = bounds.bound(len(bounds.stages) - 1, *start, chosen.choice())
        single = given[0].dtype == torch.float32
        slack = (1e-3 if single else 1e-6) * (1.0 + abs(quick))
        assert (abs(proven - best) <= slack).all()
        assert single or (proven <= quick + slack).all()


def wide_tensor(values: np.ndarray) -> torch.Tensor:
    return torch.tensor(values)[None, None]


@pytest.mark.parametrize("size", [1e150, 1e300, 1e308])
def test_numbers_too_large_prove_nothing(size: float) -> None:
    """They never make a bound small: it is infinite, or no number, in every way alike."""
    bounds, rng, start = sample("plain", "linf(0.1)", True, 89)
    numbers = [size * rng.choice([-1.0, 1.0], part.shape) for part in any_numbers(bounds, rng)]
    sane = bounds.bound(len(bounds.stages) - 1, *start)
    with np.errstate(over="ignore", invalid="ignore"):
        for found in (
            in_numpy(bounds, start, numbers, None),
            in_torch(bounds, start, numbers, None),
        ):
            total = np.asarray(found.constant + found.error)
            assert (np.isnan(total) | (total > abs(sane))).all()
