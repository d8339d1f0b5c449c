"""The checker's command line: exit codes, what is printed where, and the verdict in words."""

from __future__ import annotations

import argparse
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import cli
from vhagar_check.cli import in_words, main
from vhagar_check.errors import Rejected
from vhagar_check.maps import Recorded
from vhagar_check.verdict import Verdict

WHOLE = """\
PROVED by 3 proofs over a tree of 5 nodes, for the model
with SHA-256 ab12:

- Inputs x are images of 1x4x4 pixels (channels, rows, columns), each from 0.0 to 1.0.
- Every input that the network puts into class 0
  with a confidence above 2.5 stays out of
  class 1 under linf(0.1) (clipped to the input range).
- One input of class 0 with a confidence of at least
  0.5 is pushed there.

A confidence is the lead of a class's score over all others. Scores are what the model
gives before any softmax, sigmoid or other activation at its end.
These are statements about real numbers, for the weights as they are stored. A runtime
that computes in float32 can differ from them by its rounding."""
RANGE = "clipped to the input range"


PLAIN = Verdict(
    perturbation="linf(0.1)",
    clip=True,
    source=0,
    input_range=(0.0, 1.0),
    model="ab12",
    lower=0.5,
    upper=2.5,
    uppers={1: 2.5},
    lowers={1: 0.5},
    proofs=3,
    nodes=5,
    input_shape=(1, 4, 4),
    clipping=RANGE,
)


def said(**given: Any) -> list[str]:
    """The statements of a verdict, each on one line."""
    begin, statements, end = in_words(replace(PLAIN, **given)).split("\n\n")
    assert [begin, end] == WHOLE.split("\n\n")[::2]
    assert statements.startswith("- ")
    return [" ".join(each.split()) for each in statements[2:].split("\n- ")]


def kept_out(confidence: float = 2.5, of: str = "class 1", by: str = "linf(0.1)") -> str:
    return (
        f"Every input that the network puts into class 0 with a confidence above {confidence!r} "
        f"stays out of {of} under {by} ({RANGE})."
    )


def pushed(tie: str = "") -> str:
    return f"One input of class 0 with a confidence of at least 0.5 is pushed there{tie}."


def test_the_whole_verdict() -> None:
    assert in_words(PLAIN) == str(PLAIN) == WHOLE


def test_lines_stay_short_with_many_targets() -> None:
    """Each target is on a line of its own, so that no bound is lost in a terminal."""
    uppers = {target: 1.0 + target / 7 for target in range(1, 100)}
    lines = in_words(replace(PLAIN, uppers=uppers)).splitlines()
    assert max(map(len, lines)) <= 90
    assert [line for line in lines if line.startswith("    class ")] == [
        f"    class {target} above {upper!r}{'.' if target == 99 else ','}"
        for target, upper in uppers.items()
    ]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((16,), "inputs of 16 entries"),
        ((4, 4), "images of 4x4 pixels (rows, columns)"),
        ((1, 4, 4), "images of 1x4x4 pixels (channels, rows, columns)"),
        ((1, 1, 4, 4), "inputs of 1x1x4x4 entries"),
    ],
)
def test_the_inputs(shape: tuple[int, ...], words: str) -> None:
    first, *_ = said(input_shape=shape, input_range=(-0.5, 2.0))
    assert first == f"Inputs x are {words}, each from -0.5 to 2.0."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"convention": "in bytes", "scores": "are logits"},
            [
                *("The model takes an input x in bytes.", "The scores are logits."),
                *(kept_out(), pushed()),
            ],
        ),
        ({"lower": 0.0}, [kept_out()]),
        ({"lower": 0.0, "upper": 1.0}, [kept_out(1.0)]),
        (
            {"lower": 0.0, "upper": 0.0},
            [
                kept_out(0.0),
                "In other words: no input of that class can be pushed there at all.",
            ],
        ),
        (
            {"uppers": {2: math.inf, 1: 2.5}},
            [
                f"{kept_out(of='each of these classes')[:-1]}, and of a single one above its own "
                "bound: class 1 above 2.5, class 2 above nothing.",
                pushed(),
            ],
        ),
        (
            {"lowers": {1: 0.25, 2: 0.5}, "ties": {2}},
            [kept_out(), pushed(", to a tie with the target")],
        ),
        ({"lowers": {1: 0.25, 2: 0.5}, "ties": {1}}, [kept_out(), pushed()]),
        (
            {"perturbation": None},
            ["No input has a confidence in class 0 above 2.5.", "One input has at least 0.5."],
        ),
        (
            {"perturbation": None, "lower": 0.0},
            ["No input has a confidence in class 0 above 2.5."],
        ),
    ],
)
def test_what_was_proved(given: dict[str, Any], expected: list[str]) -> None:
    assert said(**given)[1:] == expected


ABOUT_MAPS = (
    "map{s}, `x_p = A x + B e + c` with up to 2 parameter(s), which the certificate calls 'tint'. "
    "No text says what it does: what was proved is about the numbers with SHA-256 cd34, "
    "which `vhagar verify` prints for the same map."
)


@pytest.mark.parametrize("count", [1, 2])
def test_recorded_maps(count: int) -> None:
    maps: list[Any] = [SimpleNamespace(lower=np.zeros(2 - k)) for k in range(count)]
    words = "It is `x_p" if count == 1 else "It is any of 2 maps, `x_p"
    about = words + ABOUT_MAPS.split("`x_p", 1)[1]
    own = "the map recorded in the certificate"
    recorded = Recorded("tint", "cd34", maps)
    assert said(recorded=recorded)[1:] == [kept_out(by=own), about, pushed()]
    _, _, versions, *rest = said(recorded=recorded, image="ef56", upper=0.0, lower=-1.0)
    assert versions == f"Its versions are those under {own} ({RANGE})."
    assert rest[0] == about


def test_one_image() -> None:
    uppers = {5: -0.25, 4: 0.0, 3: 0.5, 2: math.inf, 1: math.inf, None: 7.0}
    lowers = {5: -1.0, 4: 0.0, 3: 0.5, 2: -0.5, 1: 0.0, None: 7.0}
    given: Any = {"image": "ef56", "uppers": uppers, "lowers": lowers, "ties": {4}, "lower": -0.5}
    assert said(**given)[1:] == [
        "One image is looked at. The SHA-256 of its entries, as float64 in the order above, is "
        "ef56. The network puts it into class 0.",
        f"Its versions are those under linf(0.1) ({RANGE}).",
        "One version is put into class 1: confidence at least 0.0.",
        "Every version has at most this confidence in class 3: confidence at most 0.5.",
        "One version is put into class 3: confidence at least 0.5.",
        "Every version has at most this confidence in class 4: confidence at most 0.0.",
        "One version is put into class 4: confidence at least 0.0 (a tie).",
        "Every version stays out of class 5: confidence at most -0.25.",
    ]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (-1.0, -0.5, ["In other words: the image is robust against these classes."]),
        (-1.0, 0.0, []),
        (-1.0, 0.5, []),
        (0.0, 0.5, ["In other words: the image is not robust."]),
        (0.0, 0.0, ["In other words: the image is not robust."]),
    ],
)
def test_whether_an_image_is_robust(lower: float, upper: float, expected: list[str]) -> None:
    image: Any = {"image": "ef56", "uppers": {1: math.inf}, "lowers": {1: -math.inf}}
    assert said(**image, lower=lower, upper=upper)[3:] == expected


@pytest.mark.parametrize("inside", [None, False, True])
@pytest.mark.parametrize("words", [[], ["x_1 <= x_2"]])
def test_the_domain(inside: bool | None, words: list[str]) -> None:
    """`inside`: whether perturbed inputs stay in it; None without conditions."""
    box = np.array([0.0, 0.25, 0.0, 0.25]), np.array([1.0, 1.0, 0.75, 0.75])
    conditions: Any = SimpleNamespace(words=words, perturbed_inside=inside, numbers=b"more")
    own = replace(PLAIN, box=box, conditions=None if inside is None else conditions)
    words = words if inside is not None else []
    _, found, *_ = said(box=box, conditions=own.conditions)
    assert found == " ".join(
        [
            f"Of these, only inputs of a domain count{'.' if inside else cli._LEAVE}",
            "It narrows the range of 3 of 4 entries.",
            f"The SHA-256 of all entries' lower and then upper ends"
            f"{' and of what follows' if words else ''} is {own.domain},",
            "which `vhagar domain show` prints for the same domain.",
            *(f"Of these inputs: {word}." for word in words),
            *("Entry 1 is from 0.25 to 1.0.", "Entry 2 is from 0.0 to 0.75."),
            "Entry 3 is from 0.25 to 0.75.",
        ]
    )


@pytest.mark.parametrize(("many", "listed"), [(12, 12), (13, 0)])
def test_a_few_entries_are_listed(many: int, listed: int) -> None:
    words = in_words(replace(PLAIN, box=(np.full(many, 0.5), np.ones(many))))
    assert f"range of {many} of {many} entries" in words
    assert words.count("Entry ") == listed


class Files:
    """A certificate and a model, which nobody reads, and what the checker was asked."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.model = folder / "proof.cert", folder / "model.onnx"
        for path in (self.certificate, self.model):
            path.touch()
        self.asked: list[tuple[Path, Path, int]] = []
        self.answer: Verdict | BaseException = PLAIN

    def check(self, certificate: Path, *, model: Path, workers: int) -> Verdict:
        self.asked.append((certificate, model, workers))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def main(self, *more: str) -> int:
        return main([str(self.certificate), "--model", str(self.model), *more])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    found = Files(tmp_path)
    monkeypatch.setattr("vhagar_check.verdict.check", found.check)
    return found


@pytest.mark.parametrize(("given", "used"), [(3, 3), (1, 1), (0, 1), (-2, 1)])
def test_what_is_proved_is_printed(
    given: int, used: int, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.main("--workers", str(given)) == 0
    assert files.asked == [(files.certificate, files.model, used)]
    assert capsys.readouterr() == (WHOLE + "\n", "")


def test_a_refusal_says_why(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.answer = Rejected("there is no proof")
    assert files.main() == 1
    assert capsys.readouterr() == ("", "REFUSED: there is no proof\n")


@pytest.mark.parametrize("missing", ["certificate", "model"])
def test_a_file_that_is_not_there(
    missing: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    path = getattr(files, missing)
    path.unlink()
    assert files.main() == 1
    assert capsys.readouterr() == ("", f"REFUSED: there is no file {path}\n")
    assert not files.asked


def test_a_model_must_be_given(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(files.certificate)])
    assert stopped.value.code == 2
    assert "required: --model" in capsys.readouterr().err


def test_the_same_command_below_another() -> None:
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    assert parser.parse_args(["proof.cert", "--model", "model.onnx"]).command is cli.run


def test_an_interrupt_is_no_verdict(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.answer = KeyboardInterrupt()
    assert files.main() == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_verdict_that_cannot_be_written(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no success; nothing is left to be written when the output is closed."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert files.main() == 2
    assert capsys.readouterr().err == "cannot write the verdict: No space left on device\n"


def test_a_reader_who_has_left(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert files.main() == 0


@pytest.mark.parametrize(
    ("platform", "counted", "expected"),
    [("linux", 8, 3), ("darwin", 8, 8), ("darwin", None, 1)],
)
def test_all_cores_by_default(
    platform: str,
    counted: int | None,
    expected: int,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Linux those that this process may use."""
    allowed = {0: {0, 1, 5}}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        patch.setattr(os, "sched_getaffinity", allowed.__getitem__, raising=False)
        patch.setattr(os, "cpu_count", lambda: counted)
        assert files.main() == 0
    assert files.asked == [(files.certificate, files.model, expected)]
