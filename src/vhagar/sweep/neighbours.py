"""The inputs of a data set that are nearest to the witnesses in a store.

A witness need not look like the data; the nearest input of the data shows how far off it is.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.dataset import Neighbour, nearest, read_test_set
from vhagar.perturbation import Domain
from vhagar.result import Witness
from vhagar.sweep.question import Question, data_domain
from vhagar.sweep.rows import witness_of_row
from vhagar.sweep.store import Store
from vhagar.sweep.study import Model


def write_neighbours(store: Store, models: Sequence[Model], dataset: Path) -> None:
    """Store the input of a data set that is nearest to the best witness of each problem."""
    shapes = {model.fingerprint: model.network.input_shape for model in models}
    places: dict[tuple[Domain, Domain], dict[int, Witness]] = defaultdict(dict)
    asked = store.problems()
    for number, question in asked:
        shape = shapes[question.network]
        witness = _best_witness(store, number, question, shape)
        if witness is not None:
            whole = data_domain(question, shape, (each for _, each in asked))
            places[whole, question.domain or whole][number] = witness
    rows = []
    for (whole, domain), witnesses in places.items():
        inputs, labels = read_test_set(dataset, whole)
        x = np.stack([witness.x.reshape(-1) for witness in witnesses.values()])
        found = nearest(x, inputs, domain, labels)
        for (number, witness), own in zip(witnesses.items(), found, strict=True):
            rows.append(_plain(number, witness.confidence, own))
    store.write_plain("neighbours", rows)


def read_neighbours(store: Store, witnesses: Mapping[int, Witness | None]) -> dict[int, Neighbour]:
    """Read the neighbours of these witnesses; a witness found since then has none."""
    found = {}
    for row in store.plain("neighbours") or []:
        witness = witnesses.get(row["problem"])
        if witness is None or witness.confidence != row["confidence"]:
            continue
        x = np.frombuffer(base64.b64decode(row["x"]), dtype="<f4").astype(np.float64)
        if x.size == witness.x.size:
            shaped = x.reshape(witness.x.shape)
            found[row["problem"]] = Neighbour(row["row"], shaped, row["label"], row["distance"])
    return found


def _best_witness(
    store: Store, number: int, question: Question, shape: tuple[int, ...]
) -> Witness | None:
    rows = store.rows("witnesses", number) if question.targets else []
    best = max(rows, key=lambda row: float(row["confidence"]), default=None)
    return None if best is None else witness_of_row(best, shape)


def _plain(number: int, confidence: float, found: Neighbour) -> dict[str, Any]:
    """Convert a neighbour to JSON's own types."""
    content = base64.b64encode(found.x.astype("<f4").tobytes()).decode()
    return {
        "problem": number,
        "confidence": confidence,
        "row": found.row,
        "label": found.label,
        "distance": found.distance,
        "x": content,
    }
