"""What a certificate states: the question, the claims and the search trees.

Reading it checks that it makes sense and that it is about the given model.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vhagar_check.affine import BoxAffine
from vhagar_check.box_supports import Box
from vhagar_check.clipping import STAYS, behind_clip, clipped_pixels, require_clipped
from vhagar_check.conditions import read_conditions
from vhagar_check.container import VERSION, Block, parse_json, require_keys, unpack
from vhagar_check.convention import with_convention
from vhagar_check.errors import Rejected
from vhagar_check.homogeneous import bias_pieces, homogeneous_network
from vhagar_check.intervals import confidence_interval, score_size
from vhagar_check.layers import Floats, Network
from vhagar_check.maps import read_maps
from vhagar_check.model import read_model
from vhagar_check.one_image import OneImage, at_image
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.proofs import Question
from vhagar_check.rational import exact_ceiling
from vhagar_check.regions import Form
from vhagar_check.scores import Stated
from vhagar_check.tree import RECORD, Root, Tree
from vhagar_check.whole_numbers import narrow_whole

_KEYS = {
    "header": frozenset(
        ("format", "producer", "model", "problem", "claims", "witnesses", "trees", "nodes")
    ),
    "model": frozenset(("name", "sha256", "convention", "scores")),
    "problem": frozenset(
        (
            "perturbation",
            "clip",
            "clipped_pixels",
            "form",
            "image",
            "source",
            "targets",
            "input_range",
            "domain",
            "input_shape",
        )
    ),
}
_TREE_KEYS = frozenset(("target", "piece", "slopes", "boxes"))
# Whether a tree is split by slopes, and whether boxes prove it.
_KINDS = ((False, False), (True, False), (False, True))


class Statement:
    """The header of a certificate and its trees, with the model that they are about."""

    def __init__(self, certificate: Path, model: Path, blocks: list[Block]) -> None:
        self.certificate = certificate
        if not blocks or blocks[0].tag != "HEAD" or [b.tag for b in blocks].count("HEAD") != 1:
            raise Rejected("the certificate does not have one header, at its beginning")
        data = model.read_bytes()
        self.model_hash = hashlib.sha256(data).hexdigest()
        with certificate.open("rb") as file:
            head = parse_json(unpack(file, blocks[0]))
            maps = [unpack(file, block) for block in blocks[1:2] if block.tag == "MAPS"]
            records = b"".join(unpack(file, block) for block in blocks if block.tag == "TREE")
        if [block.tag for block in blocks].count("MAPS") != len(maps):
            raise Rejected("maps are not recorded once, after the header")
        self._check_keys(head)
        if head["model"]["sha256"] not in (None, self.model_hash):
            raise Rejected(
                f"the certificate is about another model ({head['model']['name']}, SHA-256 "
                f"{head['model']['sha256']})"
            )
        shape = tuple(int(size) for size in head["problem"]["input_shape"])
        self.network: Network
        stated = Stated.of(head["model"].get("scores"))
        self.scores = str(stated)
        convention = head["model"].get("convention")
        sizes = shape if convention is None else tuple(map(int, convention["model_shape"]))
        self.network, self.convention = with_convention(
            read_model(data, stated, sizes), convention, shape
        )
        self._read_problem(head["problem"], *maps)
        self._read_claims(head["claims"])
        self.witnesses = head["witnesses"]
        roots = [
            Root(
                _number(item["target"]),
                _number(item["piece"]),
                _flag(item.get("slopes", False)),
                _flag(item.get("boxes", False)),
            )
            for item in head["trees"]
        ]
        self._check_roots(roots)
        if len(records) % RECORD.itemsize:
            raise Rejected("the tree is cut off")
        steps = np.frombuffer(records, RECORD)
        self.tree = Tree(roots, steps, self.form.network, self.form.pieces)
        if self.tree.count != head["nodes"]:
            raise Rejected("the tree does not have as many nodes as the header says")

    def _check_keys(self, head: Any) -> None:
        for given, (what, known) in zip(
            (head, head["model"], head["problem"]), _KEYS.items(), strict=True
        ):
            require_keys(given, known, what)
        for tree in head["trees"]:
            require_keys(tree, _TREE_KEYS, "list of trees")
        if head["format"] != VERSION:
            raise Rejected(f"the header states format {head['format']!r}")

    def _read_problem(self, problem: Any, maps: bytes | None = None) -> None:
        shape = tuple(int(size) for size in problem["input_shape"])
        low, high = (float(end) for end in problem["input_range"])
        if shape != self.network.input_shape or not 0 < high - low < math.inf:
            raise Rejected(
                "the certificate is about inputs of another shape, or an empty or infinite range"
            )
        self.domain = Domain(shape, low, high)
        self.domain = self._read_domain(problem.get("domain"))
        self.perturbation: str | None = problem["perturbation"]
        self.clip = bool(problem["clip"])
        self.recorded = None if maps is None else read_maps(maps, self.domain)
        self.pieces: list[Piece] = pieces(self.perturbation, self.domain, self.clip, self.recorded)
        self.clipping = "clipped to the input range" if self.clip else self._unclipped()
        self.image = self._read_image(problem.get("image"))
        if self.image is None:
            self._clip_inputs(problem.get("clipped_pixels"))
            self.form = self._searched(problem.get("form"))
        else:
            self.form = self._at_image(self.image, problem)
        classes = range(self.network.classes)
        self.source, targets = problem["source"], list(problem["targets"])
        self.targets: list[int | None] = targets if self.perturbation is not None else [None]
        known = all(type(k) is int and k in classes for k in [self.source, *targets])
        if not known or self.source in targets or len(set(targets)) != len(targets):
            raise Rejected("the certificate's classes are not the network's")
        if bool(targets) != (self.perturbation is not None):
            raise Rejected("the certificate has targets without a perturbation, or none with one")

    def _unclipped(self) -> str:
        """What happens at the ends of the input range without a clip, in words."""
        stays = all(piece.stays for piece in self.pieces)
        return "never beyond the input range" if stays else "not clipped to the input range"

    def _read_domain(self, given: Any) -> Domain:
        """Read the domain: the inputs that the question is about, perhaps not the whole range."""
        if given is None:
            return self.domain
        box, conditions = self._read_box(given), read_conditions(given, self.domain.size)
        # Of no input everything is true, and a reader would take it for more.
        if conditions is not None and not narrow_whole(conditions, *map(np.copy, box)):
            raise Rejected("the domain is empty: no input in its ranges satisfies its rows")
        return replace(self.domain, box=box, conditions=conditions)

    def _read_box(self, given: Any) -> Box:
        low, high = (np.array([float(end) for end in given[side]]) for side in ("lower", "upper"))
        domain = self.domain
        if low.shape != (domain.size,) or high.shape != (domain.size,):
            raise Rejected("the domain does not have two ends for every entry of the input")
        if not (low <= high).all():
            raise Rejected("the domain is empty")
        if not ((low >= domain.low) & (high <= domain.high)).all():
            raise Rejected("the domain leaves the input range")
        return low, high

    def _read_image(self, given: Any) -> Floats | None:
        """Read the image of a certificate about one image; None for any other."""
        if given is None:
            return None
        x = np.array([float(value) for value in given])
        if self.domain.box is not None:
            raise Rejected("a certificate about one image is about no domain")
        inside = ((x >= self.domain.low) & (x <= self.domain.high)).all()
        if self.perturbation is None or x.shape != (self.domain.size,) or not inside:
            raise Rejected("the image is not in the input range, or nothing perturbs it")
        return x

    def _at_image(self, x: Floats, problem: Any) -> Form:
        """The question about one image: a single copy of the network on its versions."""
        if problem.get("clipped_pixels") is not None or problem.get("form") is not None:
            raise Rejected("a certificate about one image has no clipped pixels and no other form")
        made = [at_image(piece, x, self.clip) for piece in self.pieces]
        versions: list[Piece] = [OneImage(each, each.whole) for each in made]
        return Form(self.network, versions, self.network, self.domain)

    def _clip_inputs(self, given: Any) -> None:
        """Put the clip of affine maps in front of the network; other pieces clip by themselves."""
        masks = clipped_pixels(given, self.domain, self.clip)
        affine = [piece for piece in self.pieces if isinstance(piece, BoxAffine)]
        if self.clip and not require_clipped(affine, masks, self.domain):
            self.clipping += f" where it leaves it by more than {STAYS!r} of its width"
        if masks is not None and len(affine) != len(self.pieces):
            raise Rejected("the certificate clips the images of pieces that never need it")
        if masks is not None:
            self.network = behind_clip(self.network, masks, self.domain)

    def _searched(self, form: Any) -> Form:
        """The form of the question that the trees are about; witnesses are about the original."""
        network, searched = self.network, self.pieces
        if form == "homogeneous":
            network, searched = homogeneous_network(network), bias_pieces(searched, self.domain)
        elif form is not None:
            raise Rejected("the certificate states a form of the question that is not known")
        return Form(network, searched, self.network, self.domain)

    def _read_claims(self, claims: Any) -> None:
        if self.image is not None:
            self._read_signed(claims)
            return
        self.claimed = {name: float(claims[name]) for name in ("lower", "upper")}
        each = claims["targets"] if self.perturbation is not None else {"None": self.claimed}
        if set(each) != {str(target) for target in self.targets}:
            raise Rejected("the certificate does not have a claim for every target")
        self.claims = {target: float(each[str(target)]["upper"]) for target in self.targets}
        self.lowers = {target: float(each[str(target)]["lower"]) for target in self.targets}
        numbers = [*self.claims.values(), *self.lowers.values()]
        if not all(0 <= number < math.inf for number in numbers):
            raise Rejected("a claim is negative or not finite")

    def _read_signed(self, claims: Any) -> None:
        """Read the claims about each target's confidence over all versions; null for none."""
        each = claims["targets"]
        if set(each) != {str(target) for target in self.targets} or set(claims) != {"targets"}:
            raise Rejected("the certificate does not have a claim for every target")
        given = {
            target: [each[str(target)][name] for name in ("lower", "upper")]
            for target in self.targets
        }
        numbers = [number for ends in given.values() for number in ends if number is not None]
        if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
            raise Rejected("a claim is no number")
        self.claimed = {}
        self.lowers = {k: -math.inf if low is None else float(low) for k, (low, _) in given.items()}
        self.claims = {k: math.inf if top is None else float(top) for k, (_, top) in given.items()}

    def _check_roots(self, roots: list[Root]) -> None:
        for root in roots:
            attack = root.target in self.targets and root.piece in range(len(self.pieces))
            alone = (root.target, root.piece) == (None, None) and self.image is None
            if (root.slopes and (root.boxes or alone)) or not (
                alone or (attack and self.perturbation is not None)
            ):
                raise Rejected("a tree is about a target or a piece that the problem does not have")
        if len(set(roots)) != len(roots):
            raise Rejected("two trees are about the same target and piece")

    def question(self, root: Root) -> Question:
        if self.image is not None and root.target is not None:
            return Question(root.target, None, self.claims[root.target], signed=True)
        claims = [c for target, c in self.claims.items() if root.target in (target, None)]
        return Question(self.source, root.target, min(claims))

    def ceiling(self, exact: bool = False) -> float:
        """An upper bound on the confidence of every input, by interval arithmetic."""
        if exact:
            return exact_ceiling(self.network, self.domain.inputs, self.source)
        return self.confidences()[1]

    def confidences(self) -> tuple[float, float]:
        """Bounds on the confidence of every input; infinite if nothing is known."""
        with np.errstate(all="ignore"):
            low, high = confidence_interval(self.network, *self.domain.inputs, self.source)
        return -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high

    def score_size(self) -> float:
        """A bound on the absolute value of every score; NaN if nothing is known."""
        with np.errstate(all="ignore"):
            return score_size(self.network, *self.domain.inputs)

    def upper_bounds(self, values: Floats, ceiling: float) -> dict[int | None, float]:
        """The bound of each target: the largest of its pieces' bounds, at most the ceiling."""
        found = self.tree.combine(values)
        by_root = {root: float(found[k]) for k, root in enumerate(self.tree.roots)}
        alone = (Root(None, None, boxes=boxes) for boxes in (False, True))
        ceiling = min(*(by_root.get(root, math.inf) for root in alone), ceiling)
        uppers: dict[int | None, float] = {}
        for target in self.targets:
            numbers = [None] if target is None else range(len(self.pieces))
            each = [
                min(by_root.get(Root(target, number, *kind), math.inf) for kind in _KINDS)
                for number in numbers
            ]
            uppers[target] = max(min(max(each), ceiling), 0.0)
            if self.image is not None:
                uppers[target] = max(each)
        return uppers


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise Rejected("a tree does not say plainly whether it is split by slopes, or by boxes")
    return value


def _number(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise Rejected("a tree is about something that is no class or piece")
    return value


def toward(target: int | None) -> str:
    """The target in words, for messages."""
    return "" if target is None else f" for target {target}"
