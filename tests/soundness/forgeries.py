"""Certificates forged with the digest computed anew: the checker has only the mathematics left."""

from __future__ import annotations

import copy
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .bases import Base, Blocks, forged, joined_json, packed, sealed, split_json, with_head

Rng = np.random.Generator
Forge = Callable[[Base, Rng], bytes]
_RECORD = np.dtype("<u4,u1,u1,u1,u1,<i4,<u4,<f8")
_MULTIPLIERS = (1, 2)


def _with_claims(blocks: Blocks, head: Any, factor: float, which: str = "upper") -> Blocks:
    """All claims of one side multiplied, the overall one with them."""
    claims = head["claims"]
    for interval in claims["targets"].values():
        interval[which] *= factor
    claims[which] = max(interval[which] for interval in claims["targets"].values())
    return with_head(blocks, head)


def _lowered(original: Base, rng: Rng) -> Blocks:
    """Claims a little or much better than those that were proved."""
    factor = float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.998, 1 - 1e-9]))
    return _with_claims(original.blocks, original.head, factor)


def upper_lowered(original: Base, rng: Rng) -> bytes:
    return forged(_lowered(original, rng))


def one_target_lowered(original: Base, rng: Rng) -> bytes:
    head = original.head
    targets = head["claims"]["targets"]
    targets[str(rng.choice(list(targets)))]["upper"] *= float(rng.choice([0.0, 0.5, 0.9]))
    head["claims"]["upper"] = max(interval["upper"] for interval in targets.values())
    return forged(with_head(original.blocks, head))


def lower_raised(original: Base, rng: Rng) -> bytes:
    factor = float(rng.choice([1 + 1e-15, 1 + 1e-6, 1.1, 2.0]))
    head = original.head
    for witness in head["witnesses"]:
        witness["confidence"] *= factor
    return forged(_with_claims(original.blocks, head, factor, "lower"))


def witness_moved(original: Base, rng: Rng) -> bytes:
    """The witness is another input, and claims more."""
    head = original.head
    if head["witnesses"]:
        witness = head["witnesses"][0]
        low, high = head["problem"]["input_range"]
        x = np.array(witness["x"])
        away = int(rng.integers(len(x)))
        x[away] = rng.choice([low, high, low - 1, high + 1, math.nextafter(high, math.inf)])
        witness["x"] = x.tolist()
        if rng.random() < 0.3:
            parameters = np.array(witness["parameters"])
            witness["parameters"] = (parameters * rng.choice([2.0, -1.0, 1e300])).tolist()
        if rng.random() < 0.3:
            witness["x"] = witness["x"][:-1]
    return forged(_with_claims(original.blocks, head, float(rng.choice([1.0, 1.2])), "lower"))


def _tree(blocks: Blocks) -> np.ndarray:
    raw = b"".join(raw for tag, raw in blocks if tag == b"TREE")
    return np.frombuffer(raw, _RECORD).copy()


def _with_tree(blocks: Blocks, records: np.ndarray, count: int | None = None) -> Blocks:
    """The tree replaced, and the header's number of nodes with it unless told otherwise."""
    head = json.loads(blocks[0][1])
    head["nodes"] = len(head["trees"]) + len(records) if count is None else count
    rest = [block for block in blocks[1:] if block[0] != b"TREE"]
    return with_head([blocks[0], (b"TREE", records.tobytes()), *rest], head)


def _in_tree(change: Callable[[np.ndarray, Rng], np.ndarray]) -> Forge:
    """A change of the tree; the claims are lowered half of the time, or kept."""

    def forge(original: Base, rng: Rng) -> bytes:
        blocks = _lowered(original, rng) if rng.random() < 0.5 else original.blocks
        records = _tree(blocks)
        if not len(records):
            records = np.zeros(2, _RECORD)
            records["f3"] = [0, 1]
        return forged(_with_tree(blocks, change(records, rng)))

    return forge


def _last_children_dropped(records: np.ndarray, rng: Rng) -> np.ndarray:
    return records[:-2]


def _one_child_dropped(records: np.ndarray, rng: Rng) -> np.ndarray:
    return np.delete(records, rng.integers(len(records)))


def _field_changed(name: str, values: list[Any]) -> Callable[[np.ndarray, Rng], np.ndarray]:
    def change(records: np.ndarray, rng: Rng) -> np.ndarray:
        pair = 2 * int(rng.integers(len(records) // 2))
        value = values[int(rng.integers(len(values)))]
        # Both children alike, so that they still look like two sides of one step; or one alone.
        records[name][pair : pair + (2 if rng.random() < 0.7 else 1)] = value
        return records

    return change


def _sides_swapped(records: np.ndarray, rng: Rng) -> np.ndarray:
    pair = 2 * int(rng.integers(len(records) // 2))
    records["f3"][pair : pair + 2] = records["f3"][pair : pair + 2][::-1]
    return records


def _same_side_twice(records: np.ndarray, rng: Rng) -> np.ndarray:
    pair = 2 * int(rng.integers(len(records) // 2))
    records["f3"][pair : pair + 2] = rng.integers(2)
    return records


def _decisions_exchanged(records: np.ndarray, rng: Rng) -> np.ndarray:
    """Two pairs of children change places: each now has the other's step."""
    count = len(records) // 2
    if count > 1:
        a, b = (2 * int(k) for k in rng.choice(count, 2, replace=False))
        for name in ("f1", "f2", "f5", "f6", "f7"):
            kept = records[name][a : a + 2].copy()
            records[name][a : a + 2] = records[name][b : b + 2]
            records[name][b : b + 2] = kept
    return records


def a_tree_dropped(original: Base, rng: Rng) -> bytes:
    """A target's or a piece's search is left out, its proofs with it."""
    blocks = _lowered(original, rng) if rng.random() < 0.5 else original.blocks
    head = json.loads(blocks[0][1])
    gone = int(rng.integers(len(head["trees"])))
    del head["trees"][gone]
    head["nodes"] -= 1
    kept: Blocks = []
    for tag, raw in blocks[1:]:
        changed = raw
        if tag == b"PROF":
            about, data = split_json(raw)
            if about["tree"] == gone:
                continue
            about["tree"] -= about["tree"] > gone
            nodes = np.frombuffer(data, "<u4", about["count"]).copy()
            nodes -= nodes > gone
            changed = joined_json(about, nodes.tobytes() + data[4 * about["count"] :])
        elif tag == b"TREE":
            records = np.frombuffer(raw, _RECORD).copy()
            records["f0"] -= records["f0"] > gone
            changed = records.tobytes()
        kept.append((tag, changed))
    return forged(with_head([blocks[0], *kept], head))


def trees_exchanged(original: Base, rng: Rng) -> bytes:
    """The proofs of one target or piece stand for another's."""
    head = original.head
    order = rng.permutation(len(head["trees"])).tolist()
    head["trees"] = [head["trees"][k] for k in order]
    return forged(with_head(original.blocks, head))


def _in_block(tag: bytes, change: Callable[[Any, bytearray, Rng], None]) -> Forge:
    """A change of one block of a kind; claims are lowered most of the time."""

    def forge(original: Base, rng: Rng) -> bytes:
        blocks = list(_lowered(original, rng) if rng.random() < 0.7 else original.blocks)
        places = [k for k, block in enumerate(blocks) if block[0] == tag]
        place = int(rng.choice(places))
        about, data = split_json(blocks[place][1])
        changed = bytearray(data)
        change(about, changed, rng)
        blocks[place] = (tag, joined_json(about, bytes(changed)))
        return forged(blocks)

    return forge


def _numbers(about: Any, data: bytearray) -> np.ndarray:
    """The multipliers of a block of proofs, to be changed in place."""
    return np.frombuffer(data, "<f8", offset=5 * about["count"])


def _multipliers_damaged(about: Any, data: bytearray, rng: Rng) -> None:
    numbers = _numbers(about, data)
    if len(numbers):
        for place in rng.choice(len(numbers), min(len(numbers), 1 + int(rng.integers(6)))):
            ways = (0.0, -numbers[place], 2 * numbers[place], numbers[place] + rng.normal())
            numbers[place] = ways[int(rng.integers(len(ways)))]


def _multipliers_absurd(about: Any, data: bytearray, rng: Rng) -> None:
    numbers = _numbers(about, data)
    if len(numbers):
        absurd = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0)
        numbers[rng.integers(len(numbers))] = absurd[int(rng.integers(len(absurd)))]


def _multipliers_scaled(about: Any, data: bytearray, rng: Rng) -> None:
    """All of them, as if the sum of alphas did not matter."""
    numbers = _numbers(about, data)
    numbers *= float(rng.choice([0.5, 1e-3, 1e-300, 1e200, -1.0]))


def _kinds_changed(about: Any, data: bytearray, rng: Rng) -> None:
    count = about["count"]
    for place in range(count):
        kind = data[4 * count + place]
        if rng.random() < 0.5:
            # Those of the same length, so that only the meaning changes; or any.
            same = (1, 2) if kind in _MULTIPLIERS else (0, 3)
            data[4 * count + place] = int(rng.choice(same if rng.random() < 0.8 else (0, 3, 7)))


def _nodes_moved(about: Any, data: bytearray, rng: Rng) -> None:
    nodes = np.frombuffer(data, "<u4", about["count"])
    way = rng.integers(3)
    if way == 0:
        nodes[:] = rng.permutation(nodes)
    elif way == 1:
        nodes[rng.integers(len(nodes))] = int(rng.choice([0, 1, 2, 2**31, 2**32 - 1]))
    else:
        nodes[:] = nodes[rng.integers(len(nodes))]


def _about_proofs_changed(about: Any, data: bytearray, rng: Rng) -> None:
    name = str(rng.choice(["tree", "count"]))
    about[name] = _any_value(rng, about[name])


def _status_changed(about: Any, data: bytearray, rng: Rng) -> None:
    """A neuron that switches is said to be on or off, or to be equal in both copies."""
    neurons = sum(about["layers"])
    for place in rng.integers(neurons, size=int(rng.integers(1, 4)) if neurons else 0):
        data[place] = int(rng.choice([0, 1, 2, 3, 200]))


def _refinement_changed(about: Any, data: bytearray, rng: Rng) -> None:
    """The multipliers of tighter bounds, or which neurons they are for."""
    neurons = sum(about["layers"])
    values = np.frombuffer(data[neurons:], "<f4").copy()
    if len(values) and rng.random() < 0.6:
        for place in rng.choice(len(values), 3):
            values[place] = rng.choice([np.nan, np.inf, 0.0, 1e38, -float(values[place])])
        data[neurons:] = values.tobytes()
    elif about["refined"]:
        entry = about["refined"][0]
        entry["layer"] = int(rng.choice([-1, 0, 1, 2, 10**9]))
    else:
        about["refined"] = [{"layer": 1, "neurons": [0]}]


def _about_region_changed(about: Any, data: bytearray, rng: Rng) -> None:
    name = str(rng.choice(list(about)))
    if name == "span" and about["span"] is not None and rng.random() < 0.7:
        low, high = about["span"]
        middle = (low + high) / 2
        ways = ([low, middle], [middle, middle], [high, low], [low, high + 1], [low])
        about["span"] = ways[int(rng.integers(len(ways)))]
    else:
        about[name] = _any_value(rng, about[name])


def _any_value(rng: Rng, value: Any) -> Any:
    """Something else, of the same kind or of any."""
    if isinstance(value, list) and value and rng.random() < 0.5:
        changed = copy.deepcopy(value)
        place = int(rng.integers(len(changed)))
        changed[place] = _any_value(rng, changed[place])
        return changed
    values = (None, True, 0, 1, -1, 3, 2**31, 2**63, 10**40, 0.5, -0.5, 1e308, 1e-320, "", "1")
    others: tuple[Any, ...] = ([], [[]], {}, {"a": 1}, [None], "x" * 1000, [1] * 1000)
    return (*values, *others)[int(rng.integers(len(values) + len(others)))]


def header_changed(original: Base, rng: Rng) -> bytes:
    """Any value anywhere in the header becomes any other, or is gone."""
    head = original.head
    for _ in range(1 + int(rng.integers(2))):
        place: Any = head
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[int(rng.integers(len(keys)))]
            deeper = isinstance(place[key], dict | list) and len(place[key])
            if deeper and rng.random() < 0.85:
                place = place[key]
                continue
            if rng.random() < 0.15:
                del place[key]
            else:
                place[key] = _any_value(rng, place[key])
            break
    return forged(with_head(original.blocks, head))


def another_problem(original: Base, rng: Rng) -> bytes:
    """The proofs stay, the question is another."""
    head = original.head
    problem = head["problem"]
    way = rng.integers(5)
    if way == 0:
        problem["clip"] = not problem["clip"]
    elif way == 1:
        low, high = problem["input_range"]
        ranges = ([low, high + 1], [low - 1, high], [low, low + (high - low) / 2], [high, low])
        problem["input_range"] = ranges[int(rng.integers(len(ranges)))]
    elif way == 2:
        classes = int(rng.integers(2, 5))
        problem["source"] = int(rng.integers(classes))
    elif way == 3:
        problem["perturbation"] = _other_text(problem["perturbation"], rng)
    else:
        old = str(problem["targets"][0])
        new = int(rng.integers(4))
        problem["targets"][0] = new
        head["claims"]["targets"][str(new)] = head["claims"]["targets"].pop(old)
        for entry in [*head["trees"], *head["witnesses"]]:
            if entry["target"] == int(old):
                entry["target"] = new
    return forged(with_head(original.blocks, head))


def another_form(original: Base, rng: Rng) -> bytes:
    """The proofs stay, and are said to be about another form of the question."""
    head = json.loads(_lowered(original, rng)[0][1]) if rng.random() < 0.5 else original.head
    problem = head["problem"]
    if "form" in problem and rng.random() < 0.5:
        del problem["form"]
    else:
        problem["form"] = ("homogeneous", "linear", None, 1)[int(rng.integers(4))]
    if rng.random() < 0.5:
        problem["perturbation"] = str(rng.choice(["contrast([0.5,2])", "contrast([0.25,0.5])"]))
        problem["clip"] = bool(rng.integers(2))
    return forged(with_head(original.blocks, head))


def _other_text(text: str, rng: Rng) -> str:
    """The same perturbation with other numbers, or another, or nonsense."""
    digits = [k for k, sign in enumerate(text) if sign.isdigit()]
    place = digits[int(rng.integers(len(digits)))]
    changed = text[:place] + str(rng.integers(10)) + text[place + 1 :]
    others = (
        "linf(0.5)",
        "linf(1)",
        "linf(-0.1)",
        "occlusion(1,1,1)",
        "occlusion(0,1,1)",
        "occlusion(1,1,9)",
        "translation(1,0)",
        "brightness([-1,1])",
        "brightness([0.5,0.25])",
        "contrast([0,1])",
        "contrast([1,1])",
        "patch([0,1],1,1,1)",
        "rotation(90)",
        "rotation([0,90])",
        "blur(3)",
        "linf(1e400)",
        "linf(nan)",
        "",
    )
    return changed if rng.random() < 0.6 else others[int(rng.integers(len(others)))]


def another_model(original: Base, rng: Rng) -> bytes:
    """Checked with other weights; the hash is that of neither, or none is given."""
    head = original.head
    head["model"]["sha256"] = None
    return forged(with_head(original.blocks, head))


def blocks_moved(original: Base, rng: Rng) -> bytes:
    """A block twice, less, elsewhere, or under another name."""
    blocks = list(original.blocks)
    place, other = (int(k) for k in rng.integers(len(blocks), size=2))
    way = rng.integers(4)
    if way == 0:
        blocks.insert(other, blocks[place])
    elif way == 1:
        del blocks[place]
    elif way == 2:
        blocks[place], blocks[other] = blocks[other], blocks[place]
    else:
        names = [b"HEAD", b"TREE", b"REGN", b"PROF", b"END ", b"\xff\xfe\0\0"]
        blocks[place] = (names[int(rng.integers(len(names)))], blocks[place][1])
    return forged(blocks)


def empty_or_absurd_blocks(original: Base, rng: Rng) -> bytes:
    """Blocks of nothing, of noise, or whose inner lengths are absurd."""
    blocks = list(original.blocks)
    place = int(rng.integers(len(blocks)))
    tag, raw = blocks[place]
    contents = (
        b"",
        b"\0",
        rng.bytes(200),
        raw[: len(raw) // 2],
        raw + b"\0" * 8,
        struct.pack("<I", 2**32 - 1) + raw[4:],
        struct.pack("<I", 0) + raw[4:],
    )
    blocks[place] = (tag, contents[int(rng.integers(len(contents)))])
    return forged(blocks)


def stated_lengths(original: Base, rng: Rng) -> bytes:
    """Blocks that state another length than they have, under a digest that is right."""
    place = int(rng.integers(len(original.blocks)))
    lengths = (0, 1, 31, 2**20, 2**24, 2**31, 2**32 - 1)
    wrong = lengths[int(rng.integers(len(lengths)))]
    return sealed(
        packed(tag, raw, wrong if k == place else None)
        for k, (tag, raw) in enumerate(original.blocks)
    )


def numbers_in_words(original: Base, rng: Rng) -> bytes:
    """NaN, infinities and numbers beyond all floats in the header's text."""
    text = original.blocks[0][1].decode()
    words = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000, "1e-999", "null")
    word = words[int(rng.integers(len(words)))]
    claims = original.head["claims"]
    name = str(rng.choice(["lower", "upper"]))
    wrong = text.replace(f'"{name}":{claims[name]!r}', f'"{name}":{word}')
    return forged([(b"HEAD", wrong.encode()), *original.blocks[1:]])


def not_json(original: Base, rng: Rng) -> bytes:
    contents = (
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b"{}",
        b"[]",
        b"null",
        b'"' + b"a" * 100_000 + b'"',
        b'{"format":1,"format":2}',
    )
    head = contents[int(rng.integers(len(contents)))]
    return forged([(b"HEAD", head), *original.blocks[1:]])


FORGERIES: dict[str, Forge] = {
    "upper lowered": upper_lowered,
    "one target lowered": one_target_lowered,
    "lower raised": lower_raised,
    "witness moved": witness_moved,
    "last children dropped": _in_tree(_last_children_dropped),
    "one child dropped": _in_tree(_one_child_dropped),
    "sides swapped": _in_tree(_sides_swapped),
    "one side twice": _in_tree(_same_side_twice),
    "decisions exchanged": _in_tree(_decisions_exchanged),
    "another neuron": _in_tree(_field_changed("f6", [0, 1, 2, 3, 2**31, 2**32 - 1])),
    "another layer": _in_tree(_field_changed("f5", [-2, -1, 0, 1, 2, 2**31 - 1])),
    "another copy": _in_tree(_field_changed("f2", [0, 1, 2, 255])),
    "another kind of step": _in_tree(_field_changed("f1", [0, 1, 2, 255])),
    "another split": _in_tree(_field_changed("f7", [0.0, 0.1, 1.0, -1e308, np.nan, np.inf])),
    "another parent": _in_tree(_field_changed("f0", [0, 1, 2, 5, 2**32 - 1])),
    "a tree dropped": a_tree_dropped,
    "trees exchanged": trees_exchanged,
    "multipliers damaged": _in_block(b"PROF", _multipliers_damaged),
    "multipliers absurd": _in_block(b"PROF", _multipliers_absurd),
    "multipliers scaled": _in_block(b"PROF", _multipliers_scaled),
    "kinds of proofs changed": _in_block(b"PROF", _kinds_changed),
    "proofs moved": _in_block(b"PROF", _nodes_moved),
    "another description of proofs": _in_block(b"PROF", _about_proofs_changed),
    "status changed": _in_block(b"REGN", _status_changed),
    "refinement changed": _in_block(b"REGN", _refinement_changed),
    "another region": _in_block(b"REGN", _about_region_changed),
    "header changed": header_changed,
    "header changed again": header_changed,
    "header changed once more": header_changed,
    "another problem": another_problem,
    "another problem again": another_problem,
    "another form": another_form,
    "another form again": another_form,
    "another model": another_model,
    "blocks moved": blocks_moved,
    "absurd blocks": empty_or_absurd_blocks,
    "stated lengths": stated_lengths,
    "numbers in words": numbers_in_words,
    "no JSON": not_json,
}
