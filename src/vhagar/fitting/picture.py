"""Domains as pictures: images at both ends and between, and bars for features.

Domain -> plain data (`panels`) -> picture (`draw_domain`); the data is what is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.fitting.words import entry_kinds
from vhagar.perturbation import Domain
from vhagar.result.figure import figure_format, picture
from vhagar.result.figure_drawing import save

# Components that are drawn, and inputs of the domain, and bars.
_MOST_COMPONENTS, _SAMPLES, _MOST_BARS = 6, 4, 60
_SLATE, _PALE = "#5b6b7a", "#d9dee3"


@dataclass(frozen=True, eq=False)
class Panel:
    """One image `(rows, columns)` or `(rows, columns, 3)` with its scale."""

    title: str
    values: Array
    low: float
    high: float
    diverging: bool = False


def is_image(domain: Domain) -> bool:
    """Whether inputs can be shown as pictures."""
    return len(domain.shape) > 1 and picture(np.zeros(domain.shape)).ndim > 1


def panels(domain: Domain) -> list[Panel]:
    """The ends and the middle of a domain of images, its components, and some of its inputs."""
    ends = domain.lower, domain.upper
    middle = (domain.low + domain.high) / 2 if domain.zonotope is None else domain.zonotope.mean
    named = (("lower end", domain.low), ("middle", middle), ("upper end", domain.high))
    found = [Panel(title, _image(values, domain), *ends) for title, values in named]
    for title, values in zip(("an input", *[""] * _SAMPLES), samples(domain), strict=False):
        found.append(Panel(title, _image(values, domain), *ends))
    if domain.zonotope is not None:
        parts = domain.zonotope.components * domain.zonotope.ranges[:, None]
        for k, part in enumerate(parts[:_MOST_COMPONENTS]):
            image = _image(part, domain)
            image = image if image.ndim == 2 else image.mean(axis=-1)
            reach = float(abs(image).max()) or 1.0
            found.append(Panel(f"component {k + 1}", image, -reach, reach, diverging=True))
    return found


def samples(domain: Domain) -> Array:
    """A few inputs of the domain, drawn at random."""
    rng = np.random.default_rng(0)
    x = rng.uniform(domain.low, domain.high, (_SAMPLES, domain.size))
    if domain.zonotope is not None:
        own = rng.uniform(-1, 1, (_SAMPLES, domain.zonotope.count)) * domain.zonotope.ranges
        x = domain.zonotope.mean + own @ domain.zonotope.components
    return domain.project(x)


def _image(values: Array, domain: Domain) -> Array:
    return picture(np.asarray(values).reshape(domain.shape))


def draw_domain(domain: Domain, path: str | Path) -> None:
    """Draw a domain and write it to a file; its name's ending is the format."""
    figure_format(Path(path))  # before anything is drawn
    save(_images(domain) if is_image(domain) else _bars(domain), path)


def _figure(domain: Domain, width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    drawn.suptitle(f"domain {domain}", x=0.012, ha="left", fontsize=10.5, fontweight="bold")
    return drawn


def _images(domain: Domain) -> Any:
    found = panels(domain)
    columns = min(len(found), 7)
    rows = -(-len(found) // columns)
    drawn = _figure(domain, 1.5 * columns, 1.85 * rows + 0.3)
    axes = drawn.subplots(rows, columns, squeeze=False).reshape(-1)
    for ax in axes:
        ax.axis("off")
    for ax, panel in zip(axes, found, strict=False):
        ax.set_title(panel.title, fontsize=9)
        values = panel.values
        if values.ndim == 3:
            ax.imshow((values - panel.low) / (panel.high - panel.low), interpolation="nearest")
        else:
            colours = "RdBu_r" if panel.diverging else "gray"
            ends = {"vmin": panel.low, "vmax": panel.high}
            ax.imshow(values, cmap=colours, interpolation="nearest", **ends)
    return drawn


def _bars(domain: Domain) -> Any:
    """A bar for the range of every feature, as a part of the widest bar that it could have."""
    count = min(domain.size, _MOST_BARS)
    drawn = _figure(domain, 7.0, 0.24 * count + 1.0)
    ax = drawn.subplots()
    # Features have units of their own: each bar is drawn from 0 or its lower end to its upper end.
    low, high = domain.low[:count], domain.high[:count]
    start = np.minimum(low, 0.0)
    reach = np.maximum(high, 0.0) - start
    reach = np.where(reach > 0, reach, 1.0)
    left, right = (low - start) / reach, (high - start) / reach
    place = np.arange(count)
    ax.barh(place, 1.0, color=_PALE, height=0.55)
    ax.barh(place, np.maximum(right - left, 0.004), left=left, color=_SLATE, height=0.55)
    ax.set_yticks(place, [domain.entry_name(k) for k in range(count)], fontsize=8)
    ax.invert_yaxis()
    for k, text in enumerate(bar_labels(domain)[:count]):
        ax.text(1.015, k, text, va="center", fontsize=8, color="#444444")
    ax.set_xlim(0, 1)
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title("ranges, each on its own scale, which includes 0", fontsize=9, loc="left")
    return drawn


def bar_labels(domain: Domain) -> list[str]:
    """The range of every feature and its kind, in words."""
    ends = [
        f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        for low, high in zip(domain.low, domain.high, strict=True)
    ]
    kinds = entry_kinds(domain)
    return [f"{text}, {kind}" if kind else text for text, kind in zip(ends, kinds, strict=True)]
