"""The checker's perturbations against the verifier's, and against their own exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain as TheirDomain
from vhagar.perturbation import parse
from vhagar.perturbation.decided_support import decided_support
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.moved import identity
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, part_of
from vhagar_check.pixelwise import Pixelwise

from ..marks import mostly_slow

SHAPE = (2, 4, 5)
TEXTS = (
    "linf(0.25)",
    "linf(1)",
    "patch([0,0.5],[1,2],3,[1,2])",
    "occlusion([1,3],2,[1,2])",
    "translation([-1,2],[-2,1])",
    "brightness([0.1,0.3])",
    "brightness([-0.3,0.2])",
    "contrast([0.5,0.75])",
    "contrast([0.5,2])",
    "contrast(1.5)",
    "rotation(30)",
    "rotation(180)",
    "rotation([-5,8])",
    "rotation([80,100])",
    "occlusion(2,2,2)+linf(0.25)",
    "translation([0,1],-1)+linf(1)",
    "translation(1,-1)+brightness([-0.1,0.2])",
    "occlusion(1,2,2)+brightness([0,0.5])",
    "rotation(30)+brightness([0.1,0.2])",
    "rotation(180)+linf(0.5)",
)
CASES = [(text, clip) for text in TEXTS for clip in (True, False)]
RANGES = [(0.0, 1.0), (-1.0, 2.5)]


def _both(text: str, clip: bool, ends: tuple[float, float]):
    ours = pieces(text, Domain(SHAPE, *ends), clip)
    theirs = parse(text).pieces(TheirDomain(SHAPE, *ends), clip)
    assert len(ours) == len(theirs)
    return zip(ours, theirs, strict=True)


def require_no_looser(text: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """The same support, or a smaller one over a span of angles, whose weights the checker bounds by
    an argument of its own."""
    if "rotation([" not in text:
        assert ours == pytest.approx(theirs, abs=1e-10)
        return
    assert (ours <= theirs + 1e-10).all()
    assert ours == pytest.approx(theirs, rel=0.02, abs=0.05)


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize(("text", "clip"), CASES)
def test_supports_agree(text: str, clip: bool, ends: tuple[float, float]) -> None:
    rng = np.random.default_rng(7)
    for ours, theirs in _both(text, clip, ends):
        a, b = rng.normal(size=(2, 20, 40))
        a[:5], b[5:8] = 0.0, 0.0
        a[8:12] = -b[8:12]
        require_no_looser(text, ours.support(a, b), theirs.support(a, b).value)
        low, high = theirs.image_bounds()
        assert ours.image[0] == pytest.approx(low, abs=1e-11)
        assert ours.image[1] == pytest.approx(high, abs=1e-11)
        assert ours.ratio == theirs.ratio
        for mine, his in zip((ours.rises, ours.falls), theirs.changes(), strict=True):
            assert (mine == his).all()


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize(("text", "clip"), mostly_slow(CASES, 3))
def test_no_pair_exceeds_the_support(text: str, clip: bool, ends: tuple[float, float]) -> None:
    rng = np.random.default_rng(8)
    for ours, theirs in _both(text, clip, ends):
        a, b = rng.normal(size=(2, 8, 40))
        upper = ours.support(a, b)
        low, high = theirs.parameter_bounds
        for _ in range(6):
            x = np.where(rng.random(40) < 0.7, rng.choice(ends, 40), rng.uniform(*ends, 40))
            parameters = np.where(rng.random(len(low)) < 0.6, low, rng.uniform(low, high))
            image = ours.exact_image(Exact.of(x).fractions(), parameters.tolist())
            if image is None:
                image = [Fraction(float(v)) for v in theirs.apply(x[None], parameters[None])[0]]
            assert [float(v) for v in image] == pytest.approx(
                theirs.apply(x[None], parameters[None])[0], abs=1e-12
            )
            for k in range(len(a)):
                pairs = zip(Exact.of(a[k]).fractions(), Exact.of(x).fractions(), strict=True)
                value = sum(u * v for u, v in pairs)
                value += sum(u * v for u, v in zip(Exact.of(b[k]).fractions(), image, strict=True))
                assert value <= Fraction(float(upper[k])), (text, clip, k)


@pytest.mark.parametrize(("text", "clip"), CASES)
def test_the_support_is_the_exact_one_rounded_up(text: str, clip: bool) -> None:
    rng = np.random.default_rng(9)
    for ours in pieces(text, Domain(SHAPE, -0.5, 1.25), clip):
        a, b = rng.normal(size=(2, 3, 40))
        for k in range(3):
            exact = ours.exact_support(Exact.of(a[k]), Exact.of(b[k]))
            if exact is None:
                assert text.startswith("rotation")
                assert "180" not in text
                continue
            (upper,) = ours.support(a[[k]], b[[k]])
            assert exact <= Fraction(float(upper)) <= exact + Fraction(1, 10**9)


@pytest.mark.parametrize(
    "text", ["brightness([0.1,0.3])", "brightness([-0.4,-0.1])", "contrast([1.25,2])"]
)
def test_decided_pixels_keep_what_they_allow(text: str) -> None:
    rng = np.random.default_rng(10)
    ((ours, theirs),) = _both(text, True, (0.0, 1.0))
    assert isinstance(ours, Pixelwise)
    a, b = rng.normal(size=(2, 1, 40))
    sides = {3: 1, 7: -1, 8: 1, 20: -1}
    upper = ours.decided(a, b, sides)[0]
    assert upper <= ours.support(a, b)[0]
    best = -np.inf
    for _ in range(4000):
        e = rng.uniform(*ours.span) if rng.random() < 0.3 else rng.choice(ours.span)
        x = rng.choice([0.0, 1.0], 40)
        raw = x + e if "bright" in text else e * x
        turn = (1 - e if e > 0 else -e) if "bright" in text else 1 / e
        for pixel, side in sides.items():
            clipped = raw[pixel] >= 1 if (e > 0) else raw[pixel] <= 0
            if clipped != (side == 1):
                x[pixel] = turn
        image = np.clip(x + e if "bright" in text else e * x, 0, 1)
        best = max(best, float(a[0] @ x + b[0] @ image))
    assert best <= upper + 1e-9
    allowed = np.zeros((len(ours.clip_corners), 40))
    for pixel, side in sides.items():
        for k, (_, part) in enumerate(ours.clip_corners):
            allowed[k, pixel] = -np.inf if part * side < 0 else 0.0
    assert upper == pytest.approx(decided_support(theirs, a, b, allowed)[0], abs=1e-10)


@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 1, 2), (1, 2, 2), (2, 1, 3), (1, 1, 1)])
@pytest.mark.parametrize("text", ["rotation([-180,-170])", "rotation([-5,8])", "rotation([40,50])"])
def test_tiny_images_are_turned_though_all_pixels_may_turn_black(
    text: str, shape: tuple[int, ...]
) -> None:
    ours = pieces(text, Domain(shape, 0.0, 1.0), True)
    theirs = parse(text).pieces(TheirDomain(shape, 0.0, 1.0), True)
    a, b = np.random.default_rng(12).normal(size=(2, 20, int(np.prod(shape))))
    for mine, other in zip(ours, theirs, strict=True):
        require_no_looser(text, mine.support(a, b), other.support(a, b).value)


def test_what_is_known_better_than_its_weights() -> None:
    """An irrational turn under a change; a turn that moves whole pixels is exact."""
    for text, known in (
        ("rotation(30)", True),
        ("rotation(90)", False),
        ("translation(1,1)", False),
    ):
        (piece,) = pieces(f"{text}+brightness([0,0.5])", Domain((1, 3, 3), 0.0, 1.0), False)
        assert (piece.first is not None) == (piece.error > 0) == known


def test_parts_of_a_span() -> None:
    (whole,) = pieces("brightness([0.1,0.5])", Domain(SHAPE, 0.0, 1.0), False)
    assert part_of(whole, (0.1, 0.5)) is whole
    assert part_of(whole, (0.2, 0.3)).span == (0.2, 0.3)
    for wrong in ((0.0, 0.3), (0.2, 0.6), (0.3, 0.2), (0.2, 0.2)):
        with pytest.raises(Rejected):
            part_of(whole, wrong)
    with pytest.raises(Rejected, match="without a parameter"):
        part_of(identity(whole.domain), (0.1, 0.2))


@pytest.mark.parametrize(
    "text",
    [
        "blur(3)",
        "linf(0.1",
        "linf(0.1,0.2)",
        "linf(nan)",
        "linf(0.1[)",
        "linf(0.1,)",
        "linf(-0.1)",
        "linf([0.1,0.2])",
        "linf([0.1,0.1])",
        "linf(1.5)",
        "patch(1.5,1,1,1)",
        "patch(0.5,1,1,[0,1])",
        "translation(5,0)",
        "translation(0,[-6,0])",
        "contrast(2e6)",
        "contrast([1e-7,1])",
        "patch([0.1,0.5],1,1,1)",
        "occlusion(1,1,9)",
        "occlusion(0,1,1)",
        "occlusion(1.5,1,1)",
        "brightness([0.3,0.1])",
        "brightness([0,1.5])",
        "contrast([0,1])",
        "translation([-1e9,1e9],[0,1e9])",
        "rotation([10,400])",
        "linf(0.1)+linf(0.1)",
        "occlusion(1,1,1)+contrast(2)",
        "occlusion(1,1,1)+linf(0.1)+linf(0.1)",
        "occlusion(1,1,1)+brightness([0,2])",
        "rotation([10,20])+linf(0.1)",
        "affine(1)",
        "affine(" + 64 * "0" + ")",
        "",
        "linf(1e999)",
    ],
)
def test_what_is_no_perturbation_is_refused(text: str) -> None:
    with pytest.raises(Rejected):
        pieces(text, Domain(SHAPE, 0.0, 1.0), True)


_ENDS = (-361, -360, -9, -4, -1, 0, 1e-7, 1e-6, 0.1, 1, 1.5, 2, 3, 4, 5, 9, 360, 361, 1e6, 2e6)
_ARGUMENTS = {
    "linf": 1,
    "patch": 4,
    "occlusion": 3,
    "translation": 2,
    "brightness": 1,
    "contrast": 1,
    "rotation": 1,
}


def _any_text(rng: np.random.Generator) -> str:
    name = str(rng.choice(list(_ARGUMENTS)))
    ends = [sorted(rng.choice(_ENDS, 2).tolist()) for _ in range(_ARGUMENTS[name])]
    said = [f"[{low:g},{high:g}]" if rng.random() < 0.5 else f"{low:g}" for low, high in ends]
    return f"{name}({','.join(said)})" + ("+" + _any_text(rng) if rng.random() < 0.2 else "")


def test_the_checker_reads_exactly_what_may_be_asked() -> None:
    rng = np.random.default_rng(11)
    both = 0
    for _ in range(600):
        text, clip = _any_text(rng), bool(rng.random() < 0.5)
        ends = RANGES[rng.integers(2)]
        shape = [(1, 3, 4), (4, 3), (5,)][rng.integers(3)]
        try:
            asked = len(parse(text).pieces(TheirDomain(shape, *ends), clip))
        except InvalidInput:
            with pytest.raises(Rejected):
                pieces(text, Domain(shape, *ends), clip)
            continue
        assert len(pieces(text, Domain(shape, *ends), clip)) == asked, text
        both += 1
    assert both > 40


def test_the_corners_of_clipped_contrast_are_measured_from_black() -> None:
    (piece,) = pieces("contrast([1.25,2])", Domain((2,), -1.0, 1.0), True)
    assert isinstance(piece, Pixelwise)
    parts = dict(piece.clip_corners)
    turn = Fraction(3, 5)
    assert parts == {(0, 1): 0, (turn, 1): 0, (-1, -1): -1, (1, 1): 1}


@pytest.mark.parametrize("text", ["linf(\u0660.1)", "patch([0,0.1],\uff11,1,1)", "linf(0.\u0660)"])
def test_digits_of_other_scripts_are_none(text: str) -> None:
    """They would be repeated in the verdict, where a reader takes them for something else."""
    with pytest.raises(Rejected, match="cannot read"):
        pieces(text, Domain((1, 4, 4), 0.0, 1.0), True)
    with pytest.raises(InvalidInput):
        parse(text)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (100.0, 101.0)])
@pytest.mark.parametrize("narrowed", [False, True], ids=["range", "domain"])
def test_the_kink_of_a_large_contrast_is_white(ends: tuple[float, float], narrowed: bool) -> None:
    """Computed from the rounded kink, its image would be darker by the factor times the error."""
    rng = np.random.default_rng(5)
    low, high = ends
    top = high - 0.25 * (high - low)
    box = (np.array([low]), np.array([top])) if narrowed else None
    a, b = np.array([[-1e-4]]), np.array([[1.0]])
    for factor in np.exp(rng.uniform(np.log(1e3), np.log(1e6), 40)):
        (piece,) = pieces(f"contrast({factor})", Domain((1,), low, high, box), True)
        kink = Fraction(low) + (Fraction(high) - Fraction(low)) / Fraction(factor)
        exact = Fraction(a[0, 0]) * kink + Fraction(high)
        assert Fraction(float(piece.support(a, b)[0])) >= exact
        assert piece.support(a, b)[0] <= float(exact) + 1e-9
