"""Quadratic proofs and trees split by slopes: derived again from the model, forgeries refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, UserPerturbation, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.perturbation import Perturbation
from vhagar.result.certificate import NODE, NodeKind
from vhagar.search import node_search
from vhagar.search.branch_and_bound import Bab
from vhagar.search.node_solver import Explored, NodeSolver
from vhagar.search.slope_search import SlopeSearch
from vhagar_check import Rejected, check, quadratic
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.formula import Decisions
from vhagar_check.layers import Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.proofs import QUADRATIC, TIED
from vhagar_check.quadratic import QuadraticProver
from vhagar_check.regions import EQUAL, OFF, ON, Region, Regions
from vhagar_check.statement import Statement

from .test_verdict import Blocks, Change, forged, network

# Tasks of the search, of which all but the first are about slopes.
TASKS = 7
# Every pixel takes on a part of the next one.
BLUR = 0.9 * np.eye(16) + 0.1 * np.roll(np.eye(16), 1, axis=1)


def interrupted_search(
    folder: Path,
    perturbation: str | Perturbation,
    monkeypatch: pytest.MonkeyPatch,
    nodes: int = 4,
) -> tuple[Path, Path]:
    """A certificate of a search that is nearly all about slopes, always the same.

    A task bounds `nodes` at most; with one, some roots are bounded and not split.
    """
    monkeypatch.setattr(SlopeSearch, "_share", lambda self, lower: 1.0)
    monkeypatch.setattr(node_search, "_QUANTUM_NODES", nodes)
    tasks: list[int] = []
    explore_heap = NodeSolver.explore_heap

    def watched(self: NodeSolver, heap: Any, *arguments: Any, **named: Any) -> Explored:
        tasks.append(len(tasks))
        if len(tasks) > TASKS:
            raise KeyboardInterrupt
        return explore_heap(self, heap, *arguments, **named)

    monkeypatch.setattr(NodeSolver, "explore_heap", watched)
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(onnx_bytes(network()))
    problem = Problem(read_onnx(model), perturbation=perturbation, source=0)
    verify(problem, engine=Bab(attack=False), workers=0, certificate=path)
    return path, model


def heads(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return json.loads(unpack(file, scan(path)[0]))


def only_slopes(blocks: Blocks, head: dict[str, Any]) -> None:
    """Without the proofs of all other trees."""
    blocks[:] = [
        (tag, raw)
        for tag, raw in blocks
        if tag != "PROF" or head["trees"][split_json(raw)[0]["tree"]].get("slopes")
    ]


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate in which trees by slopes prove all."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        path, model = interrupted_search(
            tmp_path_factory.mktemp("slopes"), "linf(0.1)", monkeypatch
        )
    return forged(path, only_slopes).rename(path.with_suffix(".slopes")), model


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same for a perturbation whose changes are linear in the input."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        blur = UserPerturbation(matrix=BLUR, name="blur")
        path, model = interrupted_search(tmp_path_factory.mktemp("tied"), blur, monkeypatch)
    return forged(path, only_slopes).rename(path.with_suffix(".slopes")), model


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Both, of searches in which no root was split."""
    blur = UserPerturbation(matrix=BLUR, name="blur")
    searches = {}
    for name, perturbation in {"proved": "linf(0.1)", "tied": blur}.items():
        with pytest.MonkeyPatch.context() as monkeypatch:
            folder = tmp_path_factory.mktemp(name)
            searches[name] = interrupted_search(folder, perturbation, monkeypatch, 1)
    return searches


@pytest.mark.parametrize("which", ["proved", "tied"])
def test_slopes_alone_prove_the_claim(which: str, request: pytest.FixtureRequest) -> None:
    path, model = request.getfixturevalue(which)
    head = heads(path)
    by_slopes = [tree["target"] for tree in head["trees"] if tree.get("slopes")]
    assert by_slopes == head["problem"]["targets"]
    assert head["nodes"] > len(head["trees"]) + 4
    assert check(path, model=model).upper == head["claims"]["upper"]


def test_what_float64_leaves_open_is_decided_in_rationals(
    proved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quadratic, "is_definite", lambda *_: False)
    monkeypatch.setattr(quadratic, "_FEW_PAIRS", 40)
    path, model = proved
    assert check(path, model=model).upper == heads(path)["claims"]["upper"]
    with pytest.raises(Rejected, match="is not proved"):
        check(forged(path, lowered(1e-5)), model=model)
    monkeypatch.setattr(quadratic, "_FEW_PAIRS", 0)
    with pytest.raises(Rejected, match="is not proved"):
        check(path, model=model)


def lowered(share: float) -> Change:
    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        for claims in (head["claims"], *head["claims"]["targets"].values()):
            claims["upper"] *= 1 - share

    return change


def each_proof(edit: Callable[[np.ndarray, int], None]) -> Change:
    """Edit the numbers of every quadratic proof, given with how many of them are about pairs."""

    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag != "PROF":
                continue
            about, data = split_json(raw)
            count = about["count"]
            numbers = np.frombuffer(data[5 * count :], "<f8").copy().reshape(count, -1)
            for row in numbers:
                edit(row, len(row) - 16)
            start = raw[: len(raw) - len(data)] + data[: 5 * count]
            blocks[k] = tag, start + numbers.tobytes()

    return change


def first_pair(value: float) -> Change:
    def edit(row: np.ndarray, pairs: int) -> None:
        row[np.flatnonzero(row[:pairs])[0]] = value

    return each_proof(edit)


def first_input(value: float) -> Change:
    return each_proof(lambda row, pairs: row.__setitem__(pairs, value))


def times(pairs: float, inputs: float) -> Change:
    def edit(row: np.ndarray, count: int) -> None:
        row[:count] *= pairs
        row[count:] *= inputs

    return each_proof(edit)


def records(edit: Callable[[list[list[Any]]], None]) -> Change:
    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        place = [tag for tag, _ in blocks].index("TREE")
        found = [list(fields) for fields in NODE.iter_unpack(blocks[place][1])]
        first = next(k for k, fields in enumerate(found) if fields[1] == NodeKind.SLOPE)
        edit(found[first:])
        blocks[place] = "TREE", b"".join(NODE.pack(*fields) for fields in found)

    return change


def _a_sign_instead(steps: list[list[Any]]) -> None:
    for fields in steps:
        fields[1] = NodeKind.DECISION


def _a_split_instead(steps: list[list[Any]]) -> None:
    for fields in steps:
        fields[1:] = [NodeKind.SPLIT, 0, fields[3], 0, 0, 0, 0.5]


def _another_pair(steps: list[list[Any]]) -> None:
    for fields in steps:
        fields[5], fields[6] = 1, 4 - fields[6] % 5


def _one_slope_twice(steps: list[list[Any]]) -> None:
    steps[0][3] = 1


def _a_pixel(steps: list[list[Any]]) -> None:
    for fields in steps[:2]:
        fields[5] = -1


def _no_slopes(blocks: Blocks, head: dict[str, Any]) -> None:
    for tree in head["trees"]:
        tree.pop("slopes", None)


def _other_trees_gone(blocks: Blocks, head: dict[str, Any]) -> None:
    """The trees by slopes are passed off as trees by signs."""
    named = [tree["target"] for tree in head["trees"]]
    for tree in head["trees"]:
        if tree.get("slopes"):
            del tree["slopes"]
        elif tree["target"] is not None and named.count(tree["target"]) > 1:
            tree["slopes"] = True


def _vague(blocks: Blocks, head: dict[str, Any]) -> None:
    head["trees"][-1]["slopes"] = 1


def _another_kind(blocks: Blocks, head: dict[str, Any]) -> None:
    for k, (tag, raw) in enumerate(blocks):
        if tag == "PROF":
            about, data = split_json(raw)
            count = about["count"]
            start = raw[: len(raw) - len(data)] + data[: 4 * count]
            blocks[k] = tag, start + bytes(count)


def _stronger(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["perturbation"] = "linf(0.11)"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lowered(1e-4), "is not proved"),
        (_stronger, "is not proved"),
        (first_pair(-1.0), "multiplier"),
        (first_pair(0.0), "multiplier"),
        (first_pair(math.nan), "multiplier"),
        (first_pair(math.inf), "multiplier"),
        (first_pair(1e300), "is not proved"),
        (first_input(-1.0), "multiplier"),
        (first_input(math.nan), "multiplier"),
        (first_input(1e-300), "is not proved"),
        (times(100.0, 1.0), "is not proved"),
        (times(0.01, 1.0), "is not proved"),
        (times(1.0, 0.2), "is not proved"),
        (times(1.0, 5.0), "is not proved"),
        (records(_a_sign_instead), "mixed"),
        (records(_a_split_instead), "."),
        (records(_another_pair), "is not proved|multiplier"),
        (records(_one_slope_twice), "two sides"),
        (records(_a_pixel), "pixel"),
        (_no_slopes, "same target"),
        (_other_trees_gone, "mixed"),
        (_vague, "plainly"),
        (_another_kind, "wrong length|pairs of inputs"),
    ],
)
def test_forgeries_are_refused(change: Change, why: str, proved: tuple[Path, Path]) -> None:
    path, model = proved
    with pytest.raises(Rejected, match=why):
        check(forged(path, change), model=model)


def _kinds(kind: int) -> Change:
    """All proofs are said to be of a kind."""

    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag == "PROF":
                about, data = split_json(raw)
                count = about["count"]
                start = raw[: len(raw) - len(data)] + data[: 4 * count]
                blocks[k] = tag, start + bytes([kind]) * count + data[5 * count :]

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lowered(1e-4), "is not proved"),
        (first_pair(-1.0), "multiplier"),
        (first_input(-1.0), "multiplier"),
        (first_input(math.nan), "multiplier"),
        (times(100.0, 1.0), "is not proved"),
        (times(1.0, 0.2), "is not proved"),
        (times(1.0, 5.0), "is not proved"),
        (_kinds(QUADRATIC), "is not proved|multiplier"),
        (_kinds(TIED + 1), "unknown kind"),
    ],
)
def test_forgeries_of_ties_are_refused(change: Change, why: str, tied: tuple[Path, Path]) -> None:
    path, model = tied
    with pytest.raises(Rejected, match=why):
        check(forged(path, change), model=model)


def test_free_changes_are_not_tied_to_the_input(proved: tuple[Path, Path]) -> None:
    path, model = proved
    with pytest.raises(Rejected, match="no linear function"):
        check(forged(path, _kinds(TIED)), model=model)


@pytest.mark.parametrize("text", ["rotation(20)", "translation(1,-1)", "occlusion(2,2,2)"])
def test_the_change_is_the_linear_function_it_is_said_to_be(text: str) -> None:
    rng = np.random.default_rng(4)
    (piece,) = pieces(text, Domain((1, 4, 4), 0.0, 1.0), True)
    linear = piece.linear_change()
    assert linear is not None
    matrix, slips = linear
    x = rng.random((50, 16))
    for image in x:
        exact = piece.exact_image([Fraction(value) for value in image.tolist()], [])
        if exact is None:
            low, high = piece.image_interval(image, [])
            assert (abs(matrix @ image - (image - (low + high) / 2)) <= 1e-12).all()
        else:
            assert (matrix @ image == image - np.array([float(value) for value in exact])).all()
    assert (slips <= 2.0**-49).all()


@pytest.mark.parametrize("text", ["translation(1,-1)", "occlusion(2,2,2)", "rotation(20)"])
def test_nothing_is_linear_where_black_is_not_zero(text: str) -> None:
    (piece,) = pieces(text, Domain((1, 4, 4), -1.0, 1.0), True)
    assert piece.linear_change() is None


def test_no_pair_of_inputs_exceeds_what_ties_prove(roots: dict[str, tuple[Path, Path]]) -> None:
    rng = np.random.default_rng(19)
    x = rng.choice([0.0, 0.5, 1.0], (20_000, 16))
    difference = network().forward(x) - network().forward(x @ BLUR.T)
    largest = float((difference[:, 0] - difference[:, 2]).max())
    region, numbers = _root_proof(*roots["tied"])
    proofs = 0
    for claim in largest * np.linspace(0.5, 6.0, 26):
        prover = QuadraticProver(region, 0, 2, float(claim), tied=True)
        for spread in (0.0, 0.02, 0.1):
            given = numbers * np.exp(spread * rng.normal(size=len(numbers)))
            if prover.value(given, Decisions()) <= claim:
                proofs += 1
                assert claim >= largest * (1 - 1e-9)
    assert proofs > 2


def _root_proof(path: Path, model: Path) -> tuple[Region, np.ndarray]:
    """The region of the last target's proofs, and the numbers of its root's proof."""
    blocks = scan(path)
    statement = Statement(path, model, blocks)
    with path.open("rb") as file:
        region_block = [block for block in blocks if block.tag == "REGN"][-1]
        about, data = split_json(unpack(file, blocks[-1]))
        region = Regions(statement.form).read(unpack(file, region_block))
    root = statement.tree.roots[about["tree"]]
    assert root.slopes
    assert root.target == 2
    assert np.frombuffer(data, "<u4", 1)[0] == about["tree"]
    count = about["count"]
    numbers = np.frombuffer(data[5 * count :], "<f8").reshape(count, -1)
    return region, numbers[0].copy()


@pytest.mark.slow
def test_no_pair_of_inputs_exceeds_what_is_proved(roots: dict[str, tuple[Path, Path]]) -> None:
    """With multipliers that are moved at random: whatever is proved of them holds."""
    rng = np.random.default_rng(9)
    net = network()
    x = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], (20_000, 16))
    moved = np.clip(x + 0.1 * rng.choice([-1.0, 0.0, 1.0], x.shape), 0, 1)
    difference = net.forward(x) - net.forward(moved)
    largest = float((difference[:, 0] - difference[:, 2]).max())
    region, numbers = _root_proof(*roots["proved"])
    proofs = 0
    for claim in largest * np.linspace(0.5, 6.0, 26):
        prover = QuadraticProver(region, 0, 2, float(claim))
        for spread in (0.0, 0.02, 0.1, 0.5):
            given = numbers * np.exp(spread * rng.normal(size=len(numbers)))
            if prover.value(given, Decisions()) <= claim:
                proofs += 1
                assert claim >= largest
    assert proofs > 2


@pytest.mark.parametrize("state", [OFF, ON, EQUAL])
def test_states_that_are_not_proved_are_refused(
    state: int, roots: dict[str, tuple[Path, Path]]
) -> None:
    """The twin dual pays for a wrong state; here it would change the slopes that are possible."""
    region, _ = _root_proof(*roots["proved"])
    changed = [layer.copy() for layer in region.status]
    changed[1][3] = state
    with pytest.raises(Rejected, match="state"):
        QuadraticProver(replace(region, status=changed), 0, 2, 100.0)


def cancelling(bias: float) -> Region:
    """One neuron that receives what cancels, and a bias: float64 leaves its sign open at 0."""
    apart, together = np.array([[0.1, 0.3], [0.1, 0.3]]), np.array([[1.0, -1.0]])
    stages = (
        (Dense(apart, np.array([0.7, 0.7])), Dense(together, np.array([bias]))),
        (Dense(np.array([[1.0], [0.0]]), np.zeros(2)),),
    )
    net = Network(stages, (2,))
    (piece,) = pieces("linf(0.1)", Domain((2,), 0.0, 1.0), True)
    return Region(0, quick_bounds(net, piece), [np.array([OFF], dtype=np.uint8)])


@pytest.mark.parametrize("state", [OFF, ON, EQUAL])
def test_states_that_hang_on_rounding_are_decided_in_rationals(
    state: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = replace(cancelling(0.0), status=[np.array([state], dtype=np.uint8)])
    hexagons = region.bounds.hexagons[0]
    assert hexagons.low[0] < 0 < hexagons.high[0]
    prover = QuadraticProver(region, 0, 1, 0.1)
    assert prover.value(np.ones(2), Decisions()) == 0.1
    monkeypatch.setattr(quadratic, "_MOST_PRODUCTS", 11)  # both copies, 4 and 2 weights
    with pytest.raises(Rejected, match="state"):
        QuadraticProver(region, 0, 1, 0.1)
    monkeypatch.setattr(quadratic, "_MOST_PRODUCTS", 12)
    QuadraticProver(region, 0, 1, 0.1)


@pytest.mark.parametrize(("state", "bias"), [(OFF, 2.0**-60), (ON, -(2.0**-60))])
def test_a_state_that_is_wrong_by_less_than_rounding_is_refused(state: int, bias: float) -> None:
    region = replace(cancelling(bias), status=[np.array([state], dtype=np.uint8)])
    hexagons = region.bounds.hexagons[0]
    assert hexagons.low[0] < 0 < hexagons.high[0]
    with pytest.raises(Rejected, match="state"):
        QuadraticProver(region, 0, 1, 1.0)


def test_copies_that_differ_by_less_than_rounding_are_not_equal() -> None:
    region = cancelling(0.0)
    region.bounds.network.stages[0][1].weight[0, 0] += 2.0**-52
    changed = replace(region, status=[np.array([EQUAL], dtype=np.uint8)])
    with pytest.raises(Rejected, match="state"):
        QuadraticProver(changed, 0, 1, 1.0)
