"""Certificates about one image: the checker against the exact oracle, and against forgeries."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar.local.branching import VersionSearch
from vhagar.local.piece_search import PieceSearch
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalVerdict
from vhagar.local.run import verify_local
from vhagar.network import Network, read_onnx, write_onnx
from vhagar.result.certificate import Container, with_json
from vhagar_check import Rejected, check
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.moved import TurnedBetween
from vhagar_check.one_image import AtImage, Entry, OneImage, at_image, split_box
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import brightness_piece
from vhagar_check.regions import Regions
from vhagar_check.statement import Statement
from vhagar_check.tree import RECORD, Root, Tree

from ..local.test_local import image, network
from ..oracle.exact import exact_confidence_in
from ..oracle.local_cases import AnyCase, local_cases
from ..oracle.test_local import local_problem


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", local_cases(metafunc, 8, 2), ids=str)


def test_what_is_proved_is_true(case: AnyCase, tmp_path: Path) -> None:
    problem = local_problem(case)
    if problem is None:
        return
    model, proof = tmp_path / "model.onnx", tmp_path / "proof.cert"
    write_onnx(problem.everywhere.network, model)
    result = verify_local(problem, timeout=20, certificate=proof)
    verdict = check(proof, model=model)
    assert verdict.image is not None
    for target in problem.everywhere.targets:
        truth = exact_confidence_in(problem.everywhere, target, problem.image)
        assert verdict.uppers[target] == np.inf or Fraction(verdict.uppers[target]) >= truth
        assert verdict.lowers[target] == -np.inf or Fraction(verdict.lowers[target]) <= truth
    if result.verdict is LocalVerdict.BROKEN:
        assert verdict.lower >= 0
        assert "not robust" in str(verdict)
    if result.verdict is LocalVerdict.ROBUST and result.lower > 1e-6 * abs(result.upper):
        assert verdict.upper < 0
        assert "is robust against these classes" in str(verdict)


def written(seed: int, path: Path) -> Network:
    """A network as its file has it, in float32."""
    write_onnx(network(seed), path)
    return read_onnx(path)


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model and a certificate of a robust image that needs a tree."""
    folder = tmp_path_factory.mktemp("one_image")
    net, x = written(3, folder / "model.onnx"), image(3)
    for limit in (0.3, 0.25, 0.2, 0.15, 0.1, 0.05):
        problem = LocalProblem(net, perturbation=f"linf({limit})", image=x)
        result = verify_local(problem, certificate=folder / "proof.cert")
        if result.verdict is LocalVerdict.ROBUST:
            break
    check(folder / "proof.cert", model=folder / "model.onnx")
    return folder / "model.onnx", folder / "proof.cert"


def forged(source: Path, target: Path, change: Callable[[Any], None]) -> None:
    """The certificate with its header changed, and consistent in all else."""
    blocks = scan(source)
    with source.open("rb") as file, target.open("wb") as out:
        container = Container(out)
        for block in blocks:
            raw = unpack(file, block)
            if block.tag == "HEAD":
                head = json.loads(raw)
                change(head)
                raw = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
            if block.tag.strip() != "END":
                container.block(block.tag.encode().ljust(4), raw)
        container.end()


def another_image(head: Any) -> None:
    head["problem"]["image"] = [0.5 * value for value in head["problem"]["image"]]


def a_larger_ball(head: Any) -> None:
    head["problem"]["perturbation"] = "linf(0.9)"


def more_than_proved(head: Any) -> None:
    ends = next(iter(head["claims"]["targets"].values()))
    ends["upper"] = 1.1 * ends["upper"]


def a_target_without_claim(head: Any) -> None:
    head["claims"]["targets"].popitem()


def a_lower_bound_without_witness(head: Any) -> None:
    next(iter(head["claims"]["targets"].values()))["lower"] = -100.0


def an_image_outside(head: Any) -> None:
    head["problem"]["image"][0] = 1.5


def another_source(head: Any) -> None:
    problem, claims = head["problem"], head["claims"]["targets"]
    old, new = problem["source"], problem["targets"][0]
    problem["source"], problem["targets"] = new, [old, *problem["targets"][1:]]
    claims[str(old)] = claims.pop(str(new))
    for tree in head["trees"]:
        tree["target"] = old if tree["target"] == new else tree["target"]


def no_image_at_all(head: Any) -> None:
    del head["problem"]["image"]


@pytest.fixture(scope="module")
def proved_by_signs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate whose parts decide signs, because the search within a box is stuck at once."""
    folder = tmp_path_factory.mktemp("signs")
    model, proof = folder / "model.onnx", folder / "signs.cert"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VersionSearch, "step", lambda search: False)
        patch.setattr(PieceSearch, "_is_time_for_facts", lambda search, box: False)
        for seed, limit in itertools.product(range(3, 9), np.linspace(0.4, 0.02, 39)):
            text = f"linf({limit:.2f})"
            problem = LocalProblem(written(seed, model), perturbation=text, image=image(seed))
            result = verify_local(problem, timeout=5, certificate=proof)
            if result.verdict is LocalVerdict.ROBUST and any(map(decided, regions_of(proof))):
                return model, proof
    raise AssertionError("no image needs decisions")


def decided(about: dict[str, Any]) -> bool:
    return bool(about.get("decisions"))


def regions_of(proof: Path) -> list[dict[str, Any]]:
    with proof.open("rb") as file:
        return [split_json(unpack(file, b))[0] for b in scan(proof) if b.tag == "REGN"]


def test_regions_with_decisions_are_proved(proved_by_signs: tuple[Path, Path]) -> None:
    model, proof = proved_by_signs
    assert check(proof, model=model).upper < 0


def test_the_bounds_of_a_region_with_decisions_hold_where_they_are_obeyed(
    proved_by_signs: tuple[Path, Path],
) -> None:
    model, proof = proved_by_signs
    net, statement = read_onnx(model), Statement(proof, model, scan(proof))
    low, high = statement.form.pieces[0].inputs
    points = np.random.default_rng(0).uniform(low, high, (4000, len(low)))
    values = [own.reshape(len(points), -1) for own in net.preactivations(points)[0]]
    seen = 0
    with proof.open("rb") as file:
        for block in scan(proof):
            if block.tag != "REGN" or not decided(split_json(unpack(file, block))[0]):
                continue
            region = Regions(statement.form).read(unpack(file, block))
            steps = split_json(unpack(file, block))[0]["decisions"]
            obeys = np.ones(len(points), dtype=bool)
            for layer, neuron, positive in steps:
                obeys &= (values[layer][:, neuron] > 0) == bool(positive)
            for hexagons, own in zip(region.bounds.hexagons, values, strict=True):
                assert (hexagons.low <= own[obeys]).all()
                assert (own[obeys] <= hexagons.high).all()
            seen += int(obeys.sum())
    assert seen > 100


@pytest.mark.parametrize(
    "change",
    [
        lambda steps: [[layer, neuron, 1 - positive] for layer, neuron, positive in steps],
        lambda steps: [*steps, steps[0]],
        lambda steps: [[layer, neuron + 1000, positive] for layer, neuron, positive in steps],
        lambda steps: [[layer, neuron, 0.5] for layer, neuron, positive in steps],
        lambda steps: [[-1, neuron, positive] for layer, neuron, positive in steps],
        lambda steps: [*steps, [steps[0][0], 1 - min(steps[0][1], 1), 1]],
        lambda steps: {},
    ],
    ids=["other signs", "twice", "no neuron", "no sign", "no layer", "more", "no list"],
)
def test_forged_decisions_are_refused(
    proved_by_signs: tuple[Path, Path], tmp_path: Path, change: Callable[[Any], Any]
) -> None:
    model, proof = proved_by_signs
    target = tmp_path / "forged.cert"
    with proof.open("rb") as file, target.open("wb") as out:
        container = Container(out)
        for block in scan(proof):
            raw = unpack(file, block)
            if block.tag == "REGN" and decided(split_json(raw)[0]):
                about, data = split_json(raw)
                raw = with_json({**about, "decisions": change(about["decisions"])}, data)
            if block.tag.strip() != "END":
                container.block(block.tag.encode().ljust(4), raw)
        container.end()
    with pytest.raises(Rejected):
        check(target, model=model)


def a_missing_tree(head: Any) -> None:
    head["trees"].pop()
    head["nodes"] -= 1


@pytest.mark.parametrize(
    "change",
    [
        another_image,
        a_larger_ball,
        more_than_proved,
        a_target_without_claim,
        a_lower_bound_without_witness,
        an_image_outside,
        another_source,
        no_image_at_all,
        a_missing_tree,
    ],
)
def test_forgeries_are_refused(
    proved: tuple[Path, Path], tmp_path: Path, change: Callable[[Any], None]
) -> None:
    model, proof = proved
    forged(proof, tmp_path / "forged.cert", change)
    with pytest.raises(Rejected):
        check(tmp_path / "forged.cert", model=model)
    forged(proof, tmp_path / "same.cert", lambda head: None)
    check(tmp_path / "same.cert", model=model)


def test_proofs_about_all_inputs_say_nothing_about_one_image(
    proved: tuple[Path, Path], tmp_path: Path
) -> None:
    model, proof = proved
    with proof.open("rb") as file, (tmp_path / "forged.cert").open("wb") as out:
        container = Container(out)
        for block in scan(proof):
            tag = b"SPEC" if block.tag == "REGN" else block.tag.encode().ljust(4)
            if block.tag.strip() not in ("END", "REFN"):
                container.block(tag, unpack(file, block))
        container.end()
    with pytest.raises(Rejected, match="says nothing about one image"):
        check(tmp_path / "forged.cert", model=model)


def test_a_witness_is_of_the_image(tmp_path: Path) -> None:
    net, x = written(1, tmp_path / "model.onnx"), image(1)
    problem = LocalProblem(net, perturbation="linf(0.6)", image=x)
    result = verify_local(problem, certificate=tmp_path / "proof.cert")
    assert result.verdict is LocalVerdict.BROKEN
    assert check(tmp_path / "proof.cert", model=tmp_path / "model.onnx").lower >= 0

    def another(head: Any) -> None:
        head["witnesses"][0]["x"][0] += 0.125

    def surer(head: Any) -> None:
        target = str(head["witnesses"][0]["target"])
        head["claims"]["targets"][target]["lower"] += 1e-3

    def further(head: Any) -> None:
        head["problem"]["perturbation"] = "linf(0.001)"

    def nearby(head: Any) -> None:
        head["problem"]["image"][0] += 2.0**-30

    def of_another_class(head: Any) -> None:
        problem, (witness,) = head["problem"], head["witnesses"]
        real = problem["source"]
        (other,) = {0, 1, 2} - {real, witness["target"]}
        problem["source"], problem["targets"] = other, [real, witness["target"]]
        nothing = {"lower": None, "upper": None}
        claim = {"lower": 0.0, "upper": None}
        head["claims"]["targets"] = {str(real): nothing, str(witness["target"]): claim}
        head["trees"], head["nodes"] = [], 0

    for change in (another, surer, further, nearby, of_another_class):
        forged(tmp_path / "proof.cert", tmp_path / "forged.cert", change)
        with pytest.raises(Rejected):
            check(tmp_path / "forged.cert", model=tmp_path / "model.onnx")


@pytest.mark.parametrize("clip", [True, False])
def test_a_box_holds_all_versions_of_its_parameters(clip: bool) -> None:
    rng = np.random.default_rng(1)
    domain = Domain((5,), 0.0, 1.0)
    for count in (1, 2, 3):
        entries = [
            Entry(
                Fraction(float(rng.uniform())),
                {k: Fraction(float(rng.normal())) for k in range(count)},
            )
            for _ in range(5)
        ]
        made = AtImage(domain, entries, ((-1.0,) * count, (1.0,) * count), clip)
        for _ in range(10):
            ends = np.sort(rng.uniform(-1, 1, (2, count)), axis=0)
            box = tuple(map(tuple, ends.tolist()))
            versions = OneImage(made, box)
            e = rng.uniform(*ends, (200, count))
            start = np.array([float(entry.start) for entry in entries])
            slopes = np.array([[float(s) for s in entry.slopes.values()] for entry in entries])
            images = start + e @ slopes.T
            images = np.clip(images, 0, 1) if clip else images
            rows = rng.normal(size=(30, 5))
            assert (versions.support(rows, 0 * rows)[:, None] >= rows @ images.T).all()
            low, high = versions.image
            assert ((low <= images) & (images <= high)).all()


def test_boxes_split_inside_their_range_only() -> None:
    box = ((0.0, 1.0), (1.0, 3.0))
    assert split_box(box, 1, 2.0, upper=False) == ((0.0, 1.0), (1.0, 2.0))
    assert split_box(box, 1, 2.0, upper=True) == ((0.0, 2.0), (1.0, 3.0))
    for parameter, at in ((1, 1.0), (1, 3.0), (0, 2.0), (2, 0.5)):
        with pytest.raises(Rejected):
            split_box(box, parameter, at, upper=True)


def test_regions_of_other_parameters_are_refused() -> None:
    domain = Domain((1, 2, 2), 0.0, 1.0)
    piece = brightness_piece(domain, (0.0, 0.5), True)
    made = at_image(piece, np.full(4, 0.25), True)
    versions = OneImage(made, made.whole)
    assert versions.with_span(((0.1,), (0.2,))).span == ((0.1,), (0.2,))
    for span in (((0.1,), (0.6,)), ((-0.1,), (0.2,)), ((0.3,), (0.2,)), ((), ())):
        with pytest.raises(Rejected):
            versions.with_span(span)
    with pytest.raises(Rejected, match="range of angles"):
        at_image(TurnedBetween(domain, (0.0, 5.0)), np.full(4, 0.25), True)


def test_children_must_be_split_alike(tmp_path: Path) -> None:
    """A split of a parameter that one child has elsewhere covers less than its parent."""
    net, x = written(2, tmp_path / "model.onnx"), image(2)
    domain = Domain((1, 3, 4), 0.0, 1.0)
    made = at_image(brightness_piece(domain, (0.0, 0.5), True), x, True)
    problem = LocalProblem(net, perturbation="brightness([0,0.5])", image=x)
    verify_local(problem, certificate=tmp_path / "proof.cert")
    check(tmp_path / "proof.cert", model=tmp_path / "model.onnx")
    root, piece = Root(0, 0), OneImage(made, made.whole)
    statement = Statement(
        tmp_path / "proof.cert", tmp_path / "model.onnx", scan(tmp_path / "proof.cert")
    )
    good = np.array([(0, 1, 0, 0, 0, 0, 0, 0.25), (0, 1, 0, 1, 0, 0, 0, 0.25)], dtype=RECORD)
    tree = Tree([root], good, statement.network, [piece])
    assert tree.case(1)[1] == ((0.0,), (0.25,))
    assert tree.case(2)[1] == ((0.25,), (0.5,))
    for name, value in (("at", 0.375), ("neuron", 1)):
        bad = good.copy()
        bad[name][1] = value
        with pytest.raises(Rejected, match="not the two sides"):
            Tree([root], bad, statement.network, [piece])
