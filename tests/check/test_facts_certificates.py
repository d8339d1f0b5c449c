"""Certificates with facts about one image: true where they are proved, and no forgery is."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, UserPerturbation, verify
from vhagar.local import piece_search
from vhagar.local.box import Box
from vhagar.local.piece_search import PieceSearch
from vhagar.local.problem import LocalProblem
from vhagar.local.quadratic_proof import FactsProof, QuadraticBounds, are_possible
from vhagar.local.result import LocalResult, LocalVerdict
from vhagar.local.run import verify_local
from vhagar.network import Network, onnx_bytes, read_onnx, write_onnx
from vhagar.relaxation.proof import ProofKind
from vhagar_check import Rejected, check
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.image_facts import FactsProver

from ..networks import flat_network
from ..oracle.exact import exact_confidence_in
from ..oracle.local_cases import AnyCase, local_cases
from ..oracle.test_local import local_problem
from .test_one_image import a_larger_ball, another_image, more_than_proved
from .test_verdict import Change, forged


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", local_cases(metafunc, 8, 2), ids=str)


def facts_soon(patch: pytest.MonkeyPatch) -> None:
    """Facts are tried as soon as the ranges are tightened."""
    may = PieceSearch._is_time_for_facts

    def soon(search: PieceSearch, box: Box) -> bool:
        box.stuck |= box.search is not None and box.tightened and not box.needs_signs
        return may(search, box)

    patch.setattr(PieceSearch, "_is_time_for_facts", soon)


def model(seed: int) -> Network:
    return flat_network(np.random.default_rng(seed))


def certified(folder: Path, seed: int = 0, epsilon: float = 0.1) -> tuple[LocalResult, Path, Path]:
    """A question that needs facts, the certificate of its answer, and the model."""
    file, proof = folder / "model.onnx", folder / "proof.cert"
    file.write_bytes(onnx_bytes(model(seed)))
    problem = LocalProblem(read_onnx(file), perturbation=f"linf({epsilon})", image=np.full(12, 0.5))
    with pytest.MonkeyPatch.context() as patch:
        facts_soon(patch)
        result = verify_local(problem, certificate=proof)
    return result, proof, file


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalResult, Path, Path]:
    return certified(tmp_path_factory.mktemp("facts"))


def kinds_in(proof: Path) -> list[int]:
    found: list[int] = []
    with proof.open("rb") as file:
        for block in scan(proof):
            if block.tag == "PROF":
                about, data = split_json(unpack(file, block))
                found += data[4 * about["count"] : 5 * about["count"]]
    return found


def test_a_bound_by_facts_is_proved(proved: tuple[LocalResult, Path, Path]) -> None:
    result, proof, file = proved
    assert result.verdict is LocalVerdict.ROBUST
    assert ProofKind.FACTS in kinds_in(proof)
    verdict = check(proof, model=file)
    assert -result.lower <= verdict.upper < -0.99 * result.lower
    assert check(proof, model=file, workers=2).uppers == verdict.uppers


def test_each_target_has_its_own_facts(tmp_path: Path) -> None:
    result, proof, file = certified(tmp_path, 7, 0.3)
    assert kinds_in(proof).count(ProofKind.FACTS) == 2
    verdict = check(proof, model=file)
    assert -result.lower <= verdict.upper < -0.99 * result.lower
    assert max(verdict.uppers.values()) < 0


def written(problem: LocalProblem, folder: Path) -> tuple[Path, Path]:
    """The problem's model as a file, and where its certificate is to be."""
    file = folder / "model.onnx"
    write_onnx(problem.everywhere.network, file)
    return file, folder / "proof.cert"


def test_what_is_proved_is_true(case: AnyCase, tmp_path: Path) -> None:
    problem = local_problem(case)
    if problem is None:
        return
    file, proof = written(problem, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        facts_soon(patch)
        patch.setattr(piece_search, "_FEW_PARAMETERS", 0)
        result = verify_local(problem, timeout=20, certificate=proof)
    verdict = check(proof, model=file)
    for target in problem.everywhere.targets:
        truth = exact_confidence_in(problem.everywhere, target, problem.image)
        assert verdict.uppers[target] == np.inf or Fraction(verdict.uppers[target]) >= truth
    if ProofKind.FACTS in kinds_in(proof) and result.verdict is LocalVerdict.ROBUST:
        assert verdict.upper < 0


def facts_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Whatever closed a target, it is certified by facts, with the multipliers of some steps."""
    finish = PieceSearch._finish

    def with_facts(search: PieceSearch, box: Box) -> None:
        own = box.search
        if own is not None and are_possible(own.compact) and not box.decisions:
            bounds, steps = QuadraticBounds(own.compact), iter(range(10**6))
            for row, start in enumerate(box.start):
                bounds.bound(start, float(box.uppers[row]), lambda: next(steps) % 30 == 29)
                if bounds._search.last is not None:
                    box.facts[row] = FactsProof.of(own.compact, bounds._search.last)
        finish(search, box)

    patch.setattr(PieceSearch, "_finish", with_facts)


def claimed(uppers: dict[int, float]) -> Change:
    def change(_: Any, head: Any) -> None:
        head["witnesses"] = []
        ends = {str(target): {"lower": None, "upper": upper} for target, upper in uppers.items()}
        head["claims"]["targets"] = ends

    return change


def test_facts_prove_nothing_below_the_truth(case: AnyCase, tmp_path: Path) -> None:
    problem = local_problem(case)
    if problem is None:
        return
    file, proof = written(problem, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        facts_everywhere(patch)
        patch.setattr(piece_search, "_FEW_PARAMETERS", 0)
        verify_local(problem, timeout=20, certificate=proof)
    if ProofKind.FACTS not in kinds_in(proof):
        return
    exact = {
        target: exact_confidence_in(problem.everywhere, target, problem.image)
        for target in problem.everywhere.targets
    }
    for target, truth in exact.items():
        below = dict.fromkeys(exact, 1e9) | {target: float(truth - abs(truth) / 10**5)}
        with pytest.raises(Rejected):
            check(forged(proof, claimed(below)), model=file)


def certified_along_parameters(folder: Path) -> tuple[LocalResult, Path, Path]:
    """Versions with fewer parameters than entries, each of which moves all of them."""
    file, proof = folder / "model.onnx", folder / "proof.cert"
    file.write_bytes(onnx_bytes(model(0)))
    directions = np.random.default_rng(0).normal(size=(12, 11)) / 4
    moved = UserPerturbation(directions=directions, ranges=[(-0.14, 0.14)] * 11, name="mixed")
    problem = LocalProblem(read_onnx(file), perturbation=moved, image=np.full(12, 0.5), clip=False)
    with pytest.MonkeyPatch.context() as patch:
        facts_soon(patch)
        result = verify_local(problem, timeout=20, certificate=proof)
    return result, proof, file


def test_facts_move_along_parameters(tmp_path: Path) -> None:
    result, proof, file = certified_along_parameters(tmp_path)
    assert ProofKind.FACTS in kinds_in(proof)
    assert result.verdict is LocalVerdict.ROBUST
    assert check(proof, model=file).upper < 0


def head_alone(change: Callable[[Any], None]) -> Change:
    return lambda _, head: change(head)


def each_vector(edit: Callable[[np.ndarray], None]) -> Change:
    """Edit the numbers of every proof by facts."""

    def change(blocks: Any, head: Any) -> None:
        tried = 0
        for k, (tag, raw) in enumerate(blocks):
            if tag != "PROF":
                continue
            about, data = split_json(raw)
            count = about["count"]
            kinds, start = data[4 * count : 5 * count], raw[: len(raw) - len(data)]
            if count != 1 or kinds[0] != ProofKind.FACTS:
                continue
            numbers = np.frombuffer(data[5 * count :], "<f8").copy()
            edit(numbers)
            blocks[k] = tag, start + data[: 5 * count] + numbers.tobytes()
            tried += 1
        assert tried

    return change


def first(value: float) -> Change:
    return each_vector(lambda numbers: numbers.__setitem__(0, value))


def times(share: float) -> Change:
    """The multipliers of the moves are others."""
    return each_vector(lambda numbers: numbers[-14:-2].__imul__(share))


def without_alpha() -> Change:
    return each_vector(lambda numbers: numbers[-2:].__imul__(0.0))


def kinds(kind: int) -> Change:
    def change(blocks: Any, head: Any) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag == "PROF":
                about, data = split_json(raw)
                count = about["count"]
                start = raw[: len(raw) - len(data)] + data[: 4 * count]
                own = data[4 * count : 5 * count].replace(bytes([ProofKind.FACTS]), bytes([kind]))
                blocks[k] = tag, start + own + data[5 * count :]

    return change


def no_refinements(blocks: Any, head: Any) -> None:
    blocks[:] = [block for block in blocks if block[0] != "REFN"]


def all_on(blocks: Any, head: Any) -> None:
    """Neurons that are off are said to be on."""
    for k, (tag, raw) in enumerate(blocks):
        if tag == "REGN":
            _about, data = split_json(raw)
            blocks[k] = tag, raw[: len(raw) - len(data)] + data.replace(b"\x00", b"\x01")


def decided(blocks: Any, head: Any) -> None:
    """The region is about the versions that obey a decision, and has no other proofs."""
    own = bytes([ProofKind.FACTS])
    blocks[:] = [
        (tag, raw)
        for tag, raw in blocks
        if tag != "PROF" or split_json(raw)[1][4 : 4 + len(own)] == own
    ]
    for k, (tag, raw) in enumerate(blocks):
        if tag == "REGN":
            about, data = split_json(raw)
            about["decisions"] = [[0, 0, 1]]
            text = json.dumps(about).encode()
            blocks[k] = tag, len(text).to_bytes(4, "little") + text + data


FORGERIES: dict[str, tuple[Change, str]] = {
    "a smaller claim": (head_alone(more_than_proved), "not proved"),
    "another image": (head_alone(another_image), "not proved"),
    "a larger ball": (head_alone(a_larger_ball), "another part of a piece"),
    "a negative multiplier": (first(-1e-3), "negative multiplier"),
    "a multiplier that is no number": (first(float("nan")), "negative multiplier"),
    "a multiplier that is infinite": (first(float("inf")), "negative multiplier"),
    "a huge multiplier": (first(1e6), "not proved"),
    "a multiplier beyond all measure": (first(1e40), "not proved"),
    "other multipliers": (times(0.2), "not proved"),
    "no multipliers of the moves": (times(0.0), "not proved"),
    "no alpha": (without_alpha(), "not proved"),
    "taken for a proof by multipliers": (kinds(ProofKind.MULTIPLIERS), "wrong length"),
    "taken for differences": (kinds(ProofKind.QUADRATIC), "unknown kind"),
    "of an unknown kind": (kinds(10), "unknown kind"),
    "without refinements": (no_refinements, "not proved"),
    "neurons off said to be on": (all_on, "not proved"),
    "in a region with decisions": (decided, "some versions alone"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(proved: tuple[LocalResult, Path, Path], name: str) -> None:
    _, proof, file = proved
    change, why = FORGERIES[name]
    with pytest.raises(Rejected, match=why):
        check(forged(proof, change), model=file)


def test_pairs_have_no_such_proofs(tmp_path: Path) -> None:
    file, proof = tmp_path / "model.onnx", tmp_path / "proof.cert"
    file.write_bytes(onnx_bytes(model(0)))
    problem = Problem(read_onnx(file), perturbation="linf(0.01)", source=0, targets=1)
    verify(problem, workers=0, timeout=2, certificate=proof)
    check(proof, model=file)

    def by_facts(blocks: Any, head: Any) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag == "PROF":
                about, data = split_json(raw)
                count = about["count"]
                start = raw[: len(raw) - len(data)] + data[: 4 * count]
                blocks[k] = tag, start + bytes([ProofKind.FACTS]) * count

    with pytest.raises(Rejected, match="unknown kind"):
        check(forged(proof, by_facts), model=file)


def test_a_region_is_traced_once_for_all_targets(
    proved: tuple[LocalResult, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, proof, file = proved
    many, traced = kinds_in(proof).count(ProofKind.FACTS), []
    rows = FactsProver._neuron_rows

    def noting(prover: FactsProver) -> Any:
        traced.append(prover)
        return rows(prover)

    monkeypatch.setattr(FactsProver, "_neuron_rows", noting)
    check(proof, model=file, workers=1)
    assert 0 < len(traced) <= many
