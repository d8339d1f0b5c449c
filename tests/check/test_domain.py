"""Certificates over a domain: what they state, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, Problem, Result, verify
from vhagar.network import onnx_bytes
from vhagar.perturbation.decided_support import decided_support
from vhagar_check import Rejected, check
from vhagar_check.exact import Exact
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain as CheckedDomain

from ..perturbation.domain.test_domain import SHAPE, SIZE, TEXTS, boxed, sampled
from .editing import Certificate
from .test_verdict import network


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(network()))
    return path


@pytest.fixture(scope="module")
def proven(model: Path) -> tuple[Result, Path]:
    low = np.zeros((1, 4, 4))
    low[0, 1] = 0.25
    domain = Domain((1, 4, 4), low, 0.75 * np.ones((1, 4, 4)), name="dim")
    problem = Problem(str(model), perturbation="linf(0.1)", source=0, targets=1, domain=domain)
    path = model.with_name("proof.cert")
    return verify(problem, timeout=60, workers=0, relative_gap=0.1, certificate=path), path


def test_the_verdict_states_the_domain(proven: tuple[Result, Path], model: Path) -> None:
    result, path = proven
    assert result.lower > 0  # there is a witness to be checked
    verdict = check(path, model=model)
    assert verdict.upper == result.upper
    words = str(verdict)
    assert "narrows the\n  range of 16 of 16 entries" in words
    assert result.problem.domain.fingerprint in words
    assert "dim, which narrows the range of 16 of 16 entries" in result.summary()
    assert result.problem.domain.fingerprint in result.summary()
    assert "no input of the domain dim classified 0" in result.summary()


def test_the_bound_is_below_that_over_all_inputs(proven: tuple[Result, Path], model: Path) -> None:
    everywhere = Problem(str(model), perturbation="linf(0.1)", source=0, targets=1)
    found = verify(everywhere, timeout=60, workers=0, relative_gap=0.1)
    assert proven[0].upper < found.lower


def _wider(domain: dict) -> None:
    domain["upper"] = [1.0] * 16
    domain["lower"] = [0.0] * 16


def _narrower(domain: dict) -> None:
    domain["upper"] = [end - 0.5 for end in domain["upper"]]
    domain["lower"] = [0.0] * 16


def _empty(domain: dict) -> None:
    domain["lower"][3] = 0.8


def _beyond(domain: dict) -> None:
    domain["upper"][3] = 1.5


def _short(domain: dict) -> None:
    domain["upper"].pop()


def _unknown(domain: dict) -> None:
    domain["middle"] = 0.5


def _unordered(domain: dict) -> None:
    domain["upper"][3] = float("nan")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_wider, "is not proved"),
        (_narrower, "is not in the domain"),
        (_empty, "the domain is empty"),
        (_beyond, "leaves the input range"),
        (_short, "two ends for every entry"),
        (_unknown, "domain"),
        (_unordered, "."),
    ],
)
def test_an_altered_domain_is_refused(
    proven: tuple[Result, Path], model: Path, change: Callable, complaint: str, tmp_path: Path
) -> None:
    certificate = Certificate.read(proven[1])
    change(certificate.head["problem"]["domain"])
    certificate.write(tmp_path / "altered.cert")
    with pytest.raises(Rejected, match=complaint):
        check(tmp_path / "altered.cert", model=model)


def test_without_its_domain_a_certificate_is_refused(
    proven: tuple[Result, Path], model: Path, tmp_path: Path
) -> None:
    certificate = Certificate.read(proven[1])
    del certificate.head["problem"]["domain"]
    certificate.write(tmp_path / "altered.cert")
    with pytest.raises(Rejected, match="is not proved"):
        check(tmp_path / "altered.cert", model=model)


UNITS = np.eye(SIZE)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-0.7, 0.4)])
def test_supports_hold_all_pairs_and_are_no_larger_than_the_search_s(
    text: str, clip: bool, ends: tuple[float, float]
) -> None:
    from vhagar.perturbation import parse

    rng, domain = np.random.default_rng(5), boxed(7, *ends)
    stated = CheckedDomain(SHAPE, *ends, (domain.low, domain.high))
    searched = parse(text).pieces(domain, clip)
    own = pieces(text, stated, clip)
    for piece, theirs in zip(own, searched, strict=True):
        a, b = rng.normal(size=(2, 20, SIZE))
        found, searching = piece.support(a, b), theirs.support(a, b).value
        assert (sampled(theirs, a, b, rng) <= found).all()
        assert (found <= searching + 1e-9).all()
        for side, known, sign in zip(piece.image_box, theirs.image_box, (-1, 1), strict=True):
            if "rotation([" in text:  # whose weights the checker bounds by an argument of its own
                assert (sign * side <= sign * known + 1e-9).all()
                assert (sampled(theirs, 0.0 * UNITS, sign * UNITS, rng) <= sign * side).all()
            else:
                np.testing.assert_allclose(side, known, atol=1e-9)
        exact = piece.exact_within(Exact.of(a[0]), Exact.of(b[0]))
        if exact is not None:
            assert Fraction(float(sampled(theirs, a[:1], b[:1], rng)[0])) <= exact + Fraction(
                1, 10**12
            )


@pytest.mark.parametrize(
    "text", ["brightness([0.1,0.2])", "brightness([-0.3,-0.1])", "contrast([1.1,2])"]
)
def test_decided_sides_hold_the_pairs_on_them(text: str) -> None:
    from vhagar.perturbation import parse

    rng, domain = np.random.default_rng(5), boxed(7)
    (piece,) = pieces(text, CheckedDomain(SHAPE, 0.0, 1.0, (domain.low, domain.high)), True)
    (searched,) = parse(text).pieces(domain)
    corners, (low, high) = searched.pixel_corners(), searched.parameter_bounds
    for _ in range(60):
        a, b = rng.normal(size=(2, 1, SIZE))
        x = rng.uniform(domain.low, domain.high, (1, SIZE))
        e = rng.uniform(low, high, (1, 1))
        image = searched.apply(x, e)
        clipped = image[0] == corners.x_p[0]
        chosen = np.flatnonzero(rng.random(SIZE) < 0.7)
        sides = {int(k): 1 if clipped[k] else -1 for k in chosen}
        value = float((a * x + b * image).sum())
        assert value <= piece.decided(a, b, sides)[0]
        allowed = np.zeros((len(corners.x), SIZE))
        for k, side in sides.items():
            allowed[corners.side * side < 0, k] = -np.inf
        bound = decided_support(searched, a, b, allowed)[0]
        assert value <= bound
        assert piece.decided(a, b, sides)[0] <= bound + 1e-9


def test_the_maximum_over_a_span_may_lie_inside_of_it() -> None:
    box = np.array([0.8, 0.1]), np.array([0.8, 0.1])
    (piece,) = pieces("brightness([0,0.3])", CheckedDomain((2,), 0.0, 1.0, box), True)
    assert piece.support(np.zeros((1, 2)), np.array([[2.0, -1.0]]))[0] >= 2.0 - 0.3
