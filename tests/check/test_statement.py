"""What a certificate states, header by header: what is read, and what is refused."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Relu, onnx_bytes
from vhagar.result.certificate import NODE
from vhagar_check import statement as module
from vhagar_check.container import scan
from vhagar_check.errors import Rejected
from vhagar_check.one_image import OneImage
from vhagar_check.statement import Statement, toward
from vhagar_check.tree import Root

from .editing import write_blocks


def model_bytes() -> bytes:
    """Four pixels, five neurons, three classes."""
    rng = np.random.default_rng(1)
    draw = lambda *size: rng.normal(size=size).astype(np.float32).astype(float)  # noqa: E731
    layers = (
        Affine(draw(5, 4), draw(5), (1, 2, 2), (5,)),
        Relu((5,)),
        Affine(draw(3, 5), draw(3), (5,), (3,)),
    )
    return onnx_bytes(Network(layers, (1, 2, 2)))


HEAD: dict[str, Any] = {
    "format": 1,
    "producer": "test",
    "model": {"name": "model.onnx", "sha256": None},
    "problem": {
        "perturbation": "linf(0.25)",
        "clip": True,
        "source": 0,
        "targets": [1, 2],
        "input_range": [0.0, 1.0],
        "input_shape": [1, 2, 2],
    },
    "claims": {
        "lower": 0.0,
        "upper": 3.0,
        "targets": {"1": {"lower": 0.0, "upper": 2.0}, "2": {"lower": 0.0, "upper": 3.0}},
    },
    "witnesses": [],
    "trees": [{"target": 1, "piece": 0}, {"target": 2, "piece": 0}],
    "nodes": 2,
}
IMAGE = {
    "problem": {"image": [0.0, 0.25, 0.5, 1.0]},
    "claims": {
        "targets": {"1": {"lower": -1.0, "upper": 0.5}, "2": {"lower": None, "upper": None}}
    },
}


def merged(head: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(head)
    for key, value in change.items():
        if key == "problem":
            found[key] = {**found[key], **value}
        else:
            found[key] = value
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("statement")
    (found / "model.onnx").write_bytes(model_bytes())
    return found


@pytest.fixture
def stated(folder: Path) -> Callable[..., Statement]:
    def found(
        behind: tuple[tuple[bytes, bytes], ...] = (),
        before: tuple[tuple[bytes, bytes], ...] = (),
        **change: Any,
    ) -> Statement:
        head = merged(HEAD, change)
        blocks = [*before, (b"HEAD", json.dumps(head).encode()), *behind]
        path = write_blocks(folder / "proof.cert", blocks)
        return Statement(path, folder / "model.onnx", scan(path))

    return found


def test_what_is_read(stated: Callable[..., Statement], folder: Path) -> None:
    found = stated()
    assert (found.source, found.targets, found.image, found.recorded) == (0, [1, 2], None, None)
    assert (found.claims, found.lowers) == ({1: 2.0, 2: 3.0}, {1: 0.0, 2: 0.0})
    assert found.claimed == {"lower": 0.0, "upper": 3.0}
    assert found.tree.roots == [Root(1, 0), Root(2, 0)]
    assert (found.domain.shape, found.domain.low, found.domain.high) == ((1, 2, 2), 0.0, 1.0)
    assert found.clipping == "clipped to the input range"
    assert found.form.network is found.form.alone is found.network
    own = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    assert found.model_hash == own
    assert stated(model={"name": "model.onnx", "sha256": own}).model_hash == own
    assert found.network.relu_sizes_and_classes == [5, 3]


def change(words: str, **given: Any) -> Any:
    return pytest.param(given, words, id=words + " " + json.dumps(given)[:40])


def problem(words: str, **given: Any) -> Any:
    return change(words, problem=given)


def claims(words: str, lower: Any = 0.0, upper: Any = 3.0, **targets: Any) -> Any:
    each = {**HEAD["claims"]["targets"], **targets}
    given = {"lower": lower, "upper": upper, "targets": each}
    return change(words, claims={key: value for key, value in given.items() if value is not None})


REFUSED = [
    change("another model", model={"name": "x", "sha256": "0" * 64}),
    change("not understood", more=1),
    change("not understood", model={"name": "x", "sha256": None, "more": 1}),
    change("not understood", trees=[{"target": 1, "piece": 0, "more": 1}], nodes=1),
    change("states format 2", format=2),
    change("as many nodes", nodes=3),
    change("as many nodes", nodes=1),
    problem("not understood", more=1),
    problem("another shape", input_shape=[4]),
    problem("another shape", input_shape=[1, 2, 3]),
    problem("empty or infinite range", input_range=[0.0, 0.0]),
    problem("empty or infinite range", input_range=[1.0, 0.0]),
    problem("empty or infinite range", input_range=[-1.7e308, 1.7e308]),
    problem("classes", source=3),
    problem("classes", source=-1),
    problem("classes", source=True),
    problem("classes", source=0.0),
    problem("classes", source=1),
    problem("classes", targets=[1, 3]),
    problem("classes", targets=[1, 1]),
    problem("classes", targets=[True, 2]),
    problem("classes", targets=[1.0, 2]),
    problem("targets without a perturbation", targets=[]),
    problem("targets without a perturbation", perturbation=None),
    problem("form of the question", form="linear"),
    problem("clips the images of pieces", clipped_pixels=[[0], []]),
    claims("a claim for every target", **{"3": {"lower": 0.0, "upper": 1.0}}),
    change("a claim for every target", claims={**HEAD["claims"], "targets": {}}),
    claims("negative or not finite", **{"1": {"lower": -1e-9, "upper": 2.0}}),
    claims("negative or not finite", **{"2": {"lower": 0.0, "upper": -1e-9}}),
    claims("negative or not finite", **{"1": {"lower": 0.0, "upper": "inf"}}),
    claims("negative or not finite", **{"1": {"lower": 0.0, "upper": "nan"}}),
    change("a target or a piece", trees=[{"target": 0, "piece": 0}], nodes=1),
    change("a target or a piece", trees=[{"target": 1, "piece": 1}], nodes=1),
    change("a target or a piece", trees=[{"target": 1, "piece": -1}], nodes=1),
    change("a target or a piece", trees=[{"target": 1, "piece": None}], nodes=1),
    change("a target or a piece", trees=[{"target": None, "piece": 0}], nodes=1),
    change("a target or a piece", trees=[{"target": None, "piece": None, "slopes": True}], nodes=1),
    change(
        "a target or a piece",
        trees=[{"target": 1, "piece": 0, "slopes": True, "boxes": True}],
        nodes=1,
    ),
    change("same target and piece", trees=[{"target": 1, "piece": 0}] * 2),
    change("plainly", trees=[{"target": 1, "piece": 0, "slopes": 1}], nodes=1),
    change("plainly", trees=[{"target": 1, "piece": 0, "boxes": None}], nodes=1),
    change("no class or piece", trees=[{"target": "1", "piece": 0}], nodes=1),
    change("no class or piece", trees=[{"target": True, "piece": 0}], nodes=1),
    change("no class or piece", trees=[{"target": 1, "piece": 0.0}], nodes=1),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_what_is_refused(
    given: dict[str, Any], words: str, stated: Callable[..., Statement]
) -> None:
    with pytest.raises(Rejected, match=words):
        stated(**given)


def test_every_kind_of_tree(stated: Callable[..., Statement]) -> None:
    trees = [
        {"target": 1, "piece": 0, "slopes": False},
        {"target": 1, "piece": 0, "slopes": True},
        {"target": 2, "piece": 0, "boxes": True},
        {"target": None, "piece": None},
        {"target": None, "piece": None, "boxes": True},
    ]
    found = stated(trees=trees, nodes=5)
    assert found.tree.roots == [
        Root(1, 0),
        Root(1, 0, slopes=True),
        Root(2, 0, boxes=True),
        Root(None, None),
        Root(None, None, boxes=True),
    ]


def test_ranges_of_any_width(stated: Callable[..., Statement]) -> None:
    for ends in ([0.0, 0.25], [-3.0, -1.0], [-2.0, 5.0]):
        found = stated(problem={"input_range": ends})
        assert [found.domain.low, found.domain.high] == ends


def test_blocks_of_the_header(stated: Callable[..., Statement]) -> None:
    """One header, first; records of a tree are whole; maps are recorded once, behind it."""
    pair = b"".join(NODE.pack(0, 0, 0, positive, 0, 0, 2, 0.0) for positive in (0, 1))
    found = stated(behind=((b"TREE", pair),), nodes=4)
    assert found.tree.count == 4
    halves = ((b"TREE", pair[: NODE.size]), (b"TREE", pair[NODE.size :]))
    assert stated(behind=halves, nodes=4).tree.count == 4
    for given, words in (
        ({"behind": ((b"TREE", pair[:-1]),)}, "cut off"),
        ({"behind": ((b"HEAD", json.dumps(HEAD).encode()),)}, "one header"),
        ({"before": ((b"TREE", pair),)}, "one header"),
        ({"behind": ((b"TREE", pair), (b"MAPS", b"")), "nodes": 4}, "maps are not recorded"),
        ({"behind": ((b"MAPS", b""), (b"MAPS", b""))}, "maps are not recorded"),
    ):
        with pytest.raises(Rejected, match=words):
            stated(**given)
    with pytest.raises(Rejected, match="one header"):
        Statement(Path("none"), Path("none"), [])


def test_maps_are_read_behind_the_header(
    stated: Callable[..., Statement], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(module, "read_maps", lambda raw, domain: seen.append((raw, domain.size)))
    stated(behind=((b"MAPS", b"maps"),))
    stated()
    assert seen == [(b"maps", 4)]


def test_the_maximal_confidence(stated: Callable[..., Statement]) -> None:
    given: dict[str, Any] = {
        "problem": {"perturbation": None, "targets": []},
        "claims": {"lower": 0.5, "upper": 4.0},
        "trees": [{"target": None, "piece": None}],
        "nodes": 1,
    }
    found = stated(**given)
    assert found.targets == [None]
    assert (found.claims, found.lowers) == ({None: 4.0}, {None: 0.5})
    question = found.question(Root(None, None))
    assert (question.source, question.target, question.claim) == (0, None, 4.0)
    with pytest.raises(Rejected, match="a target or a piece"):
        stated(**{**given, "trees": [{"target": None, "piece": 0}]})


def test_the_question_of_a_tree(stated: Callable[..., Statement]) -> None:
    """A tree about all targets must prove the least claim."""
    found = stated()
    for root, target, claim in (
        (Root(1, 0), 1, 2.0),
        (Root(2, 0), 2, 3.0),
        (Root(None, None), None, 2.0),
    ):
        question = found.question(root)
        assert (question.source, question.target, question.claim) == (0, target, claim)
        assert not question.signed


def test_words_about_the_ends_of_the_range(
    stated: Callable[..., Statement], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stated(problem={"clip": False}).clipping == "never beyond the input range"
    shifted = stated(problem={"clip": False, "perturbation": "brightness([0,0.25])"})
    assert shifted.clipping == "not clipped to the input range"
    found = stated()
    found.pieces = [*found.pieces, *shifted.pieces]
    assert found._unclipped() == "not clipped to the input range"
    asked = []

    def clipped(affine: list[Any], masks: Any, domain: Any) -> bool:
        asked.append(len(affine))
        return False

    monkeypatch.setattr(module, "require_clipped", clipped)
    assert stated().clipping.startswith("clipped to the input range where it leaves it by more")
    assert stated(problem={"clip": False}).clipping == "never beyond the input range"
    assert asked == [0]


def test_a_clip_in_front_of_the_network(stated: Callable[..., Statement]) -> None:
    """Of affine maps, whose images may leave the range."""
    text = "translation(0,1)+brightness([0,0.25])"
    found = stated(problem={"perturbation": text, "clipped_pixels": [[], [0, 1, 2, 3]]})
    assert found.network.relu_sizes_and_classes == [4, 5, 3]
    assert found.form.alone is found.form.network is found.network
    with pytest.raises(Rejected, match="leaves the input range"):
        stated(problem={"perturbation": text})


def test_domains(stated: Callable[..., Statement]) -> None:
    low, high = [0.0, 0.25, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]
    found = stated(problem={"domain": {"lower": low, "upper": high}})
    assert found.domain.box is not None
    assert [side.tolist() for side in found.domain.box] == [low, high]
    for lower, upper, words in (
        (low[:3], high, "two ends"),
        (low, high[:3], "two ends"),
        (low[:3], high[:3], "two ends"),
        ([0.0, 0.75, 0.5, 1.0], high, "empty"),
        ([0.0, "nan", 0.5, 1.0], high, "empty"),
        ([-0.1, 0.25, 0.5, 1.0], high, "leaves the input range"),
        (low, [0.0, 0.5, 1.5, 1.0], "leaves the input range"),
        ([-0.1] * 4, [1.1] * 4, "leaves the input range"),
    ):
        with pytest.raises(Rejected, match=words):
            stated(problem={"domain": {"lower": lower, "upper": upper}})


def test_domains_without_an_input(stated: Callable[..., Statement]) -> None:
    low, high = [0.0, 0.25, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]
    row = {"entries": [1, 2], "weights": [1.0, 2.0], "at_least": 2.5, "at_most": None}
    box = {"lower": low, "upper": high}
    found = stated(problem={"domain": {**box, "rows": [row]}})
    assert found.domain.box is not None
    assert [side.tolist() for side in found.domain.box] == [low, high]
    impossible: list[dict[str, Any]] = [
        {"rows": [{**row, "at_least": math.nextafter(2.5, 3)}]},
        {"rows": [{**row, "at_least": None, "at_most": math.nextafter(1.25, 1)}]},
        {"one_hot": [[1, 2]]},  # entry 1 is not 1, and entry 2 not 0
        {"ordered": [[3, 0]]},
    ]
    for more in impossible:
        with pytest.raises(Rejected, match="empty: no input in its ranges satisfies its rows"):
            stated(problem={"domain": {**box, **more}})
    narrowed = {"integer": [2], "rows": [row]}  # which leaves 1 to entry 2
    found = stated(problem={"domain": {**box, **narrowed}})
    assert found.domain.box is not None
    assert [side.tolist() for side in found.domain.box] == [low, high]


def test_one_image(stated: Callable[..., Statement]) -> None:
    found = stated(**IMAGE)
    assert found.image is not None
    assert found.image.tolist() == [0.0, 0.25, 0.5, 1.0]
    assert (found.claims, found.lowers) == ({1: 0.5, 2: math.inf}, {1: -1.0, 2: -math.inf})
    assert found.claimed == {}
    assert all(isinstance(piece, OneImage) for piece in found.form.pieces)
    question = found.question(Root(1, 0))
    assert (question.source, question.target, question.claim, question.signed) == (
        1,
        None,
        0.5,
        True,
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"problem": {"image": [0.0] * 3}}, "not in the input range"),
        ({"problem": {"image": [0.0, 0.0, 0.0, 1.1]}}, "not in the input range"),
        ({"problem": {"image": [-0.1, 0.0, 0.0, 1.0]}}, "not in the input range"),
        ({"problem": {"image": [0.0, "nan", 0.0, 1.0]}}, "not in the input range"),
        (
            {"problem": {"image": [0.0] * 4, "perturbation": None, "targets": []}},
            "nothing perturbs it",
        ),
        (
            {"problem": {"image": [0.0] * 4, "domain": {"lower": [0.0] * 4, "upper": [1.0] * 4}}},
            "about no domain",
        ),
        ({"problem": {"image": [0.0] * 4, "clipped_pixels": [[0], []]}}, "no clipped pixels"),
        ({"problem": {"image": [0.0] * 4, "form": "homogeneous"}}, "no other form"),
        ({"claims": {**IMAGE["claims"], "upper": 1.0}}, "a claim for every target"),
        (
            {"claims": {"targets": {"1": {"lower": None, "upper": None}}}},
            "a claim for every target",
        ),
        (
            {
                "claims": {
                    "targets": {"1": {"lower": True, "upper": 0.0}, "2": {"lower": 0, "upper": 1}}
                }
            },
            "no number",
        ),
        (
            {
                "claims": {
                    "targets": {"1": {"lower": 0, "upper": "1"}, "2": {"lower": 0, "upper": 1}}
                }
            },
            "no number",
        ),
        ({"trees": [{"target": None, "piece": None}], "nodes": 1}, "a target or a piece"),
    ],
)
def test_what_one_image_refuses(
    given: dict[str, Any], words: str, stated: Callable[..., Statement]
) -> None:
    whole = {**IMAGE, **given}
    with pytest.raises(Rejected, match=words):
        stated(**whole)


def test_claims_about_one_image_are_finite(stated: Callable[..., Statement]) -> None:
    found = stated(**IMAGE)
    for number in (math.inf, -math.inf, math.nan):
        with pytest.raises(Rejected, match="no number"):
            found._read_signed(
                {"targets": {"1": {"lower": 0.0, "upper": number}, "2": {"lower": 0, "upper": 1}}}
            )


def test_bounds_of_each_target(stated: Callable[..., Statement]) -> None:
    """The best tree of each piece, the worst piece, and no more than a bound on all inputs."""
    trees = [
        {"target": 1, "piece": 0},
        {"target": 1, "piece": 0, "slopes": True},
        {"target": 1, "piece": 1, "boxes": True},
        {"target": 2, "piece": 0},
        {"target": 2, "piece": 1},
        {"target": None, "piece": None},
        {"target": None, "piece": None, "boxes": True},
    ]
    found = stated(problem={"perturbation": "occlusion([1,2],1,1)"}, trees=trees, nodes=7)
    for values, ceiling, expected in (
        ([5.0, 3.0, 2.0, 1.0, 4.0, 9.0, 9.0], 50.0, (3.0, 4.0)),
        ([3.0, 5.0, 2.0, 1.0, 4.0, 9.0, 9.0], 50.0, (3.0, 4.0)),
        ([5.0, 3.0, 6.0, 1.0, 4.0, 9.0, 9.0], 50.0, (6.0, 4.0)),
        ([5.0, 3.0, 6.0, 1.0, 4.0, 3.5, 9.0], 50.0, (3.5, 3.5)),
        ([5.0, 3.0, 6.0, 1.0, 4.0, 9.0, 3.5], 50.0, (3.5, 3.5)),
        ([5.0, 3.0, 6.0, 1.0, 4.0, 9.0, 9.0], 2.5, (2.5, 2.5)),
        ([-1.0, 3.0, -2.0, -1.0, -4.0, 9.0, 9.0], 50.0, (0.0, 0.0)),
        ([math.inf] * 7, math.inf, (math.inf, math.inf)),
    ):
        uppers = found.upper_bounds(np.array(values), ceiling)
        assert (uppers[1], uppers[2]) == expected
    missing = stated(problem={"perturbation": "occlusion([1,2],1,1)"}, trees=trees[:4], nodes=4)
    uppers = missing.upper_bounds(np.array([5.0, 3.0, 2.0, 1.0]), 50.0)
    assert (uppers[1], uppers[2]) == (3.0, 50.0), "a piece without a tree has no bound of its own"
    image = stated(**IMAGE, trees=trees[:1], nodes=1)
    assert image.upper_bounds(np.array([-2.0]), math.inf) == {1: -2.0, 2: math.inf}
    two = stated(
        **merged(IMAGE, {"problem": {"perturbation": "occlusion([1,2],1,1)"}}),
        trees=trees[3:5],
    )
    assert two.upper_bounds(np.array([-2.0, -1.0]), math.inf)[2] == -1.0


def test_bounds_on_the_confidence_of_all_inputs(
    stated: Callable[..., Statement], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = stated()
    low, high = found.confidences()
    assert low < high
    assert found.ceiling() == high
    assert found.ceiling(exact=True) <= high
    assert found.ceiling(exact=True) == pytest.approx(high)
    assert found.score_size() > 0
    monkeypatch.setattr(module, "confidence_interval", lambda *given: (math.nan, math.nan))
    assert found.confidences() == (-math.inf, math.inf)
    monkeypatch.setattr(module, "exact_ceiling", lambda *given: 7.0)
    assert found.ceiling(exact=True) == 7.0


def test_contrast_in_its_homogeneous_form(stated: Callable[..., Statement]) -> None:
    found = stated(
        problem={"perturbation": "contrast([0.5,0.75])", "clip": False, "form": "homogeneous"}
    )
    assert found.form.network.input_shape == (5,)
    assert found.form.alone is found.network
    assert found.form.pieces[0].domain.size == 5


def test_targets_in_words() -> None:
    assert toward(None) == ""
    assert toward(2) == " for target 2"
