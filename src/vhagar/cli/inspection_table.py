"""The text that `vhagar inspect` prints."""

from __future__ import annotations

from collections.abc import Sequence

from vhagar.errors import grouped, in_one_line, without_control
from vhagar.network.inspection import DatasetFacts, Inspection, LayerFacts
from vhagar.result.numbers import counted, exact

_INDENT = "  "


def text(found: Inspection) -> str:
    """Format an inspection, without a trailing line break."""
    parts = [_head(found)]
    if found.layers:
        parts += [_layers(found.layers), _totals(found)]
    if found.unsupported:
        parts.append(_unsupported(found))
    if found.dataset is not None:
        parts.append(_dataset(found.dataset, found.classes or 0))
    if found.notes:
        parts.append("notes\n" + "\n".join(f"{_INDENT}{note}" for note in found.notes))
    return without_control("\n\n".join(parts))


def _head(found: Inspection) -> str:
    low, high = found.input_range
    shape = _shape(found.input_shape) or "of open size"
    lines = [
        ("file", ", ".join(filter(None, [f"operator set {found.opset}", found.producer]))),
        ("", f"{found.parameters:,} parameters"),
        ("operators", ", ".join(f"{name} {count}" for name, count in found.operators.items())),
        ("input", f"{shape}, every entry in [{exact(low)}, {exact(high)}]"),
    ]
    if found.convention is not None:
        lines.append(("", f"the model takes {found.convention}"))
    if found.classes is not None:
        lines.append(("output", f"{found.classes} scores"))
    rows = (f"{_INDENT}{name:<11}{in_one_line(what)}" for name, what in lines)
    return "\n".join([in_one_line(found.model), *rows])


def _layers(layers: Sequence[LayerFacts]) -> str:
    title = ("", "layer", "shape", "ReLU units", "linear units", "weights", "")
    rows: list[tuple[str, ...]] = [title]
    for number, layer in enumerate(layers, start=1):
        shape = _shape(layer.out_shape)
        if layer.in_shape != layer.out_shape:
            shape = f"{_shape(layer.in_shape)} -> {shape}"
        counts = (layer.relu_units, layer.linear_units, layer.weights)
        numbers = (f"{count:,}" if count else "" for count in counts)
        rows.append((str(number), layer.kind, shape, *numbers, layer.detail))
    widths = [max(len(row[k]) for row in rows) for k in range(7)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if k in (1, 2, 6) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((_INDENT + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _totals(found: Inspection) -> str:
    layers = sum(layer.kind == "Relu" for layer in found.layers)
    lines = [f"{counted(layers, 'ReLU layer')} with {found.relu_units:,} ReLU units"]
    if found.linear_units:
        lines.append(f"{found.linear_units:,} linear units pass values through ReLU layers")
    return "\n".join(_INDENT + line for line in lines)


def _dataset(facts: DatasetFacts, classes: int) -> str:
    right = (
        "it has no labels" if facts.accuracy is None else f"accuracy {100 * facts.accuracy:.2f} %"
    )
    name = facts.class_name or facts.most_frequent
    most = f"{100 * facts.share:.0f} % classified {name}, the most frequent class"
    text = f"dataset {facts.file}\n{_INDENT}{facts.inputs:,} inputs: {right}; {most}"
    if facts.labels is None or facts.labels[1] < classes:
        return text
    low, high = facts.labels
    return f"{text}\n{_INDENT}labels are from {low} to {high}, but classes from 0 to {classes - 1}"


def _unsupported(found: Inspection) -> str:
    title = f"not supported: {counted(len(found.unsupported), 'node')}"
    lines = [
        f"{_INDENT}{in_one_line(operator)} at {nodes}:\n{_INDENT * 2}{reason}"
        for operator, nodes, reason in grouped(found.unsupported)
    ]
    return "\n".join([title, *lines])


def _shape(sizes: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in sizes)
