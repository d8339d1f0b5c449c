"""What every piece of every perturbation gains, checked by one table of cases.

The sound side (a support is an upper bound, an enclosure encloses) is compared in rational
arithmetic, without any tolerance. Only the tight side is approximate.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import vhagar.perturbation
from vhagar.perturbation import (
    PERTURBATIONS,
    AbstractPiece,
    Brightness,
    Contrast,
    Domain,
    Features,
    Linf,
    Occlusion,
    Patch,
    Perturbation,
    Rotation,
    Translation,
    UserPerturbation,
    compose,
)
from vhagar.perturbation.nearest import nearest_parameters

from ..marks import mostly_slow

DOMAINS = {
    "grey": Domain((1, 4, 4)),
    "colour": Domain((3, 3, 3), -1.0, 1.0),
    "bytes": Domain((4, 4), 0, 255),
    # Every sum is rounded: in floats, even lower + (upper - lower) is larger than upper.
    "odd": Domain((2, 3, 4), -0.7, 0.4),
}


def tint(domain: Domain) -> Perturbation:
    """Every second pixel changes by one amount, the others by another."""
    halves = np.stack([np.arange(domain.size) % 2 == k for k in (0, 1)], axis=1).astype(float)
    ranges = [(-0.1 * domain.width, 0.15 * domain.width), (0.2 * domain.width,) * 2]
    return UserPerturbation(directions=halves, ranges=ranges, names=("even", "odd"), name="tint")


def mixture(domain: Domain) -> Perturbation:
    """Some pixels become a mixture of all, moved by a parameter each; nothing is round."""
    rng = np.random.default_rng(3)
    pixels = np.arange(0, domain.size, 3)
    return UserPerturbation(
        matrix=rng.normal(size=(len(pixels), domain.size)) / 3,
        directions=np.diag(rng.normal(size=len(pixels)) * 7),
        offset=rng.normal(size=len(pixels)) * domain.width,
        ranges=[(-0.1 * domain.width / (k + 3), 0.03 * domain.width) for k in range(len(pixels))],
        pixels=pixels,
        name="mixture",
    )


def overlapping(domain: Domain) -> Perturbation:
    """Two parameters move the same pixels, a third does nothing and a fourth is fixed."""
    ramp = np.linspace(0.1, 1.0, domain.size)
    moves = np.stack([ramp, 1.1 - ramp, 0 * ramp, 0.1 * ramp], axis=1)
    ends = [(-0.1, 0.1), (0.0, 0.2), (-1.0, 1.0), (0.3, 0.3)]
    ranges = [(low * domain.width, high * domain.width) for low, high in ends]
    return UserPerturbation(matrix=0.9, directions=moves, ranges=ranges, name="overlapping")


# Each perturbation, given the width of the input range, in which amounts are measured.
CASES: dict[str, Callable[[float], Perturbation]] = {
    "linf": lambda width: Linf(0.15 * width),
    "linf, everything": Linf,
    "brightness, up": lambda width: Brightness((0.1 * width, 0.3 * width)),
    "brightness, down": lambda width: Brightness((-0.7 * width, -0.3 * width)),
    "brightness, both": lambda width: Brightness((-0.25 * width, 0.2 * width)),
    "brightness, fixed": lambda width: Brightness(-0.3 * width),
    "brightness, white": lambda width: Brightness((0.5 * width, width)),
    "contrast, both": lambda width: Contrast((0.55, 1.7)),
    "contrast, up": lambda width: Contrast((1.1, 3.3)),
    "contrast, fixed": lambda width: Contrast(1.3),
    "occlusion": lambda width: Occlusion((1, 2), 2, (1, 2)),
    "patch": lambda width: Patch((0, 0.2 * width), (1, 2), 2, (1, 2)),
    "translation": lambda width: Translation((-1, 1), (0, 2)),
    "features": lambda width: Features([0, 2, 7], [0.1 * width, 0.3 * width, width]),
    "rotation": lambda width: Rotation(30),
    "rotation, back": lambda width: Rotation(-100.7),
    "rotation, quarter": lambda width: Rotation(90),
    "rotation, range": lambda width: Rotation((5, 10)),
    "rotation, through 0": lambda width: Rotation((-8, 1)),
    "rotation, through a quarter": lambda width: Rotation((88, 91.5)),
    "rotation, tiny range": lambda width: Rotation((33, 33 + 1e-6)),
}
# Those without a text of their own: maps of users, and two perturbations one after the other.
AFFINE_CASES: dict[str, Callable[[Domain], Perturbation]] = {
    "tint": tint,
    "mixture": mixture,
    "dead pixels": lambda domain: UserPerturbation(
        matrix=0.0, offset=domain.lower, pixels=[0, 3, 4], name="dead"
    ),
    "half": lambda domain: UserPerturbation(matrix=0.5, name="half"),
    "overlapping": overlapping,
    "occlusion+linf": lambda domain: compose(Occlusion((1, 2), 2, 1), Linf(0.2 * domain.width)),
    "occlusion+linf, everything": lambda domain: compose(Occlusion(1, 2, 1), Linf(domain.width)),
    "translation+linf": lambda domain: compose(Translation(1, (-1, 0)), Linf(0.1 * domain.width)),
    "translation+brightness": lambda domain: compose(
        Translation(1, 1), Brightness((-0.1 * domain.width, 0.2 * domain.width))
    ),
    "rotation+brightness": lambda domain: compose(Rotation(30), Brightness(-0.2 * domain.width)),
    "tint+brightness": lambda domain: compose(
        UserPerturbation(matrix=0.0, offset=domain.lower, pixels=[1, 2]),
        Brightness((0, 0.1 * domain.width)),
    ),
}

Pieces = tuple[AbstractPiece, ...]
Points = tuple[np.ndarray, np.ndarray]


# By default the first domain clipped and the last unclipped.
SETTINGS = [f"{name}, {clip}" for clip in ("clipped", "unclipped") for name in DOMAINS]


@pytest.fixture(params=mostly_slow(SETTINGS, len(SETTINGS) - 1))
def setting(request: pytest.FixtureRequest) -> tuple[Domain, bool]:
    name, clip = request.param.split(", ")
    return DOMAINS[name], clip == "clipped"


@pytest.fixture(params=[*CASES, *AFFINE_CASES])
def pieces(request: pytest.FixtureRequest, setting: tuple[Domain, bool]) -> Pieces:
    domain, clip = setting
    if request.param in AFFINE_CASES:
        return AFFINE_CASES[request.param](domain).pieces(domain, clip)
    return CASES[request.param](domain.width).pieces(domain, clip)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240)


def coefficients(size: int, rng: np.random.Generator) -> Iterator[Points]:
    """Objectives `(a, b)`: plain, cancelling, of mixed magnitude, sparse, subnormal."""
    a, b = rng.normal(size=(2, 1, size))
    yield a, b
    yield a, -a * (1 + 1e-15 * b)
    yield a * 10 ** rng.uniform(-9, 9, a.shape), b * 10 ** rng.uniform(-9, 9, b.shape)
    yield a * (rng.random(a.shape) < 0.2), abs(b)
    yield 3e-323 * a, 3e-323 * b


def noise(piece: AbstractPiece) -> float:
    """What rounding may cost on the tight side, for each pixel."""
    return 1e-13 * max(piece.domain.magnitude, *np.abs(piece.image_bounds()).reshape(-1))


def nudged(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> Points:
    """A point and its nearest neighbours, inside the domain and the parameter box."""
    xs = np.concatenate([np.nextafter(x, x + side) for side in (0, -1, 1, 0, 0)])
    ps = np.concatenate([np.nextafter(parameters, parameters + k) for k in (0, 0, 0, -1, 1)])
    return np.clip(xs, piece.domain.lower, piece.domain.upper), piece.project(ps)


def test_every_perturbation_has_a_case() -> None:
    assert {type(make(1.0)) for make in CASES.values()} == set(PERTURBATIONS)


def test_every_file_is_in_the_registry() -> None:
    folder = vhagar.perturbation.__path__
    modules = [
        importlib.import_module(f"vhagar.perturbation.{found.name}")
        for found in pkgutil.iter_modules(folder)
    ]
    defined = {
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Perturbation) and item is not Perturbation
    }
    # These are no texts but Python objects, or made of two texts.
    unnamed = {"AffinePerturbation", "UserPerturbation", "RecordedMaps", "Composition"}
    assert {kind.__name__ for kind in defined} >= unnamed
    defined = {kind for kind in defined if kind.__name__ not in unnamed}
    assert defined == set(PERTURBATIONS)
    assert all(kind.__module__ == f"vhagar.perturbation.{kind.name}" for kind in defined)


def test_apply_stays_inside(pieces: Pieces, rng: np.random.Generator, tools: Any) -> None:
    for piece in pieces:
        x, parameters = tools.points(piece, rng, 40)
        x_p = piece.apply(x, parameters)
        assert piece.contains(x, x_p, parameters).all(), piece.label
        beyond = np.where(np.arange(x.shape[1]) == 1, piece.domain.upper + piece.domain.width, x)
        assert not piece.contains(beyond, x_p, parameters).any()
        low, high = piece.parameter_bounds
        if low.size:
            outside = np.where(np.arange(low.size) == 0, 2 * high - low + 1, parameters)
            assert not piece.contains(x, x_p, outside).any()
        assert not piece.contains(x, x_p + np.nan, parameters).any()


def test_pairs_outside_are_not_contained(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        _, parameters = tools.points(piece, rng, 40)
        for (x, x_p), _ in tools.outsiders(piece, rng):
            if piece.span is not None:
                parameters[3] = nearest_parameters(piece, x[0], x_p[0])
            parameters[4] = tools.effective(piece, x[0], x_p[0], parameters[4])
            xs, images = (np.tile(part, (len(parameters), 1)) for part in (x, x_p))
            assert not piece.contains(xs, images, parameters).any(), piece.label


def test_support_is_an_upper_bound(pieces: Pieces, rng: np.random.Generator, tools: Any) -> None:
    for piece in pieces:
        for a, b in coefficients(piece.domain.size, rng):
            found = piece.support(a, b)
            x, parameters = tools.points(piece, rng, 4)
            best = nudged(piece, found.x, found.parameters)
            x, parameters = np.concatenate([x, best[0]]), np.concatenate([parameters, best[1]])
            bound, a_exact, b_exact = (
                Fraction(found.value[0]),
                tools.fractions(a[0]),
                tools.fractions(b[0]),
            )
            x_p = piece.apply(x, parameters)
            for one, its, float_image in zip(x, parameters, x_p, strict=True):
                start = a_exact @ tools.fractions(one)
                assert bound >= start + b_exact @ tools.image_of(piece, one, its), piece.label
                assert bound >= start + b_exact @ tools.fractions(float_image), piece.label


def test_support_is_attained(pieces: Pieces, rng: np.random.Generator) -> None:
    for piece in pieces:
        size = piece.domain.size
        a, b = rng.normal(size=(2, 30, size))
        found = piece.support(a, b)
        assert (piece.project(found.parameters) == found.parameters).all()
        x_p = piece.apply(found.x, found.parameters)
        assert piece.contains(found.x, x_p, found.parameters).all(), piece.label
        reached = (a * found.x).sum(axis=1) + (b * x_p).sum(axis=1)
        if piece.exact_support:
            assert found.value == pytest.approx(reached, abs=size * noise(piece)), piece.label


def test_split_covers(pieces: Pieces, rng: np.random.Generator, tools: Any) -> None:
    for piece in pieces:
        children = piece.split()
        assert bool(children) == (piece.span is not None and piece.span[0] < piece.span[1])
        if not children:
            continue
        x, parameters = tools.points(piece, rng, 40)
        x_p = piece.apply(x, parameters)
        assert np.any([child.contains(x, x_p, parameters) for child in children], axis=0).all()
        a, b = rng.normal(size=(2, 30, piece.domain.size))
        whole = piece.support(a, b).value
        parts = np.max([child.support(a, b).value for child in children], axis=0)
        tolerance = piece.domain.size * noise(piece)
        assert (parts <= whole + tolerance).all()
        if piece.exact_support:
            assert parts == pytest.approx(whole, abs=tolerance)


def test_image_bounds_and_enclosures_hold_the_exact_image(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        low, high = piece.image_bounds()
        x, parameters = tools.points(piece, rng, 12)
        inner, outer = piece.enclosure(x, parameters)
        x_p = piece.apply(x, parameters)
        assert ((low <= x_p) & (x_p <= high)).all()
        for one, its, image, start, end in zip(x, parameters, x_p, inner, outer, strict=True):
            true_image = tools.image_of(piece, one, its)
            assert (
                (tools.fractions(low) <= true_image) & (true_image <= tools.fractions(high))
            ).all(), piece.label
            if piece.free_pixels is not None:
                # Any change within the limit is allowed, so the float image is exact as it is.
                assert (start == image).all()
                assert (end == image).all()
                before = tools.image_of(piece, one, 0 * its)
                assert (abs(tools.fractions(image) - before) <= Fraction(piece.limit)).all()
            else:
                assert (
                    (tools.fractions(start) <= true_image) & (true_image <= tools.fractions(end))
                ).all()


def test_rows_come_with_the_parameters(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        x, parameters = tools.points(piece, rng, 5)
        x_p = piece.apply(x, parameters)
        found = np.array([tools.rows_say(piece, *pair) for pair in zip(x, x_p, strict=True)])
        assert found.shape == parameters.shape
        if piece.exact_rows:  # up to what a solver tolerates
            room = 1e-6 * max(1.0, piece.domain.width) * max(1, len(piece.parameter_bounds[0]))
            assert piece.apply(x, found) == pytest.approx(x_p, abs=room), piece.label


def test_the_nearest_parameter_is_near(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        if piece.span is None:
            continue
        x, parameters = tools.points(piece, rng, 12)
        x_p = piece.apply(x, parameters)
        found = np.array([nearest_parameters(piece, *pair) for pair in zip(x, x_p, strict=True)])
        assert (piece.project(found) == found).all()
        ends = np.array([piece.apply(x, np.full((len(x), 1), end)) for end in piece.span])
        range_ = abs(ends - x_p).sum(axis=2).max(axis=0)
        assert (abs(piece.apply(x, found) - x_p).sum(axis=1) <= 0.05 * range_ + 1e-9).all()


def test_rows_admit_the_pairs_and_no_others(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        x, parameters = tools.points(piece, rng, 5)
        for one, image in zip(x, piece.apply(x, parameters), strict=True):
            assert tools.rows_admit(piece, one, image), piece.label
        for (one, image), outside_rows in tools.outsiders(piece, rng):
            assert not (outside_rows and tools.rows_admit(piece, one[0], image[0])), piece.label


def test_relaxations_admit_what_happens(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        x, parameters = tools.points(piece, rng, 5)
        for one, its, image in zip(x, parameters, piece.apply(x, parameters), strict=True):
            assert tools.relaxation_admits(piece, one, image), piece.label
            assert tools.stage_admits(piece, one, its, rng), piece.label
        if piece.convex:
            for (one, image), _ in tools.outsiders(piece, rng):
                assert not tools.relaxation_admits(piece, one[0], image[0]), piece.label


def test_pixels_change_only_where_and_as_stated(
    pieces: Pieces, rng: np.random.Generator, tools: Any
) -> None:
    for piece in pieces:
        rise, fall = piece.changes()
        x, parameters = tools.points(piece, rng, 40)
        for one, its in zip(x[:8], parameters, strict=False):
            change = tools.image_of(piece, one, its) - tools.fractions(one)
            assert not (change > 0)[~rise].any(), piece.label
            assert not (change < 0)[~fall].any(), piece.label
        if not piece.exact_support:
            continue
        # On the tight side: what is said to change does, where it changes most.
        each = np.eye(piece.domain.size)
        for mask, sign in ((rise, 1.0), (fall, -1.0)):
            most = piece.support(-sign * each, sign * each)
            change = piece.apply(most.x, most.parameters) - most.x
            assert (sign * change.diagonal() > 0)[mask].all(), piece.label
