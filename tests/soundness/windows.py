"""Networks whose only hidden layer sees few pixels, proved window by window alone.

The bounds and the certificate must hold the exact optimum. The numbers of its blocks are then
changed at random: whatever multipliers, limits and trees they have, they may prove only what is
true.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from vhagar import Domain, Problem, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.relaxation.windows import bound
from vhagar.search.bounders import first_order
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.search import Search
from vhagar_check import Rejected, check
from vhagar_check.container import scan, split_json
from vhagar_check.errors import Unproved

from ..oracle.exact import Truth, exact_optimum
from ..relaxation.windows.nets import BUILDS, network_of
from .bases import Blocks, blocks_of, forged
from .judge import Finding, require_proved, require_sound

_PLANS = (first_order.Plan(None, None, None, windows=0.3),)
_MOST_BOXES, _EDITS = 2000, 6
_LEAF = 255


def problem_of(number: int, model: Path) -> tuple[str, Problem]:
    """The problem of that number, the same every time; its network is in the file."""
    rng = np.random.default_rng([41, number])
    build = BUILDS[number % 5]
    shape = 1, 2, int(rng.integers(2, 4))
    scale = float(rng.choice([1e-3, 1.0, 1.0, 1e3]))
    model.write_bytes(onnx_bytes(network_of(build, rng, filters=1, scale=scale, shape=shape)))
    ends = np.sort(rng.random(2).round(3)) * rng.choice([0.1, 0.5, 1.0])
    weak, strong = map(float, ends.round(4))
    ranges = [0, strong], [weak, strong], [-strong, -weak], [-weak, strong], [strong, strong]
    low, high = ranges[int(rng.integers(5))]
    front: dict[str, Any] = {}
    if rng.random() < 0.5:
        front = {"mean": round(float(rng.random()), 2), "std": 0.1 + float(rng.random())}
    network = read_onnx(model, **front)
    source = int(rng.integers(3))
    domain = None
    if rng.random() < 0.3:
        domain = Domain(shape, *np.sort(rng.random((2, *shape)).round(2), axis=0))
    problem = Problem(
        network,
        perturbation=f"brightness([{low},{high}])",
        source=source,
        targets=[target for target in range(3) if target != source],
        clip=bool(rng.random() < 0.6),
        domain=domain,
    )
    return f"{build}, {problem.perturbation}", problem


def look(number: int, folder: Path) -> Finding:
    """Bound without interval arithmetic, check the certificate, and edit it."""
    model, certificate = folder / "model.onnx", folder / "proof.cert"
    what, problem = problem_of(number, model)
    finding = Finding("windows", number, what)
    truths = exact_optimum(problem)
    with (
        patch.object(first_order, "_CPU_PLANS", _PLANS),
        patch.object(bound, "_MOST_BOXES", _MOST_BOXES),
        patch.object(Search, "bound_roots", lambda *_: None),
    ):
        engine = FirstOrder(attack=False)
        result = verify(problem, engine=engine, workers=0, device="cpu", certificate=certificate)
    require_sound("windows", problem, truths, result, finding)
    try:
        verdict = check(certificate, model=model)
    except Rejected as refusal:
        finding.wrong.append(f"a certificate is refused: {refusal}")
        return finding
    require_proved(truths, verdict, finding)
    tags = {block.tag for block in scan(certificate)}
    finding.facts["kind"] = "with windows" if "WNDW" in tags else "without"
    if "WNDW" in tags:
        _edit(finding, truths, certificate, model)
    return finding


def _edit(
    finding: Finding, truths: dict[int | None, Truth], certificate: Path, model: Path
) -> None:
    """Blocks with other numbers prove nothing false, also where they prove less than is claimed."""
    rng = np.random.default_rng([43, finding.number])
    blocks = blocks_of(certificate.read_bytes())
    edited = certificate.with_suffix(".edited")
    for _ in range(_EDITS):
        edited.write_bytes(forged(_edited(blocks, rng)))
        try:
            check(edited, model=model)
        except Unproved as refusal:
            for target, value in refusal.uppers.items():
                if not truths[target].low <= value:
                    finding.wrong.append(f"an edited block proves {value!r} of target {target}")
        except Rejected:
            continue
        finding.facts["edits"] = finding.facts.get("edits", 0) + 1


def _edited(blocks: Blocks, rng: np.random.Generator) -> Blocks:
    place = int(rng.choice([k for k, (tag, _) in enumerate(blocks) if tag == b"WNDW"]))
    about, data = split_json(blocks[place][1])
    count, boxes = about["windows"], sum(about["boxes"])
    ends = np.cumsum([2 * count, 8 * count, len(data) - 10 * count - boxes])
    parts = [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    kinds = "<u2", "<f8", "<f4", "u1"
    trees, limits, factors, codes = (
        np.frombuffer(part, kind).copy() for part, kind in zip(parts, kinds, strict=True)
    )
    match int(rng.integers(6)):
        case 0:
            limits *= rng.choice([0.0, -1.0, 1e9, 0.5], limits.shape)
        case 1:
            size = rng.choice([1e-3, 1.0, 1e6]) * abs(factors).max(initial=1.0)
            factors += (size * rng.normal(size=factors.shape)).astype("<f4")
        case 2:
            factors = rng.permutation(factors)
        case 3:
            codes[rng.integers(len(codes))] = rng.choice([0, 1, 2, 3, 4, _LEAF])
        case 4:
            trees = rng.permutation(trees)
        case _:
            grown = [_random_tree(rng) for _ in about["boxes"]]
            about["boxes"] = [len(tree) for tree in grown]
            codes, limits[:] = np.concatenate(grown), -1e300
    text = json.dumps(about).encode()
    numbers = b"".join(part.tobytes() for part in (trees, limits, factors, codes))
    changed = list(blocks)
    changed[place] = b"WNDW", struct.pack("<I", len(text)) + text + numbers
    return changed


def _random_tree(rng: np.random.Generator) -> np.ndarray:
    found: list[int] = []
    level, depth = 1, 0
    while level:
        codes = [
            _LEAF if depth > 5 or rng.random() < 0.3 else int(rng.integers(5)) for _ in range(level)
        ]
        found += codes
        level, depth = 2 * sum(code != _LEAF for code in codes), depth + 1
    return np.array(found, np.uint8)
