"""The command `vhagar inspect`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vhagar.cli import groups
from vhagar.cli.conventions import add_conventions, conventions_of
from vhagar.cli.standard_output import shown

if TYPE_CHECKING:
    from vhagar.network.inspection import DatasetFacts

HELP = "show how a model is read: operators, layers, accuracy, and what is not supported"

DESCRIPTION = """\
Read a model as `verify` does and show what was found: the operators in the file, and the layers
they become with their shapes and units. If the model uses unsupported operators, all of them are
listed, and the exit code is 1.
"""

EPILOG = """\
examples:
  vhagar inspect model.onnx
  vhagar inspect model.onnx --json model.json
  vhagar inspect model.onnx --dataset test.npz --mean 0.13 --std 0.31
"""

# Inputs that the network is run on at a time.
_BATCH = 256

EXIT_SUPPORTED = 0
EXIT_UNSUPPORTED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="classifier (ONNX file)")
    add_conventions(parser)
    groups.add_input_range(parser)
    add(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="labelled inputs (.npz or .csv): show the accuracy, which tells whether layout, mean, "
        "std and input range are right",
    )
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the output as JSON; - for the standard output",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the inspection and return the exit code."""
    from vhagar.cli.inspection_table import text
    from vhagar.network.inspection import inspect
    from vhagar.runtime.output_files import check_writable, write_bytes

    if arguments.json is not None:
        check_writable(arguments.json, arguments.model)
    found = inspect(arguments.model, _input_range(arguments), **conventions_of(arguments))
    if arguments.dataset is not None and not found.unsupported:
        found = replace(found, dataset=_dataset(arguments))
    print(text(found))
    if arguments.json is not None:
        write_bytes(arguments.json, found.json().encode())
        print(f"wrote {shown(arguments.json)}")
    return EXIT_UNSUPPORTED if found.unsupported else EXIT_SUPPORTED


def _input_range(arguments: argparse.Namespace) -> tuple[float, float]:
    """The interval of every input entry, perhaps that of the domain's file."""
    if arguments.domain is None or arguments.input_range is not None:
        return arguments.input_range or (0.0, 1.0)
    from vhagar.perturbation.domain.file import given_range, read_toml

    stated = read_toml(arguments.domain).get("range")
    return given_range(stated, arguments.domain) or (0.0, 1.0)


def _dataset(arguments: argparse.Namespace) -> DatasetFacts:
    """Run the network over a data set."""
    import numpy as np

    from vhagar.dataset import read_test_set
    from vhagar.network import read_onnx
    from vhagar.network.inspection import DatasetFacts
    from vhagar.problem import domain_of

    network = read_onnx(arguments.model, **conventions_of(arguments))
    domain = domain_of(network, arguments.domain, arguments.input_range)
    inputs, labels = read_test_set(arguments.dataset, domain)
    batches = np.array_split(inputs, -(-len(inputs) // _BATCH))
    predicted = np.concatenate([network.forward(batch).argmax(axis=1) for batch in batches])
    counts = np.bincount(predicted, minlength=network.classes)
    accuracy = None if labels is None else float((predicted == labels).mean())
    most = int(counts.argmax())
    share, name = float(counts[most] / len(inputs)), domain.class_name(most)
    ends = None if labels is None else (int(labels.min()), int(labels.max()))
    return DatasetFacts(str(arguments.dataset), len(inputs), accuracy, most, share, name, ends)
