"""One problem of a study as plain data: it can be written down, compared, and sent elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from vhagar.network import Network
from vhagar.perturbation import Domain, Perturbation, parse
from vhagar.problem import Problem


@dataclass(frozen=True)
class Question:
    """What `Problem` is about: the network by its fingerprint, the rest as text and numbers.

    `domain` is None for all inputs of the range.

    Without a perturbation, and so without targets, the question is how confident the network can be
    in the source class at all.
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
            None if perturbation is None else str(perturbation),
            problem.source,
            problem.targets,
            problem.clip,
            (problem.domain.lower, problem.domain.upper),
            None if problem.domain.whole else problem.domain,
        )

    @property
    def key(self) -> str:
        """The same text for the same question, and only then."""
        parts = [self.network, self.perturbation, self.source, self.targets, self.clip]
        over = [] if self.domain is None else [self.domain.fingerprint]
        return json.dumps([*parts, self.input_range, *over])

    @property
    def over(self) -> str:
        """`, over NAME` for a question about a domain."""
        return "" if self.domain is None else f", over {self.domain}"

    def without_perturbation(self) -> Question:
        """How confident the network can be in the source class at all."""
        asked = self.network, None, self.source, ()
        return Question(*asked, input_range=self.input_range, domain=self.domain)

    @property
    def goals(self) -> tuple[int | None, ...]:
        """Each target, or None where nothing is attacked."""
        return self.targets or (None,)

    @cached_property
    def parsed(self) -> Perturbation | None:
        return None if self.perturbation is None else parse(self.perturbation)

    def problem(self, network: Network) -> Problem:
        """The problem itself."""
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


def domain_in(key: str) -> str | None:
    """The fingerprint of the domain that a question with this key is about."""
    _, _, _, _, _, _, *domain = json.loads(key)
    return domain[0] if domain else None
