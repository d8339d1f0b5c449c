"""Global robustness of classifiers of tables: breast cancer, wine and digits of scikit-learn.

    python examples/tabular.py [FOLDER]

For each data set: fit a domain to the table, train a small network on standardised features, and
ask how confident it can be in one class and still be pushed into another, when every feature is
off by a part of its spread. Model, domain and certificate are written to FOLDER, and
`vhagar check` proves the answer again. Needs scikit-learn (`pip install scikit-learn`).
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import vhagar
from vhagar.fitting import fit_box, read_table
from vhagar.fitting.sources import table_range
from vhagar.fitting.words import coverage_lines
from vhagar.perturbation.domain.writer import write_domain
from vhagar_check import Verdict, check


@dataclass(frozen=True)
class Question:
    """A data set, the classes in question, and radii as a part of each feature's deviation.

    Features that never change (`fixed`) are given by name; `only` names those that do. With
    `whole`, columns of whole numbers are whole in every input that counts, and groups of columns
    are one-hot; perturbed ones need not be. Columns in `binned` are replaced by three columns of 0
    and 1 each: low, middle and high.
    """

    data: str
    source: str
    target: str
    radius: float
    fixed: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    hidden: int = 12
    whole: bool = False
    binned: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the files of the question are called."""
        return f"{self.data}_binned" if self.binned else self.data


QUESTIONS = (
    Question("breast_cancer", "malignant", "benign", 0.05),
    Question("breast_cancer", "benign", "malignant", 0.3, only=("mean radius", "mean texture")),
    Question("wine", "class_1", "class_0", 0.1, fixed=("hue",), whole=True),
    Question("digits", "3", "8", 0.05, hidden=10),
    Question("wine", "class_1", "class_0", 0.1, whole=True, binned=("ash", "color_intensity")),
)


def write_table(name: str, folder: Path, binned: tuple[str, ...] = ()) -> Path:
    """A data set of scikit-learn as a table with a header; some columns become one-hot."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    heads, columns = [*map(str, data.feature_names)], [*data.data.T]
    for feature in binned:
        k = heads.index(feature)
        ends = np.quantile(columns[k], [1 / 3, 2 / 3])
        third = np.digitize(columns[k], ends)
        heads[k : k + 1] = [f"{feature}={part}" for part in ("low", "middle", "high")]
        columns[k : k + 1] = [(third == part).astype(float) for part in range(3)]
    path = folder / f"{name}{'_binned' if binned else ''}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*heads, "class"])
        names = [str(each) for each in data.target_names]
        for values, label in zip(
            np.stack(columns, axis=1).tolist(), data.target.tolist(), strict=True
        ):
            rows.writerow([*values, names[label]])
    return path


def trained(values: np.ndarray, labels: np.ndarray, hidden: int) -> tuple[Any, float]:
    """A network for standardised features, and its accuracy on every fifth row, left out."""
    torch.manual_seed(0)
    held = np.arange(len(values)) % 5 == 0
    x, y = (torch.tensor(part[~held]) for part in (values.astype(np.float32), labels))
    count = int(labels.max()) + 1
    net = torch.nn.Sequential(
        torch.nn.Linear(values.shape[1], hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, count)
    )
    steps = torch.optim.Adam(net.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(200):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        steps.step()
    with torch.no_grad():
        found = net(torch.tensor(values[held].astype(np.float32))).argmax(dim=1).numpy()
    return net, float((found == labels[held]).mean())


def answer(
    asked: Question, folder: Path, timeout: float = 60.0, workers: int | None = None
) -> tuple[vhagar.Result, Verdict, list[str]]:
    """Fit, train, verify and check; what is found, and lines that tell it."""
    table = read_table(write_table(asked.data, folder, asked.binned))
    assert table.labels is not None
    mean, std = table.values.mean(axis=0), table.values.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    net, accuracy = trained((table.values - mean) / std, table.labels, asked.hidden)
    names: dict[str, Any] = {"features": table.features, "classes": table.classes}
    if asked.whole:
        names |= {"integer": table.integer, "one_hot": table.one_hot}
    whole = vhagar.Domain((len(mean),), *table_range(table.values))
    fitted = fit_box(table.values, whole, 0.95, table.labels, asked.name, names)
    write_domain(fitted.domain, folder / f"{asked.name}.toml")
    network = vhagar.from_torch(
        net, input_shape=(len(mean),), mean=mean.tolist(), std=std.tolist(), name=asked.name
    )
    vhagar.write_onnx(network, folder / f"{asked.name}.onnx")
    chosen = [k for k, name in enumerate(table.features) if _moves(name, asked)]
    radii = [float(f"{asked.radius * std[k]:.3g}") for k in chosen]
    problem = vhagar.Problem(
        vhagar.read_onnx(folder / f"{asked.name}.onnx"),
        perturbation=vhagar.Features(chosen, radii),
        source=asked.source,
        targets=asked.target,
        domain=folder / f"{asked.name}.toml",
    )
    proof = folder / f"{asked.name}.cert"
    result = vhagar.verify(problem, timeout=timeout, workers=workers, certificate=proof)
    verdict = check(proof, model=folder / f"{asked.name}.onnx")
    about = f"{asked.name}: accuracy {100 * accuracy:.1f} %, {len(chosen)} features change"
    return result, verdict, [about, *coverage_lines(fitted), result.summary()]


def _moves(name: str, asked: Question) -> bool:
    if any(name.startswith(f"{feature}=") for feature in asked.binned):
        return False  # categories do not change a little
    return name in asked.only if asked.only else name not in asked.fixed


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for asked in QUESTIONS:
        _, verdict, lines = answer(asked, folder)
        print("\n".join([*lines, f"checked: the bound {verdict.upper:.6g} is proven", ""]))


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(__doc__)
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tabular"))
