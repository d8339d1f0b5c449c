"""Perturbations by the name of a user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.perturbation import Composition, Domain, Linf, UserPerturbation
from vhagar.perturbation.loading import named

SOURCE = """
from vhagar import AffinePerturbation, Linf, UserPerturbation, affine_map

class Darker(AffinePerturbation):
    name = "darker"

    def maps(self, domain):
        yield affine_map(domain, matrix=0.5, offset=0.5 * domain.lower)

class Needs(Darker):
    def __init__(self, amount):
        self.amount = amount

own = UserPerturbation(matrix=0.25, name="own")
plain = Linf(0.1)
number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def test_an_object_or_a_class(file: Path) -> None:
    own = named(f"{file}:own")
    assert isinstance(own, UserPerturbation)
    assert str(named(f"{file}:Darker")) == "darker"
    assert named(f"{file}:plain") == Linf(0.1)
    assert named("linf(0.1)") == Linf(0.1)
    composed = named(f"{file}:own+linf(0.25)")
    assert isinstance(composed, Composition)
    assert str(composed) == "own+linf(0.25)"
    assert composed.pieces(Domain((4,)))[0].map.count == 4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "has no perturbation 'nothing'; it has: own, plain"),
        ("number", "has no perturbation 'number'"),
        ("Needs", "cannot be made without arguments"),
        ("own+blur(1)", "'blur\\(1\\)' is not a perturbation"),
    ],
)
def test_what_is_not_there(file: Path, name: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        named(f"{file}:{name}")


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file"):
        named(f"{tmp_path}/none.py:own")
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(InvalidInput, match="ZeroDivisionError"):
        named(f"{broken}:own")
    # Of another length: Python tells new source from old by its time in seconds and its size.
    broken.write_text("def (a, b")
    with pytest.raises(InvalidInput, match="SyntaxError"):
        named(f"{broken}:own")


def test_the_command_line_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(__file__).parents[2] / "examples" / "mnist_3x10.onnx"
    wrong = ["--perturbation", f"{tmp_path}/none.py:own", "--source", "2"]
    assert main(["verify", str(model), *wrong]) == 2
    assert "no file" in capsys.readouterr().err
