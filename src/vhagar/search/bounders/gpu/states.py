"""The last points of nodes' steps, kept on the device as starts for their children."""

from __future__ import annotations

from typing import Any

from vhagar.runtime.devices import Tensor, require_torch
from vhagar.search.bounders.gpu.steps import Iterates


class States:
    """The iterates and codes of the nodes that were seen most recently: a ring that overwrites the
    oldest. What is lost costs steps, nothing else."""

    def __init__(self, capacity: int, sizes: tuple[int, int, int], device: Any) -> None:
        torch = require_torch()
        columns, rows, neurons = sizes
        self._x = torch.empty((capacity, columns), device=device)
        self._y = torch.empty((capacity, rows), device=device)
        self._codes = torch.empty((capacity, neurons), dtype=torch.uint8, device=device)
        self._slots: dict[int, int] = {}
        self._owners: list[int | None] = [None] * capacity
        self._next = 0

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    def keep(self, numbers: list[int], iterates: Iterates, codes: Tensor) -> None:
        """Keep nodes by their numbers; of more than the ring holds, the first ones."""
        torch = require_torch()
        capacity = len(self._owners)
        numbers = numbers[:capacity]
        slots = [(self._next + k) % capacity for k in range(len(numbers))]
        self._next = (self._next + len(numbers)) % capacity
        for number, slot in zip(numbers, slots, strict=True):
            before = self._owners[slot]
            if before is not None and self._slots.get(before) == slot:
                del self._slots[before]
            self._owners[slot] = number
            self._slots[number] = slot
        index = torch.as_tensor(slots, dtype=torch.int64, device=codes.device)
        self._x[index] = iterates.x[: len(numbers)]
        self._y[index] = iterates.y[: len(numbers)]
        self._codes[index] = codes[: len(numbers)]

    def take(self, numbers: list[int]) -> tuple[Iterates, Tensor]:
        """The iterates and codes of nodes that are kept."""
        torch = require_torch()
        slots = [self._slots[number] for number in numbers]
        index = torch.as_tensor(slots, dtype=torch.int64, device=self._codes.device)
        return Iterates(self._x[index], self._y[index]), self._codes[index]
