"""The checker's own test vectors, edited at random: certificates of every kind of proof.

Each claims a little less than the confidence of a witness, so it is false, and the checker must
refuse it, whatever is changed about its trees, regions and proofs. The question stays as it is.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vhagar_check import Rejected, check
from vhagar_check.tree import RECORD

from .bases import Blocks, blocks_of, forged, joined_json, split_json, with_head
from .judge import Finding

VECTORS = Path(__file__).parents[2] / "checker" / "vectors"
# Confidences of witnesses that `verify` finds for one of the targets where a vector has none.
_WITNESSES = {
    "slopes": 3.1,
    "tied": 1.13,
    "spectral": 2.24,
    "boxes confidence": 2.206,
    "window by window": 3.209,
}
# Largest confidences in a target of versions of one image, at corners of their box.
_VERSIONS = {
    "one image by facts": ("2", -0.06221171),
    "one image by facts of parameters": ("2", -0.03357525),
}
_SHARE = 1 - 1e-4
_STEP_FIELDS = ("kind", "copy", "layer", "neuron", "at")
_WITH_NUMBERS = (1, 2, 4, 7, 9)  # kinds of proofs
_ODD_NUMBERS = (0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-30, float("nan"), float("inf"))


@cache
def originals() -> list[tuple[str, Blocks, Path]]:
    """The vectors with false claims: name, blocks and model."""
    cases = json.loads((VECTORS / "manifest.json").read_text())["cases"]
    found = []
    for case in cases:
        blocks = blocks_of((VECTORS / case["certificate"]).read_bytes()) if case["accepted"] else []
        claims = _false_claims(case["name"], json.loads(blocks[0][1])) if blocks else None
        if claims is not None:
            head = {**json.loads(blocks[0][1]), "claims": claims, "witnesses": []}
            found.append((case["name"], with_head(blocks, head), VECTORS / case["model"]))
    return found


def _false_claims(name: str, head: Any) -> Any | None:
    """Claims of which one is below a witness; None if none is known."""
    if "image" in head["problem"]:
        return _false_claims_of_an_image(name, head)
    claims, asked = head["claims"], head["claims"].get("targets", {})
    known = {target: ends["lower"] for target, ends in asked.items()}
    if name in _WITNESSES:  # whichever target it is for
        known = dict.fromkeys(asked, _WITNESSES[name])
    lower = max([_WITNESSES.get(name, claims["lower"]), *known.values()])
    if lower <= 0:
        return None
    each = {
        target: {"lower": 0.0, "upper": _SHARE * known[target] or ends["upper"]}
        for target, ends in asked.items()
    }
    upper = max((ends["upper"] for ends in each.values()), default=_SHARE * lower)
    return {"lower": 0.0, "upper": upper, **({"targets": each} if asked else {})}


def _false_claims_of_an_image(name: str, head: Any) -> Any | None:
    if name not in _VERSIONS:
        return None
    target, known = _VERSIONS[name]
    each = head["claims"]["targets"]
    return {"targets": {**each, target: {"lower": None, "upper": known / _SHARE}}}


def look(number: int, folder: Path) -> Finding:
    rng = random.Random(number)
    name, blocks, model = originals()[number % len(originals())]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        blocks = rng.choice(_EDITS)(list(blocks), rng)
    finding = Finding("edits", number, name)
    path = folder / "certificate"
    try:
        path.write_bytes(forged(_counted(blocks)))
        check(path, model=model)
    except Rejected as refusal:
        finding.facts.update(outcome="refused", refusal=str(refusal))
    except Exception as error:
        finding.wrong.append(f"the checker fails: {error!r}")
    else:
        finding.wrong.append("a false claim is proved")
    return finding


def _counted(blocks: Blocks) -> Blocks:
    """State the number of nodes that there are, so that it is not the reason of a refusal."""
    head = json.loads(blocks[0][1])
    nodes = sum(len(raw) // RECORD.itemsize for tag, raw in blocks if tag == b"TREE")
    return with_head(blocks, {**head, "nodes": len(head["trees"]) + nodes})


def _block_moved(blocks: Blocks, rng: random.Random) -> Blocks:
    """A block is gone, there twice, or elsewhere."""
    place = rng.randrange(1, len(blocks))
    block = blocks[place]
    if rng.random() < 0.7:
        del blocks[place]
    if rng.random() < 0.7:
        blocks.insert(rng.randrange(1, len(blocks) + 1), block)
    return blocks


def _trees_changed(blocks: Blocks, rng: random.Random) -> Blocks:
    head = json.loads(blocks[0][1])
    trees = head["trees"]
    one = rng.choice(trees)
    change = rng.choice([{"slopes": True}, {"boxes": True}, {"target": None, "piece": None}])
    rng.choice([lambda: trees.remove(one), lambda: trees.append({**one, **change}),
                lambda: one.update(change), lambda: rng.shuffle(trees)])()  # fmt: skip
    return with_head(blocks, head)


def _step_changed(blocks: Blocks, rng: random.Random) -> Blocks:
    """Both children of a node change alike, exchange their step with others, or are gone."""
    places = [k for k, (tag, raw) in enumerate(blocks) if tag == b"TREE" and raw]
    if not places:
        return blocks
    place = rng.choice(places)
    records = np.frombuffer(blocks[place][1], RECORD).copy()
    first, second = (2 * rng.randrange(len(records) // 2) for _ in range(2))
    field = rng.choice(_STEP_FIELDS)
    way = rng.randrange(4)
    if way == 0:
        records[field][first : first + 2] = rng.choice([0, 1, 2, 3, 7])
    elif way == 1:
        records["parent"][first : first + 2] = rng.randrange(first + 3)
    elif way == 2:
        for own in _STEP_FIELDS:
            records[own][[first, second]] = records[own][[second, first]]
            records[own][[first + 1, second + 1]] = records[own][[second + 1, first + 1]]
    else:
        records = records[:-2]
    blocks[place] = (b"TREE", records.tobytes())
    return blocks


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    lists = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else lists:
        yield from _paths(inner, (*path, key))


def _odd(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list):
        items = [copy.deepcopy(item) for item in value for _ in range(rng.choice([0, 1, 1, 1, 2]))]
        return rng.sample(items, len(items))
    if isinstance(value, int | float):
        return rng.choice([value + 1, value - 1, -value, 0, 1, 0.5 * value, 1e300, None])
    return rng.choice([None, 0, 1, [], [0.0, 1.0], False])


def _described_otherwise(blocks: Blocks, rng: random.Random) -> Blocks:
    """One value in the description of a region or of proofs changes."""

    def change(about: Any, data: bytearray) -> None:
        *way, last = rng.choice([path for path in _paths(about) if path])
        holder = about
        for key in way:
            holder = holder[key]
        holder[last] = _odd(holder[last], rng)

    return _in_block(blocks, rng, change)


def _numbers_changed(blocks: Blocks, rng: random.Random) -> Blocks:
    """Numbers of a region or of proofs change: one of them, all of them, or their order."""

    def change(about: Any, data: bytearray) -> None:
        kind = np.dtype(rng.choice(["<f8", "<f4", "u1", "u1", "<u4"]))
        begin = 5 * max(about.get("count", 0), 0) if kind == np.dtype("<f8") else 0
        begin = min(begin, len(data))
        values = np.frombuffer(data, kind, (len(data) - begin) // kind.itemsize, begin)
        if not len(values):
            return
        one, other = rng.randrange(len(values)), rng.randrange(len(values))
        if kind.kind == "u":
            values[one] = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 9, 255])
            return
        with np.errstate(all="ignore"):
            rng.choice([lambda: values.__setitem__(one, rng.choice(_ODD_NUMBERS)),
                        lambda: values.__setitem__(one, values[other]),
                        lambda: values.__imul__(rng.choice([2.0, 0.5, 1e6, 1e-6, -1.0])),
                        lambda: values.__setitem__(slice(one, None), 0.0),
                        values.sort])()  # fmt: skip

    return _in_block(blocks, rng, change)


def _proofs_of_another_kind(blocks: Blocks, rng: random.Random) -> Blocks:
    """All proofs are of one kind, with the numbers that it has, or with none."""
    kind = rng.randrange(10)
    for place, (tag, raw) in enumerate(blocks):
        about, data = split_json(raw) if tag == b"PROF" else ({}, b"")
        count = about.get("count", 0)
        if isinstance(count, int) and 0 < 5 * count <= len(data):
            numbers = data[5 * count :] if kind in _WITH_NUMBERS else b""
            kinds = bytes([kind]) * count
            blocks[place] = (tag, joined_json(about, data[: 4 * count] + kinds + numbers))
    return blocks


def _in_block(
    blocks: Blocks, rng: random.Random, change: Callable[[Any, bytearray], None]
) -> Blocks:
    places = [k for k, (tag, _) in enumerate(blocks) if tag not in (b"HEAD", b"TREE", b"MAPS")]
    if not places:
        return blocks
    place = rng.choice(places)
    tag, raw = blocks[place]
    about, data = split_json(raw)
    changed = bytearray(data)
    if isinstance(about.get("count", 0), int):
        change(about, changed)
    blocks[place] = (tag, joined_json(about, bytes(changed)))
    return blocks


_EDITS = (
    *(_block_moved, _trees_changed, _step_changed, _step_changed),
    *(_described_otherwise, _described_otherwise, _numbers_changed, _numbers_changed),
    _proofs_of_another_kind,
)
