"""Dataset sampling: the most confident attackable input of a dataset."""

from __future__ import annotations

import numpy as np

from vhagar.attack.local_attack import LocalAttack
from vhagar.dataset import CHUNK, read_dataset
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.result import Rejection, Run
from vhagar.runtime.deadline import Deadline


class DatasetEngine(AbstractEngine):
    """Raises `lower` only. The inputs are those of `Options.dataset`."""

    name = "dataset"
    uses = frozenset({"dataset"})

    def search(self, run: Run, deadline: Deadline) -> bool:
        problem = run.problem
        if run.options.dataset is None:
            raise InvalidInput("dataset sampling needs a dataset; give it with --dataset")
        if not problem.targets:
            raise InvalidInput("dataset sampling needs a problem with a perturbation")
        dataset = read_dataset(run.options.dataset, problem.domain)
        if not problem.domain.whole:
            inside = problem.domain.contains(dataset)
            run.note(
                f"{int(inside.sum())} of {len(dataset)} inputs of the dataset are in the domain"
            )
            dataset = dataset[inside]
        local = LocalAttack(problem, deadline=deadline)
        sure = local.confidences(dataset)
        own = int((sure > 0).sum())
        run.note(
            f"{own} of {len(dataset)} inputs of the dataset are classified {problem.source_name}"
        )
        # The most confident first: the first that can be attacked is the answer.
        order = np.argsort(-sure, kind="stable")[:own]
        for start in range(0, own, CHUNK):
            if deadline.passed:
                run.note(f"time ran out after the {start} most confident of them")
                return True
            inputs = dataset[order[start : start + CHUNK]]
            for found in local.attacks(inputs):
                x = inputs[found.row]
                checked = run.offer_witness(found.target, x, found.piece_index, found.parameters)
                if not isinstance(checked, Rejection):
                    return False
        return False
