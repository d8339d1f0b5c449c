"""The gate of a build: exit codes and JUnit files, of every command that has one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar.cli.main import main
from vhagar.result.junit import junit_xml
from vhagar.result.requirement import (
    OF_COMPARISONS,
    OF_LOCAL,
    Facts,
    Judged,
    Judgement,
    parse_requirement,
)

from ..sweep.conftest import small_network


@pytest.fixture
def model(tmp_path: Path) -> str:
    vhagar.write_onnx(small_network(), tmp_path / "small.onnx")
    return str(tmp_path / "small.onnx")


COVERAGE = ("--require", "coverage>=0.5")


def _cases(path: Path) -> list[tuple[str, str]]:
    """For each case its requirement and what became of it."""
    suite = ET.parse(path).getroot()[0]
    found = [(case.get("name") or "", case[0].tag.replace("system-out", "met")) for case in suite]
    assert suite.get("tests") == str(len(found))
    assert suite.get("failures") == str(sum(what == "failure" for _, what in found))
    assert suite.get("errors") == str(sum(what == "error" for _, what in found))
    return found


def test_a_junit_file_tells_violated_from_undecided() -> None:
    cases = [
        Judged("a <model>", "upper<=5.0", each, f"it is {each.value} & said", 1.5)
        for each in Judgement
    ]
    suite = ET.fromstring(junit_xml(cases))[0]
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"],
        ["failure"],
        ["error"],
    ]
    assert suite[0][0].text == "it is met & said"
    assert suite[1][0].get("message") == "it is violated & said"
    assert suite[0].get("classname") == "a <model>"
    assert suite.get("time") == "1.500"  # one run, of which three things are required


def test_verify_writes_one(model: str, tmp_path: Path) -> None:
    words = ["verify", model, "--perturbation", "linf(0.05)", "--source", "2", "--timeout", "20"]
    junit = ["--workers", "1", "--junit", str(tmp_path / "j.xml")]
    demands = ["--require", "closed", "--require", "upper<=1e6", "--require", "upper<=0"]
    assert main([*words, *junit, *demands]) == 3
    assert _cases(tmp_path / "j.xml") == [
        ("closed", "met"),
        ("upper<=1e+06", "met"),
        ("upper<=0", "failure"),
    ]


@pytest.mark.parametrize(("epsilon", "code", "what"), [("1e-6", 0, "met"), ("0.5", 3, "failure")])
def test_local_demands_that_an_image_is_robust(
    epsilon: str, code: int, what: str, model: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "image.npy", np.full((1, 4, 4), 0.5))
    words = ["local", model, "--image", str(tmp_path / "image.npy"), "--epsilon", epsilon]
    junit = ["--require", "robust", "--junit", str(tmp_path / "j.xml")]
    assert main([*words, *junit, "--timeout", "20"]) == code
    assert _cases(tmp_path / "j.xml") == [("robust", what)]


@pytest.mark.parametrize(
    ("condition", "timeout", "code", "what"),
    [
        ("(<= Y_0 -1e6)", "20", 0, "met"),
        ("(>= Y_0 -1e6)", "20", 3, "failure"),
        ("(<= Y_0 -1e6)", "0", 4, "error"),
    ],
)
def test_local_demands_that_nothing_satisfies_a_file(
    condition: str, timeout: str, code: int, what: str, model: str, tmp_path: Path
) -> None:
    network = vhagar.read_onnx(model)
    names = [f"X_{k}" for k in range(network.input_size)]
    names += [f"Y_{k}" for k in range(network.classes)]
    lines = [f"(declare-const {name} Real)" for name in names]
    for name in names[: network.input_size]:
        lines += [f"(assert (>= {name} 0))", f"(assert (<= {name} 1))"]
    file = tmp_path / "property.vnnlib"
    file.write_text("\n".join([*lines, f"(assert {condition})"]))
    words = ["local", model, "--vnnlib", str(file), "--timeout", timeout]
    junit = ["--require", "unsat", "--junit", str(tmp_path / "j.xml")]
    assert main([*words, *junit]) == code
    assert _cases(tmp_path / "j.xml") == [("unsat", what)]
    assert main([*words, "--require", "robust"]) == 2


@pytest.mark.subprocess
def test_a_sweep_is_judged_problem_by_problem(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).random((20, 1, 4, 4)))
    store = str(tmp_path / "s.db")
    words = ["sweep", "--network", model, "--perturbation", "linf(0.05)", "--source", "2"]
    words += ["--timeout", "20", "--store", store, "--jobs", "1"]
    words += ["--dataset", str(tmp_path / "data.npz"), "--junit", str(tmp_path / "j.xml")]
    assert main([*words, "--require", "closed", "--require", "coverage>=0.01"]) == 0
    assert _cases(tmp_path / "j.xml") == [
        ("closed", "met"),
        ("closed", "met"),
        ("coverage>=0.01", "met"),
    ]
    resumed = ["sweep", "--store", store, "--resume", "--require"]
    assert main([*resumed, "upper<=0"]) == 3
    assert main([*resumed, "coverage>=1"]) in (3, 4)
    assert "required: small, linf(0.05): coverage>=1: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        [
            "verify",
            "{model}",
            "--perturbation",
            "linf(0.1)",
            "--source",
            "0",
            "--require",
            "robust",
        ],
        ["sweep", "--network={model}", "--store=x.db", "--perturbation=linf(0.1)", *COVERAGE],
        ["verify", "{model}", "--perturbation", "linf(0.1)", "--source", "0", "--junit", "j.xml"],
        ["local", "{model}", "--image", "{model}", "--epsilon", "0.1", "--require", "closed"],
        ["compare", "{model}", "{model}", "--require", "closed"],
        ["compare", "{model}", "{model}", "--perturbation=linf(0.1)", *COVERAGE],
    ],
)
def test_what_cannot_be_demanded_is_an_error(words: list[str], model: str) -> None:
    assert main([word.format(model=model) for word in words]) == 2


def test_the_words_of_each_command() -> None:
    assert str(parse_requirement("robust", OF_LOCAL)) == "robust"
    assert str(parse_requirement("not-worse", OF_COMPARISONS)) == "not-worse"
    facts = Facts(1.0, 2.0, True)
    assert parse_requirement("upper<=2").judge(facts) is Judgement.MET
    assert parse_requirement("upper<=0.5").judge(facts) is Judgement.VIOLATED
    assert parse_requirement("upper<=1.5").judge(facts) is Judgement.UNDECIDED
    assert parse_requirement("coverage>=0").judge(facts) is Judgement.UNDECIDED
