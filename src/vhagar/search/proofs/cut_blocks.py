"""Cone cuts as certificates have them."""

from __future__ import annotations

from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.result.certificate import with_json


def cut_block(cut: ConeCut) -> bytes:
    """A block of one cut and its proof. It does not state the limit, which a checker computes."""
    about = {
        "layer": int(cut.layer),
        "units": cut.units.tolist(),
        "seen": [units.tolist() for units in cut.seen],
        **({"pixels": cut.pixels.tolist()} if len(cut.pixels) else {}),
        **({"perturbed": cut.perturbed.tolist()} if len(cut.perturbed) else {}),
        "tree": [0 if split is None else [int(part) for part in split] for split in cut.tree],
    }
    parts = [part.astype("<f8").tobytes() for part in (cut.a, cut.b, cut.c, cut.d)]
    parts += [part.astype("<f4").tobytes() for both in cut.multipliers for part in both]
    return with_json({"cuts": [about]}, *parts)
