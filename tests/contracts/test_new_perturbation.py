"""A new perturbation is one file and one line of a table: two are added here, and removed.

The first is made of data that is there already. The second has a piece of its own with no more than
what every piece must provide: pixels move on by one and are dimmed together, by one factor.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import InvalidInput, Network, Problem, Status
from vhagar.attack.images import torch_piece
from vhagar.export.export import export
from vhagar.network import Affine, Relu, read_onnx, write_onnx
from vhagar.options import Options
from vhagar.perturbation import PERTURBATIONS, AbstractPiece, Perturbation, parse
from vhagar.search.branch_and_bound import Bab
from vhagar.search.mip.engine import Mip
from vhagar.verify import run_engine

from . import test_perturbation_contract as contract

FILES = {
    "checkerboard": '''
"""Every second pixel changes by one amount."""

from dataclasses import dataclass

import numpy as np

from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.maps import affine_map
from vhagar.perturbation.ranges import as_range, interval_text


@dataclass(frozen=True)
class Checkerboard(Perturbation):
    span: tuple[float, float]

    name = "checkerboard"
    affine = True
    by_text = False  # the checker does not know the name, so certificates have the map

    def __init__(self, span):
        object.__setattr__(self, "span", as_range(span, "the range of checkerboard"))

    def pieces(self, domain, clip=True):
        every_second = np.arange(0, domain.size, 2)
        moves = np.ones((len(every_second), 1))
        found = affine_map(
            domain, directions=moves, ranges=[self.span], pixels=every_second, label=str(self)
        )
        return (AffinePiece(domain, str(self), found, clip),)

    def arguments(self):
        return (interval_text(self.span),)
''',
    "dimmed_roll": '''
"""Every pixel moves on by one, and a part of its brightness stays."""

from dataclasses import dataclass

import numpy as np

from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.piece import AbstractPiece
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import as_range, interval_text
from vhagar.perturbation.relaxed import ModelImage, picked
from vhagar.perturbation.support import Support


@dataclass(frozen=True, eq=False)
class DimmedRollPiece(AbstractPiece):
    domain: Domain
    label: str
    dimmed: tuple[float, float]
    exact_rows = False

    @property
    def parameter_bounds(self):
        return np.array(self.dimmed[:1]), np.array(self.dimmed[1:])

    def apply(self, x, parameters):
        black = self.domain.lower
        return black + self.project(parameters) * (np.roll(x, 1, axis=1) - black)

    def image_bounds(self):
        size = self.domain.size
        return np.full(size, self.domain.lower), np.full(size, self.domain.upper)

    def _support(self, a, b):
        best = None
        for e in self.dimmed:
            joint = a + e * np.roll(b, -1, axis=1)
            x = np.where(joint > 0, self.domain.upper, self.domain.lower)
            image = self.apply(x, np.array([[e]]))
            value = (a * x).sum(axis=1) + (b * image).sum(axis=1)
            if best is None:
                best = Support(value, x, np.full((len(a), 1), e))
                continue
            better = value > best.value
            best = Support(
                np.where(better, value, best.value),
                np.where(better[:, None], x, best.x),
                np.where(better[:, None], e, best.parameters),
            )
        return best

    def add_rows(self, model, x):
        low, high = self.dimmed
        black = self.domain.lower
        x_p, moved = model.add_columns(*self.image_bounds()), np.roll(x, 1)
        e = model.add_columns(low, high)
        model.add_rows([(x_p, 1.0), (moved, -low)], black - low * black, np.inf)
        model.add_rows([(x_p, 1.0), (moved, -high)], -np.inf, black - high * black)
        return ModelImage(x_p, picked(e, model.column_count))

    def describe(self, parameters):
        return {"dimmed": float(parameters[0])}


@dataclass(frozen=True)
class DimmedRoll(Perturbation):
    kept: tuple[float, float]

    name = "dimmed_roll"

    def __init__(self, kept):
        object.__setattr__(self, "kept", as_range(kept, "what dimmed_roll keeps"))

    def pieces(self, domain, clip=True):
        return (DimmedRollPiece(domain, str(self), self.kept),)

    def arguments(self):
        return (interval_text(self.kept),)
''',
}
FORMS = {"checkerboard": "checkerboard([lo,hi])", "dimmed_roll": "dimmed_roll([lo,hi])"}
Added = type[Perturbation]


@pytest.fixture
def added(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Added]:
    """One file and one line, for as long as a test runs."""
    path = tmp_path / f"{request.param}.py"
    path.write_text(FILES[request.param])
    spec = importlib.util.spec_from_file_location(request.param, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (kind,) = (
        item
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, Perturbation) and item is not Perturbation
    )
    PERTURBATIONS[kind] = FORMS[request.param]
    yield kind
    del PERTURBATIONS[kind]


both = pytest.mark.parametrize("added", FILES, indirect=True)
by_data = pytest.mark.parametrize("added", ["checkerboard"], indirect=True)


def contracts() -> dict[str, Callable[..., None]]:
    """The contract tests that look at the pieces of a perturbation."""
    found = inspect.getmembers(contract, inspect.isfunction)
    tests = {name: test for name, test in found if name.startswith("test_")}
    return {
        name: test for name, test in tests.items() if "pieces" in inspect.signature(test).parameters
    }


def exactly(kind: Added, tools: Any) -> Any:
    """The tools of the contract tests, with what the new perturbation means."""
    if kind.name == "checkerboard":
        return tools  # a map says it all

    def image_of(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        black = Fraction(piece.domain.lower)
        return black + Fraction(float(parameters[0])) * (np.roll(tools.fractions(x), 1) - black)

    return type("Tools", (tools,), {"image_of": staticmethod(image_of)})


def text_of(kind: Added, width: float = 1.0) -> str:
    ends = (0.5, 0.75) if kind.name == "dimmed_roll" else (-0.25 * width, 0.125 * width)
    return f"{kind.name}([{ends[0]!r},{ends[1]!r}])"


@both
@pytest.mark.parametrize("test", contracts())
@pytest.mark.parametrize("domain", contract.DOMAINS)
def test_the_contracts_hold(added: Added, test: str, domain: str, tools: Any) -> None:
    place = contract.DOMAINS[domain]
    for clip in (True, False):
        given = {
            "pieces": parse(text_of(added, place.width)).pieces(place, clip),
            "rng": np.random.default_rng(20240),
            "tools": exactly(added, tools),
        }
        wanted = inspect.signature(contracts()[test]).parameters
        contracts()[test](**{name: given[name] for name in wanted})


def network() -> Network:
    rng = np.random.default_rng(8)
    layers = (
        Affine(rng.normal(size=(5, 6)), rng.normal(size=5) / 3, (1, 2, 3), (5,)),
        Relu((5,)),
        Affine(rng.normal(size=(3, 5)), rng.normal(size=3) / 3, (5,), (3,)),
    )
    return Network(layers, (1, 2, 3))


@both
def test_engines_agree_on_it(added: Added) -> None:
    problem = Problem(network(), perturbation=text_of(added), source=0)
    assert str(problem.perturbation) == text_of(added)
    results = [
        run_engine(problem, engine, Options(workers=0), timeout=60) for engine in (Bab(), Mip())
    ]
    assert max(found.lower for found in results) <= min(found.upper for found in results)
    assert results[0].lower > 0
    best = _random_attack(problem)
    assert all(best <= found.upper for found in results)
    if problem.pieces[0].exact_rows:
        assert all(found.status in (Status.CLOSED, Status.ROBUST) for found in results)


def _random_attack(problem: Problem) -> float:
    """The largest confidence among many inputs that are attacked by chance."""
    rng = np.random.default_rng(9)
    (piece,) = problem.pieces
    x = rng.random((20_000, problem.domain.size))
    parameters = rng.uniform(*piece.parameter_bounds, (len(x), 1))
    images = np.clip(piece.apply(x, parameters), problem.domain.lower, problem.domain.upper)
    scores = problem.network.forward(x)
    leads = scores[:, 0] - scores[:, 1:].max(axis=1)
    attacked = problem.network.forward(images).argmax(axis=1) != 0
    return float(leads[attacked].max(initial=0.0))


@by_data
def test_another_perturbation_can_come_on_top_of_it(added: Added) -> None:
    text = "checkerboard([-0.125,0])+brightness([0,0.125])"
    problem = Problem(network(), perturbation=text, source=0, clip=False)
    (piece,) = problem.pieces
    assert piece.map is not None
    assert piece.map.count == 2
    x = np.full((1, 6), 0.5)
    images = piece.apply(x, np.array([[-0.125, 0.0625]]))
    assert images.tolist() == [[0.4375, 0.5625] * 3]


@both
def test_attacks_move_along_it(added: Added) -> None:
    import torch

    problem = Problem(network(), perturbation=text_of(added), source=0)
    (piece,) = problem.pieces
    rng = np.random.default_rng(10)
    x, parameters = rng.random((4, 6)), rng.uniform(*piece.parameter_bounds, (4, 1))
    tensors = torch.tensor(x, requires_grad=True), torch.tensor(parameters)
    image = torch_piece(piece, torch.tensor).apply(*tensors)
    np.testing.assert_allclose(image.detach(), piece.apply(x, parameters), atol=1e-12)
    (slopes,) = torch.autograd.grad(image.sum(), tensors[0])
    assert (slopes != 0).all()


@by_data
def test_it_is_exported_and_its_proof_is_checked(added: Added, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    write_onnx(network(), model)
    problem = Problem(read_onnx(model), perturbation=text_of(added), source=0)
    (written,) = export(problem, 0.5, tmp_path / "question.vnnlib")
    assert written.onnx.exists()
    proof = tmp_path / "proof.cert"
    options = Options(workers=0, certificate=proof)
    result = run_engine(problem, Bab(), options, timeout=60)
    assert result.status is Status.CLOSED
    assert result.lower <= vhagar.check(proof, model=model).upper <= result.upper


@both
def test_it_is_gone_afterwards(added: Added) -> None:
    text = text_of(added)
    line = PERTURBATIONS.pop(added)
    with pytest.raises(InvalidInput, match="is not a perturbation"):
        parse(text)
    PERTURBATIONS[added] = line
    assert str(parse(text)) == text
