"""Domains: boxes of inputs, supports over them, and their files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain, parse
from vhagar.perturbation.domain.file import read_domain

SHAPE = (1, 3, 4)
SIZE = 12
TEXTS = (
    "linf(0.3)",
    "patch([0,0.25],1,2,2)",
    "occlusion(2,2,2)",
    "translation(1,-1)",
    "rotation(30)",
    "rotation([10,20])",
    "brightness([0,0.3])",
    "brightness([-0.3,-0.1])",
    "brightness([0.1,0.1])",
    "contrast([1,2])",
    "contrast([0.5,1])",
    "contrast([1.5,1.5])",
    "occlusion(1,1,2)+linf(0.2)",
    "translation(1,0)+brightness([0,0.2])",
)


def boxed(seed: int, lower: float = 0.0, upper: float = 1.0) -> Domain:
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.uniform(lower, upper, (2, SIZE)), axis=0)
    ends[:, 3] = ends[0, 3]
    ends[0, 5], ends[1, 6], ends[:, 7] = lower, upper, (lower, upper)
    return Domain(SHAPE, *ends, range=(lower, upper))


def sampled(piece, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The largest `a.x + b.x_p` among random pairs, with kinks and ends among the pixels."""
    domain, (low, high) = piece.domain, piece.parameter_bounds
    best = np.full(len(a), -np.inf)
    for _ in range(60):
        e = rng.uniform(low, high, (len(a), len(low)))
        e = np.where(rng.random(e.shape) < 0.7, np.where(rng.random(e.shape) < 0.5, low, high), e)
        x = rng.uniform(domain.low, domain.high, a.shape)
        ends = domain.farthest(a + rng.choice([0.0, 1.0]) * b)
        x = np.where(rng.random(x.shape) < 0.8, ends, x)
        best = np.maximum(best, (a * x + b * piece.apply(x, e)).sum(axis=1))
    return best


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-0.7, 0.4)])
def test_no_pair_in_the_box_exceeds_the_support(
    text: str, clip: bool, ends: tuple[float, float]
) -> None:
    rng, domain = np.random.default_rng(5), boxed(7, *ends)
    for piece in parse(text).pieces(domain, clip):
        a, b = rng.normal(size=(2, 40, SIZE))
        found = piece.support(a, b)
        assert (sampled(piece, a, b, rng) <= found.value).all()
        assert domain.contains(found.x).all()
        attained = (a * found.x + b * piece.apply(found.x, found.parameters)).sum(axis=1)
        assert (attained <= found.value).all()


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_the_support_over_a_box_is_at_most_that_over_the_range(text: str, clip: bool) -> None:
    rng, domain = np.random.default_rng(5), boxed(7)
    pairs = zip(
        parse(text).pieces(domain, clip), parse(text).pieces(domain.range_only, clip), strict=True
    )
    for piece, whole in pairs:
        a, b = rng.normal(size=(2, 40, SIZE))
        inside, everywhere = piece.support(a, b).value, whole.support(a, b).value
        assert (inside <= everywhere).all()
        assert inside.mean() < everywhere.mean() - 0.5


@pytest.mark.parametrize("text", ["brightness([0.1,0.1])", "contrast([1.5,1.5])", "linf(0.3)"])
def test_supports_of_independent_pixels_are_exact(text: str) -> None:
    rng, domain = np.random.default_rng(5), boxed(7)
    (piece,) = parse(text).pieces(domain)
    (low, high), (a, b) = piece.parameter_bounds, rng.normal(size=(2, 40, SIZE))
    best = np.full(a.shape, -np.inf)
    # Kinks of all three are at these values, or at an end.
    for value in (-1.0, 2.0, 0.3, 0.7, 0.9, 2 / 3):
        x = domain.project(np.full(a.shape, value))
        for e in (low, np.zeros(len(low)) if "linf" in text else low, high):
            image = piece.apply(x, np.tile(e, (len(a), 1)))
            best = np.maximum(best, a * x + b * image)
    np.testing.assert_allclose(piece.support(a, b).value, best.sum(axis=1), rtol=1e-9)


def test_the_maximum_over_a_span_may_lie_inside_of_it() -> None:
    """One pixel brightens until it is clipped, at 0.2, and the other costs more from then on."""
    domain = Domain((2,), [0.8, 0.1], [0.8, 0.1], range=(0.0, 1.0))
    (piece,) = parse("brightness([0,0.3])").pieces(domain)
    found = piece.support(np.zeros((1, 2)), np.array([[2.0, -1.0]]))
    assert found.value[0] >= 2.0 - 0.3


@pytest.mark.parametrize("text", TEXTS)
def test_images_lie_in_the_image_box(text: str) -> None:
    rng, domain = np.random.default_rng(5), boxed(7)
    for piece in parse(text).pieces(domain):
        low, high = piece.image_box
        least, most = piece.image_bounds()
        assert ((low >= least) & (high <= most)).all()
        x = rng.uniform(domain.low, domain.high, (200, SIZE))
        ends = piece.parameter_bounds
        images = piece.apply(x, rng.uniform(*ends, (200, len(ends[0]))))
        assert ((images >= low) & (images <= high)).all()


def test_numbers_alone_are_the_range() -> None:
    domain = Domain(SHAPE, -1, 2)
    assert domain.whole
    assert domain.fingerprint is None
    assert (domain.lower, domain.upper) == (-1.0, 2.0)
    assert domain == Domain(SHAPE, -1.0, 2.0)
    assert hash(domain) == hash(Domain(SHAPE, -1.0, 2.0))


def test_ends_may_be_numbers_channels_or_arrays() -> None:
    colour = (3, 2, 2)
    domain = Domain(colour, 0.25, [0.5, 0.75, 1.0], range=(0.0, 1.0))
    assert domain.low.tolist() == [0.25] * 12
    assert domain.high.tolist() == [0.5] * 4 + [0.75] * 4 + [1.0] * 4
    same = Domain(colour, np.full(colour, 0.25), domain.high.reshape(colour))
    assert same == domain
    assert same != domain.range_only
    assert (domain.lower, domain.upper) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("lower", "upper", "span", "complaint"),
    [
        ([0.5, 0.2], [0.4, 0.3], None, "the domain is empty: .* entry 0"),
        ([0.0, 0.2], [1.0, 2.0], None, "leaves the input range .* entry 1 .* --input-range"),
        ([0.0, np.nan], [1.0, 1.0], None, "not finite"),
        ([0.0], [1.0, 1.0], None, "has shape"),
        ("a", 1.0, (0.0, 1.0), "not made of numbers"),
        ("a", 1.0, None, "not made of numbers"),
        (0.5, 0.25, None, "needs lower < upper"),
    ],
)
def test_what_is_no_domain_is_refused(lower, upper, span, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Domain((2,), lower, upper, range=span)


@pytest.mark.parametrize("shape", [784, 784.0, "784", None, (1, -2), (2.5,), (0,)])
def test_what_is_no_shape_is_refused(shape) -> None:
    with pytest.raises(InvalidInput, match=r"a tuple of sizes, such as .*\(784,\), not "):
        Domain(shape)


def test_a_file_has_numbers_lists_or_arrays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "twos.toml"
    np.savez(tmp_path / "twos.npz", top=np.array([0.5, 1.0]))
    path.write_text('lower = [0.25, 0]\nupper = "twos.npz:top"\n')
    domain = read_domain(path, (2,))
    assert domain.name == "twos"
    assert domain == Domain((2,), [0.25, 0.0], [0.5, 1.0])
    path.write_text('range = [0, 255]\nlower = 20\nname = "dim"\n')
    assert read_domain(path, (2,)) == Domain((2,), [20, 20], [255, 255], range=(0, 255))
    assert str(read_domain(path, (2,))) == "dim"
    path.write_text("upper = 3\n")
    assert read_domain(path, (2,), (0.0, 8.0)).high.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("lower = [", "not a TOML file"),
        ("below = 1", "unknown entries: below"),
        ("range = 3", "two numbers"),
        ("range = [0, 2]", "leave out one of them"),
        ('lower = "x.npy"', "FILE.npz:NAME"),
        ('lower = "none.npz:x"', "cannot read lower"),
        ('lower = "own.npz:y"', "no array 'y'"),
        ("lower = [1, 0]\nupper = [0, 1]", "the domain is empty"),
        ("name = 3", "line of text"),
        ("features = 3", "must be a list of names, not 3"),
        ("classes = 0.5", "must be a list of names, not 0.5"),
        ("classes = {a = 1}", "must be a list of names"),
        ("lower = [[0, [1]], 2]", "not made of numbers"),
        ("lower = " + 5000 * "[" + 5000 * "]", "not a TOML file"),
        ("lower = " + 400 * "9", "not made of numbers"),
        ("fixed = {0 = " + 400 * "9" + "}", "too large"),
        ("range = [0, " + 400 * "9" + "]", "too large"),
        ('lower = "own.npz:z"', "of type complex128"),
        ('lower = "empty.npz:x"', "cannot read lower"),
        ('lower = "huge.npz:x"', "cannot read lower"),
    ],
)
def test_a_file_that_is_no_domain_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    np.savez(tmp_path / "own.npz", x=np.zeros(2), z=np.zeros(2, dtype=np.complex128))
    (tmp_path / "empty.npz").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        stated = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000000,), }\n"
        head = b"\x93NUMPY\x01\x00" + len(stated).to_bytes(2, "little") + stated.encode()
        archive.writestr("x.npy", head)
    path = tmp_path / "own.toml"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=complaint):
        read_domain(path, (2,), (0.0, 1.0))


def test_data_in_place_of_a_domain_are_told_what_makes_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((5, 2)))
    with pytest.raises(InvalidInput, match="not a TOML file; `vhagar domain fit` makes one"):
        read_domain(tmp_path / "data.npz", (2,))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.toml"):
        read_domain(tmp_path / "nowhere.toml", (2,))
