"""Makes the checker's test vectors: models, certificates, and the answer to each.

    python -m tests.check.make_vectors             # all of them
    python -m tests.check.make_vectors --reasons   # only the reasons for refusals, in the manifest

Networks are drawn at random, small, and written by this project. The search certifies them, and
every forgery changes one thing of a genuine certificate and keeps it consistent in all else, so
that there is one reason to refuse it. `manifest.json` lists them all.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vhagar import Bab, Network, Problem, UserPerturbation, verify
from vhagar.network import Affine, Convolution, Relu, onnx_bytes, read_onnx
from vhagar.perturbation import Perturbation
from vhagar_check import Rejected, check
from vhagar_check.container import scan
from vhagar_check.evaluation import evaluate, proof_groups
from vhagar_check.statement import Statement

from .editing import AT, COPY, KIND, LAYER, NEURON, PARENT, POSITIVE, Certificate, write_blocks
from .graphs import Build

VECTORS = Path(__file__).parents[2] / "checker" / "vectors"
SHAPE = (1, 3, 3)


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def dense(seed: int = 8) -> bytes:
    rng = np.random.default_rng(seed)
    layers: list[Any] = []
    shape: tuple[int, ...] = SHAPE
    for into, out in ((9, 5), (5, 4), (4, 3)):
        weight, bias = _float32(rng.normal(size=(out, into))), _float32(rng.normal(size=out) / 2)
        layers += [Affine(weight, bias, shape, (out,)), Relu((out,))]
        shape = (out,)
    return onnx_bytes(Network(tuple(layers[:-1]), SHAPE))


def convolution() -> bytes:
    rng = np.random.default_rng(21)
    conv = Convolution(_float32(rng.normal(size=(2, 1, 2, 2))), _float32(rng.normal(size=2)), SHAPE)
    last = Affine(_float32(rng.normal(size=(3, 8))), np.zeros(3), conv.out_shape, (3,))
    return onnx_bytes(Network((conv, Relu(conv.out_shape), last), SHAPE))


def skip() -> bytes:
    """A skip connection past a ReLU, which needs linear units."""
    b = Build([1, 1, 3, 3], seed=35)
    first = b.dense(b("Flatten", "x"), 4, 9)
    return b.model(b.dense(b("Add", b("Relu", b.dense(b("Relu", first), 4, 4)), first), 3, 4))


MODELS = {
    "dense": dense(),
    "other": dense(13),
    "convolution": convolution(),
    "skip": skip(),
}
TINT = UserPerturbation(
    directions=np.stack([np.arange(9) % 2 == k for k in (0, 1)], axis=1).astype(float),
    ranges=[(0, 0.1), (-0.1, 0.05)],
    name="tint",
)
# Name: model, perturbation, clip, targets.
VALID: dict[str, tuple[str, Perturbation | str | None, bool, list[int] | None]] = {
    "linf": ("dense", "linf(0.05)", True, None),
    "linf one target": ("dense", "linf(0.05)", True, [1]),
    "patch": ("dense", "patch([0,0.2],[1,2],2,2)", True, None),
    "occlusion": ("dense", "occlusion([1,2],2,1)", True, None),
    "translation": ("dense", "translation([0,1],-1)", True, None),
    "rotation": ("dense", "rotation(10)", True, None),
    "rotation range": ("dense", "rotation([5,9])", True, None),
    "brightness": ("dense", "brightness([-0.05,0.1])", False, None),
    "brightness clipped": ("dense", "brightness([0.05,0.1])", True, None),
    "contrast": ("dense", "contrast([0.9,1.2])", False, None),
    "contrast clipped": ("dense", "contrast([1.1,1.2])", True, None),
    "map": ("dense", TINT, False, None),
    "map clipped": ("dense", TINT, True, None),
    "composed": ("dense", "occlusion(1,1,2)+brightness([0,0.1])", True, None),
    "moved ball": ("dense", "translation(1,0)+linf(0.05)", True, None),
    "confidence": ("dense", None, True, None),
    "convolution": ("convolution", "linf(0.05)", True, None),
    "skip": ("skip", "linf(0.05)", True, None),
    "skip clipped": ("skip", "occlusion(1,1,2)+brightness([0,0.1])", True, None),
    "skip confidence": ("skip", None, True, None),
}


def certify(name: str, folder: Path) -> Certificate:
    model, perturbation, clip, targets = VALID[name]
    problem = Problem(
        read_onnx(folder / f"{model}.onnx"),
        perturbation=perturbation,
        source=0,
        targets=targets,
        clip=clip,
    )
    path = folder / _file(name)
    verify(
        problem, engine=Bab(attack=False), workers=0, relative_gap=0.2, certificate=path, timeout=20
    )
    return Certificate.read(path)


def _file(name: str) -> str:
    return name.replace(" ", "_").replace("'", "").replace(",", "") + ".cert"


Edit = Callable[[Certificate], None]
# Name: the certificate it is made of, and what is changed.
INVALID: dict[str, tuple[str, Edit]] = {}


def forgery(base: str) -> Callable[[Edit], Edit]:
    def add(edit: Edit) -> Edit:
        INVALID[f"{base}, {edit.__name__.replace('_', ' ')}"] = base, edit
        return edit

    return add


def _in_head(*path: str, value: Any) -> Edit:
    def edit(certificate: Certificate) -> None:
        place = certificate.head
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return edit


for _name, _base, _edit in (
    ("another source", "linf", _in_head("problem", "source", value=1)),
    ("a larger perturbation", "linf", _in_head("problem", "perturbation", value="linf(0.1)")),
    ("a larger input range", "linf", _in_head("problem", "input_range", value=[0.0, 1.25])),
    ("another shape", "linf", _in_head("problem", "input_shape", value=[1, 1, 9])),
    ("without the clip", "brightness clipped", _in_head("problem", "clip", value=False)),
    ("an unknown form", "linf", _in_head("problem", "form", value="linear")),
    ("a form for contrast alone", "linf", _in_head("problem", "form", value="homogeneous")),
    ("an unknown key", "linf", _in_head("problem", "assuming", value="nothing")),
    ("another format", "linf", _in_head("format", value=2)),
    ("another model", "linf", _in_head("model", "sha256", value="0" * 64)),
    ("a text that is no perturbation", "linf", _in_head("problem", "perturbation", value="x")),
    ("a convention that nobody stated", "linf", _in_head("model", "convention", value={})),
    ("a wrong number of nodes", "linf", _in_head("nodes", value=7)),
    ("no witness", "linf", _in_head("witnesses", value=[])),
    ("clips nothing", "map clipped", _in_head("problem", "clipped_pixels", value=None)),
    ("clips too few", "map clipped", _in_head("problem", "clipped_pixels", value=[[0], [0]])),
    ("a source among the targets", "linf", _in_head("problem", "targets", value=[0, 1])),
    ("no targets", "linf", _in_head("problem", "targets", value=[])),
):
    INVALID[f"{_base}, {_name}"] = _base, _edit


@forgery("linf")
def a_lower_claim(certificate: Certificate) -> None:
    certificate.claim(0.97 * certificate.head["claims"]["upper"])


@forgery("confidence")
def a_lower_claim_of_confidence(certificate: Certificate) -> None:
    certificate.claim(0.97 * certificate.head["claims"]["upper"])


@forgery("linf")
def a_negative_claim(certificate: Certificate) -> None:
    certificate.claim(-1.0)


@forgery("linf")
def an_overall_claim_below_the_targets(certificate: Certificate) -> None:
    certificate.head["claims"]["upper"] *= 0.999


@forgery("linf")
def a_target_without_a_claim(certificate: Certificate) -> None:
    del certificate.head["claims"]["targets"]["2"]
    claims = certificate.head["claims"]
    claims["upper"] = claims["targets"]["1"]["upper"]
    claims["lower"] = claims["targets"]["1"]["lower"]


def _best(certificate: Certificate) -> dict[str, Any]:
    claims = certificate.head["claims"]["targets"]
    return max(claims.values(), key=lambda claim: claim["lower"])


@forgery("linf")
def a_witness_that_claims_a_little_more(certificate: Certificate) -> None:
    best = _best(certificate)
    best["lower"] += 1e-9
    certificate.head["claims"]["lower"] = best["lower"]


@forgery("linf")
def a_witness_outside_the_range(certificate: Certificate) -> None:
    for witness in certificate.head["witnesses"]:
        witness["x"][0] = 1.0 + 2.0**-52


@forgery("linf")
def a_witness_of_another_image(certificate: Certificate) -> None:
    for witness in certificate.head["witnesses"]:
        witness["parameters"] = [0.0] * len(witness["parameters"])


@forgery("linf")
def a_witness_of_no_piece(certificate: Certificate) -> None:
    for witness in certificate.head["witnesses"]:
        witness["piece"] = 1


@forgery("linf")
def two_witnesses_of_one_target(certificate: Certificate) -> None:
    certificate.head["witnesses"] *= 2


@forgery("brightness")
def a_parameter_outside_its_range(certificate: Certificate) -> None:
    for witness in certificate.head["witnesses"]:
        witness["parameters"] = [0.125 if witness["parameters"][0] > 0 else -0.0625]


@forgery("brightness")
def a_piece_without_a_tree(certificate: Certificate) -> None:
    """What is left proves nothing about one of two pieces; no bound is not a bound of 0."""
    certificate.drop_tree(0)
    certificate.head["witnesses"] = []
    for claim in (certificate.head["claims"], *certificate.head["claims"]["targets"].values()):
        claim["lower"] = 0.0


@forgery("linf one target")
def no_tree_at_all(certificate: Certificate) -> None:
    while certificate.head["trees"]:
        certificate.drop_tree(0)


@forgery("linf")
def a_tree_twice(certificate: Certificate) -> None:
    certificate.head["trees"][0]["target"] = certificate.head["trees"][1]["target"]


@forgery("linf")
def nothing_proved_by_multipliers_of_zero(certificate: Certificate) -> None:
    """A bound of exactly 0 on a number that is at least 0 contradicts nothing."""
    for proof in certificate.proofs:
        proof.kind, proof.numbers = 2, np.zeros_like(proof.numbers)


@forgery("linf")
def weights_of_zero(certificate: Certificate) -> None:
    for proof in certificate.proofs:
        proof.numbers[-4:] = 0.0


@forgery("linf")
def negative_weights(certificate: Certificate) -> None:
    for proof in certificate.proofs:
        proof.numbers[-1:] = -1e-300


@forgery("linf")
def numbers_that_are_not_finite(certificate: Certificate) -> None:
    certificate.proofs[0].numbers[0] = np.nan


@forgery("linf")
def leaves_said_to_be_empty(certificate: Certificate) -> None:
    for proof in certificate.proofs:
        proof.kind, proof.numbers = 3, np.zeros(0)


@forgery("linf")
def a_proof_of_an_unknown_kind(certificate: Certificate) -> None:
    certificate.proofs[0].kind, certificate.proofs[0].numbers = 9, np.zeros(0)


@forgery("linf")
def a_proof_of_no_node(certificate: Certificate) -> None:
    certificate.regions[-1].proofs[-1][1][-1].node = certificate.head["nodes"]


@forgery("linf")
def proofs_that_are_not_there(certificate: Certificate) -> None:
    certificate.regions[0].proofs = []


@forgery("linf")
def a_leaf_without_a_proof(certificate: Certificate) -> None:
    for region in certificate.regions:
        region.proofs = [(tree, proofs[:-1]) for tree, proofs in region.proofs if proofs[:-1]]


@forgery("brightness")
def proofs_in_the_region_of_another_piece(certificate: Certificate) -> None:
    for region in certificate.regions:
        region.about["piece"] = 1 - region.about["piece"]


@forgery("brightness")
def a_region_of_a_part(certificate: Certificate) -> None:
    for region in certificate.regions:
        low, high = region.about["span"]
        region.about["span"] = [low, low + (high - low) / 2]


@forgery("linf")
def children_of_different_neurons(certificate: Certificate) -> None:
    certificate.nodes[1][NEURON] = (certificate.nodes[1][NEURON] + 1) % 4


@forgery("linf")
def children_of_different_copies(certificate: Certificate) -> None:
    certificate.nodes[1][COPY] ^= 1


@forgery("linf")
def children_of_different_layers(certificate: Certificate) -> None:
    certificate.nodes[1][LAYER] ^= 1
    certificate.nodes[1][NEURON] = certificate.nodes[0][NEURON] = 0


@forgery("linf")
def two_children_of_one_side(certificate: Certificate) -> None:
    certificate.nodes[0][POSITIVE] = 1


@forgery("linf")
def children_of_different_parents(certificate: Certificate) -> None:
    certificate.nodes[1][PARENT] = 1 - certificate.nodes[1][PARENT]


@forgery("linf")
def decisions_of_the_other_copy(certificate: Certificate) -> None:
    for record in certificate.nodes:
        record[COPY] ^= 1


@forgery("linf")
def a_single_child(certificate: Certificate) -> None:
    last = len(certificate.head["trees"]) + len(certificate.nodes) - 1
    del certificate.nodes[-1]
    certificate.head["nodes"] -= 1
    for region in certificate.regions:
        for _, proofs in region.proofs:
            proofs[:] = [proof for proof in proofs if proof.node != last]


@forgery("linf")
def a_step_of_an_unknown_kind(certificate: Certificate) -> None:
    for record in certificate.nodes[:2]:
        record[KIND] = 7


@forgery("linf")
def a_neuron_that_there_is_not(certificate: Certificate) -> None:
    for record in certificate.nodes[:2]:
        record[LAYER], record[NEURON] = 1, 4


@forgery("skip")
def a_decision_about_a_linear_unit(certificate: Certificate) -> None:
    for record in certificate.nodes[:2]:
        record[LAYER], record[NEURON] = 1, 4


def _split(certificate: Certificate, gap: float) -> None:
    """The first tree's root split in two parts, which leave out the middle if there is a gap.

    Both have the root's proofs, which are about whichever part the region states.
    """
    for region in certificate.regions:
        if region.about["piece"] == 0:
            whole = region.about["span"]
    low, high = whole
    middle = low + (high - low) / 2
    roots = len(certificate.head["trees"])
    assert not certificate.nodes, "the certificate has no splits of its own"
    cuts = (middle - gap * (high - low), middle + gap * (high - low))
    certificate.nodes = [[0, 1, 0, k, 0, 0, 0, cuts[k]] for k in (0, 1)]
    certificate.head["nodes"] = roots + 2
    divided = []
    for region in certificate.regions:
        own = [(tree, proofs) for tree, proofs in region.proofs if tree == 0]
        rest = [(tree, proofs) for tree, proofs in region.proofs if tree != 0]
        if rest:
            divided.append(type(region)(region.about, region.data, region.refinements, rest))
        for k, span in enumerate(([low, cuts[0]], [cuts[1], high])):
            for _, proofs in own:
                part = type(region)(
                    {**region.about, "span": span}, region.data, region.refinements, []
                )
                part.proofs = [
                    (0, [type(p)(roots + k, p.kind, p.numbers) for p in proofs if p.node == 0])
                ]
                divided.append(part)
    certificate.regions = divided


@forgery("brightness split")
def parts_that_leave_out_the_middle(certificate: Certificate) -> None:
    """Each part's proof holds; together they do not cover the range."""
    low, high = (record[AT] for record in certificate.nodes)
    width = 0.01
    certificate.nodes[0][AT], certificate.nodes[1][AT] = low - width, high + width
    for region in certificate.regions:
        span = region.about["span"]
        if span[1] == low:
            span[1] -= width
        if span[0] == high:
            span[0] += width


@forgery("brightness split")
def parts_split_outside_the_range(certificate: Certificate) -> None:
    for record in certificate.nodes:
        record[AT] = 5.0


@forgery("brightness split")
def a_claim_below_the_larger_part(certificate: Certificate) -> None:
    claims = certificate.head["claims"]["targets"]
    for target in claims:
        certificate.claim(0.999 * claims[target]["upper"], target)


@forgery("occlusion")
def regions_of_other_pieces(certificate: Certificate) -> None:
    for region in certificate.regions:
        if region.about["piece"] is not None:
            region.about["piece"] = 1 - region.about["piece"]


@forgery("linf")
def proofs_of_another_tree(certificate: Certificate) -> None:
    """The nodes are those of one tree, and the block names the other one of the same piece."""
    for region in certificate.regions:
        region.proofs = [({0: 1, 1: 0}.get(tree, tree), proofs) for tree, proofs in region.proofs]


@forgery("linf")
def the_claims_of_each_others_target(certificate: Certificate) -> None:
    claims = certificate.head["claims"]["targets"]
    claims["1"]["upper"], claims["2"]["upper"] = claims["2"]["upper"], claims["1"]["upper"]
    certificate.head["witnesses"] = []
    for claim in (certificate.head["claims"], *claims.values()):
        claim["lower"] = 0.0


def _one_leaf(certificate: Certificate) -> None:
    """Only roots, with the proof that needs no multipliers, and what that proves."""
    certificate.nodes, certificate.head["nodes"] = [], len(certificate.head["trees"])
    for region in certificate.regions:
        region.about["refined"] = []
        region.data = region.data[: sum(region.about["layers"])]
        region.refinements = []
        region.proofs = [
            (tree, [type(proofs[0])(tree, 0, np.zeros(0))]) for tree, proofs in region.proofs
        ]


def _proved(certificate: Certificate, model: Path) -> dict[int | None, float]:
    """What a certificate proves for each target, whatever it claims."""
    with tempfile.TemporaryDirectory() as folder:
        path = certificate.write(Path(folder, "proof.cert"))
        blocks = scan(path)
        statement = Statement(path, model, blocks)
        values, _ = evaluate(statement, proof_groups(blocks), 1)
        return statement.upper_bounds(values, statement.ceiling())


def _claim_what_is_proved(certificate: Certificate) -> None:
    """Without witnesses, whose bounds could be higher."""
    certificate.head["witnesses"] = []
    for claim in (certificate.head["claims"], *certificate.head["claims"]["targets"].values()):
        claim["lower"] = 0.0
    for target, upper in _proved(certificate, VECTORS / "dense.onnx").items():
        certificate.claim(upper, str(target))


def _with_maps(edit: Callable[[bytearray], None], renamed: bool) -> Edit:
    def change(certificate: Certificate) -> None:
        assert certificate.maps is not None
        raw = bytearray(certificate.maps)
        edit(raw)
        certificate.maps = bytes(raw)
        if renamed:
            start = 4 + int.from_bytes(raw[:4], "little")
            digest = hashlib.sha256(raw[start:]).hexdigest()
            certificate.head["problem"]["perturbation"] = f"affine({digest})"

    return change


def _larger_map(raw: bytearray) -> None:
    """The upper end of the last parameter's range is the last number."""
    raw[-8:] = struct.pack("<d", 0.4)


INVALID["map, another map"] = "map", _with_maps(_larger_map, False)
INVALID["map, another map of its own name"] = "map", _with_maps(_larger_map, True)
INVALID["map, not a number"] = (
    "map",
    _with_maps(lambda raw: raw.__setitem__(slice(-8, None), struct.pack("<d", np.nan)), True),
)


@forgery("contrast")
def a_clip_that_the_form_excludes(certificate: Certificate) -> None:
    certificate.head["problem"]["clip"] = True


def _repeated_key(raw: bytes) -> bytes:
    """A header with a second claim that other readers may take."""
    return raw[:-1] + b', "claims": {"lower": 0.0, "upper": 0.0}}'


def _rewritten(change: Callable[[list[tuple[bytes, bytes]]], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        blocks = Certificate.read(path).blocks()
        change(blocks)
        write_blocks(path, blocks)

    return damage


def _in_bytes(change: Callable[[bytearray], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        raw = bytearray(path.read_bytes())
        change(raw)
        path.write_bytes(bytes(raw))

    return damage


def _head_twice(blocks: list[tuple[bytes, bytes]]) -> None:
    blocks.insert(1, blocks[0])


def _claims_twice(blocks: list[tuple[bytes, bytes]]) -> None:
    blocks[0] = blocks[0][0], _repeated_key(blocks[0][1])


def _proofs_first(blocks: list[tuple[bytes, bytes]]) -> None:
    place = next(k for k, (tag, _) in enumerate(blocks) if tag == b"PROF")
    blocks.insert(1, blocks.pop(place))


def _infinite(blocks: list[tuple[bytes, bytes]]) -> None:
    head = json.loads(blocks[0][1])
    head["claims"]["upper"] = float("inf")
    for claim in head["claims"]["targets"].values():
        claim["upper"] = float("inf")
    blocks[0] = blocks[0][0], json.dumps(head).encode()


def _too_many_numbers(blocks: list[tuple[bytes, bytes]]) -> None:
    place = next(k for k, (tag, _) in enumerate(blocks) if tag == b"PROF")
    blocks[place] = b"PROF", blocks[place][1] + bytes(8)


def _more_in_a_region(blocks: list[tuple[bytes, bytes]]) -> None:
    place = next(k for k, (tag, _) in enumerate(blocks) if tag == b"REGN")
    blocks[place] = b"REGN", blocks[place][1] + bytes(4)


def _more_in_the_stream(raw: bytearray) -> None:
    """The last block's zlib stream is followed by a byte that it counts as its own."""
    digest = hashlib.sha256()
    start = raw.index(b"END ")
    digest.update(raw[:start])
    stored = zlib.compress(digest.digest()) + b"\0"
    raw[start:] = b"END " + struct.pack("<II", 32, len(stored)) + stored


DAMAGED: dict[str, Callable[[Path], None]] = {
    "two headers": _rewritten(_head_twice),
    "a claim twice": _rewritten(_claims_twice),
    "proofs before their region": _rewritten(_proofs_first),
    "an infinite claim": _rewritten(_infinite),
    "more numbers than proofs have": _rewritten(_too_many_numbers),
    "more numbers than a region has": _rewritten(_more_in_a_region),
    "another magic": _in_bytes(lambda raw: raw.__setitem__(0, 0)),
    "another version": _in_bytes(lambda raw: raw.__setitem__(8, 2)),
    "a changed byte": _in_bytes(lambda raw: raw.__setitem__(-60, raw[-60] ^ 1)),
    "a wrong digest": _in_bytes(lambda raw: raw.__setitem__(-20, raw[-20] ^ 1)),
    "something after the end": _in_bytes(lambda raw: raw.append(0)),
    "something in the stream": _in_bytes(_more_in_the_stream),
    "cut off": _in_bytes(lambda raw: raw.__delitem__(slice(-50, None))),
    "no end": _in_bytes(lambda raw: raw.__delitem__(slice(raw.index(b"END "), None))),
}


def main() -> None:
    """Write all vectors, and make sure that this checker gives the expected answers."""
    VECTORS.mkdir(parents=True, exist_ok=True)
    for old in (*VECTORS.glob("*.cert"), *VECTORS.glob("*.onnx")):
        old.unlink()
    for name, data in MODELS.items():
        (VECTORS / f"{name}.onnx").write_bytes(data)
    cases: list[dict[str, Any]] = []
    genuine: dict[str, Certificate] = {}
    for name, (model, *_) in VALID.items():
        genuine[name] = certify(name, VECTORS)
        cases.append(_case(name, model, name))
    genuine["brightness of one leaf"] = genuine["brightness"].copy()
    _one_leaf(genuine["brightness of one leaf"])
    _claim_what_is_proved(genuine["brightness of one leaf"])
    models = {**{name: case[0] for name, case in VALID.items()}, "brightness of one leaf": "dense"}
    genuine["brightness split"] = genuine["brightness of one leaf"].copy()
    _split(genuine["brightness split"], 0.0)
    _claim_what_is_proved(genuine["brightness split"])
    models["brightness split"] = "dense"
    for name in ("brightness of one leaf", "brightness split"):
        genuine[name].write(VECTORS / _file(name))
        cases.append(_case(name, "dense", name))
    for name, (base, edit) in INVALID.items():
        forged = genuine[base].copy()
        edit(forged)
        forged.write(VECTORS / _file(name))
        cases.append(_case(name, models[base], None))
    for name, damage in DAMAGED.items():
        genuine["linf"].write(VECTORS / _file(name))
        damage(VECTORS / _file(name))
        cases.append(_case(name, "dense", None))
    nameless = genuine["linf"].copy()
    nameless.head["model"]["sha256"] = None
    nameless.write(VECTORS / _file("linf without a hash"))
    cases.append(_case("linf without a hash", "dense", "linf"))
    cases.append({**_case("linf without a hash", "other", None), "name": "weights of another"})
    text = json.dumps({"format": 1, "cases": cases}, indent=1)
    (VECTORS / "manifest.json").write_text(text + "\n")
    print(f"{len(cases)} vectors")
    from . import kind_vectors

    kind_vectors.main()


def refresh() -> None:
    """Write the manifest anew with the reasons that the checker gives now."""
    manifest = json.loads((VECTORS / "manifest.json").read_text())
    for case in manifest["cases"]:
        if not case["accepted"]:
            try:
                check(VECTORS / case["certificate"], model=VECTORS / case["model"])
                raise SystemExit(f"this should be refused: {case['name']}")
            except Rejected as why:
                case["because"] = str(why)
    (VECTORS / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def _case(name: str, model: str, proves: str | None) -> dict[str, Any]:
    """A line of the manifest; the answer is the checker's, and it must be the expected one."""
    certificate, path = VECTORS / _file(name), VECTORS / f"{model}.onnx"
    case: dict[str, Any] = {
        "name": name,
        "certificate": certificate.name,
        "model": path.name,
        "accepted": proves is not None,
    }
    try:
        verdict = check(certificate, model=path)
    except Rejected as why:
        if proves is not None:
            raise
        return {**case, "because": str(why)}
    if proves is None:
        raise SystemExit(f"this should be refused: {name}")
    ends = {"lower": verdict.lower, "upper": verdict.upper}
    return {**case, **{end: None if math.isinf(v) else v for end, v in ends.items()}}


if __name__ == "__main__":
    refresh() if sys.argv[1:] == ["--reasons"] else main()
