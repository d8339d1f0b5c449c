"""Ask the checker about a certificate before the run ends, and state no more than it proves.

The checker rounds differently from the search. Stated bounds leave a margin for that, which is too
small where weights differ by many orders of magnitude: the certificate then proves a little less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vhagar.problem import Target
from vhagar.result import Run
from vhagar.result.certificate import NODE

if TYPE_CHECKING:
    from vhagar_check.container import Block

# Most multiplications for which the checker is asked; it takes about a second for them.
_MOST_PRODUCTS = 2**32
_REGIONS = ("REGN", "SPEC", "BOXS", "WNDW")
# What a proof and a box of inputs take the checker at least, in multiplications of the same time.
# Measured: 0.3 ms for a proof of a network of 43 neurons, 0.1 ms for a box of one of 203, and of
# 729 windows.
_LEAST_PROOF, _LEAST_BOX = 2**20, 2**18
# Bounds are raised by these shares of themselves and of the first bound, one after the other. Some
# proofs prove their claim or nothing, so what the checker has instead can be far too large.
_SHARES = (1e-7, 1e-5, 1e-3, math.inf)


def review(path: Path, run: Run, write: Callable[[], None]) -> None:
    """Raise bounds that the certificate does not prove, and write it again with those that it does.

    Large certificates are not checked, because that takes long, nor are those of a network without
    a file, because the checker reads the file.
    """
    targets = run.original.search_targets
    before = {target: run.interval.target_upper(target) for target in targets}
    hopeless: set[Target] = set()
    for share in _SHARES:
        proved = _proved_instead(path, run)
        hopeless = {target for target, value in proved.items() if math.isinf(value)}
        if not proved:
            break
        for target, value in proved.items():
            stated = run.interval.target_upper(target)
            more = share * (stated + run.interval.initial_upper)
            run.interval.raise_upper(target, min(value, stated + more))
        write()
    for target, stated in before.items():
        now = run.interval.target_upper(target)
        if target in hopeless:
            run.note(f"the certificate does not prove the bound {now!r}")
        elif now > stated:
            run.note(f"the certificate proves the bound {now!r}, not {stated!r} as computed")


def _proved_instead(path: Path, run: Run) -> dict[Target, float]:
    """For each target whose stated bound is not proved, find the bound that the checker proves."""
    from vhagar_check.container import scan
    from vhagar_check.errors import Rejected, Unproved
    from vhagar_check.verdict import check

    file = run.original.network.file
    if file is None:
        return {}
    try:
        if _products(scan(path), run) <= _MOST_PRODUCTS:
            check(path, model=file.path)
    except Unproved as refusal:
        missed = refusal.uppers.items()
        return {t: value for t, value in missed if not value <= run.interval.target_upper(t)}
    except Rejected:
        pass  # refused for another reason, which raising bounds does not mend
    return {}


def _products(blocks: list[Block], run: Run) -> int:
    """Estimate how many products the checker computes; each row of a domain takes as many."""
    proofs = sum(block.raw // NODE.size for block in blocks if block.tag == "TREE")
    proofs += sum(block.tag in _REGIONS for block in blocks)
    boxes = sum(block.raw for block in blocks if block.tag in ("BOXS", "WNDW"))  # a byte each
    size, rows = _size(run), run.original.domain.rows
    found = proofs * max(size**3, _LEAST_PROOF) + boxes * max(4 * size**2, _LEAST_BOX)
    return found * (1 + (0 if rows is None else rows.count))


def _size(run: Run) -> int:
    """Count the entries, neurons and scores of the network that is searched."""
    network = run.problem.network
    return network.input_size + sum(layer.out_size for layer in network.layers)
