"""Answers specifications: does some input of a box satisfy conditions on the outputs?

Each box becomes a local question about a network with new scores: 0 for class 0, and for every
case a score that is at least 0 if and only if the outputs satisfy the case. The inputs of the box
are the versions of its centre: all keep class 0 if and only if none of them satisfies a case.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
import onnx
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalVerdict
from vhagar.local.run import verify_local
from vhagar.local.vnnlib import Case, Form, Specification
from vhagar.local.vnnlib_2 import Second
from vhagar.network import Network
from vhagar.network.onnx_copy import INPUT, OUTPUT, copied, graph_around, standalone
from vhagar.network.onnx_reader import read_model
from vhagar.network.onnx_session import OnnxSession
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.user import RecordedMaps

# Float32 represents every whole number up to this one.
_LARGEST = 2**24


class Satisfiability(Enum):
    """Whether a specification can be satisfied; the value is the competition's word for it."""

    SATISFIED = "sat"
    NEVER = "unsat"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"


@dataclass(frozen=True, eq=False)
class SpecificationResult:
    """The answer, with an input `x` and its outputs `y` if and only if it is SATISFIED."""

    answer: Satisfiability
    seconds: float
    x: Array | None = None
    y: Array | None = None

    def text(self) -> str:
        """Format the answer as in the competition's result files."""
        if self.x is None or self.y is None:
            return f"{self.answer.value}\n"
        pairs = [
            f"({name}_{k} {float(value)!r})"
            for name, numbers in (("X", self.x), ("Y", self.y))
            for k, value in enumerate(numbers)
        ]
        return f"{self.answer.value}\n(" + "\n ".join(pairs) + ")\n"


def answer_specification(
    network: Network,
    specification: Specification,
    timeout: float | None = None,
    second: Network | None = None,
) -> SpecificationResult:
    """Decide every case of a specification, one box after the other.

    `second` is the second network of a specification about two networks with separate files.
    """
    begun = time.monotonic()
    network = _networks_of(network, specification, second)
    boxes: dict[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], list[Case]] = {}
    for case in specification.cases:
        if all(low <= high for low, high in zip(case.lower, case.upper, strict=True)):
            boxes.setdefault((case.lower, case.upper), []).append(case)
    answers = {Satisfiability.NEVER}
    for cases in boxes.values():
        left = None if timeout is None else begun + timeout - time.monotonic()
        if left is not None and left <= 0:
            answers.add(Satisfiability.TIMEOUT)
            break
        box = _Box(network, cases)
        answer = box.answer(left)
        if answer is Satisfiability.SATISFIED:
            return SpecificationResult(answer, time.monotonic() - begun, box.x, box.y)
        answers.add(answer)
    worse = (Satisfiability.NEVER, Satisfiability.UNKNOWN, Satisfiability.TIMEOUT)
    return SpecificationResult(max(answers, key=worse.index), time.monotonic() - begun)


def _networks_of(network: Network, specification: Specification, second: Network | None) -> Network:
    """The network that a specification is about, which may consist of two."""
    _check_outputs(network)
    if (second is not None) != (specification.second is Second.OTHER):
        raise InvalidInput(
            "the specification is about a second network, which is to be given with --second"
            if second is None
            else "the specification has no use for a second network: leave --second out"
        )
    if specification.second is Second.EQUAL:
        second = network
    if second is not None:
        _check_outputs(second)
        network = side_by_side(network, second)
    outputs = network.classes - _first(network)
    if (specification.inputs, specification.outputs) != (network.input_size, outputs):
        raise InvalidInput(
            f"the specification is about {specification.inputs} inputs and "
            f"{specification.outputs} outputs, but the network has {network.input_size} and "
            f"{outputs}"
        )
    return network


def _check_outputs(network: Network) -> None:
    """Refuse derived scores: a specification is about the model's own outputs."""
    if network.scores is not None and (network.scores.argmin or network.scores.threshold):
        raise InvalidInput("a specification is about the outputs: leave argmin and threshold out")
    if any("at the end is ignored" in note for note in network.notes):
        raise InvalidInput(
            "the specification is about the outputs of a smooth function, which is ignored: "
            "choose the scores before it with --output NAME, if these are meant"
        )


def side_by_side(first: Network, second: Network) -> Network:
    """Join two networks into one with a shared input and the outputs of both, the first's first."""
    if first.input_size != second.input_size:
        sizes = f"{first.input_size} and {second.input_size}"
        raise InvalidInput(f"the two networks take {sizes} inputs; they must take the same")
    one, other = (
        onnx.compose.add_prefix(standalone(network), f"{name}_")
        for network, name in ((first, "first"), (second, "second"))
    )
    graph, beside = graph_around(one), graph_around(other)
    if (graph.dtype, graph.opset) != (beside.dtype, beside.opset):
        raise InvalidInput(
            "the two networks have different operator sets or precisions; export both alike"
        )
    graph.tensors += beside.tensors
    parts = []
    for model, network, name in ((one, first, "one_"), (other, second, "other_")):
        image = graph.reshape(INPUT, (1, *network.input_shape))
        flat = graph.reshape(copied(graph, model, image, name), (1, network.classes))
        parts.append(graph.slice(flat, 1, _first(network), network.classes))
    graph.add("Concat", *parts, axis=1, output=OUTPUT)
    outputs = sum(network.classes - _first(network) for network in (first, second))
    ends = (INPUT, (1, *first.input_shape)), (OUTPUT, (1, outputs))
    name = f"{first.name} and {second.name}"
    return read_model(graph.model(name, *ends, one), name, "chw")


class _Box:
    """The cases of one box; `x` and `y` satisfy one of them if the answer is SATISFIED."""

    def __init__(self, network: Network, cases: Sequence[Case]) -> None:
        self._network = network
        self._cases = cases
        self._lower, self._upper = self._ends(outward=True)
        self.x: Array | None = None
        self.y: Array | None = None

    def answer(self, timeout: float | None) -> Satisfiability:
        centre = self._inside((self._lower + self._upper) / 2)
        if self._satisfies(centre):
            return Satisfiability.SATISFIED
        watched = _watched(self._network, self._cases)
        scores = watched.forward(centre[None])[0]
        if not scores[1:].max() < 0:
            return Satisfiability.UNKNOWN  # satisfied only by rounding
        low, high = float(self._lower.min()), float(self._upper.max())
        size = len(centre)
        every = AffineMap(
            sparse.csr_array((size, size)),
            sparse.eye_array(size, format="csr"),
            np.zeros(size),
            self._lower,
            self._upper,
            label="the box",
        )
        problem = LocalProblem(
            watched,
            perturbation=RecordedMaps("the box", (every,)),
            image=centre,
            source=0,
            clip=False,
            input_range=(low - 1.0, high + 1.0),
        )
        result = verify_local(problem, timeout=timeout)
        if result.verdict is LocalVerdict.ROBUST:
            return Satisfiability.NEVER
        found = None if result.witness is None else result.witness.x_p
        if found is not None and self._satisfies(self._inside(found)):
            return Satisfiability.SATISFIED
        late = timeout is not None and result.seconds >= timeout
        return Satisfiability.TIMEOUT if late and found is None else Satisfiability.UNKNOWN

    def _inside(self, x: Array) -> Array:
        """Move a point into the box exactly, to float32 numbers if the box contains them."""
        flat = x.reshape(-1).astype(np.float32).astype(np.float64)
        return np.clip(flat, *self._ends(outward=False))

    def _ends(self, outward: bool) -> tuple[Array, Array]:
        """The ends of the box, rounded outward or inward."""
        first = self._cases[0]
        lower = [_rounded(end, not outward) for end in first.lower]
        return np.array(lower), np.array([_rounded(end, outward) for end in first.upper])

    def _satisfies(self, x: Array) -> bool:
        """Whether a point satisfies a case both by onnxruntime and in float64."""
        first = _first(self._network)
        session = OnnxSession(standalone(self._network).SerializeToString())
        y = session.outputs(x.reshape(1, *self._network.input_shape))[0, first:]
        for case in self._cases:
            for values in (y, self._network.forward(x[None])[0, first:]):
                if any(_value(form, values) > 0 for form in case.conditions):
                    break
            else:
                self.x, self.y = x, y
                return True
        return False


def _first(network: Network) -> int:
    """The index of Y_0 among the scores: 1 if a model's only output became `[0, Y_0]`."""
    return int(network.scores is not None and network.scores.threshold is not None)


def _rounded(value: Fraction, up: bool) -> float:
    """Round a fraction to the nearest float64 number that is not below (or not above) it."""
    found = float(value)
    if (found < value) if up else (found > value):
        return math.nextafter(found, math.inf if up else -math.inf)
    return found


def _value(form: Form, outputs: Array) -> Fraction:
    known = (Fraction(float(outputs[int(name[2:])])) * part for name, part in form.items() if name)
    return sum(known, start=form.get("", Fraction(0)))


def _watched(network: Network, cases: Sequence[Case]) -> Network:
    """Build the network with score 0 and, for every case, the least margin of its conditions."""
    model = standalone(network)
    graph = graph_around(model)
    image = graph.add("Identity", INPUT)
    flat = graph.reshape(copied(graph, model, image, "copy_"), (1, network.classes))
    scores = [graph.add("Mul", graph.slice(flat, 1, 0, 1), graph.constant([[0.0]]))]
    for case in cases:
        rows = [_row(form, network) for form in case.conditions]
        if not rows:
            rows = [(np.zeros(network.classes), 1.0)]
        weight = graph.constant(np.array([row for row, _ in rows]).T)
        bias = graph.constant(np.array([limit for _, limit in rows]))
        margins = graph.add("Gemm", flat, weight, bias)
        parts = [graph.slice(margins, 1, k, k + 1) for k in range(len(rows))]
        scores.append(parts[0] if len(parts) == 1 else graph.add("Min", *parts))
    graph.add("Concat", *scores, axis=1, output=OUTPUT)
    ends = (INPUT, (1, *network.input_shape)), (OUTPUT, (1, 1 + len(cases)))
    return read_model(graph.model(network.name, *ends, model), network.name)


def _row(form: Form, network: Network) -> tuple[Array, float]:
    """Negate a form and scale it to whole coefficients, rounded towards satisfying it."""
    scale = math.lcm(*(part.denominator for name, part in form.items() if name))
    row = np.zeros(network.classes)
    for name, part in form.items():
        if name:
            if abs(part * scale) > _LARGEST:
                raise InvalidInput("the specification has coefficients that float32 does not have")
            row[_first(network) + int(name[2:])] = float(-part * scale)
    limit = -form.get("", Fraction(0)) * scale
    single = np.float32(float(limit))
    while Fraction(float(single)) < limit:
        single = np.nextafter(single, np.float32(np.inf))
    return row, float(single)
