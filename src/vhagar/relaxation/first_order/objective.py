"""What a dual bounds: fixed coefficients, or the confidence, which has multipliers of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from vhagar.array_types import Array
from vhagar.relaxation.first_order.fused import AdamStep
from vhagar.relaxation.starts import ClassMultipliers
from vhagar.runtime.devices import Tensor, require_torch


class AbstractObjective(ABC):
    """The start coefficients of every row, fixed or optimised."""

    @abstractmethod
    def start(self) -> tuple[Tensor, Tensor]:
        """Coefficients `(rows, outputs)` on both copies' outputs."""

    @abstractmethod
    def keep(self, better: Tensor) -> None:
        """Save the multipliers of the rows whose bound is `better` than ever."""

    @abstractmethod
    def move(self, y: Tensor, y_p: Tensor, adam: AdamStep) -> None:
        """Take a step; `y` and `y_p` are the bound's derivatives along the coefficients."""


class FixedObjective(AbstractObjective):
    """Coefficients that stay as they are."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self._start = (a, b)

    @classmethod
    def on_device(
        cls, start: tuple[Array, Array], device: Any, repeated: int = 1
    ) -> FixedObjective:
        """Coefficients in float32 on a device, `repeated` so many times."""
        torch = require_torch()
        return cls(
            *(
                torch.as_tensor(part, dtype=torch.float32, device=device).repeat(repeated, 1)
                for part in start
            )
        )

    def start(self) -> tuple[Tensor, Tensor]:
        return self._start

    def keep(self, better: Tensor) -> None:
        pass

    def move(self, y: Tensor, y_p: Tensor, adam: AdamStep) -> None:
        pass


class ConfidenceObjective(AbstractObjective):
    """The source's confidence at `x` where the target leads at `x_p`, by multipliers `alpha`, `mu`.

    `alpha` lies on the simplex over the other classes and `mu` is not negative; every step projects
    both. Initially all of `alpha` is on the target and `mu` is 1 on the source: this bounds by how
    much the perturbation can change the source's lead over the target. Without a target, `mu` stays
    0. Every row has its own target, in `targets` `(rows,)`; -1 means none.
    """

    def __init__(self, classes: int, source: int, targets: Tensor) -> None:
        torch = require_torch()
        rows, device = len(targets), targets.device
        every = torch.arange(rows, device=device)
        self._source = source
        self._targets = targets.clamp(min=0)
        self._attacked = (targets >= 0)[:, None]
        self._alpha_allowed = torch.ones((rows, classes), device=device)
        self._alpha_allowed[:, source] = 0.0
        self._mu_allowed = torch.ones((rows, classes), device=device) * self._attacked
        self._mu_allowed[every, self._targets] = 0.0
        spread = self._alpha_allowed / (classes - 1)
        pure = torch.zeros((rows, classes), device=device)
        pure[every, self._targets] = 1.0
        self.alpha = torch.where(self._attacked, pure, spread)
        self.mu = torch.zeros((rows, classes), device=device)
        self.mu[:, source] = 1.0
        self.mu *= self._mu_allowed
        self.kept_alpha, self.kept_mu = self.alpha.clone(), self.mu.clone()
        self._memory = [torch.zeros_like(self.alpha) for _ in range(4)]

    def start(self) -> tuple[Tensor, Tensor]:
        return ClassMultipliers(self.alpha, self.mu).start(self._source, self._targets)

    def keep(self, better: Tensor) -> None:
        torch = require_torch()
        self.kept_alpha = torch.where(better[:, None], self.alpha, self.kept_alpha)
        self.kept_mu = torch.where(better[:, None], self.mu, self.kept_mu)

    def move(self, y: Tensor, y_p: Tensor, adam: AdamStep) -> None:
        on_alpha = (y[:, self._source, None] - y) * self._alpha_allowed
        # Along the simplex. All entries of a row share one step size: with sizes of their own, they
        # would all move by the same amount, and the projection would undo that.
        count = self._alpha_allowed.sum(dim=1, keepdim=True)
        on_alpha = (on_alpha - on_alpha.sum(dim=1, keepdim=True) / count) * self._alpha_allowed
        on_mu = (y_p.gather(1, self._targets[:, None]) - y_p) * self._mu_allowed
        mean, square = self._moments(0, on_alpha, adam)
        largest = square.amax(dim=1, keepdim=True)
        self.alpha = _simplex(self.alpha - _step(mean, largest, adam), self._alpha_allowed)
        mean, square = self._moments(2, on_mu, adam)
        self.mu = (self.mu - _step(mean, square, adam)).clamp(min=0) * self._mu_allowed

    def _moments(self, place: int, gradient: Tensor, adam: AdamStep) -> tuple[Tensor, Tensor]:
        mean, square = self._memory[place : place + 2]
        mean.lerp_(gradient, 1 - adam.first)
        square.mul_(adam.second).addcmul_(gradient, gradient, value=1 - adam.second)
        return mean, square


def _step(mean: Tensor, square: Tensor, adam: AdamStep) -> Tensor:
    return adam.size * (mean / adam.fix_first) / ((square / adam.fix_second).sqrt() + 1e-12)


def _simplex(values: Tensor, allowed: Tensor) -> Tensor:
    """Project onto the simplex of the allowed entries; all others are 0."""
    torch = require_torch()
    blocked = values.masked_fill(allowed == 0, -torch.inf)
    ranked = blocked.sort(dim=1, descending=True).values
    count = torch.arange(1, values.shape[1] + 1, device=values.device)
    sums = ranked.masked_fill(torch.isneginf(ranked), 0.0).cumsum(dim=1)
    fits = torch.where(torch.isneginf(ranked), False, ranked * count > sums - 1)
    last = fits.sum(dim=1, keepdim=True).clamp(min=1)
    shift = (sums.gather(1, last - 1) - 1) / last
    return (values - shift).clamp(min=0) * allowed
