"""`vhagar guard`: files in, a guard out, and the guard proved again from its certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import vhagar
from vhagar import InvalidInput, Result
from vhagar.cli.main import main
from vhagar.guard.check import check_guard
from vhagar.guard.onnx_file import KEY, metadata

from .conftest import small_network


@pytest.fixture
def saved(results: list[Result], tmp_path: Path) -> Path:
    vhagar.guard(results).save(tmp_path / "guard.onnx")
    return tmp_path / "guard.onnx"


def _checked(saved: Path, model: Path) -> tuple[int, tuple[str, ...]]:
    found = check_guard(saved, vhagar.read_onnx(model), [model.parent])
    return found.proved, found.problems


def test_what_was_proved_is_proved_again(saved: Path, model: Path) -> None:
    assert _checked(saved, model) == (6, ())


def test_the_metadata_names_model_bounds_and_certificates(
    saved: Path, model: Path, results: list[Result]
) -> None:
    stated = metadata(saved.read_bytes())
    file = results[0].problem.network.file
    assert file is not None
    assert stated["model"] == {"file": "small.onnx", "sha256": file.sha256}
    assert [each["name"] for each in stated["perturbations"]] == ["linf(0.05)", "occlusion(1,1,1)"]
    assert stated["perturbations"][0]["uppers"] == [result.upper for result in results[:3]]
    assert len(stated["bounds"]) == 6
    assert stated["bounds"][1]["certificate"]["file"] == "linf(0.05)-1.cert"
    assert "robust above" in onnx.load(saved).doc_string


def test_a_smaller_threshold_is_noticed(saved: Path, model: Path) -> None:
    changed = onnx.load(saved)
    (tensor,) = (t for t in changed.graph.initializer if t.name == "guard_thresholds")
    values = numpy_helper.to_array(tensor)
    smaller = np.nextafter(values, np.float32(-np.inf))
    tensor.CopyFrom(numpy_helper.from_array(smaller, "guard_thresholds"))
    onnx.save(changed, saved)
    proved, problems = _checked(saved, model)
    assert proved == 6
    assert problems == ("the file's graph is not what follows from its bounds",)


def test_a_bound_that_is_not_proved_is_noticed(saved: Path, model: Path) -> None:
    """Even where thresholds follow from the smaller bound."""
    stated = metadata(saved.read_bytes())
    from vhagar.guard.bounds import Bound
    from vhagar.guard.guard import Guard

    weakest = max(stated["bounds"], key=lambda bound: max(bound["uppers"]))
    uppers = weakest["uppers"]
    uppers[uppers.index(max(uppers))] *= 0.99
    bounds = tuple(map(Bound.from_plain, stated["bounds"]))
    Guard(vhagar.read_onnx(model), bounds).save(saved)
    proved, problems = _checked(saved, model)
    assert proved == 5
    assert f"class {weakest['source']} under {weakest['name']}" in problems[0]
    assert "proves something else" in problems[0]


@pytest.mark.parametrize(
    ("field", "value"), [("source", 1), ("clip", False), ("perturbation", "linf(0.06)")]
)
def test_a_certificate_about_something_else_is_noticed(
    saved: Path, model: Path, field: str, value: object
) -> None:
    from vhagar.guard.bounds import Bound
    from vhagar.guard.guard import Guard

    stated = metadata(saved.read_bytes())
    stated["bounds"][0][field] = value
    bounds = tuple(map(Bound.from_plain, stated["bounds"]))
    Guard(vhagar.read_onnx(model), bounds).save(saved)
    proved, problems = _checked(saved, model)
    assert (proved, len(problems)) == (5, 1)


@pytest.mark.parametrize(
    "options", [{"mean": 0.5, "std": 0.25}, {"argmin": True}], ids=["normalised", "argmin"]
)
def test_a_certificate_of_the_same_file_read_in_another_way_is_refused(
    options: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    """Another normalisation, or another reading of the scores, makes it another network."""
    from vhagar.guard.bounds import of_certificate
    from vhagar.guard.guard import Guard

    other = vhagar.read_onnx(model, **options)
    problem = vhagar.Problem(other, perturbation="linf(0.05)", source=1)
    proof = tmp_path / "other.cert"
    vhagar.verify(problem, workers=0, timeout=5, certificate=proof)
    with pytest.raises(InvalidInput, match="another layout, mean, std"):
        vhagar.guard(proof, network=model)
    bounds = of_certificate(proof, other)
    Guard(vhagar.read_onnx(model), tuple(bounds)).save(tmp_path / "guard.onnx")
    proved, problems = _checked(tmp_path / "guard.onnx", model)
    assert proved == 0
    assert "proves something else" in problems[0]
    Guard(other, tuple(bounds)).save(tmp_path / "guard.onnx")
    assert check_guard(tmp_path / "guard.onnx", other).problems == ()


@pytest.mark.parametrize("conditions", [{}, {"perturbed_inside": True}], ids=["box", "conditions"])
def test_bounds_over_a_domain_make_no_guard_of_all_inputs(
    conditions: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    """Whoever calls the guard may do so with any input of the range."""
    from dataclasses import replace

    from vhagar.guard.guard import Guard

    network, proof = vhagar.read_onnx(model), tmp_path / "inside.cert"
    most = 1.0 if conditions else 0.5
    domain = vhagar.Domain((1, 2, 2), 0.0, most, range=(0.0, 1.0), **conditions)
    problem = vhagar.Problem(network, perturbation="linf(0.05)", source=1, domain=domain)
    result = vhagar.verify(problem, workers=0, timeout=5, certificate=proof)
    result.save(tmp_path / "inside.vhagar")
    for source in (result, proof, tmp_path / "inside.vhagar"):
        made = vhagar.guard(source, network=model)
        assert [each.domain for each in made.protections] == [domain]
        widened = tuple(replace(bound, domain=None) for bound in made.bounds)
        Guard(network, widened).save(tmp_path / "guard.onnx")
        proved, problems = _checked(tmp_path / "guard.onnx", model)
        assert proved == 0
        assert "proves something else" in problems[0]


def test_altered_metadata_are_noticed(saved: Path, model: Path) -> None:
    changed = onnx.load(saved)
    stated = metadata(saved.read_bytes())
    stated["bounds"][0]["uppers"] = [99.0, 99.0]
    changed.metadata_props[0].value = json.dumps(stated)
    onnx.save(changed, saved)
    assert "the file's graph is not what follows from its bounds" in _checked(saved, model)[1]


def test_damaged_metadata_are_refused_in_words(saved: Path, model: Path) -> None:
    """Whatever an entry is replaced by, nothing is proved, and nothing but `InvalidInput` comes."""
    content, network = saved.read_bytes(), vhagar.read_onnx(model)
    stated = metadata(content)
    wrong = (None, "x", 99, [[1]], float("nan"), {"file": 5, "sha256": 3})
    places = [(stated, name) for name in stated if name not in ("vhagar", "network", "model")]
    places += [(stated["bounds"][0], name) for name in stated["bounds"][0]]
    places += [(stated["bounds"][0][name], 0) for name in ("targets", "uppers", "input_range")]
    for holder, name in places:
        kept = holder[name]
        for value in (each for each in wrong if each != kept):
            holder[name] = value
            _write(saved, content, stated)
            try:
                problems = check_guard(saved, network, [model.parent]).problems
            except InvalidInput:
                continue
            assert problems, (name, value)
        holder[name] = kept
    _write(saved, content, [stated])
    with pytest.raises(InvalidInput, match="damaged"):
        check_guard(saved, network)


def _write(path: Path, content: bytes, values: object) -> None:
    """The guard with other metadata."""
    changed = onnx.load_model_from_string(content)
    onnx.helper.set_model_props(changed, {KEY: json.dumps(values)})
    path.write_bytes(changed.SerializeToString())


def test_certificates_must_be_there_and_be_the_same(
    saved: Path, model: Path, results: list[Result]
) -> None:
    network = vhagar.read_onnx(model)
    found = check_guard(saved, network)  # they are not beside the guard
    assert found.proved == 0
    assert "is not there; name its folder" in found.problems[0]
    one, other = (model.parent / f"linf(0.05)-{k}.cert" for k in (0, 1))
    (saved.parent / one.name).write_bytes(other.read_bytes())
    assert "is not the certificate" in check_guard(saved, network).problems[0]
    bare = [Result(**{**vars(result), "certificate": None}) for result in results[:3]]
    vhagar.guard(bare).save(saved)
    found = check_guard(saved, network)
    assert [": no certificate; " in problem for problem in found.problems] == [True] * 3
    assert str(found).count("REFUSED") == len(set(found.problems))


def test_another_network_or_file_is_refused(saved: Path, model: Path, tmp_path: Path) -> None:
    vhagar.write_onnx(small_network(8), tmp_path / "other.onnx")
    with pytest.raises(InvalidInput, match="about another network"):
        check_guard(saved, vhagar.read_onnx(tmp_path / "other.onnx"))
    with pytest.raises(InvalidInput, match="not a guard"):
        check_guard(model, vhagar.read_onnx(model))
    changed = onnx.load(saved)
    changed.metadata_props[0].value = json.dumps({"format": 3, "vhagar": "9.0"})
    assert changed.metadata_props[0].key == KEY
    onnx.save(changed, saved)
    with pytest.raises(InvalidInput, match="in another form"):
        check_guard(saved, vhagar.read_onnx(model))


def test_from_certificates_by_the_command_line(
    model: Path, results: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proofs = [str(model.parent / f"linf(0.05)-{k}.cert") for k in range(3)]
    out = tmp_path / "guard.onnx"
    assert main(["guard", *proofs, "--model", str(model), "-o", str(out)]) == 0
    assert "3 of 3 bounds have a certificate" in capsys.readouterr().out
    folder = ["--certificates", str(model.parent)]
    assert main(["guard", "--check", str(out), "--model", str(model), *folder]) == 0
    assert "PROVED by 3 certificates" in capsys.readouterr().out
    assert main(["guard", "--check", str(out), "--model", str(model)]) == 1
    assert "REFUSED: class 0" in capsys.readouterr().err


def test_a_certificate_is_checked_before_it_counts(
    model: Path, results: list[Result], tmp_path: Path
) -> None:
    vhagar.write_onnx(small_network(8), tmp_path / "other.onnx")
    proof = model.parent / "linf(0.05)-0.cert"
    with pytest.raises(InvalidInput, match="proves nothing about"):
        vhagar.guard(proof, network=tmp_path / "other.onnx")


def test_from_saved_results(model: Path, tmp_path: Path, results: list[Result]) -> None:
    files = [tmp_path / f"{k}.result" for k in range(3)]
    for file, result in zip(files, results, strict=False):
        result.save(file)
    made = vhagar.guard(files)
    assert made.protections == vhagar.guard(results[:3]).protections
    assert all(bound.certificate is not None for bound in made.bounds)
    with pytest.raises(InvalidInput, match="holds no certificate of the bounds"):
        vhagar.guard(files, certificates=[tmp_path])
    (tmp_path / "linf(0.05)-0.cert").write_bytes((model.parent / "linf(0.05)-0.cert").read_bytes())
    moved = vhagar.guard(files, certificates=[tmp_path])
    assert [bound.certificate.path.parent for bound in moved.bounds if bound.certificate] == [
        tmp_path,
        model.parent,
        model.parent,
    ]


@pytest.mark.subprocess
def test_from_a_store_with_certificates(model: Path, tmp_path: Path) -> None:
    vhagar.write_onnx(small_network(8), tmp_path / "second.onnx")
    store = vhagar.sweep(
        networks=[model, tmp_path / "second.onnx"],
        perturbations=["linf(0.05)", "linf(0.02)"],
        targets="any",
        timeout=20,
        jobs=1,
        store=tmp_path / "s.db",
        certificates=tmp_path / "proofs",
    )
    with pytest.raises(InvalidInput, match="choose from: small, second"):
        vhagar.guard(store)
    with pytest.raises(InvalidInput, match="no network large; choose from: small, second"):
        vhagar.guard(store, network="large")
    made = vhagar.guard(store, network="small")
    store.close()
    assert {each.label for each in made.protections} == {"linf(0.05)", "linf(0.02)"}
    assert all(missing == () for each in made.protections for missing in each.missing)
    made.save(tmp_path / "guard.onnx")
    found = check_guard(tmp_path / "guard.onnx", vhagar.read_onnx(model), [tmp_path / "proofs"])
    assert (found.proved, found.problems) == (6, ())
    assert vhagar.guard(tmp_path / "s.db", network=model).protections == made.protections
    # Certificates that were moved are named; a folder without any is an error.
    (tmp_path / "proofs").rename(tmp_path / "elsewhere")
    lost = vhagar.guard(tmp_path / "s.db", network=model)
    assert all(bound.certificate is None for bound in lost.bounds)
    folder, out = str(tmp_path / "elsewhere"), ["-o", str(tmp_path / "moved.onnx")]
    words = ["guard", str(tmp_path / "s.db"), "--network", "small", *out, "--certificates"]
    assert main([*words, folder]) == 0
    network = vhagar.read_onnx(model)
    assert check_guard(tmp_path / "moved.onnx", network, [Path(folder)]).proved == 6
    assert main([*words, str(tmp_path)]) == 2
    (tmp_path / "elsewhere").rename(tmp_path / "proofs")
    # Certificates of other problems in their places, as another sweep may leave them there.
    files = sorted((tmp_path / "proofs").iterdir())
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    mixed = vhagar.guard(tmp_path / "s.db", network=model)
    assert all(bound.certificate is None for bound in mixed.bounds)
    for bound, known in zip(mixed.bounds, made.bounds, strict=True):
        assert (bound.perturbation, bound.source) == (known.perturbation, known.source)
        assert bound.uppers == pytest.approx(known.uppers, rel=1e-6)


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_store_without_certificates_makes_a_guard_that_says_so(
    model: Path, tmp_path: Path
) -> None:
    store = vhagar.sweep(
        networks=[model], perturbations=["linf(0.05)"], timeout=20, jobs=1, store=tmp_path / "s.db"
    )
    made = vhagar.guard(store)
    store.close()
    assert "0 of 6 bounds have a certificate" in made.words
    assert made.protections[0].missing == ((), (), ())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the store of a sweep"),
        (["{model}"], "name the file to write"),
        (["{model}", "-o", "{tmp}/g.onnx"], "neither a store, a saved result nor a certificate"),
        (["{tmp}/none.db", "-o", "{tmp}/g.onnx"], "cannot read"),
        (["{proof}", "-o", "{tmp}/g.onnx"], "name the model file"),
        (["--check", "{model}"], "name the model that the guard is about"),
    ],
)
def test_what_is_missing_is_said(
    words: list[str],
    message: str,
    model: Path,
    tmp_path: Path,
    results: list[Result],
    capsys: pytest.CaptureFixture[str],
) -> None:
    proof = model.parent / "linf(0.05)-0.cert"
    given = [word.format(model=model, tmp=tmp_path, proof=proof) for word in words]
    assert main(["guard", *given]) == 2
    assert message in capsys.readouterr().err


def _renamed(saved: Path, model: Path, name: str) -> None:
    """A guard that is consistent in itself, with another name for its first perturbation."""
    from vhagar.guard.bounds import Bound
    from vhagar.guard.guard import Guard

    stated = metadata(saved.read_bytes())
    for bound in stated["bounds"]:
        if bound["perturbation"] == "linf(0.05)":
            bound["name"] = name
    Guard(vhagar.read_onnx(model), tuple(map(Bound.from_plain, stated["bounds"]))).save(saved)


@pytest.mark.parametrize("name", ["linf(0.5)", "features([0],[0.05])", "any change at all"])
def test_a_name_that_promises_more_is_refused(saved: Path, model: Path, name: str) -> None:
    """Names are words for people, who would believe them."""
    _renamed(saved, model, name)
    proved, problems = _checked(saved, model)
    assert proved == 3
    assert all("proves something else" in problem for problem in problems)


def test_names_of_features_are_told_with_their_numbers(model: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from vhagar.guard.bounds import of_result
    from vhagar.guard.guard import Guard

    network = vhagar.read_onnx(model)
    bounds = []
    for source in range(3):
        problem = vhagar.Problem(network, perturbation="features([0,1],[0.1,0.2])", source=source)
        proof = tmp_path / f"{source}.cert"
        bounds += of_result(vhagar.verify(problem, workers=0, timeout=10, certificate=proof))
    for name, count in (
        ("features([age,income],[0.1,0.2])", 3),
        ("features([age,1],[0.1,0.2])", 3),
        ("features([age],[0.2])", 0),
        ("features([1,0],[0.1,0.2])", 0),
        ("features([age,2],[0.1,0.2])", 0),
    ):
        named = tuple(replace(bound, name=name) for bound in bounds)
        Guard(network, named).save(tmp_path / "guard.onnx")
        found = check_guard(tmp_path / "guard.onnx", network)
        assert found.proved == count
    named = tuple(replace(bound, name="features([age,income],[0.1,0.2])") for bound in bounds)
    Guard(network, named).save(tmp_path / "guard.onnx")
    words = str(check_guard(tmp_path / "guard.onnx", network))
    assert "features([age,income],[0.1,0.2]) is features([0,1],[0.1,0.2]) in the cert" in words


def test_a_quotient_is_shown_as_it_was_written(model: Path, tmp_path: Path) -> None:
    """Certificates have the decimal, which is the same number."""
    network, proof = vhagar.read_onnx(model), tmp_path / "0.cert"
    problem = vhagar.Problem(network, perturbation="linf(2/255)", source=0)
    result = vhagar.verify(problem, workers=0, timeout=10, certificate=proof)
    for source in (result, proof):
        made = vhagar.guard(source, network=model)
        assert [each.label for each in made.protections] == ["linf(2/255)"]
        made.save(tmp_path / "guard.onnx")
        found = check_guard(tmp_path / "guard.onnx", network)
        assert (found.proved, found.problems) == (1, ())
        assert "linf(2/255) is linf(0.00784313725490196) in the certificates" in str(found)


@pytest.mark.parametrize("where", ["uppers", "description", "name", "more"])
def test_what_a_guard_says_about_itself_is_compared(saved: Path, model: Path, where: str) -> None:
    """The graph computes as promised, but metadata or description promise more."""
    changed = onnx.load(saved)
    stated = metadata(saved.read_bytes())
    if where == "uppers":
        stated["perturbations"][0]["uppers"] = [0.0, 0.0, 0.0]
    elif where == "name":
        stated["perturbations"][0]["name"] = "linf(0.5)"
    elif where == "more":
        stated["also"] = "proved for everything"
    else:
        changed.doc_string = changed.doc_string.replace("linf(0.05)", "linf(0.5)")
    changed.metadata_props[0].value = json.dumps(stated)
    onnx.save(changed, saved)
    proved, problems = _checked(saved, model)
    assert proved == 6
    assert problems == ("what the file says about itself is not what follows from its bounds",)
