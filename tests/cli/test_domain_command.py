"""`vhagar domain fit` and `show`, and names of features and classes in questions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, InvalidInput, Problem, Result, verify
from vhagar.cli.main import main
from vhagar.network import Affine, Network, Relu, write_onnx
from vhagar.perturbation import Features, parse
from vhagar.perturbation.domain.file import read_domain
from vhagar.perturbation.domain.writer import write_domain
from vhagar.sweep.question import Question
from vhagar.sweep.study import Study, load_models, questions
from vhagar.sweep.watch import words as question_words

TABLE = "age,pulse,class\n" + "".join(
    f"{30 + k},{60 + 2.5 * k},{'ill' if k % 3 else 'well'}\n" for k in range(12)
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE)


def network() -> Network:
    """Ill where age and pulse are high; both in the units of the data."""
    weight = np.array([[0.5, 0.25], [-0.5, 0.125]])
    layers = (
        Affine(weight, np.array([-30.0, 10.0]), (2,), (2,)),
        Relu((2,)),
        Affine(np.eye(2), np.array([0.0, 0.25]), (2,), (2,)),
    )
    return Network(layers, (2,))


def test_a_domain_from_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["domain", "fit", "--features", "t.csv", "--cover", "0.9", "-o", "p.toml"]
    assert main([*words, "--plot", "p.png"]) == 0
    out = capsys.readouterr().out
    assert "held-out inputs" in out
    assert "class ill" in out
    assert Path("p.png").stat().st_size > 1000
    domain = read_domain("p.toml", (2,))
    assert domain.features == ("age", "pulse")
    assert domain.classes == ("ill", "well")
    assert domain.groups.integer == (0,)
    assert main(["domain", "show", "p.toml"]) == 0
    shown = capsys.readouterr().out
    assert "pulse" in shown
    assert f"its numbers have SHA-256 {domain.fingerprint}" in shown
    assert main([*words[:4], "--class", "ill", "-o", "ill.toml"]) == 0
    out = capsys.readouterr().out
    assert "class ill: 4 of 4" in out
    assert "class well" not in out


def test_a_domain_from_images_and_around_one(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.random((40, 1, 4, 4)), y=rng.integers(0, 2, 40))
    assert main(["domain", "fit", "d.npz", "--cover", "0.9", "-o", "all.toml"]) == 0
    assert "class 1" in capsys.readouterr().out
    assert main(["domain", "fit", "d.npz", "--class", "1", "-o", "ones.toml"]) == 0
    assert "class 0" not in capsys.readouterr().out
    like = ["domain", "fit", "--like", "d.npz", "--index", "3", "--radius", "1/8"]
    assert main([*like, "-o", "like.toml", "--plot", "like.png"]) == 0
    found = read_domain("like.toml", (1, 4, 4))
    assert np.allclose((found.high - found.low).max(), 0.25)
    components = ["domain", "fit", "d.npz", "--components", "2", "-o", "z.toml"]
    assert main(components) == 0
    assert read_domain("z.toml", (1, 4, 4)).zonotope is not None
    likely = [*components[:-1], "likely.toml", "--likely"]
    assert main(likely) == 0
    assert "1 linear row" in capsys.readouterr().out
    assert read_domain("likely.toml", (1, 4, 4)).rows is not None
    assert main(["domain", "show", "z.toml", "--plot", "z.png"]) == 0
    assert "a zonotope of 2 components" in capsys.readouterr().out


def test_an_index_counts_in_the_test_set(capsys: pytest.CaptureFixture[str]) -> None:
    """Unlike DATA, which is the training set: the help says both."""
    train, test = np.full((8, 1, 1, 4), 0.25), np.full((2, 1, 1, 4), 0.75)
    np.savez("both.npz", x_train=train, x_test=test)
    like = ["domain", "fit", "--like", "both.npz", "--radius", "1/8", "-o", "like.toml", "--index"]
    assert main([*like, "1"]) == 0
    assert read_domain("like.toml", (1, 1, 4)).low == pytest.approx(0.625)
    assert main([*like, "2"]) == 2
    assert "holds 2 inputs" in capsys.readouterr().err
    assert main(["domain", "fit", "both.npz", "-o", "data.toml"]) == 0
    assert read_domain("data.toml", (1, 1, 4)).high == pytest.approx(0.25)
    with pytest.raises(SystemExit):
        main(["domain", "fit", "--help"])
    assert "of x_train and x_test in the test set" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "-o", "o.toml"], "give one of DATA"),
        (["fit", "t.csv", "--like", "a.png", "-o", "o.toml"], "give one of DATA"),
        (["fit", "none.npz", "-o", "o.toml"], "no data at"),
        (["fit", "t.csv", "--components", "2", "-o", "o.toml"], "--components is for images"),
        (["fit", "t.csv", "--likely", "-o", "o.toml"], "--likely and --coordinates are for images"),
        (["fit", "t.csv", "--class", "7", "-o", "o.toml"], "no input of class 7; it has ill, well"),
        (["fit", "t.csv", "--class", "dead", "-o", "o.toml"], "no input of class dead"),
        (["fit", "few.npz", "-o", "o.toml"], "at least 4 inputs"),
        (["fit", "few.npz", "--image-shape", "2", "-o", "o.toml"], "at least 4 inputs"),
        (["fit", "some.npz", "--components", "9", "-o", "o.toml"], "half of the data are 4 inputs"),
        (["fit", "some.npz", "--class", "1", "-o", "o.toml"], "labels are one vector of whole"),
        (["fit", "t.csv", "--input-range", "0,50", "-o", "o.toml"], "beyond the input range 0,50"),
        (["fit", "plain.toml", "-o", "o.toml"], "is no data: give an .npz file"),
        (["show", "apart.toml"], "row 1 of 2, row 2 of 2 and the ranges"),
        (["show", "none.toml"], "cannot read the domain"),
        (["show", "plain.toml"], "does not tell the shape"),
    ],
)
def test_what_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain.toml").write_text("lower = 0.5\n")
    np.savez("few.npz", x=np.zeros((3, 1, 1, 2)))
    np.savez("some.npz", x=np.random.default_rng(0).random((8, 1, 1, 9)))
    row = "[[rows]]\ncoefficients = {0 = 1, 1 = 1}\n"
    Path("apart.toml").write_text(f"shape = [2]\n{row}at_least = 1.5\n{row}at_most = 1\n")
    assert main(["domain", *words]) == 2
    assert message in capsys.readouterr().err


def test_names_in_the_question_and_in_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(network(), "m.onnx")
    box = [30.0, 60.0], [41.0, 87.5]
    names = {"features": ["age", "pulse"], "classes": ["ill", "well"]}
    write_domain(Domain((2,), *box, range=(0.0, 200.0), name="patients", **names), "p.toml")
    asked = ["--perturbation", "features([pulse],8)", "--source", "ill", "--target", "well"]
    common = ["--domain", "p.toml", "--timeout", "60", "-w", "1", "--json", "out.json"]
    assert main(["verify", "m.onnx", *asked, *common, "--certificate", "p.cert"]) == 0
    out = capsys.readouterr().out
    assert "classified ill" in out
    assert "class ill to any other" in out
    assert "by features([pulse],8)" in out
    assert "classified well by a margin" in out
    found = json.loads(Path("out.json").read_text())
    assert (found["problem"]["source"], found["problem"]["targets"]) == (0, [1])
    assert found["problem"]["domain"]["features"] == ["age", "pulse"]
    assert "pulse  6" in out  # before and after, one line for each feature that changes
    assert found["witness"]["x"][0] == found["witness"]["x_p"][0]
    assert main(["check", "p.cert", "--model", "m.onnx"]) == 0
    assert "features([1],[8])" in capsys.readouterr().out


def test_names_where_one_row_or_all_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(network(), "model.onnx")
    assert main(["domain", "fit", "--features", "t.csv", "--cover", "1", "-o", "p.toml"]) == 0
    about = ["model.onnx", "--domain", "p.toml"]
    assert main(["inspect", *about, "--dataset", "t.csv", "--json", "facts.json"]) == 0
    counted = json.loads(Path("facts.json").read_text())["dataset"]
    assert counted["class_name"] == ("ill", "well")[counted["most_frequent"]]
    assert f"classified {counted['class_name']}, the most" in capsys.readouterr().out
    row = ["local", *about, "--image", "t.csv", "--index", "11"]
    assert main([*row, "--perturbation", "features([age,pulse],[1,1])"]) == 0
    assert "every version of the input, classified ill, keeps" in capsys.readouterr().out
    assert main([*row, "--perturbation", "features([age],[40])"]) == 0
    out = capsys.readouterr().out
    assert "a version of the input, classified ill, is classified well" in out
    assert "change:   age  41 -> " in out
    assert main([*row, "--epsilon", "1", "--source", "well"]) == 2
    assert "the image is classified ill, not well" in capsys.readouterr().err


def test_a_sweep_takes_classes_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(network(), "m.onnx")
    names = {"features": ["age", "pulse"], "classes": ["ill", "well"]}
    write_domain(Domain((2,), 30.0, 80.0, range=(0.0, 200.0), **names), "p.toml")
    asked = {"networks": ["m.onnx"], "perturbations": ["features([pulse],8)"], "domain": "p.toml"}
    study = Study.from_plain({**asked, "sources": ["ill"], "targets": ["well", 0]})
    (asked_one,) = questions(study, load_models(study))
    assert (asked_one.source, asked_one.targets) == (0, (1,))
    named = "m, features([pulse],8), ill to well, over p"
    assert question_words(asked_one, {asked_one.network: "m"}) == named
    words = ["sweep", "--network", "m.onnx", "--perturbation", "features([pulse],8)"]
    assert main([*words, "--domain", "p.toml", "--store", "t.db", "--source", "dead"]) == 2
    assert "no source class 'dead'; there are ill, well" in capsys.readouterr().err


def test_a_data_set_outside_of_the_domain_is_counted_as_such(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_onnx(network(), "m.onnx")
    write_domain(Domain((2,), [30.0, 60.0], [50.0, 90.0], range=(0.0, 200.0)), "p.toml")
    asked = ["--perturbation", "features([1],1)", "--source", "0", "--dataset", "d.npz"]
    words = ["verify", "m.onnx", *asked, "--domain", "p.toml", "--timeout", "20", "-w", "1"]
    np.savez("d.npz", x=np.array([[40.0, 80.0], [49.0, 89.0], [90.0, 150.0], [51.0, 80.0]]))
    assert main([*words, "--json", "out.json"]) == 0
    out = capsys.readouterr().out
    assert "of 2 inputs classified 0 inside the domain" in out
    assert "; 2 more lie outside of the domain" in out
    counted = json.loads(Path("out.json").read_text())["coverage"]
    assert (counted["classified"]["inputs"], counted["outside"]) == (2, 2)
    np.savez("d.npz", x=np.array([[90.0, 150.0], [51.0, 80.0]]))
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "the domain contains none of the 2 inputs classified 0" in out
    assert "it holds no input that the bound is about" in out


def test_a_saved_result_keeps_its_names() -> None:
    domain = Domain(
        (2,), [30, 60], [41, 87.5], range=(0.0, 200.0), name="p", features=["age", "pulse"]
    )
    problem = Problem(network(), perturbation="features([pulse],8)", source=0, domain=domain)
    result = verify(problem, timeout=20, workers=0)
    result.save("saved.vhagar")
    again = Result.load("saved.vhagar")
    assert again.problem.domain.features == ("age", "pulse")
    assert str(again.problem) == str(problem)


@pytest.mark.parametrize(
    ("names", "whole"),
    [(["1", "2"], False), (["1", "2"], True), (["pulse", "0e0"], False), (["age", "pulse"], True)],
    ids=str,
)
def test_a_saved_result_is_about_the_same_features(names: list[str], whole: bool) -> None:
    """Also where names look like numbers of others, or are not saved with the domain."""
    box = [0.0, 0.0], [200.0, 200.0 if whole else 100.0]
    domain = Domain((2,), *box, range=(0.0, 200.0), name="p", features=names)
    problem = Problem(network(), perturbation="features([1],8)", source=0, domain=domain)
    assert parse(str(problem.perturbation)).settled(domain) == problem.perturbation
    verify(problem, timeout=20, workers=0).save("saved.vhagar")
    assert Result.load("saved.vhagar").problem.perturbation == problem.perturbation
    assert Question.of(problem, "f").problem(network()).perturbation == problem.perturbation


def test_features_by_name_and_by_number() -> None:
    domain = Domain((3,), features=["age", "mean pulse", "ward"])
    by_name = parse("features([ward, mean pulse], [1/4, 0.5])").settled(domain)
    assert by_name == Features([1, 2], [0.5, 0.25])
    assert str(by_name) == "features([mean pulse,ward],[0.5,0.25])"
    assert parse(str(by_name)).settled(domain) == by_name
    assert parse("features([1,2],0.5)").settled(domain).radii == (0.5, 0.5)
    assert parse("features([0,1,2],0.5)").chosen == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("features([age,age],0.1)", "each of them once"),
        ("features([age,0],0.1)", "a feature twice"),
        ("features([weight],0.1)", "no feature 'weight'; there are age, pulse"),
        ("features([7],0.1)", "no feature 7; they are 0 to 1"),
        ("features([age],0)", "above 0"),
        ("features([age],[0.1,0.2])", "1 features and 2 radii; give one for all"),
        ("features([age],5)", "more than the input range"),
        ("features(0.1)", "argument"),
        ("features(age,0.1)", "cannot read .*write features in brackets"),
    ],
)
def test_features_that_are_refused(text: str, message: str) -> None:
    domain = Domain((2,), features=["age", "pulse"])
    with pytest.raises(InvalidInput, match=message):
        parse(text).pieces(domain)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"features": ["age"]}, "names 1 features"),
        ({"features": ["age", "age"]}, "a name twice"),
        ({"features": ["age", "pulse, at rest"]}, "without commas"),
        ({"classes": "ab"}, "a list of names"),
        ({"classes": ["a", 3]}, "a list of names"),
    ],
)
def test_names_that_are_refused(names: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Domain((2,), **names)


def test_classes_that_are_not_there() -> None:
    domain = Domain((2,), classes=["ill", "well"])
    asked = {"perturbation": "linf(0.1)", "domain": domain}
    assert Problem(network(), source="well", targets="ill", **asked).targets == (0,)
    assert Problem(network(), source="1", **asked).source == 1
    with pytest.raises(InvalidInput, match="no source class 'dead'; there are ill, well"):
        Problem(network(), source="dead", **asked)
    with pytest.raises(InvalidInput, match="class ill is both source and target"):
        Problem(network(), perturbation="linf(0.1)", source="ill", targets="ill", domain=domain)
    with pytest.raises(InvalidInput, match="names 3 classes"):
        Problem(
            network(),
            source=0,
            perturbation="linf(0.1)",
            domain=Domain((2,), classes=["a", "b", "c"]),
        )
