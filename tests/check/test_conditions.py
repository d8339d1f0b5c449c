"""Certificates over a domain with conditions: what they state, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, Problem, Result, Status, Zonotope, linear_rows, verify
from vhagar.network import onnx_bytes
from vhagar.perturbation import parse
from vhagar.perturbation.domain.plain import plain_domain
from vhagar_check import Rejected, check
from vhagar_check.conditions import read_conditions
from vhagar_check.exact import Exact
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain as CheckedDomain

from ..perturbation.domain.test_constrained_domain import points_of, random_domain
from .editing import AT, KIND, Certificate
from .test_verdict import network

PIXELS, ENTRY = 16, 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(network()))
    return path


def conditioned() -> Domain:
    components = np.zeros((1, PIXELS))
    components[0, 8:12] = 0.5
    return Domain(
        (1, 4, 4),
        integer=[0],
        one_hot=[[1, 2, 3]],
        ordered=[[4, 5]],
        rows=[linear_rows({6: 1.0, 7: 1.0}, PIXELS, at_most=0.75)],
        zonotope=Zonotope(np.full(PIXELS, 0.5), components, 0.5, 0.5),
        name="mixed",
    )


@pytest.fixture(scope="module")
def proven(model: Path) -> tuple[Result, Path]:
    problem = Problem(
        str(model), perturbation="linf(0.1)", source=0, targets=1, domain=conditioned()
    )
    path = model.with_name("proof.cert")
    return verify(problem, relative_gap=0.5, workers=0, certificate=path), path


def test_the_verdict_states_the_conditions(proven: tuple[Result, Path], model: Path) -> None:
    result, path = proven
    assert result.lower > 0  # there is a witness to be checked
    words = str(check(path, model=model))
    assert result.problem.domain.fingerprint in words
    for part in (
        "entry 0 is a whole number",
        "one of the entries 1, 2, 3 is 1",
        "the entries 4, 5 do not descend",
        "1 linear rows hold",
        "a zonotope of 1 components",
    ):
        assert part in words
    assert "was not proved" not in words  # the witness is such an input
    assert "mixed" in result.summary()


def test_without_a_witness_the_verdict_does_not_say_that_there_are_inputs(
    proven: tuple[Result, Path], model: Path, tmp_path: Path
) -> None:
    certificate = Certificate.read(proven[1])
    certificate.head["claims"] |= {"lower": 0.0}
    certificate.head["claims"]["targets"]["1"] |= {"lower": 0.0}
    certificate.head["witnesses"] = []
    path = tmp_path / "proof.cert"
    certificate.write(path)
    words = " ".join(str(check(path, model=model)).split())
    assert "Whether any input satisfies all of this was not proved" in words


def _narrower_row(domain: dict) -> None:
    domain["rows"][0]["at_most"] = 0.0
    domain["rows"][0]["at_least"] = -1.0
    domain["rows"].append({"entries": [8], "weights": [1.0], "at_least": None, "at_most": 0.01})


def _all_whole(domain: dict) -> None:
    domain["integer"] = list(range(PIXELS))


def _only_fractions(domain: dict) -> None:
    _all_whole(domain)
    domain["rows"].append({"entries": [8], "weights": [2.0], "at_least": 1.0, "at_most": 1.0})


def _unknown_entry(domain: dict) -> None:
    domain["integer"] = [PIXELS]


def _twice(domain: dict) -> None:
    domain["one_hot"] = [[1, 1]]


def _empty_row(domain: dict) -> None:
    domain["rows"][0]["at_least"] = 2.0


def _no_numbers(domain: dict) -> None:
    domain["rows"][0]["weights"] = [float("nan"), 1.0]


def _unknown(domain: dict) -> None:
    domain["even"] = [3]


def _smaller_zonotope(domain: dict) -> None:
    domain["zonotope"]["ranges"] = [0.0]
    domain["zonotope"]["residual"] = [1e-9] * PIXELS


def _negative(domain: dict) -> None:
    domain["zonotope"]["residual"][3] = -0.1


def _must_be_inside(domain: dict) -> None:
    domain["perturbed_inside"] = True


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_narrower_row, "is not in the domain"),
        (_all_whole, "is not in the domain"),
        (_only_fractions, "the domain is empty"),
        (_smaller_zonotope, "is not in the domain"),
        (_must_be_inside, "perturbed input of the witness"),
        (_unknown_entry, "names an entry"),
        (_twice, "names an entry"),
        (_empty_row, "no value between its ends"),
        (_no_numbers, "."),
        (_unknown, "domain"),
        (_negative, "negative range"),
    ],
)
def test_altered_conditions_are_refused(
    proven: tuple[Result, Path], model: Path, change: Callable, complaint: str, tmp_path: Path
) -> None:
    certificate = Certificate.read(proven[1])
    change(certificate.head["problem"]["domain"])
    certificate.write(tmp_path / "altered.cert")
    with pytest.raises(Rejected, match=complaint):
        check(tmp_path / "altered.cert", model=model)


def test_coordinates_that_prove_nothing_are_refused(
    proven: tuple[Result, Path], model: Path, tmp_path: Path
) -> None:
    for coordinates in ([9.0], [], None):
        certificate = Certificate.read(proven[1])
        certificate.head["witnesses"][0]["coordinates"] = coordinates
        certificate.write(tmp_path / "altered.cert")
        with pytest.raises(Rejected, match="is not in the domain"):
            check(tmp_path / "altered.cert", model=model)


@pytest.mark.slow
def test_without_its_rows_a_bound_is_not_proved(model: Path, tmp_path: Path) -> None:
    """The sum of all pixels is small, and no bound over all images is."""
    rows = [linear_rows(np.ones(PIXELS), PIXELS, at_most=2.0)]
    domain = Domain((1, 4, 4), rows=rows)
    problem = Problem(str(model), perturbation="linf(0.1)", source=0, targets=1, domain=domain)
    path = tmp_path / "proof.cert"
    result = verify(problem, relative_gap=0.2, workers=0, certificate=path)
    assert check(path, model=model).upper == result.upper
    everywhere = Problem(str(model), perturbation="linf(0.1)", source=0, targets=1)
    assert result.upper < verify(everywhere, relative_gap=0.5, workers=0).lower
    certificate = Certificate.read(path)
    certificate.head["problem"]["domain"].pop("rows")
    certificate.write(tmp_path / "altered.cert")
    with pytest.raises(Rejected, match="is not proved"):
        check(tmp_path / "altered.cert", model=model)


def whole_numbers() -> Domain:
    groups = {"integer": [0, 5, 6], "one_hot": [[1, 2, 3]]}
    return Domain((1, 4, 4), 0, 3, fixed=dict.fromkeys(range(8, 16), 0.5), name="whole", **groups)


@pytest.fixture(scope="module")
def split_by_entries(model: Path) -> tuple[Result, Path]:
    """A closed interval whose proof splits whole numbers."""
    given = {"perturbation": "linf(0.1)", "source": 0, "targets": 1, "domain": whole_numbers()}
    path = model.with_name("split.cert")
    options = {"timeout": 60, "relative_gap": 0.5, "workers": 0}
    return verify(Problem(str(model), **given), certificate=path, **options), path


def test_splits_by_entries_are_proved(split_by_entries: tuple[Result, Path], model: Path) -> None:
    result, path = split_by_entries
    assert result.status is Status.CLOSED
    certificate = Certificate.read(path)
    assert any(node[KIND] == ENTRY for node in certificate.nodes)
    assert any("entries" in region.about for region in certificate.regions)
    assert check(path, model=model).upper == result.upper


def _of_another_entry(certificate: Certificate) -> None:
    certificate.head["problem"]["domain"]["integer"] = [0]
    certificate.head["problem"]["domain"].pop("one_hot")


def _between(certificate: Certificate) -> None:
    for node in certificate.nodes:
        node[AT] += 0.5 * (node[KIND] == ENTRY)


def _elsewhere(certificate: Certificate) -> None:
    for node in certificate.nodes:
        node[AT] += float(node[KIND] == ENTRY)


def _smaller_part(certificate: Certificate) -> None:
    region = next(r for r in certificate.regions if "entries" in r.about)
    region.about["entries"][0][2] = region.about["entries"][0][1]
    region.about["entries"][0][1] -= 1


def _without_its_part(certificate: Certificate) -> None:
    for region in certificate.regions:
        region.about.pop("entries", None)


def _unknown_part(certificate: Certificate) -> None:
    region = next(r for r in certificate.regions if "entries" in r.about)
    region.about["entries"].append([PIXELS, 0.0, 1.0])


def _part_twice(certificate: Certificate) -> None:
    region = next(r for r in certificate.regions if "entries" in r.about)
    region.about["entries"].append(region.about["entries"][0])


def _endless_part(certificate: Certificate) -> None:
    region = next(r for r in certificate.regions if "entries" in r.about)
    region.about["entries"][0][2] = float("inf")


def _as_empty(certificate: Certificate) -> None:
    region = next(r for r in certificate.regions if "entries" in r.about)
    for _, proofs in region.proofs:
        for proof in proofs:
            proof.kind, proof.numbers = 3, np.zeros(0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_of_another_entry, "need not be a whole number"),
        (_between, "value that is not a whole number"),
        (_elsewhere, "another part of the domain"),
        (_smaller_part, "another part of the domain"),
        (_without_its_part, "another part of the domain"),
        (_unknown_part, "narrows an entry that there is not"),
        (_part_twice, "one twice"),
        (_endless_part, "not finite|not a number|JSON"),
        (_as_empty, "is not proved"),
    ],
)
def test_forged_splits_by_entries_are_refused(
    split_by_entries: tuple[Result, Path],
    model: Path,
    change: Callable[[Certificate], None],
    complaint: str,
    tmp_path: Path,
) -> None:
    certificate = Certificate.read(split_by_entries[1])
    change(certificate)
    certificate.write(tmp_path / "forged.cert")
    with pytest.raises(Rejected, match=complaint):
        check(tmp_path / "forged.cert", model=model)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("text", "clip"),
    [
        ("linf(0.3)", False),
        ("brightness([0.1,0.1])", False),
        ("contrast([0.5,0.8])", False),
        ("brightness([0.1,0.4])", True),
        ("brightness([0,0.4])", True),
        ("contrast([1.2,2])", True),
    ],
)
def test_supports_hold_all_pairs_and_are_no_larger_than_the_search_s(
    text: str, clip: bool, seed: int
) -> None:
    domain, rng = random_domain(seed), np.random.default_rng(seed)
    plain = {k: v for k, v in plain_domain(domain).items() if k not in ("name", "sha256")}
    conditions = read_conditions(plain, domain.size)
    assert conditions is not None
    box = domain.low, domain.high
    stated = CheckedDomain(domain.shape, domain.lower, domain.upper, box, conditions)
    x = points_of(domain, rng)
    a, b = rng.normal(size=(2, 20, domain.size))
    for piece, theirs in zip(
        pieces(text, stated, clip), parse(text).pieces(domain, clip), strict=True
    ):
        low, high = theirs.parameter_bounds
        e = rng.uniform(low, high, (len(x), len(low)))
        values = a @ x.T + b @ theirs.apply(x, e).T
        found = piece.support(a, b)
        assert (values.max(axis=1) <= found).all()
        assert (found <= theirs.support(a, b).value + 1e-9).all()
        exact = piece.exact_within(Exact.of(a[0]), Exact.of(b[0]))
        assert exact is None or Fraction(float(values[0].max())) <= exact + Fraction(1, 10**12)


@pytest.mark.parametrize("seed", range(4))
def test_points_of_a_domain_do_not_exceed_the_support_of_its_conditions(seed: int) -> None:
    domain, rng = random_domain(seed), np.random.default_rng(seed)
    plain = {k: v for k, v in plain_domain(domain).items() if k not in ("name", "sha256")}
    conditions = read_conditions(plain, domain.size)
    assert conditions is not None
    x, s = points_of(domain, rng), rng.normal(size=(60, domain.size))
    found = conditions.support((domain.low, domain.high), s)
    assert ((s @ x.T).max(axis=1) <= found).all()
    np.testing.assert_allclose(np.fmin(found, domain.box.support(s)), domain.support(s), atol=1e-9)
    for row, value in zip(s[:5], found[:5], strict=True):
        exact = conditions.exact_support((domain.low, domain.high), Exact.of(row).fractions())
        assert exact is not None
        assert Fraction(float((x @ row).max())) <= exact + Fraction(1, 10**12)
        assert float(exact) <= value


def test_only_what_satisfies_a_condition_belongs_to_it() -> None:
    half = [Fraction(1, 2)] * 4
    whole = read_conditions({"integer": [1]}, 4)
    assert whole is not None
    assert not whole.contains(half, None)
    assert whole.contains([*half[:1], Fraction(1), *half[2:]], None)
    hot = read_conditions({"one_hot": [[0, 1]]}, 4)
    assert hot is not None
    assert not hot.contains([Fraction(2), Fraction(-1), *half[2:]], None)
    assert hot.contains([Fraction(0), Fraction(1), *half[2:]], None)
    order = read_conditions({"ordered": [[0, 1]]}, 4)
    assert order is not None
    assert not order.contains([Fraction(1), *half[1:]], None)
    given = {"mean": [0.5] * 4, "components": [[1.0, 0, 0, 0]], "ranges": [0.25]}
    own = read_conditions({"zonotope": {**given, "residual": [0.125] * 4}}, 4)
    assert own is not None
    assert own.contains(half, [0.0])
    assert own.contains([Fraction(7, 8), *half[1:]], [0.25])
    assert not own.contains([Fraction(7, 8), *half[1:]], [0.5])
    assert not own.contains([Fraction(7, 8), *half[1:]], [0.0])
    assert not own.contains([Fraction(1, 8), *half[1:]], [0.0])
    assert read_conditions({"lower": [], "upper": []}, 4) is None
