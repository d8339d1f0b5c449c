"""Nodes by first-order steps: for networks that no linear program can hold.

Nodes are bounded in rounds, first quickly and then with more care; all targets of a piece share the
bounds of its neurons and the steps. Nothing is branched on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from vhagar.problem import Problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.first_order.dual import Steps
from vhagar.relaxation.first_order.refine import device_bounds, refine
from vhagar.relaxation.first_order.root import root_bounds
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.proof import BlockProof, Proof, ProofKind
from vhagar.relaxation.quick_root import quick_root_bounds
from vhagar.relaxation.spectral import SpectralBounder
from vhagar.relaxation.windows import WindowBounder
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.runtime.threads import one_blas_thread
from vhagar.search.bounders.base import AbstractBounder, Bound, Branched, Outcome
from vhagar.search.bounders.first_bounds import MOST_KEPT, BoundMethod, first_neuron_bounds
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node

# Share of a piece's time that its quick bounds may take; pieces without any share the time evenly.
_QUICK_SHARE = 0.6
# Share of the remaining time for the steps of spectral bounds.
_STEPS_SHARE = 0.25
# Share of the remaining time for bounds by windows, for all targets together.
_WINDOWS_SHARE = 0.5


@dataclass(frozen=True)
class Plan:
    """How much work a round puts into each piece."""

    inner: Steps | None  # for convolutions and other layers before the last hidden one
    last: Steps | None  # for the last hidden layer
    root: Steps | None  # None: one backward pass with quick slopes
    spectral: int = 0  # steps for the scalings of spectral bounds
    windows: float = 0.0  # how far windows may be above what they reach, as a share of that

    @property
    def needs_device(self) -> bool:
        """Whether a round of this plan begins with the bounds of all neurons."""
        return not (self.spectral or self.windows)

    def of_layer(self, layer: int, layers: int) -> Steps | None:
        """The steps for one hidden layer of `layers`."""
        return self.last if layer == layers - 1 else self.inner


# Quick bounds first, then better ones. The first plans need no device, and so no torch; windows
# exist only where neurons see very few pixels.
_WITHOUT_DEVICE = (
    Plan(None, None, None, spectral=16),
    Plan(None, None, None, windows=1.0),
    Plan(None, None, None, spectral=48),
    Plan(None, None, None, windows=0.45),
)
_CPU_PLANS = (
    *_WITHOUT_DEVICE,
    Plan(None, None, None),
    Plan(None, None, Steps(40, 0.01, 0.05)),
    Plan(None, Steps(30, 0.02, 0.02), Steps(200, 0.02, 0.01)),
)
_CUDA_PLANS = (
    *_WITHOUT_DEVICE,
    Plan(None, None, Steps(40, 0.01, 0.05)),
    Plan(Steps(20, 0.02, 0.05), Steps(100, 0.02, 0.01), Steps(600, 0.03, 0.005)),
)


class FirstOrderBounder(AbstractBounder):
    """Bounds nodes of one piece together.

    `is_late` is called from several threads. With a deadline, every piece has its share of the time
    in its first round. With `record`, the multipliers of refined layers are kept. Quick bounds of
    neurons are taken from the `cache`. The first round that needs the `device` calls it;
    `OutOfTime` leaves the nodes to others.
    """

    def __init__(
        self,
        problem: Problem,
        device: Callable[[], Any],
        is_late: Callable[[], bool] = lambda: False,
        deadline: Deadline = NEVER,
        record: bool = True,
        threads: int = 1,
        cache: BoundsCache | None = None,
    ) -> None:
        self._threads, self._cache = threads, cache or BoundsCache()
        self._problem = problem
        self._ask_for_device = device
        self._is_late = is_late
        self._deadline = deadline
        self._new = set(range(len(problem.pieces)))  # pieces without quick bounds
        self._record = record
        self._kept: dict[int, TwinBounds] = {}
        self._spectral: tuple[int, SpectralBounder] | None = None
        self._windows: tuple[int, WindowBounder] | None = None

    def at_once(self, open_nodes: int) -> int:
        return open_nodes

    def bound(self, nodes: list[Node], incumbent: Incumbent) -> list[Bound]:
        found = [Bound(node.upper) for node in nodes]
        for piece_index, rounds in dict.fromkeys(
            (node.region.piece_index, node.rounds) for node in nodes
        ):
            if self._is_late():
                break
            own = [
                k
                for k, n in enumerate(nodes)
                if (n.region.piece_index, n.rounds) == (piece_index, rounds)
            ]
            plan = self._plans(rounds)[rounds]
            targets = [nodes[k].region.target for k in own]
            for k, new in zip(own, self._proven(piece_index, targets, plan), strict=True):
                if new is not None and new.upper < nodes[k].upper:
                    found[k] = new
        return found

    @cached_property
    def _device(self) -> Any:
        return self._ask_for_device()

    def _plans(self, rounds: int) -> tuple[Plan, ...]:
        """The plans of a node that was bounded in some rounds."""
        if not any(plan.needs_device for plan in _CPU_PLANS[: rounds + 1]):
            return _CPU_PLANS
        return _CUDA_PLANS if self._device.type == "cuda" else _CPU_PLANS

    def _proven(
        self, piece_index: int, targets: list[int | None], plan: Plan
    ) -> list[Bound | None]:
        """What a round makes of a piece, for each target."""
        if plan.spectral:
            return self._spectral_bounds(piece_index, targets, plan.spectral)
        if plan.windows:
            return [self._window_bound(piece_index, target, plan.windows) for target in targets]
        bounds = self._refined(piece_index, plan)
        if plan.root is None:
            proven = quick_root_bounds(self._problem, bounds, targets)
        else:
            proven = root_bounds(
                self._problem, bounds, targets, self._device, plan.root, self._is_late
            )
        return [
            Bound(new.upper, Proof(ProofKind.MULTIPLIERS, bounds, new.stated)) for new in proven
        ]

    def _spectral_bounds(
        self, piece_index: int, targets: list[int | None], steps: int
    ) -> list[Bound | None]:
        """Spectral bounds; those of the last piece go on from where they were."""
        attacked = [target for target in targets if target is not None]
        if len(attacked) < len(targets):
            return [None] * len(targets)
        if self._spectral is None or self._spectral[0] != piece_index:
            problem = self._problem
            every = problem.targets
            bounder = SpectralBounder(
                problem.network, problem.pieces[piece_index], problem.source, every
            )
            self._spectral = piece_index, bounder
        # The proof at the end takes its time, too.
        limit = self._deadline.sooner(_STEPS_SHARE * self._deadline.left)
        proofs = dict(
            zip(
                self._problem.targets,
                self._spectral[1].bounds(steps, self._is_late, limit.is_late),
                strict=True,
            )
        )
        return [
            None
            if (proof := proofs[target]) is None
            else Bound(proof.upper, BlockProof(ProofKind.SPECTRAL, b"SPEC", proof.block))
            for target in attacked
        ]

    def _window_bound(self, piece_index: int, target: int | None, share: float) -> Bound | None:
        """A bound by windows, if there are any; those of the last piece are kept."""
        if target is None:
            return None
        problem = self._problem
        if self._windows is None or self._windows[0] != piece_index:
            piece = problem.pieces[piece_index]
            self._windows = piece_index, WindowBounder(problem.network, piece, problem.source)
        limit = self._deadline.sooner(_WINDOWS_SHARE * self._deadline.left / len(problem.targets))
        late = lambda: self._is_late() or limit.is_late()  # noqa: E731
        with one_blas_thread():  # for many small products
            proof = self._windows[1].bound(target, share, late)
        if proof is None:
            return None
        return Bound(proof.upper, BlockProof(ProofKind.WINDOWS, b"WNDW", proof.block))

    def branch(self, bounded: list[tuple[Node, Bound]], incumbent: Incumbent) -> list[Branched]:
        """Another round, if there is one."""
        if self._is_late():
            return [Branched(Outcome.LEFT)] * len(bounded)
        found = []
        for node, _ in bounded:
            again = (replace(node, rounds=node.rounds + 1),)
            more = node.rounds + 1 < len(self._plans(node.rounds))
            found.append(Branched(Outcome.AGAIN, again) if more else Branched(Outcome.CLOSED))
        return found

    def _refined(self, piece_index: int, plan: Plan) -> TwinBounds:
        """The bounds of a piece's neurons, as a plan wants them."""
        bounds = self._kept[piece_index] if piece_index in self._kept else self._quick(piece_index)
        layers = len(bounds.hexagons)
        wanted = [(k, steps) for k in range(1, layers) if (steps := plan.of_layer(k, layers))]
        if wanted:
            bounds = bounds.copy()  # earlier proofs rest on what was known before
        for layer, steps in wanted:
            refine(bounds, layer, self._device, steps, self._is_late, self._record)
        if (len(self._kept) < MOST_KEPT or piece_index in self._kept) and not self._is_late():
            self._kept[piece_index] = bounds
        return bounds

    def _quick(self, piece_index: int) -> TwinBounds:
        share = _QUICK_SHARE * self._deadline.left / max(len(self._new), 1)
        self._new.discard(piece_index)
        if self._device.type == "cuda":
            network, piece = self._problem.network, self._problem.pieces[piece_index]
            return device_bounds(network, piece, self._device, self._threads, self._is_late)
        return first_neuron_bounds(
            self._problem,
            piece_index,
            BoundMethod.QUICK,
            self._cache,
            self._threads,
            self._is_late,
            self._deadline.sooner(share),
        )
