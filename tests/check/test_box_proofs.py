"""Proofs by boxes are derived again from the model, and forged ones are refused."""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, verify
from vhagar.network import Affine, Relu, onnx_bytes, read_onnx
from vhagar_check import Rejected, box_proofs, check
from vhagar_check.box_proofs import LEAF, BoxProver, BoxRegion
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.layers import HALF_ULP, TINY, Dense
from vhagar_check.layers import Network as TheirNetwork
from vhagar_check.linear_bounds import Boxes, LinearBounds, extremes, largest_of_pairs
from vhagar_check.model import read_model
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import linf_ball
from vhagar_check.regions import Form
from vhagar_check.scores import Stated

from ..oracle.exact import rational_forward
from ..search.test_input_search import certified, changing, network
from .test_verdict import Blocks, forged


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("honest")
    result, proof, model = certified(folder, changing(2), 40)
    assert check(proof, model=model).upper == result.upper
    tags = [block.tag for block in scan(proof)]
    assert tags == ["HEAD", "BOXS", "PROF"]
    return proof, model


def _boxs(blocks: Blocks) -> tuple[int, dict[str, Any], bytes]:
    place = next(k for k, (tag, _) in enumerate(blocks) if tag == "BOXS")
    about, code = split_json(blocks[place][1])
    return place, about, bytes(code)


def _edited(edit: Callable[[dict[str, Any], bytes], bytes]) -> Callable[[Blocks, Any], None]:
    def change(blocks: Blocks, head: Any) -> None:
        place, about, code = _boxs(blocks)
        code = edit(about, code)
        text = json.dumps(about).encode()
        blocks[place] = "BOXS", struct.pack("<I", len(text)) + text + code

    return change


def _about(**keys: Any) -> Callable[[Blocks, Any], None]:
    def edit(about: dict[str, Any], code: bytes) -> bytes:
        about.update(keys)
        return code

    return _edited(edit)


def _code(function: Callable[[bytes], bytes]) -> Callable[[Blocks, Any], None]:
    return _edited(lambda _, code: function(code))


def _claim(factor: float) -> Callable[[Blocks, Any], None]:
    def change(blocks: Blocks, head: Any) -> None:
        head["claims"]["upper"] *= factor
        for each in head["claims"]["targets"].values():
            each["upper"] *= factor

    return change


def _tree(**keys: Any) -> Callable[[Blocks, Any], None]:
    def change(blocks: Blocks, head: Any) -> None:
        tree = next(tree for tree in head["trees"] if tree.get("boxes"))
        tree.update(keys)

    return change


def _kind(kind: int) -> Callable[[Blocks, Any], None]:
    def change(blocks: Blocks, head: Any) -> None:
        tag, raw = blocks[-1]
        blocks[-1] = tag, raw[:-1] + bytes([kind])

    return change


FORGERIES: dict[str, tuple[Callable[[Blocks, Any], None], str]] = {
    "a smaller claim": (_claim(0.9), "not proved"),
    "no box is halved": (_code(lambda _: bytes([LEAF])), "not proved"),
    "half of the inputs left out": (_code(lambda code: code[1:]), "behind its end|cut off|proved"),
    "cut off": (_code(lambda code: code[:-1]), "cut off"),
    "nothing at all": (_code(lambda _: b""), "cut off"),
    "something behind the end": (_code(lambda code: code + bytes([LEAF])), "behind its end"),
    "an entry that there is not": (_code(lambda code: bytes([3]) + code[1:]), "there is not"),
    "another target": (_about(target=9), "something else"),
    "no target": (_about(target=None), "half a question"),
    "a piece that there is not": (_about(piece=4), "does not have"),
    "the piece of nothing": (_about(piece=None, target=None), "another piece"),
    "a part of a piece": (_about(span=[0.0, 0.1]), "part of a piece"),
    "an unknown key": (_about(other=1), "other"),
    "a proof of another kind": (_kind(5), "other proofs"),
    "a tree of signs": (_tree(boxes=False), "something else|same target"),
    "a tree of slopes too": (_tree(slopes=True), "does not have"),
    "boxes that are no yes or no": (_tree(boxes=1), "plainly"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, honest: tuple[Path, Path]) -> None:
    change, why = FORGERIES[name]
    with pytest.raises(Rejected, match=why):
        check(forged(honest[0], change), model=honest[1])


def test_a_middle_that_is_none_is_refused() -> None:
    """Halving again and again ends where float64 has nothing in between."""
    model = onnx_bytes(network(1))
    domain = Domain((3,), 0.0, 1.0)
    stated = read_model(model, Stated.of(None), (3,))
    piece = linf_ball(domain, 0.1, np.ones(3, dtype=np.bool_))
    form = Form(stated, [piece], stated, domain)
    code = bytes([0] * 2000) + bytes([LEAF] * 2001)
    text = json.dumps({"piece": 0, "span": None, "target": 1}).encode()
    region = BoxRegion.read(form, struct.pack("<I", len(text)) + text + code)
    with pytest.raises(Rejected, match="no middle"):
        list(region.leaves())


def test_leaves_cover_the_inputs_whatever_the_tree() -> None:
    model = onnx_bytes(network(1))
    domain = Domain((3,), -0.5, 1.0)
    stated = read_model(model, Stated.of(None), (3,))
    form = Form(stated, [linf_ball(domain, 0.1, np.ones(3, dtype=np.bool_))], stated, domain)
    rng = np.random.default_rng(0)
    code, waiting = bytearray(), 1
    while waiting:
        halved = rng.random() < 0.45 and len(code) < 400
        code.append(int(rng.integers(3)) if halved else LEAF)
        waiting += 1 if halved else -1
    text = json.dumps({"piece": 0, "span": None, "target": 1}).encode()
    region = BoxRegion.read(form, struct.pack("<I", len(text)) + text + bytes(code))
    boxes = list(region.leaves())
    volume = sum(
        (
            np.prod([Fraction(h) - Fraction(b) for b, h in zip(box.low, box.high, strict=True)])
            for box in boxes
        ),
        Fraction(0),
    )
    assert volume == Fraction(3, 2) ** 3
    for x in rng.uniform(-0.5, 1.0, (200, 3)):
        assert any(
            all(b <= v <= h for b, v, h in zip(box.low, x, box.high, strict=True)) for box in boxes
        )


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_in_exact_arithmetic(seed: int) -> None:
    made = network(seed)
    stated = read_model(onnx_bytes(made), Stated.of(None), (3,))
    rng = np.random.default_rng(seed)
    low = rng.uniform(-0.5, 0.8, (8, 3))
    boxes = Boxes(low, low + 10.0 ** -rng.integers(0, 9, (8, 1)) * rng.uniform(0, 0.2, (8, 3)))
    lead = np.array([[1.0, -1.0, 0.0]])
    most = extremes(LinearBounds(stated).above(boxes, lead))[1][:, 0]
    for k in range(8):
        for place in (0.0, 0.5, 1.0):
            x = np.clip(
                boxes.low[k] + place * (boxes.high[k] - boxes.low[k]), boxes.low[k], boxes.high[k]
            )
            exact = rational_forward(made, x)
            assert exact[0] - exact[1] <= Fraction(float(most[k]))


def test_the_chord_holds_at_its_ends() -> None:
    """The scores are relu(x) and 0: over [-1, 1] the bound is attained at the end."""
    layers = (
        Affine(np.ones((1, 1)), np.zeros(1), (1,), (1,)),
        Relu((1,)),
        Affine(np.array([[1.0], [0.0]]), np.zeros(2), (1,), (2,)),
    )
    stated = read_model(onnx_bytes(Network(layers, (1,))), Stated.of(None), (1,))
    boxes = Boxes(np.array([[-1.0], [-1.0]]), np.array([[1.0], [3.0]]))
    most = extremes(LinearBounds(stated).above(boxes, np.array([[1.0, -1.0]])))[1][:, 0]
    assert (most >= [1.0, 3.0]).all()
    np.testing.assert_allclose(most, [1.0, 3.0])


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_of_pairs_is_above_all_of_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.7, (3, 2))
    boxes, limit = Boxes(low, low + rng.uniform(0, 0.3, (3, 2))), np.array([0.1, 0.0])
    images = Boxes(np.maximum(low - limit, 0.0), np.minimum(boxes.high + limit, 1.0))
    first, second = rng.normal(size=(2, 3, 3))
    found = largest_of_pairs(first, second, boxes, images, limit)
    best = np.full(3, -np.inf)
    for _ in range(3000):
        picks = rng.integers(0, 5, (2, 3, 2)) / 4
        x = boxes.low + picks[0] * (boxes.high - boxes.low)
        lows, highs = np.maximum(x - limit, 0.0), np.minimum(x + limit, 1.0)
        x_p = lows + picks[1] * (highs - lows)
        u, w = (x - boxes.centre) / boxes.radius, (x_p - images.centre) / images.radius
        value = (first[:, :-1] * u).sum(axis=1) + first[:, -1]
        value = value + (second[:, :-1] * w).sum(axis=1) + second[:, -1]
        best = np.maximum(best, value)
    assert (best <= found + 1e-9).all()
    assert (found <= best + 1e-3 + 0.05 * abs(first).sum()).all()


def test_images_are_as_far_as_they_can_be() -> None:
    model = onnx_bytes(network(1))
    domain = Domain((3,), 0.0, 1.0)
    stated = read_model(model, Stated.of(None), (3,))
    mask = np.array([True, True, False])
    form = Form(stated, [linf_ball(domain, 0.25, mask)], stated, domain)
    text = json.dumps({"piece": 0, "span": None, "target": 1}).encode()
    region = BoxRegion.read(form, struct.pack("<I", len(text)) + text + bytes([LEAF]))
    boxes = Boxes(np.array([[0.5, 0.0, 0.5]]), np.array([[0.6, 0.9, 0.5]]))
    images = BoxProver(region, 0, claim=0.0)._images(boxes)
    assert (images.low[0] <= [0.25, 0.0, 0.5]).all()
    assert (images.high[0] >= [0.85, 1.0, 0.5]).all()
    np.testing.assert_allclose(images.low[0], [0.25, 0.0, 0.5])
    np.testing.assert_allclose(images.high[0], [0.85, 1.0, 0.5])


def test_an_ancestor_proves_what_a_leaf_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds need not fall from a box to its halves; the better one counts."""
    model = onnx_bytes(network(1))
    domain = Domain((3,), 0.0, 1.0)
    stated = read_model(model, Stated.of(None), (3,))
    form = Form(stated, [linf_ball(domain, 0.1, np.ones(3, dtype=np.bool_))], stated, domain)
    text = json.dumps({"piece": 0, "span": None, "target": 1}).encode()
    code = bytes([0, 1, LEAF, LEAF, LEAF])
    region = BoxRegion.read(form, struct.pack("<I", len(text)) + text + code)
    prover = BoxProver(region, 0, claim=5.0)
    sizes = {0.5**2: 7.0, 0.5: 4.0, 1.0: 9.0}

    def values(boxes: list[Any]) -> np.ndarray:
        widths = [np.prod([h - b for b, h in zip(box.low, box.high, strict=True)]) for box in boxes]
        return np.array([sizes[float(width)] for width in widths])

    monkeypatch.setattr(prover, "_values", values)
    assert prover.upper() == 4.0


@pytest.mark.parametrize(
    ("values", "claim", "expected", "asked"),
    [
        ({0.25: 7.0, 0.5: 6.0, 1.0: 4.0}, 5.0, 4.0, [3, 3, 2]),
        ({0.25: 7.0, 0.5: 5.0, 1.0: 4.0}, 5.0, 5.0, [3, 2]),
        ({0.25: 5.0, 0.5: 4.0, 1.0: 3.0}, 5.0, 5.0, [3]),
        ({0.25: 9.0, 0.5: 8.0, 1.0: 7.0}, 5.0, 7.0, [3, 3, 2]),
    ],
)
def test_ancestors_are_asked_until_the_claim_is_proved(
    values: dict[float, float],
    claim: float,
    expected: float,
    asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the volumes of boxes: two quarters and a half of the whole."""
    domain = Domain((2,), 0.0, 1.0)
    piece = linf_ball(domain, 0.1, np.ones(2, dtype=np.bool_))
    region = region_of(piece, domain, bytes([0, 1, LEAF, LEAF, LEAF]))
    prover, counts = BoxProver(region, 0, claim=claim), []

    def known(boxes: list[Any]) -> np.ndarray:
        counts.append(len(boxes))
        volumes = [np.prod(np.subtract(box.high, box.low)) for box in boxes]
        return np.array([values[float(volume)] for volume in volumes])

    monkeypatch.setattr(prover, "_values", known)
    assert prover.upper() == expected
    assert counts == asked


def three_classes(bias: list[float], weight: list[list[float]]) -> BoxRegion:
    """A region about the target 1 of three classes over one input, which moves by up to 0.5."""
    domain = Domain((1,), 0.0, 1.0)
    piece = linf_ball(domain, 0.5, np.ones(1, dtype=np.bool_))
    stated = TheirNetwork(((Dense(np.array(weight), np.array(bias)),),), (1,))
    form = Form(stated, [piece], stated, domain)
    text = json.dumps({"piece": 0, "span": None, "target": 1}).encode()
    return BoxRegion.read(form, struct.pack("<I", len(text)) + text + bytes([LEAF]))


def test_the_least_lead_bounds_the_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class 0 leads class 1 by up to 3 and class 2 by up to 2; images prove less in this test."""
    prover = BoxProver(three_classes([3.0, 0.0, 1.0], [[0.0]] * 3), 0, claim=0.0)
    monkeypatch.setattr(prover, "_by_images", lambda boxes, above: np.full(len(above), 9.0))
    assert prover.upper() == pytest.approx(2.0)


def test_images_are_asked_where_the_claim_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    region = three_classes([3.0, 0.0, 1.0], [[0.0]] * 3)
    (leaf,) = region.leaves()
    least = float(BoxProver(region, 0, claim=9.0)._values([leaf])[0])
    for claim, asked in ((least, 0), (np.nextafter(least, 0.0), 1)):
        prover, seen = BoxProver(region, 0, claim=claim), []

        def by_images(boxes: Boxes, above: np.ndarray, seen: list[int] = seen) -> np.ndarray:
            seen.append(len(above))
            return np.full(len(above), 1.0)

        monkeypatch.setattr(prover, "_by_images", by_images)
        assert prover.upper() == (1.0 if asked else least)
        assert seen == [1] * asked


def test_a_target_that_loses_to_any_class_never_wins() -> None:
    """To class 2 everywhere, while it may beat the source."""
    region = three_classes([1.0, 0.0, 5.0], [[0.0], [3.0], [0.0]])
    assert BoxProver(region, 0, claim=-1.0).upper() == 0.0
    region = three_classes([1.0, 0.0, 2.5], [[0.0], [3.0], [0.0]])
    boxes = Boxes(np.zeros((1, 1)), np.ones((1, 1)))
    prover = BoxProver(region, 0, claim=-1.0)
    above = prover._bounds.above(boxes, prover._leads)
    assert prover._by_images(boxes, above)[0] > 0.0


def test_a_target_that_may_tie_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    region = three_classes([1.0, 0.0, 5.0], [[0.0], [3.0], [0.0]])
    boxes = Boxes(np.zeros((1, 1)), np.ones((1, 1)))
    prover = BoxProver(region, 0, claim=-1.0)
    above = prover._bounds.above(boxes, prover._leads)
    for most, never in ((0.0, False), (-TINY, True)):
        ends = np.array([[-9.0, -9.0]]), np.array([[1.0, most]])
        monkeypatch.setattr(box_proofs, "extremes", lambda functions, ends=ends: ends)
        assert (prover._by_images(boxes, above)[0] == -np.inf) == never


def test_a_piece_over_other_inputs_is_refused() -> None:
    domain, other = Domain((2,), 0.0, 1.0), Domain((2,), 0.0, 2.0)
    with pytest.raises(Rejected, match="other than linf or patch"):
        region_of(linf_ball(other, 0.1, np.ones(2, dtype=np.bool_)), domain)


def test_a_certificate_with_signs_and_boxes(tmp_path: Path) -> None:
    """Both kinds of trees may be there; each target has the better bound of its piece."""
    model, proof = tmp_path / "model.onnx", tmp_path / "proof.cert"
    problem = changing(4)
    model.write_bytes(onnx_bytes(problem.network))
    again = Problem(
        read_onnx(model), perturbation="linf(0.1)", source=problem.source, targets=problem.targets
    )
    result = verify(again, workers=0, certificate=proof)
    assert check(proof, model=model).upper == result.upper
    with proof.open("rb") as file:
        head = json.loads(unpack(file, scan(proof)[0]))
    assert head["trees"]


def region_of(
    piece: Any, domain: Domain, code: bytes = bytes([LEAF]), number: int | None = 0
) -> BoxRegion:
    """A tree of boxes about a piece, or about the confidence alone."""
    size = domain.size
    layer = Dense(np.eye(2, size), np.array([0.5, 0.0]))
    stated = TheirNetwork(((layer,),), domain.shape)
    form = Form(stated, [piece], stated, domain)
    target = None if number is None else 1
    text = json.dumps({"piece": number, "span": None, "target": target}).encode()
    return BoxRegion.read(form, struct.pack("<I", len(text)) + text + code)


@pytest.mark.parametrize(
    "text",
    [
        "brightness([0,0.1])",
        "contrast([1,2])",
        "translation(1,0)",
        "rotation(10)",
        "occlusion(1,1,1)+linf(0.1)",
    ],
)
def test_boxes_prove_nothing_about_other_perturbations(text: str) -> None:
    domain = Domain((1, 2, 2), 0.0, 1.0)
    (piece,) = pieces(text, domain, True)
    with pytest.raises(Rejected, match="other than linf or patch"):
        region_of(piece, domain)


@pytest.mark.parametrize(("size", "many"), [(254, False), (255, True)])
def test_entries_are_counted_by_a_byte(size: int, many: bool) -> None:
    domain = Domain((size,), 0.0, 1.0)
    piece = linf_ball(domain, 0.1, np.ones(size, dtype=np.bool_))
    if many:
        with pytest.raises(Rejected, match="too many entries"):
            region_of(piece, domain)
    else:
        assert len(list(region_of(piece, domain).leaves())) == 1


def test_a_box_over_a_domain_of_inputs_begins_with_it() -> None:
    box = np.array([0.25, 0.0]), np.array([0.5, 1.0])
    domain = Domain((2,), 0.0, 1.0, box)
    region = region_of(linf_ball(domain, 0.1, np.ones(2, dtype=np.bool_)), domain)
    (leaf,) = region.leaves()
    assert (leaf.low, leaf.high) == ((0.25, 0.0), (0.5, 1.0))


@pytest.mark.parametrize("low", [1.0, math.nextafter(1.0, 2)])
def test_neighbouring_floats_have_no_middle(low: float) -> None:
    """Their middle is rounded to the lower one or to the upper one."""
    domain = Domain((1,), low, math.nextafter(low, 2))
    piece = linf_ball(domain, 2.0**-54, np.ones(1, dtype=np.bool_))
    with pytest.raises(Rejected, match="no middle"):
        list(region_of(piece, domain, bytes([0, LEAF, LEAF])).leaves())


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_images_hold_all_that_a_box_becomes(scale: float) -> None:
    """In exact arithmetic: `low - limit` may be rounded inward."""
    rng = np.random.default_rng(3)
    domain, limit = Domain((4,), -scale, scale), 0.1 * min(scale, 1.0)
    region = region_of(linf_ball(domain, limit, np.array([True, True, True, False])), domain)
    low = scale * rng.uniform(-0.8, 0.5, (200, 4))
    boxes = Boxes(low, low + scale * rng.uniform(0, 0.3, (200, 4)))
    images = BoxProver(region, 0, claim=0.0)._images(boxes)
    for k in range(200):
        for j, step in enumerate([limit, limit, limit, 0.0]):
            least = Fraction(boxes.low[k, j]) - Fraction(step)
            most = Fraction(boxes.high[k, j]) + Fraction(step)
            assert Fraction(images.low[k, j]) <= least
            assert Fraction(images.high[k, j]) >= most
    assert (images.low[:, 3] == boxes.low[:, 3]).all()
    room = 8 * HALF_ULP * (abs(boxes.low) + abs(boxes.high) + limit)[:, :3]
    assert (images.low[:, :3] == np.maximum(boxes.low[:, :3] - limit - room, -scale)).all()
    assert (images.high[:, :3] == np.minimum(boxes.high[:, :3] + limit + room, scale)).all()
    np.testing.assert_allclose(images.low[:, :3], boxes.low[:, :3] - limit, atol=1e-12 * scale)


def test_images_at_the_end_of_a_box_are_rounded_outward() -> None:
    """Where the other end is 0, so that only the numbers that are subtracted have a size."""
    rng = np.random.default_rng(4)
    limit = 0.3
    domain = Domain((1,), -4.0, 4.0)
    region = region_of(linf_ball(domain, limit, np.ones(1, dtype=np.bool_)), domain)
    ends, zero = rng.uniform(0.7, 1.7, (300, 1)), np.zeros((300, 1))
    prover = BoxProver(region, 0, claim=0.0)
    low, high = prover._images(Boxes(-ends, zero)).low, prover._images(Boxes(zero, ends)).high
    for k in range(300):
        most = Fraction(ends[k, 0]) + Fraction(limit)
        assert Fraction(low[k, 0]) <= -most
        assert Fraction(high[k, 0]) >= most


def test_the_largest_leaf_counts_whichever_batch_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_proofs, "_BATCH", 2)
    domain = Domain((1,), 0.0, 1.0)
    code = bytes([0] * 4 + [LEAF] * 5)
    for largest in range(5):
        region = region_of(linf_ball(domain, 0.1, np.ones(1, dtype=np.bool_)), domain, code)
        leaves = [leaf.low for leaf in region.leaves()]
        prover = BoxProver(region, 0, claim=9.0)
        values = {low: 3.0 if k == largest else 1.0 for k, low in enumerate(leaves)}
        monkeypatch.setattr(
            prover, "_values", lambda boxes, known=values: np.array([known[b.low] for b in boxes])
        )
        assert prover.upper() == 3.0


def test_confidence_alone_has_no_images() -> None:
    """The leads are `x_0 + 0.5 - x_1`, at most 1.5 over all inputs, and 1.5 over a half."""
    domain = Domain((2,), 0.0, 1.0)
    piece = linf_ball(domain, 0.1, np.ones(2, dtype=np.bool_))
    region = region_of(piece, domain, bytes([0, LEAF, LEAF]), number=None)
    assert 1.5 <= BoxProver(region, 0, claim=0.0).upper() <= 1.5 + 1e-12


@pytest.mark.parametrize(("limit", "expected"), [(0.1, 0.2), (0.25, 0.5)])
def test_images_bound_how_far_the_lead_can_fall(limit: float, expected: float) -> None:
    """It falls by `2 limit` at most, so more confident inputs are not attacked."""
    domain = Domain((2,), 0.0, 1.0)
    region = region_of(linf_ball(domain, limit, np.ones(2, dtype=np.bool_)), domain)
    assert expected <= BoxProver(region, 0, claim=0.0).upper() <= expected + 1e-12


def test_boxes_in_which_the_target_never_wins_are_closed() -> None:
    domain = Domain((2,), 0.0, 1.0, (np.array([0.9, 0.0]), np.array([1.0, 0.1])))
    region = region_of(linf_ball(domain, 0.1, np.ones(2, dtype=np.bool_)), domain)
    assert BoxProver(region, 0, claim=0.0).upper() == 0.0


@pytest.mark.parametrize("seed", range(12))
def test_no_rounding_is_lost_at_a_point(seed: int) -> None:
    """Over a box of one point the functions are the lead itself, up to what rounding can do."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-4, 5)
    sizes = [4, 7, 6, 3]
    layers: list[Affine | Relu] = []
    for into, out in itertools.pairwise(sizes):
        weight = (scale * rng.normal(size=(out, into))).astype(np.float32).astype(float)
        bias = rng.normal(size=out).astype(np.float32).astype(float)
        layers += [Affine(weight, bias, (into,), (out,)), Relu((out,))]
    made = Network(tuple(layers[:-1]), (4,))
    stated = read_model(onnx_bytes(made), Stated.of(None), (4,))
    points = rng.uniform(0, 1, (12, 4))
    leads = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.3, 0.6, -0.9]])
    functions = LinearBounds(stated).above(Boxes(points, points), leads)
    for k, x in enumerate(points):
        exact = rational_forward(made, x)
        for j, lead in enumerate(leads):
            value = sum(Fraction(w) * score for w, score in zip(lead.tolist(), exact, strict=True))
            least, most = (float(end[k, j]) for end in extremes(functions))
            assert Fraction(most) >= value
            assert Fraction(least) <= Fraction(most)
            size = sum(
                abs(Fraction(w) * score) for w, score in zip(lead.tolist(), exact, strict=True)
            )
            assert Fraction(most) - value <= Fraction(1e-9) * (size + Fraction(float(scale)))


@pytest.mark.parametrize("seed", range(8))
def test_pairs_in_exact_arithmetic(seed: int) -> None:
    """Corners of the set of pairs, where the bound is attained but for its rounding."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1.0, 1.0, (1, 3))
    boxes, limit = Boxes(low, low + 0.25), np.array([0.125, 0.0, 0.25])
    images = Boxes(boxes.low - limit, boxes.high + limit)
    first, second = 10.0 ** rng.integers(-3, 4) * rng.normal(size=(2, 1, 4))
    found = Fraction(float(largest_of_pairs(first, second, boxes, images, limit)[0]))
    r, s = (
        Fraction(1) * np.array(list(map(Fraction, each.radius[0].tolist())))
        for each in (boxes, images)
    )
    best = Fraction(float(first[0, -1])) + Fraction(float(second[0, -1]))
    for k in range(3):
        a, b = Fraction(float(first[0, k])) / r[k], Fraction(float(second[0, k])) / s[k]
        centre, other = Fraction(float(boxes.centre[0, k])), Fraction(float(images.centre[0, k]))
        ends = [Fraction(float(end[0, k])) for end in (boxes.low, boxes.high)]
        step = Fraction(float(limit[k]))
        sums = [a * (x - centre) + b * (x + e - other) for x in ends for e in (-step, step)]
        best += max(sums)
    assert best <= found
    assert found - best <= Fraction(1e-9) * (
        1 + abs(best) + Fraction(float(abs(first).sum() + abs(second).sum()))
    )
