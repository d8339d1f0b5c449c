"""What a certificate states: the model, the problem, the claimed interval and its witnesses."""

from __future__ import annotations

import math
from typing import Any

from vhagar.errors import VhagarError
from vhagar.network.network import plain_conventions
from vhagar.perturbation.domain.plain import plain_domain
from vhagar.perturbation.maps import canonical_maps
from vhagar.problem import Problem
from vhagar.result.certificate import FORMAT, SearchTree, with_json
from vhagar.result.run import Run
from vhagar.result.witness import Witness
from vhagar.version import __version__


def head_of(run: Run, trees: list[SearchTree], nodes: int) -> dict[str, Any]:
    """State the problem, and claim the run's current interval with its witnesses."""
    problem = run.original
    if not math.isfinite(run.interval.upper):
        raise VhagarError("no upper bound is known, so there is nothing to prove")
    witnesses = filter(None, map(run.interval.witness, problem.search_targets))
    return {
        "format": FORMAT,
        "producer": f"vhagar {__version__}",
        "model": model_statement(problem),
        "problem": {**problem_statement(problem), **run.reduced.restore.statement()},
        "claims": _claims(run),
        "witnesses": [
            {**witness_statement(witness), **_coordinates(problem, witness)}
            for witness in witnesses
        ],
        "trees": [tree.plain() for tree in trees],
        "nodes": nodes,
    }


def model_statement(problem: Problem) -> dict[str, Any]:
    """Identify the model; a network built in memory has no file and no hash."""
    network = problem.network
    found: dict[str, Any] = {"name": network.name, "sha256": None}
    if network.file is not None:
        found = {"name": network.file.path.name, "sha256": network.file.sha256}
    stated = plain_conventions(network).items()
    return found | {name: own for name, own in stated if own is not None}


# The fields of a domain that a certificate states.
_STATED = (
    *("lower", "upper", "integer", "one_hot", "ordered", "rows", "zonotope"),
    "perturbed_inside",
)


def problem_statement(problem: Problem) -> dict[str, Any]:
    """State the question that was asked."""
    domain = plain_domain(problem.domain)
    narrowed: dict[str, Any] = {}
    if domain is not None:
        # Names prove nothing, so a certificate leaves them out.
        narrowed = {"domain": {key: domain[key] for key in _STATED if key in domain}}
    return {
        **narrowed,
        "perturbation": None if problem.perturbation is None else _text(problem),
        "clip": problem.clip,
        "clipped_pixels": None,
        "source": problem.source,
        "targets": list(problem.targets),
        "input_range": [problem.domain.lower, problem.domain.upper],
        "input_shape": list(problem.network.input_shape),
    }


def _text(problem: Problem) -> str:
    """The perturbation's text; maps without one are named by the hash of their numbers."""
    found = problem.map_fingerprint
    assert problem.perturbation is not None
    return problem.perturbation.canonical if found is None else f"affine({found})"


def maps_of(problem: Problem) -> bytes | None:
    """Build the block of maps that the perturbation's text does not define; None without any."""
    maps = problem.recorded_maps
    if not maps:
        return None
    about = [{"label": each.label, "parameters": list(each.names)} for each in maps]
    return with_json({"name": str(problem.perturbation), "maps": about}, canonical_maps(maps))


def _claims(run: Run) -> dict[str, Any]:
    interval = run.interval
    claims: dict[str, Any] = {"lower": interval.lower, "upper": interval.upper}
    if run.original.targets:
        claims["targets"] = {
            str(target): {
                "lower": interval.target_lower(target),
                "upper": interval.target_upper(target),
            }
            for target in run.original.targets
        }
    return claims


def witness_statement(witness: Witness) -> dict[str, Any]:
    """What the checker needs to evaluate a witness."""
    return {
        "target": witness.target,
        "piece": witness.piece_number,
        "x": witness.x.reshape(-1).tolist(),
        "parameters": list(witness.choice),
        "confidence": witness.confidence,
    }


def _coordinates(problem: Problem, witness: Witness) -> dict[str, Any]:
    """The coordinates of a witness in the domain's zonotope; empty without a zonotope."""
    zonotope = problem.domain.zonotope
    if zonotope is None:
        return {}
    points = {"coordinates": witness.x}
    if witness.x_p is not None and problem.domain.perturbed_inside:
        points["coordinates_p"] = witness.x_p
    return {
        key: zonotope.witnesses(point.reshape(1, -1))[0][0].tolist()
        for key, point in points.items()
    }
