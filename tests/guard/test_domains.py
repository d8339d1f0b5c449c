"""A guard made from bounds over a domain calls only inputs of that domain robust."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import vhagar
from vhagar import Domain, Guard, InvalidInput, Problem, Result, Zonotope, linear_rows
from vhagar.cli.main import main
from vhagar.guard.check import check_guard
from vhagar.guard.membership import PROPOSAL
from vhagar.guard.onnx_file import KEY, metadata
from vhagar.relaxation.rounding import FLOAT32
from vhagar.result import Witness, WitnessCheck
from vhagar.sweep.gate import shown_perturbations

from .conftest import SHAPE, domain_of, small_network
from .forms import FORMS, Form, Run


@pytest.fixture(scope="module")
def dim(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Result]]:
    """Bounds over a domain with every kind of condition, with certificates."""
    folder = tmp_path_factory.mktemp("domain")
    model = folder / "small.onnx"
    vhagar.write_onnx(small_network(), model)
    network = vhagar.read_onnx(model)
    domain = domain_of(
        lower=[0.0, 0.0, 0.1, 0.0],
        upper=[1.0, 0.5, 1.0, 0.9],
        ordered=[[0, 2]],
        rows=linear_rows([1.0, 1.0, 0.0, 1.0], 4, at_most=1.75),
        zonotope=Zonotope(np.full(4, 0.5), [[0.5, 0.1, 0.4, 0.2]], [0.8], np.full(4, 0.4)),
        name="dim",
    )
    results = [
        vhagar.verify(
            Problem(network, perturbation="linf(0.05)", source=source, domain=domain),
            workers=0,
            timeout=30,
            certificate=folder / f"{source}.cert",
        )
        for source in range(3)
    ]
    return model, results


@pytest.fixture(scope="module")
def attackable(dim: tuple[Path, list[Result]]) -> np.ndarray:
    """Inputs of float32 numbers, half of them in the domain."""
    domain = dim[1][0].problem.domain
    x = np.random.default_rng(8).random((3000, 4)).astype(np.float32)
    inside = domain.contains(x.astype(np.float64))
    kept = np.concatenate([np.flatnonzero(inside)[:150], np.flatnonzero(~inside)[:150]])
    return x[kept]


@pytest.mark.parametrize("form", FORMS)
def test_nothing_robust_is_broken_inside_the_domain(
    form: Form, dim: tuple[Path, list[Result]], attackable: np.ndarray, tmp_path: Path
) -> None:
    guard = vhagar.guard(dim[1])
    domain = dim[1][0].problem.domain
    run: Run = form(guard, tmp_path)
    _, label, confidence, robust = run(attackable.reshape(-1, *SHAPE))
    inside = domain.contains(attackable.astype(np.float64))
    assert not robust[~inside].any()
    above = confidence > guard.thresholds(FLOAT32)[label, 0]
    assert above[~inside].sum() > 10  # only the domain keeps them out
    assert robust[inside, 0].sum() > 10
    rng = np.random.default_rng(5)
    for row in np.flatnonzero(robust[:, 0])[:40]:
        problem = dim[1][int(label[row])].problem
        check, (low, high) = WitnessCheck(problem), problem.pieces[0].parameter_bounds
        for _ in range(4):
            choice = np.where(rng.random(low.shape) < 0.5, low, high)
            for target in problem.targets:
                x = attackable[row].astype(np.float64)
                assert not isinstance(check(target, x, 0, choice), Witness)


def test_a_guard_over_a_domain_is_proved_again(
    dim: tuple[Path, list[Result]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, results = dim
    file = tmp_path / "guard.onnx"
    made = vhagar.guard(results)
    made.save(file)
    stated = metadata(file.read_bytes())
    fingerprint = results[0].problem.domain.fingerprint
    assert stated["perturbations"][0]["name"] == "linf(0.05) over dim"
    assert stated["perturbations"][0]["domain"] == fingerprint
    assert stated["domains"][fingerprint]["name"] == "dim"
    assert [bound["domain"] for bound in stated["bounds"]] == [fingerprint] * 3
    command = ["guard", "--check", str(file), "--model", str(model)]
    assert main([*command, "--certificates", str(model.parent)]) == 0
    said = capsys.readouterr().out
    assert "PROVED by 3 certificates" in said
    assert f"only inputs of the domain dim, SHA-256 {fingerprint}" in said
    assert "the name dim is not proved" in said
    assert "a zonotope of 1 components" in said
    assert "1 linear row" in said
    proofs = [model.parent / f"{source}.cert" for source in range(3)]
    again = vhagar.guard(proofs, network=model)
    assert again.protections[0].uppers == made.protections[0].uppers
    assert again.protections[0].domain == made.protections[0].domain


def _changed(file: Path, model: Path, domain: Domain | None, folder: Path) -> tuple[str, ...]:
    """What is said about a guard of the same certificates, consistent in itself, over another."""
    network = vhagar.read_onnx(model)
    found = check_guard(file, network, [folder]).guard.bounds
    Guard(network, tuple(replace(b, domain=domain) for b in found)).save(file)
    return check_guard(file, network, [folder]).problems


def test_a_wider_domain_is_not_proved(dim: tuple[Path, list[Result]], tmp_path: Path) -> None:
    model, results = dim
    domain, file = results[0].problem.domain, tmp_path / "guard.onnx"
    wider = domain.high.copy()
    wider[1] = np.nextafter(wider[1], 1)
    for other in (None, domain.box, domain.with_box(domain.low.copy(), wider)):
        vhagar.guard(results).save(file)
        problems = _changed(file, model, other, model.parent)
        assert len(problems) == 3
        assert all("proves something else" in problem for problem in problems)


def test_a_graph_that_decides_less_is_noticed(
    dim: tuple[Path, list[Result]], tmp_path: Path
) -> None:
    model, results = dim
    file = tmp_path / "guard.onnx"
    vhagar.guard(results).save(file)
    network, content = vhagar.read_onnx(model), file.read_bytes()
    names = [t.name for t in onnx.load(file).graph.initializer if "domain0" in t.name]
    assert len(names) > 8
    for name in names:
        changed = onnx.load_model_from_string(content)
        (tensor,) = (t for t in changed.graph.initializer if t.name == name)
        values = onnx.numpy_helper.to_array(tensor)
        moved = np.where(np.isinf(values), 0, values + 1).astype(values.dtype)
        tensor.CopyFrom(onnx.numpy_helper.from_array(moved, name))
        file.write_bytes(changed.SerializeToString())
        problems = check_guard(file, network).problems
        noticed = "the file's graph is not what follows from its bounds" in problems
        # Whatever proposes coordinates, the comparison after it decides.
        assert noticed != name.endswith(PROPOSAL), name


@pytest.mark.parametrize("proposal", [0.0, 1e308, np.nan, np.inf])
def test_a_bad_proposal_of_coordinates_proves_nothing_wrong(
    proposal: float, dim: tuple[Path, list[Result]], attackable: np.ndarray, tmp_path: Path
) -> None:
    from onnxruntime import InferenceSession

    file = tmp_path / "guard.onnx"
    vhagar.guard(dim[1]).save(file)
    changed = onnx.load(file)
    (tensor,) = (t for t in changed.graph.initializer if t.name.endswith(PROPOSAL))
    values = np.full_like(onnx.numpy_helper.to_array(tensor), proposal)
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    session = InferenceSession(changed.SerializeToString(), providers=["CPUExecutionProvider"])
    robust = session.run(["robust"], {"image": attackable.reshape(-1, *SHAPE)})[0][:, 0]
    domain = dim[1][0].problem.domain
    assert not robust[~domain.contains(attackable.astype(np.float64))].any()


def test_damaged_domains_are_refused_in_words(
    dim: tuple[Path, list[Result]], tmp_path: Path
) -> None:
    model, results = dim
    file = tmp_path / "guard.onnx"
    vhagar.guard(results).save(file)
    network, content = vhagar.read_onnx(model), file.read_bytes()
    stated = metadata(content)
    (own,) = stated["domains"].values()
    places = [(stated, "domains"), *((own, name) for name in own), (stated["bounds"][0], "domain")]
    for holder, name in places:
        kept = holder[name]
        for value in (None, "dim\nPROVED", 99, [[1]], float("nan"), {"a": 3}):
            holder[name] = value
            changed = onnx.load_model_from_string(content)
            onnx.helper.set_model_props(changed, {KEY: json.dumps(stated)})
            file.write_bytes(changed.SerializeToString())
            try:
                problems = check_guard(file, network).problems
            except InvalidInput:
                continue
            # Beside the missing certificates, which are not looked at here.
            assert len(problems) > 3, (name, value)
        holder[name] = kept


def test_bounds_over_all_inputs_count_over_a_domain_and_not_the_other_way(
    dim: tuple[Path, list[Result]],
) -> None:
    model, results = dim
    network = vhagar.read_onnx(model)
    problem = Problem(network, perturbation="linf(0.05)", source=0)
    everywhere = vhagar.verify(problem, workers=0, timeout=30)
    made = vhagar.guard(everywhere, *results[1:])
    assert [each.label for each in made.protections] == ["linf(0.05)", "linf(0.05) over dim"]
    assert made.protections[0].missing == ((), (0, 2), (0, 1))
    assert made.protections[1].missing == ((), (), ())
    assert made.protections[1].uppers[0] == everywhere.upper
    x = np.random.default_rng(2).random((400, 4))
    answer = made(x)
    inside = results[0].problem.domain.contains(x)
    assert set(answer.label[answer.robust[:, 0]]) == {0}
    assert answer.robust[~inside, 0].any()
    assert not answer.robust[~inside, 1].any()
    assert set(answer.label[answer.robust[:, 1]]) > {0}


def test_rounding_is_that_of_the_domain(dim: tuple[Path, list[Result]]) -> None:
    results = dim[1]
    made = vhagar.guard(results)
    domain = results[0].problem.domain
    assert (made.rounding(FLOAT32, domain) < made.rounding(FLOAT32)).all()
    least = np.array(made.protections[0].uppers) + made.rounding(FLOAT32, domain)
    assert (made.thresholds(FLOAT32)[:, 0] > least).all()


@pytest.mark.subprocess
def test_from_a_store_over_a_domain(tmp_path: Path) -> None:
    """A study of a table: names of features, whole numbers, and certificates."""
    model, file = tmp_path / "small.onnx", tmp_path / "table.toml"
    vhagar.write_onnx(small_network(), model)
    file.write_text(
        'range = [0, 4]\nupper = [4, 1, 1, 1]\nfeatures = ["age", "a", "b", "dose"]\n'
        'integer = ["age"]\none_hot = [["a", "b"]]\n'
    )
    with vhagar.sweep(
        networks=[model],
        perturbations=["features([dose],[0.02])"],
        domain=str(file),
        targets="any",
        timeout=20,
        jobs=1,
        store=tmp_path / "s.db",
        certificates=tmp_path / "proofs",
    ) as store:
        made = vhagar.guard(store)
        assert shown_perturbations(store) == {
            ("features([3],[0.02])", "table"): "features([dose],0.02)"
        }
    assert [each.label for each in made.protections] == ["features([dose],0.02) over table"]
    assert made.protections[0].missing == ((), (), ())
    made.save(tmp_path / "guard.onnx")
    found = check_guard(tmp_path / "guard.onnx", vhagar.read_onnx(model), [tmp_path / "proofs"])
    assert (found.proved, found.problems) == (3, ())
    x = np.array([[k, 1, 0, 0.5] for k in (0, 1, 2, 3, 4)], dtype=np.float32)
    answer = made(x)
    assert answer.robust.any()
    assert not made(x + np.float32([0.5, 0, 0, 0])).robust.any()
