"""Write domains as files for `read_domain`: TOML, with long arrays in an .npz file beside it."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation.domain.domain import Domain
from vhagar.runtime.output_files import write_bytes


def write_domain(domain: Domain, path: str | Path) -> list[Path]:
    """Write a domain and return the files; there is an .npz only if there are long arrays."""
    path = Path(path)
    arrays: dict[str, Array] = {}
    lines = [f"name = {json.dumps(domain.name or path.stem, ensure_ascii=False)}"]
    lines.append(f"shape = {list(map(int, domain.shape))}")
    lines.append(f"range = {[domain.lower, domain.upper]}")
    for key, ends in (("lower", domain.low), ("upper", domain.high)):
        lines.append(f"{key} = {_named(arrays, path, key, ends.reshape(domain.shape))}")
    lines += [f"{key} = {value}" for key, value in domain.groups.plain().items()]
    for key, names in domain.names.plain().items():
        lines.append(f"{key} = {json.dumps(names, ensure_ascii=False)}")
    if domain.perturbed_inside:
        lines.append("perturbed_inside = true")
    lines += _row_lines(domain)
    if domain.zonotope is not None:
        lines.append("[zonotope]")
        for key in ("mean", "components", "ranges", "residual"):
            lines.append(f"{key} = {_named(arrays, path, key, getattr(domain.zonotope, key))}")
    beside = path.with_suffix(".npz")
    if arrays:
        content = BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        write_bytes(beside, content.getvalue())
    write_bytes(path, "\n".join([*lines, ""]).encode())
    return [path, beside] if arrays else [path]


def _row_lines(domain: Domain) -> list[str]:
    lines = []
    for row in [] if domain.own_rows is None else domain.own_rows.plain():
        pairs = zip(row["entries"], row["weights"], strict=True)
        weights = ", ".join(f"{entry} = {weight!r}" for entry, weight in pairs)
        lines += ["[[rows]]", f"coefficients = {{{weights}}}"]
        lines += [
            f"{key} = {row[key]!r}" for key in ("at_least", "at_most") if row[key] is not None
        ]
    return lines


def _named(arrays: dict[str, Array], path: Path, key: str, values: Array) -> Any:
    """A single number as text, or a reference to an array in the .npz file."""
    if values.size and (values == values.flat[0]).all() and key not in ("mean", "components"):
        return repr(float(values.flat[0]))
    arrays[key] = values
    return json.dumps(f"{path.stem}.npz:{key}")
