"""Re-proves a guard: its certificates, and that the file is what follows from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from vhagar.errors import InvalidInput
from vhagar.fitting.words import domain_lines
from vhagar.guard.bounds import Bound, is_about
from vhagar.guard.guard import Guard
from vhagar.guard.onnx_file import about, guard_bytes, metadata, proposals_in
from vhagar.network import Network
from vhagar.network.fingerprint import fingerprint
from vhagar.perturbation import Domain, Features, parse
from vhagar.perturbation.domain.plain import domain_of_plain
from vhagar_check import Rejected, Verdict, check

# Metadata that depend on where the guard was made.
_OF_FILES = ("vhagar", "network", "model")


@dataclass(frozen=True)
class GuardCheck:
    """How many of a guard's bounds are proved, and what is wrong with the rest."""

    guard: Guard
    proved: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        """The verdict in words."""
        if self.problems:
            # Several targets of a class may lack the same.
            return "\n".join(f"REFUSED: {one}" for one in dict.fromkeys(self.problems))
        return "\n".join(
            [
                f"PROVED by {self.proved} certificates, and the file is what follows from them:",
                *self.guard.words,
                *self._names,
                *self._domains,
            ]
        )

    @property
    def _names(self) -> list[str]:
        """What the certificates call perturbations that have another name in the file."""
        return [
            f"{each.name} is {each.perturbation} in the certificates"
            for each in self.guard.protections
            if each.name != each.perturbation
        ]

    @property
    def _domains(self) -> list[str]:
        """What the domains are: their names are the words of whoever made the guard."""
        lines = []
        for domain in self.guard.domains:
            lines.append(
                f"the name {domain} is not proved, nor are those of features; it is about:"
            )
            lines += [f"  {line}" for line in domain_lines(domain) if line]
        return lines


def check_guard(path: str | Path, network: Network, folders: Sequence[Path] = ()) -> GuardCheck:
    """Prove a guard's bounds anew, from the model's file and the certificates in `folders`.

    Certificates are also looked for beside the guard. The guard is then made again from the proved
    bounds, and must be the same.
    """
    path = Path(path)
    if network.file is None:
        raise InvalidInput("a guard is checked against the model's file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    stated = metadata(content)
    if stated["fingerprint"] != fingerprint(network):
        raise InvalidInput(
            f"the guard is about another network ({stated['network']}); give its model, with the "
            "same options"
        )
    try:
        domains = _domains(stated, network)
        bounds = tuple(Bound.from_plain(values, domains) for values in stated["bounds"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"the guard's metadata is damaged ({error})") from None
    guard = Guard(network, bounds)
    problems = []
    if not _same_graph(content, guard_bytes(guard, proposals_in(content))):
        problems.append("the file's graph is not what follows from its bounds")
    if not _same_words(content, stated, guard):
        problems.append("what the file says about itself is not what follows from its bounds")
    proved = 0
    for bound in bounds:
        problem = _problem(bound, network, (*folders, path.parent))
        proved += problem is None
        problems += [] if problem is None else [problem]
    return GuardCheck(guard, proved, tuple(problems))


def _domains(stated: dict[str, Any], network: Network) -> dict[str, Domain]:
    """The domains of a guard's metadata, by their fingerprints."""
    span, found = tuple(stated["input_range"]), {}
    for given in stated.get("domains", {}).values():
        words = (given["name"], *given.get("features", ()), *given.get("classes", ()))
        if not all(isinstance(word, str) and word.isprintable() for word in words):
            raise ValueError("a name in a domain is no text of one line")
        domain = domain_of_plain(network.input_shape, span, given)
        found[str(domain.fingerprint)] = domain
    return found


def _same_graph(first: bytes, second: bytes) -> bool:
    """Names of producers and metadata may differ; what is computed may not."""
    return _graph(first) == _graph(second)


def _graph(content: bytes) -> tuple[bytes, list[bytes], int]:
    model: Any = onnx.load_model_from_string(content)
    graph = model.graph.SerializeToString(deterministic=True)
    opsets = sorted(entry.SerializeToString(deterministic=True) for entry in model.opset_import)
    return graph, opsets, len(model.functions)


def _same_words(content: bytes, stated: dict[str, Any], guard: Guard) -> bool:
    """Whether metadata and description say what the bounds do; names of files may differ."""
    made = json.loads(json.dumps(about(guard)))
    kept = [name for name in made if name not in _OF_FILES]
    model: Any = onnx.load_model_from_string(content)
    words = "\n".join(guard.words).replace(guard.network.name, str(stated.get("network")), 1)
    return (
        stated.keys() == made.keys()
        and all(stated[name] == made[name] for name in kept)
        and model.doc_string == words
    )


def _problem(bound: Bound, network: Network, folders: Sequence[Path]) -> str | None:
    """Why a bound is not proved; None where it is."""
    what = f"class {bound.source} under {bound.name}"
    file = bound.certificate
    if file is None:
        return f"{what}: no certificate; make the guard from a sweep with --certificates FOLDER"
    places = [folder / file.path.name for folder in folders]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        missing = f"the certificate {file.path.name} is not there"
        return f"{what}: {missing}; name its folder with --certificates"
    if hashlib.sha256(place.read_bytes()).hexdigest() != file.sha256:
        return f"{what}: {place} is not the certificate that the guard was made from"
    try:
        assert network.file is not None
        verdict = check(place, model=network.file.path)
    except Rejected as rejection:
        return f"{what}: {place}: {rejection}"
    proved = _proves(verdict, bound) and is_about(place, network)
    return None if proved else f"{what}: {place} proves something else"


def _proves(verdict: Verdict, bound: Bound) -> bool:
    asked = bound.perturbation, bound.clip, bound.source, bound.input_range
    return (
        (verdict.perturbation, verdict.clip, verdict.source, verdict.input_range) == asked
        and _is_named(bound.name, verdict)
        and verdict.image is None
        and verdict.domain == (None if bound.domain is None else bound.domain.fingerprint)
        and all(
            verdict.uppers.get(target, float("inf")) <= upper
            for target, upper in zip(bound.targets, bound.uppers, strict=True)
        )
    )


def _is_named(name: str, verdict: Verdict) -> bool:
    """Whether a name says no more than was proved.

    It is the certificate's own, except that features may have names instead of numbers, and numbers
    another form.
    """
    text = verdict.perturbation if verdict.recorded is None else verdict.recorded.name
    if name == text:
        return True
    try:
        given, proved = parse(name), parse(str(text))
    except InvalidInput:
        return False
    if not isinstance(given, Features) or not isinstance(proved, Features):
        return given == proved  # 2/255 is written as a decimal in certificates
    features = zip(given.chosen, proved.chosen, strict=False)
    return given.radii == proved.radii and all(
        isinstance(name, str) or name == entry for name, entry in features
    )
