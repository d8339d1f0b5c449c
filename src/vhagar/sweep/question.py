"""One problem of a study as plain data, which can be stored, compared and sent to a worker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from vhagar.network import Network
from vhagar.perturbation import Domain, Perturbation, parse
from vhagar.perturbation.domain.names import Names
from vhagar.perturbation.quotients import with_quotients
from vhagar.problem import Problem


@dataclass(frozen=True)
class Question:
    """A `Problem` as data: the network by its fingerprint, the rest as text and numbers.

    `domain` is None for all inputs of the range. Without a perturbation, and so without targets,
    the question is the maximal confidence of the source class.
    """

    network: str
    perturbation: str | None
    source: int
    targets: tuple[int, ...]
    clip: bool = True
    input_range: tuple[float, float] = (0.0, 1.0)
    domain: Domain | None = None

    @classmethod
    def of(cls, problem: Problem, network: str) -> Question:
        """The question that a problem asks; `network` is its network's fingerprint."""
        perturbation = problem.perturbation
        return cls(
            network,
            # Features by their numbers: names are the domain's, and may change with its file.
            None if perturbation is None else perturbation.canonical,
            problem.source,
            problem.targets,
            problem.clip,
            (problem.domain.lower, problem.domain.upper),
            None if problem.domain.whole else problem.domain,
        )

    @property
    def key(self) -> str:
        """A text that is equal for equal questions only."""
        parts = [self.network, self.perturbation, self.source, self.targets, self.clip]
        over = [] if self.domain is None else [self.domain.fingerprint]
        return json.dumps([*parts, self.input_range, *over])

    @property
    def shown(self) -> str:
        """The perturbation in words for readers, with the names that the domain has for features.

        Empty without a perturbation.
        """
        return shown_perturbation(self.perturbation, self.domain)

    @property
    def over(self) -> str:
        """The text `, over NAME` if the question is about a domain."""
        return "" if self.domain is None else f", over {self.domain}"

    def class_name(self, label: int) -> str:
        """The name that the domain has for a class, or its number."""
        return str(label) if self.domain is None else self.domain.class_name(label)

    @property
    def toward(self) -> str:
        """The target's name; a study asks about several only where they are all other classes."""
        return self.class_name(self.targets[0]) if len(self.targets) == 1 else "any other"

    def without_perturbation(self) -> Question:
        """The question about the maximal confidence of the source class."""
        asked = self.network, None, self.source, ()
        return Question(*asked, input_range=self.input_range, domain=self.domain)

    @property
    def search_targets(self) -> tuple[int | None, ...]:
        """The targets, or None alone without a perturbation."""
        return self.targets or (None,)

    @cached_property
    def parsed(self) -> Perturbation | None:
        return None if self.perturbation is None else parse(self.perturbation)

    def problem(self, network: Network) -> Problem:
        """The problem that the question is about."""
        targets = self.targets or None
        return Problem(
            network,
            perturbation=self.parsed,
            source=self.source,
            targets=targets,
            clip=self.clip,
            input_range=self.input_range,
            domain=self.domain,
        )


def shown_perturbation(text: str | None, domain: Domain | None) -> str:
    """A perturbation's textual form for readers, with the names that a domain has for features."""
    if text is None or domain is None or not domain.features:
        return with_quotients(text or "")
    return parse(text).settled(domain).shown


def data_domain(question: Question, shape: tuple[int, ...], others: Iterable[Question]) -> Domain:
    """All inputs of a question's range, with names that columns and labels of data are found by.

    A question about all inputs has no names: they are those of another question about the network.
    """
    named = (each.domain for each in (question, *others) if each.network == question.network)
    names = next((domain.names for domain in named if domain is not None), Names())
    return Domain(shape, *question.input_range, features=names.features, classes=names.classes)


def domain_in(key: str) -> str | None:
    """The fingerprint of the domain in a question's key; None for all inputs."""
    _, _, _, _, _, _, *domain = json.loads(key)
    return domain[0] if domain else None
