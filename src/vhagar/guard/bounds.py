"""The proven bounds that a guard rests on: from results, from certificates, from a store."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.network.network import plain_conventions
from vhagar.perturbation import Domain, parse
from vhagar.perturbation.domain.plain import domain_of_plain
from vhagar.perturbation.quotients import with_quotients
from vhagar.problem import Problem
from vhagar.result import BoundKind, Interval, Result
from vhagar.result.statements import model_statement, problem_statement
from vhagar.sweep.question import Question
from vhagar.sweep.rows import target_of
from vhagar.sweep.store import Store
from vhagar_check import Rejected, Verdict, check
from vhagar_check.container import parse_json, scan, unpack

# The kinds of bounds that are proven; others rely on a solver or on another verifier.
PROVEN = (
    BoundKind.INTERVAL,
    BoundKind.TWIN,
    BoundKind.SPECTRAL,
    BoundKind.WINDOWS,
    BoundKind.QUADRATIC,
    BoundKind.BOXES,
)


@dataclass(frozen=True)
class NamedFile:
    """A file, and the SHA-256 of its bytes in hexadecimal."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, path: Path) -> NamedFile:
        return cls(path, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass(frozen=True)
class Bound:
    """For one source class under one perturbation: an upper bound for each target asked.

    `perturbation` is its text as certificates state it, `name` what people call it. `uppers` are in
    the order of `targets`. `domain` is None if they hold for all inputs of the range.
    """

    perturbation: str
    name: str
    clip: bool
    input_range: tuple[float, float]
    source: int
    targets: tuple[int, ...]
    uppers: tuple[float, ...]
    certificate: NamedFile | None = None
    domain: Domain | None = None

    def plain(self) -> dict[str, Any]:
        """In JSON's own types; `from_plain` reads it."""
        found = self.certificate
        return {
            "perturbation": self.perturbation,
            "name": self.name,
            "clip": self.clip,
            "input_range": list(self.input_range),
            "source": self.source,
            "targets": list(self.targets),
            "uppers": list(self.uppers),
            "certificate": None
            if found is None
            else {"file": found.path.name, "sha256": found.sha256},
            **({} if self.domain is None else {"domain": self.domain.fingerprint}),
        }

    @classmethod
    def from_plain(
        cls, values: Mapping[str, Any], domains: Mapping[str, Domain] | None = None
    ) -> Bound:
        """Read what `plain` has made; a ValueError if it cannot have.

        `domains` are those that bounds may name, by their fingerprints.
        """
        found = values["certificate"]
        file = None if found is None else NamedFile(Path(found["file"]), found["sha256"])
        low, high = values["input_range"]
        targets, uppers = tuple(values["targets"]), tuple(values["uppers"])
        texts = (values["perturbation"], values["name"], "" if file is None else file.sha256)
        if (
            not all(isinstance(text, str) for text in texts)
            or not isinstance(values["clip"], bool)
            or any(type(label) is not int for label in (values["source"], *targets))
            or any(type(number) not in (int, float) for number in (low, high, *uppers))
            or len(targets) != len(uppers)
        ):
            raise ValueError("a bound has entries of a wrong type")
        asked = (values["perturbation"], values["name"], values["clip"], (low, high))
        domain = (domains or {})[values["domain"]] if "domain" in values else None
        return cls(*asked, values["source"], targets, uppers, file, domain)


def of_result(result: Result, folders: Sequence[Path] = ()) -> list[Bound]:
    """What a result proves. Where it has a certificate, there or in the folders, that is named."""
    if result.problem.perturbation is None:
        return []
    path = result.certificate
    places = [] if path is None else [*(folder / path.name for folder in folders), path]
    file = next((NamedFile.of(place) for place in places if place.is_file()), None)
    return _bounds(result.problem, result.targets, file)


def of_certificate(path: Path, network: Network) -> list[Bound]:
    """What a certificate proves about a network with a model file, once that has been checked."""
    assert network.file is not None
    model = network.file.path
    try:
        verdict = check(path, model=model)
    except Rejected as rejection:
        raise InvalidInput(f"{path} proves nothing about {model}: {rejection}") from None
    if not is_about(path, network):
        raise InvalidInput(
            f"{path} is about {model} with another layout, mean, std or reading of its scores; "
            "give the same options"
        )
    if verdict.image is not None:
        raise InvalidInput(f"{path} is about one image; a guard needs proofs about all inputs")
    if verdict.perturbation is None:
        return []
    proven = {target: upper for target, upper in verdict.uppers.items() if target is not None}
    name = with_quotients(verdict.perturbation)
    if verdict.recorded is not None:
        name = verdict.recorded.name
    return [
        Bound(
            verdict.perturbation,
            name,
            verdict.clip,
            verdict.input_range,
            verdict.source,
            tuple(proven),
            tuple(proven.values()),
            NamedFile.of(path),
            _stated_domain(path, network, verdict),
        )
    ]


def _stated_domain(path: Path, network: Network, verdict: Verdict) -> Domain | None:
    """The domain that a certificate, which has been checked, is about."""
    if verdict.domain is None:
        return None
    given = {"name": "", **_head(path)["problem"]["domain"]}
    domain = domain_of_plain(network.input_shape, verdict.input_range, given)
    if domain.fingerprint != verdict.domain:
        raise InvalidInput(f"{path} is about a domain in another form than vhagar writes")
    return domain


def is_about(path: Path, network: Network) -> bool:
    """Whether a certificate reads its model's inputs and scores as this network does.

    The same file with another normalisation is another network.
    """
    head = _head(path)
    # As JSON: a tuple there is a list here.
    own = json.loads(json.dumps(plain_conventions(network)))
    same = own == {name: head["model"].get(name) for name in own}
    return same and bool(head["problem"]["input_shape"] == list(network.input_shape))


def of_store(
    store: Store, fingerprint: str, network: Network, folders: Sequence[Path] = ()
) -> list[Bound]:
    """What a store knows about one of its networks; `folders` may hold its certificates.

    Where a problem has a certificate, its bounds are those that the certificate states, even if
    the store learned better ones from related problems later. A file of that name which is about
    something else, such as the certificate of another sweep, is none.
    """
    found: list[Bound] = []
    for row in store.rows("problems"):
        question = store.question(row)
        if question.network != fingerprint or question.perturbation is None:
            continue
        name = row["certificate"]
        path = None if name is None else _placed(store.path, name, folders)
        if path is not None and not _states(path, question.problem(network)):
            path = None
        file = None if path is None else NamedFile.of(path)
        proven = {
            target_of(own["target"]): own["proven"]
            for own in store.rows("goals", row["id"])
            if own["proven"] is not None
        }
        if path is not None:
            proven = dict(_claims(path))
        known = [target for target in question.targets if proven.get(target) is not None]
        if known:
            uppers = tuple(float(proven[target]) for target in known)
            asked = (_name(question), question.clip, question.input_range, question.source)
            proved = (tuple(known), uppers, file, question.domain)
            found.append(Bound(question.perturbation, *asked, *proved))
    return found


def _name(question: Question) -> str:
    """The perturbation with all the names that the domain has for its features."""
    assert question.perturbation is not None
    if question.domain is None:
        return with_quotients(question.perturbation)
    return with_quotients(str(parse(question.perturbation).settled(question.domain)))


def _placed(store: Path, name: str, folders: Sequence[Path]) -> Path | None:
    """The certificate in a folder, by its full name, or beside the store that was moved with it."""
    given = Path(name)
    places = (
        *(folder / given.name for folder in folders),
        given,
        store.parent / given,
        store.parent / given.parent.name / given.name,
    )
    return next((place for place in places if place.is_file()), None)


def _states(path: Path, problem: Problem) -> bool:
    """Whether a certificate is about this problem; it is not checked here."""
    try:
        head = _head(path)
        stated = {**head["model"], **head["problem"]}
    except (Rejected, OSError, KeyError, TypeError, ValueError):
        return False
    asked = {**model_statement(problem), **problem_statement(problem)}
    for known in (stated, asked):  # a file may be moved, and a proof may use another form
        for name in ("name", "clipped_pixels", "form"):
            known.pop(name, None)
    return bool(stated == json.loads(json.dumps(asked)))


def _head(path: Path) -> dict[str, Any]:
    """The first block of a certificate."""
    with path.open("rb") as file:
        found: dict[str, Any] = parse_json(unpack(file, scan(path)[0]))
    return found


def _claims(path: Path) -> Mapping[int | None, float]:
    """The upper bounds that a certificate states."""
    head = _head(path)
    return {int(target): ends["upper"] for target, ends in head["claims"]["targets"].items()}


def _bounds(
    problem: Problem, targets: Mapping[int, Interval], file: NamedFile | None
) -> list[Bound]:
    known = [
        target
        for target, interval in targets.items()
        if interval.kind in PROVEN and math.isfinite(interval.upper)
    ]
    if not known:
        return []
    given, name = problem.perturbation, str(problem.perturbation)
    return [
        Bound(
            problem_statement(problem)["perturbation"],
            name if given is None or not given.by_text else with_quotients(name),
            problem.clip,
            (problem.domain.lower, problem.domain.upper),
            problem.source,
            tuple(known),
            tuple(targets[target].upper for target in known),
            file,
            None if problem.domain.whole else problem.domain,
        )
    ]


def one_range(bounds: Sequence[Bound]) -> tuple[float, float]:
    """The input range that all bounds are about."""
    ranges = {bound.input_range for bound in bounds}
    if len(ranges) > 1:
        raise InvalidInput(f"the bounds are about different input ranges: {sorted(ranges)}")
    return ranges.pop()
