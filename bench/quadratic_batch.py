"""The search by slopes with thousands of nodes at once: batched factorisations on a GPU.

    python bench/quadratic_batch.py save MODEL "linf(0.05)" 2 3 differences.npz
    python bench/quadratic_batch.py run differences.npz --device cuda --nodes 2048 --seconds 20
    python bench/quadratic_batch.py prove differences.npz leaves.npz

`save` and `prove` need vhagar, `run` only numpy and torch. `run` prints the largest bound of all
leaves as it falls and writes the leaves with the largest bounds; in float64, but not rounded
outward. `prove` proves those leaves' bounds one by one on the CPU, as the search does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

try:
    from script import in_words
except ModuleNotFoundError:  # where vhagar is missing, `run` does without its words for errors

    def in_words(main: Callable[[], int]) -> Callable[[], int]:
        return main


STEPS, LENGTHS, BARRIERS = 12, (0.1, 0.02), (0.01, 0.001)
PROBES, HALVINGS, WORSE = 4, 6, 1.1
KEPT = 200


@in_words
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    save = verbs.add_parser("save")
    for name in ("model", "perturbation"):
        save.add_argument(name)
    for name in ("source", "target"):
        save.add_argument(name, type=int)
    save.add_argument("file", type=Path)
    run = verbs.add_parser("run")
    run.add_argument("file", type=Path)
    run.add_argument("--leaves", type=Path, default=Path("leaves.npz"))
    run.add_argument("--device", default="cuda")
    run.add_argument("--nodes", type=int, default=1024, help="nodes that are branched at once")
    run.add_argument("--capacity", type=int, default=40_000, help="most open nodes")
    run.add_argument("--seconds", type=float, default=20.0)
    prove = verbs.add_parser("prove")
    prove.add_argument("file", type=Path)
    prove.add_argument("leaves", type=Path)
    given = parser.parse_args()
    {"save": _save, "run": _run, "prove": _prove}[given.verb](given)
    return 0


def _known(given: Any) -> Any:
    from vhagar import Problem
    from vhagar.relaxation.layerwise import quick_bounds
    from vhagar.relaxation.quadratic import differences_of

    problem = Problem(
        given.model, perturbation=given.perturbation, source=given.source, targets=given.target
    )
    known = differences_of(
        quick_bounds(problem.network, problem.pieces[0]), given.source, given.target
    )
    if known is None:
        sys.exit("too many pairs")
    return known


def _save(given: Any) -> None:
    from vhagar.relaxation.quadratic import Schedule, ascend, improve, starting_multipliers

    known = _known(given)
    ascent = ascend(known)
    start = starting_multipliers(known, ascent)
    found = (
        None if start is None else improve(known, start, Schedule(100, (0.1, 0.02), (0.03, 0.003)))
    )
    if found is None:
        sys.exit("no multipliers to start from")
    multipliers, evaluation = found
    np.savez(
        given.file,
        rows=known.rows,
        sizes=known.sizes,
        error=known.error,
        middle=known.middle,
        radius=known.radius,
        inputs=known.inputs,
        places=np.array(known.places),
        slopes=multipliers.slopes,
        box=multipliers.box,
    )
    print(f"{len(known.places)} pairs, root {evaluation.value:.4f}, at least {ascent.value:.4f}")


class Batch:
    """Nodes of one root: their rows with settled pairs substituted, and multipliers."""

    def __init__(self, torch: Any, rows: Any, free: Any, slopes: Any, box: Any, root: Any) -> None:
        self.torch, self.rows, self.free = torch, rows, free
        self.slopes, self.box, self.root = slopes, box, root

    def evaluate(self, slopes: Any, box: Any) -> tuple[Any, ...]:
        """Bounds, infinite where there is none; the facts' values and the barrier's gradient."""
        torch, inputs = self.torch, len(self.root["middle"])
        middle, radius = self.root["middle"], self.root["radius"]
        on_u, on_w = self.rows[:, :-1, :inputs], self.rows[:, :-1, inputs:]
        lead_u, lead_w = self.rows[:, -1, :inputs], self.rows[:, -1, inputs:]
        slopes = torch.where(self.free, slopes, torch.zeros_like(slopes))
        half = slopes / 2
        scaled = on_u * half[:, :, None] / box.sqrt()[:, None, :]
        coupling = half[:, :, None] * on_w
        matrix = -(scaled @ scaled.mT) - coupling - coupling.mT
        # Pairs that are settled have nothing to do with the others.
        matrix.diagonal(dim1=1, dim2=2).add_(torch.where(self.free, slopes, 1.0))
        factor, info = torch.linalg.cholesky_ex(matrix)
        shift = lead_u / (2 * box)
        right = lead_w + slopes * (on_u @ (middle + shift)[:, :, None])[:, :, 0]
        signs = torch.randint(0, 2, (*slopes.shape, PROBES), device=slopes.device).double() * 2 - 1
        solved = torch.cholesky_solve(right[:, :, None] / 2, factor)
        probes = torch.linalg.solve_triangular(factor.mT, signs, upper=True)
        pairs = torch.cat([solved, probes], dim=2) * self.free[:, :, None]
        value = (lead_u * (middle + shift / 2)).sum(1) + (box * radius**2).sum(1)
        value = value + (right * pairs[:, :, 0]).sum(1) / 2
        bad = (info != 0) | ~value.isfinite()
        value = torch.where(bad, torch.inf, value)
        moved = (on_u.mT @ (slopes[:, :, None] * pairs)) / (2 * box)[:, :, None]
        moved[:, :, 0] += shift
        changes = on_u @ moved + on_w @ pairs
        changes[:, :, 0] += on_u @ middle
        facts, squares = pairs * (changes - pairs), moved**2
        return (
            value,
            facts[:, :, 0],
            radius**2 - squares[:, :, 0],
            -facts[:, :, 1:].mean(2),
            squares[:, :, 1:].mean(2),
        )

    def improve(self) -> Any:
        """Adam's steps on the logarithms, each node with steps of its own length; the facts."""
        torch = self.torch
        current = self.evaluate(self.slopes, self.box)
        best, best_slopes, best_box = current[0], self.slopes, self.box
        facts = current[1]
        pairs = self.free.sum(1).clamp(min=1)
        mean = square = torch.zeros_like(torch.cat([self.slopes, self.box], 1))
        slopes, box = self.slopes, self.box
        for step in range(STEPS):
            done = (step + 1) / STEPS
            length = LENGTHS[0] * (LENGTHS[1] / LENGTHS[0]) ** done
            share = BARRIERS[0] * (BARRIERS[1] / BARRIERS[0]) ** done
            barrier = (share * best.abs() / pairs)[:, None]
            gradient = torch.cat(
                [
                    slopes * (current[1] - barrier * current[3]) * self.free,
                    box * (current[2] - barrier * current[4]),
                ],
                1,
            ).nan_to_num()
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.99 * square + 0.01 * gradient**2
            scale = (square / (1 - 0.99 ** (step + 1))).sqrt() + 1e-300
            move = length * mean / ((1 - 0.9 ** (step + 1)) * scale)
            for _ in range(HALVINGS):
                factors = torch.exp(-move)
                tried = slopes * factors[:, : slopes.shape[1]], box * factors[:, slopes.shape[1] :]
                after = self.evaluate(*tried)
                bad = ~(after[0] < current[0] + (WORSE - 1) * current[0].abs())
                if not bad.any():
                    break
                move = torch.where(bad[:, None], move / 2, move)
            good = ~bad
            slopes = torch.where(good[:, None], tried[0], slopes)
            box = torch.where(good[:, None], tried[1], box)
            current = tuple(
                torch.where(good.reshape(-1, *[1] * (new.dim() - 1)), new, old)
                for new, old in zip(after, current, strict=True)
            )
            better = current[0] < best
            best = torch.where(better, current[0], best)
            best_slopes = torch.where(better[:, None], slopes, best_slopes)
            best_box = torch.where(better[:, None], box, best_box)
            facts = torch.where(better[:, None], current[1], facts)
        self.slopes, self.box = best_slopes, best_box
        return best, (best_slopes * facts.abs()).masked_fill(~self.free, -1.0).argmax(1)


def _children(torch: Any, rows: Any, free: Any, place: Any, inputs: int) -> tuple[Any, Any]:
    """Both slopes of a pair of each node, 0 first: rows and free pairs."""
    each = torch.arange(len(rows), device=rows.device)
    own = rows[each, place]
    column = rows[each, :, inputs + place]
    zero = rows.clone()
    zero[each, :, inputs + place] = 0.0
    one = zero + column[:, :, None] * own[:, None, :]
    free = free.clone()
    free[each, place] = False
    return torch.cat([zero, one]), torch.cat([free, free])


def _run(given: Any) -> None:
    import torch

    torch.set_grad_enabled(False)
    data = np.load(given.file)
    device = torch.device(given.device)
    root = {k: torch.tensor(data[k], device=device) for k in ("rows", "middle", "radius")}
    inputs, pairs = len(root["middle"]), len(data["slopes"])
    rows = root["rows"][None]
    free = torch.ones((1, pairs), dtype=torch.bool, device=device)
    slopes, box = (torch.tensor(data[k], device=device)[None] for k in ("slopes", "box"))
    chosen = torch.full((1, pairs), -1, dtype=torch.int8, device=device)
    batch = Batch(torch, rows, free, slopes, box, root)
    upper, place = batch.improve()
    slopes, box = batch.slopes, batch.box
    begun, done, told = time.monotonic(), 1, 0.0
    while (spent := time.monotonic() - begun) < given.seconds and len(upper) < given.capacity:
        if spent > told:
            print(f"{spent:6.1f} s  {done:8d} nodes  {float(upper.max()):.5f}", flush=True)
            told = spent + 1.0
        order = upper.argsort(descending=True)
        now, later = order[: given.nodes], order[given.nodes :]
        new_rows, new_free = _children(torch, rows[now], free[now], place[now], inputs)
        twice = torch.cat([now, now])
        new_chosen = chosen[twice].clone()
        ones = torch.arange(len(twice), device=device) >= len(now)
        new_chosen[torch.arange(len(twice), device=device), place[twice]] = ones.to(torch.int8)
        batch = Batch(torch, new_rows, new_free, slopes[twice], box[twice], root)
        new_upper, new_place = batch.improve()
        new_upper = torch.minimum(new_upper, upper[twice])
        done += len(twice)
        rows, free = torch.cat([rows[later], new_rows]), torch.cat([free[later], new_free])
        slopes = torch.cat([slopes[later], batch.slopes])
        box, chosen = torch.cat([box[later], batch.box]), torch.cat([chosen[later], new_chosen])
        upper, place = torch.cat([upper[later], new_upper]), torch.cat([place[later], new_place])
    print(f"{spent:6.1f} s  {done:8d} nodes  {float(upper.max()):.5f}")
    worst = upper.argsort(descending=True)[:KEPT]
    kept = {"upper": upper, "slopes": slopes, "box": box, "chosen": chosen}
    np.savez(given.leaves, **{name: part[worst].cpu().numpy() for name, part in kept.items()})


def _prove(given: Any) -> None:
    from vhagar.relaxation.quadratic import Differences, Multipliers, proven_bound

    data, leaves = np.load(given.file), np.load(given.leaves)
    places = tuple((int(a), int(b)) for a, b in data["places"])
    names = ("rows", "sizes", "error", "middle", "radius", "inputs")
    rows, sizes, error, middle, radius, inputs = (data[name] for name in names)
    known = Differences(rows, sizes, float(error), middle, radius, inputs, places)
    proven, missing = [], 0
    for upper, slopes, box, chosen in zip(
        leaves["upper"], leaves["slopes"], leaves["box"], leaves["chosen"], strict=True
    ):
        settled = {place: bool(c) for place, c in zip(places, chosen, strict=True) if c >= 0}
        bound = proven_bound(known.settled(settled), Multipliers(slopes[chosen < 0], box))
        missing += bound is None
        proven.append(upper if bound is None else bound)
    print(f"{len(proven)} leaves, {missing} without a proof, largest {max(proven):.5f}")


if __name__ == "__main__":
    sys.exit(main())
