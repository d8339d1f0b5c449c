"""Proofs by windows are derived again from the model, and forged ones are refused."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, Result, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.relaxation.windows import bound as module
from vhagar.result import BoundKind
from vhagar.search.bounders import first_order
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.search import Search
from vhagar_check import Rejected, check
from vhagar_check import window_boxes as boxes
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.layers import UNDERFLOW
from vhagar_check.model import read_model
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.regions import Form
from vhagar_check.window_proofs import WindowRegion
from vhagar_check.window_prover import WindowProver

from ..marks import mostly_slow
from ..relaxation.samples import ExactNetwork, pairs
from ..relaxation.windows.nets import BUILDS, PERTURBATIONS, SHAPE, network_of, pieces_of
from .test_verdict import Blocks, Change, forged

ONLY_WINDOWS = (first_order.Plan(None, None, None, windows=0.5),)
LEAF = boxes.LEAF


def certified(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    build: str = "plain",
    text: str = "brightness([0,0.1])",
    clip: bool = True,
) -> tuple[Result, Path, Path]:
    """A certificate of bounds by windows alone, and the model."""
    monkeypatch.setattr(first_order, "_CPU_PLANS", ONLY_WINDOWS)
    monkeypatch.setattr(module, "_MOST_BOXES", 400)
    monkeypatch.setattr(Search, "bound_roots", lambda *_: None)
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(onnx_bytes(network_of(build, np.random.default_rng(8), filters=6)))
    problem = Problem(read_onnx(model), perturbation=text, source=1, targets=[0, 2], clip=clip)
    engine = FirstOrder(attack=False)
    result = verify(problem, engine=engine, workers=0, device="cpu", certificate=path)
    return result, path, model


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))
def test_bounds_by_windows_are_proved(
    build: str, text: str, clip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, path, model = certified(tmp_path, monkeypatch, build, text, clip)
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    # Strong perturbations gain nothing on interval arithmetic, nor where a class never wins;
    # and a file has rows full of zeros instead of sparse ones.
    weak = text == "brightness([0,0.1])" and build not in ("pooled", "by place")
    assert not weak or "WNDW" in {block.tag for block in scan(path)}
    assert not weak or BoundKind.WINDOWS in {own.kind for own in result.targets.values()}
    assert not any("certificate" in note for note in result.notes)


Parts = tuple[dict[str, Any], list[np.ndarray]]


def _parts(raw: bytes) -> Parts:
    """The description, and the numbers: kinds, limits, multipliers, codes."""
    about, data = split_json(raw)
    count, codes = about["windows"], len(data) - sum(about["boxes"])
    ends = 2 * count, 10 * count, codes
    return about, [
        np.frombuffer(data[: ends[0]], "<u2").copy(),
        np.frombuffer(data[ends[0] : ends[1]], "<f8").copy(),
        np.frombuffer(data[ends[1] : ends[2]], "<f4").copy(),
        np.frombuffer(data[codes:], np.uint8).copy(),
    ]


def _number(part: int, place: int, value: float) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts[1][part][place] = value

    return change


def _all(part: int, value: float) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts[1][part][:] = value

    return change


def _about(key: str, value: Any) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts[0][key] = value

    return change


def other_target(parts: Parts) -> None:
    parts[0]["target"] = 2 - parts[0]["target"]


def one_leaf(parts: Parts) -> None:
    parts[0]["boxes"], parts[1][3] = [1], np.array([LEAF], np.uint8)


def _codes(edit: Callable[[np.ndarray], Any]) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts[1][3] = np.asarray(edit(parts[1][3]), np.uint8)
        parts[0]["boxes"] = [len(parts[1][3])]

    return change


def _too_few(parts: Parts) -> None:
    parts[1][3] = parts[1][3][:-1]


FORGERIES: tuple[tuple[Callable[[Parts], None], str], ...] = (
    (_number(0, 2, 1), "no tree"),
    (_number(1, 0, math.nan), "limit"),
    (_number(1, 1, math.inf), "limit"),
    (_all(1, 1e9), "is not proved"),
    (_number(2, 0, math.inf), "multiplier"),
    (_number(2, -1, math.nan), "multiplier"),
    (_number(2, 0, 50.0), "is not proved"),
    (_number(2, -1, -50.0), "is not proved"),
    (one_leaf, "is not proved"),
    (_codes(lambda code: code[:-1]), "cut off"),
    (_codes(lambda code: [*code, LEAF]), "goes on"),
    (_codes(lambda code: [5, *code[1:]]), "halves an entry"),
    (_codes(lambda code: [0] * 5000), "no middle|cut off"),
    (_too_few, "too few"),
    (_about("boxes", []), "no tree"),
    (_about("boxes", [2**21]), "too many boxes"),
    (_about("boxes", 3), "how long"),
    (_about("boxes", [1.5]), "how long"),
    (_about("boxes", [-5, 2000]), "too few"),
    (_about("windows", 7), "other windows"),
    (_about("target", 1.0), "no target"),
    (_about("target", 3), "no target"),
    (other_target, "another target"),
    (_about("span", None), "part of a range"),
    (_about("span", [0.0, 0.05]), "another tree or part"),
    (_about("piece", None), "no piece"),
    (_about("piece", 1), "piece"),
    (_about("more", 1), "not understood"),
)


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        _, path, model = certified(tmp_path_factory.mktemp("windows"), monkeypatch)
    return path, model


def first_proof(edit: Callable[[Parts], None]) -> Change:
    """Edit the first proof by windows."""

    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        place = [tag for tag, _ in blocks].index("WNDW")
        about, parts = _parts(blocks[place][1])
        edit((about, parts))
        text = json.dumps(about).encode()
        numbers = b"".join(part.tobytes() for part in parts)
        blocks[place] = "WNDW", struct.pack("<I", len(text)) + text + numbers

    return change


@pytest.mark.parametrize(("forge", "why"), FORGERIES)
def test_forgeries_are_refused(
    forge: Callable[[Parts], None], why: str, proved: tuple[Path, Path]
) -> None:
    path, model = proved
    with pytest.raises(Rejected, match=why):
        check(forged(path, first_proof(forge)), model=model)


def _problem(**entries: Any) -> Change:
    return lambda _, head: head["problem"].update(entries)


def lowered(blocks: Blocks, head: dict[str, Any]) -> None:
    for claims in (head["claims"], *head["claims"]["targets"].values()):
        claims["upper"] *= 1 - 1e-6


def _other_kind(blocks: Blocks, head: dict[str, Any]) -> None:
    for k, (tag, raw) in enumerate(blocks):
        if tag == "PROF":
            blocks[k] = tag, raw[:-1] + bytes([5])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lowered, "is not proved"),
        (_problem(perturbation="brightness([0,0.11])"), "range|another tree or part|part"),
        (_problem(perturbation="linf(0.1)"), "part of a range|range"),
        (_problem(perturbation="contrast([1,1.1])"), "range|brightness|part"),
        (_problem(clip=False), "is not proved"),
        (_problem(input_range=[0.0, 2.0]), "is not proved"),
        (_problem(source=2, targets=[0, 1]), "."),
        (_other_kind, "another kind"),
    ],
)
def test_they_are_about_their_own_problem(
    change: Change, why: str, proved: tuple[Path, Path]
) -> None:
    path, model = proved
    with pytest.raises(Rejected, match=why):
        check(forged(path, change), model=model)


def _raw(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return [unpack(file, block) for block in scan(path) if block.tag == "WNDW"]


def test_any_multipliers_and_trees_are_at_least_what_pairs_reach(
    proved: tuple[Path, Path],
) -> None:
    path, model = proved
    rng = np.random.default_rng(4)
    exact = ExactNetwork(read_onnx(model))
    network, domain = read_model(model.read_bytes()), Domain(SHAPE, 0.0, 1.0)
    form = Form(network, pieces("brightness([0,0.1])", domain, True), network, domain)
    (piece,) = pieces_of("brightness([0,0.1])", True, rng)
    about, parts = _parts(_raw(path)[0])
    shifts = [exact(p.exact).scores - exact(p.exact_p).scores for p in pairs(piece, rng, 60)]
    reached = max(shift[1] - shift[about["target"]] for shift in shifts)
    for _ in range(10):
        count = len(parts[2])
        noise = parts[2] + rng.choice([0.0, 0.01, 1.0]) * rng.normal(size=count)
        edited = [parts[0], parts[1] * rng.uniform(0, 2), noise.astype("<f4"), parts[3]]
        text = json.dumps(about).encode()
        numbers = b"".join(part.tobytes() for part in edited)
        raw = struct.pack("<I", len(text)) + text + numbers
        upper = WindowProver(WindowRegion.read(form, raw)).upper(1, about["target"])
        assert reached <= Fraction(upper)


def test_weights_that_may_underflow_are_refused(
    proved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = proved
    monkeypatch.setattr("vhagar_check.window_proofs.UNDERFLOW", 1e300 * UNDERFLOW * 1e8)
    with pytest.raises(Rejected, match="underflow"):
        check(path, model=model)


def test_corners_bound_the_points_of_a_box() -> None:
    """With terms of both signs, whether pixels are clipped in the box or not."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        pixels, units = rng.integers(1, 5), 6
        ends = np.sort(rng.random((2, pixels + 1)), axis=0)
        ends[:, -1] *= 0.4
        weight, bias = 2 * rng.normal(size=(units, pixels)), rng.normal(size=units)
        lead, on = rng.normal(size=(3, units)), rng.normal(size=(2, 3, pixels))
        end = rng.choice([1.0, 0.8, math.inf])
        alike = boxes.Alike(weight, bias, *ends, end, lead, *on)
        most = boxes.largest(alike, bytes([LEAF]), np.zeros(3))
        halves = boxes.largest(alike, bytes([pixels, 0, LEAF, LEAF, LEAF]), np.full(3, -1e9))
        assert (halves <= most).all()
        part = rng.random((400, pixels + 1))
        points = ends[0] + np.where(part < 0.7, part / 0.7, part.round()) * (ends[1] - ends[0])
        x, e = points[:, :-1], points[:, -1:]
        x_p = np.minimum(x + e, end)
        s, t = (np.maximum(side @ weight.T + bias, 0.0) for side in (x, x_p))
        reached = (lead @ (s - t).T - on[0] @ x.T - on[1] @ x_p.T).max(axis=1)
        assert (reached <= halves + 1e-12).all()
