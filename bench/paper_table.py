"""Lines of results -> plain data -> Markdown: ours and the baselines beside the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from paper_records import Record
from paper_rows import Figures, PaperRow

OURS = "vhagar"
# They have no upper bound of their own.
SAMPLING = ("dataset", "random")


@dataclass(frozen=True)
class Comparison:
    """One row: the paper's figures, and ours: means over the pairs that each method has run."""

    row: PaperRow
    here: dict[str, Figures]
    pairs: dict[str, int]


@dataclass(frozen=True)
class Against:
    """Another method over the rows that both it and ours have, and ours over the same rows.

    `gap_ratio` is its mean gap beside ours, `lower_ratio` our mean lower bound beside its own.
    """

    name: str
    rows: int
    ours: Figures
    other: Figures

    @property
    def gap_ratio(self) -> float | None:
        return _ratio(self.other.gap, self.ours.gap)

    @property
    def lower_ratio(self) -> float | None:
        return _ratio(self.ours.lower, self.other.lower)


def figures_of(records: Sequence[Record]) -> Figures:
    """The mean over pairs, in percent of the maximal confidence.

    Of the interval around the maximal confidence the end is taken that makes no bound look better
    than it is. What random sampling reports as its bound is the mean.
    """
    known = [r for r in records if r.lower is not None]
    minutes = _mean([None if r.seconds is None else r.seconds / 60 for r in known])
    if known and known[0].method == "random":
        # Where no input of the source class was drawn, there is no mean.
        known = [r for r in known if r.mean is not None]
        lowers = [_percent(r.mean, r.maximum_upper) for r in known]
    else:
        lowers = [_percent(r.lower, r.maximum_upper) for r in known]
    sampling = any(r.method in SAMPLING for r in known)
    uppers = [None if sampling else _percent(r.upper, r.maximum_lower) for r in known]
    # The half-width is rounded to its safe side, too: it is larger beside a smaller maximum.
    halves = [_percent(r.half_width, r.maximum_lower) for r in known]
    return Figures(_mean(lowers), _mean(uppers), minutes, _mean(halves))


def compare(rows: Sequence[PaperRow], records: Sequence[Record]) -> list[Comparison]:
    """The rows that have been run, in the order of the paper's tables."""
    found = []
    for row in rows:
        own = [record for record in records if record.row == str(row)]
        methods = dict.fromkeys(record.method for record in own)
        parts = {name: [r for r in own if r.method == name] for name in methods}
        if own:
            here = {name: figures_of(part) for name, part in parts.items()}
            found.append(Comparison(row, here, {name: len(part) for name, part in parts.items()}))
    return found


def against_paper(comparisons: Sequence[Comparison]) -> list[Against]:
    """The paper's methods beside ours, where the paper has figures."""
    names = ("vhagar", "marabou", "dataset", "random")
    found = [
        _against(
            f"{name}, paper",
            [(c.here[OURS], c.row.methods[name]) for c in comparisons if OURS in c.here],
        )
        for name in names
    ]
    return [one for one in found if one.rows]


def against_here(rows: Sequence[PaperRow], records: Sequence[Record]) -> list[Against]:
    """The other methods that were run, on the pairs that both they and ours have."""
    others = [name for name in dict.fromkeys(r.method for r in records) if name != OURS]
    found = []
    for name in others:
        matched = []
        for row in rows:
            own = {r.pair: r for r in records if r.row == str(row) and r.method == OURS}
            its = {
                r.pair: r
                for r in records
                if r.row == str(row) and r.method == name and r.lower is not None
            }
            pairs = own.keys() & its.keys()
            if pairs:
                matched.append(
                    (figures_of([own[p] for p in pairs]), figures_of([its[p] for p in pairs]))
                )
        found.append(_against(f"{name}, here", matched))
    return [one for one in found if one.rows]


def _against(name: str, pairs: Sequence[tuple[Figures, Figures]]) -> Against:
    known = [(ours, its) for ours, its in pairs if ours.lower is not None and its.lower is not None]
    return Against(
        name,
        len(known),
        _mean_figures([ours for ours, _ in known]),
        _mean_figures([its for _, its in known]),
    )


def _mean_figures(figures: Sequence[Figures]) -> Figures:
    return Figures(
        _mean([f.lower for f in figures]),
        _mean([f.upper for f in figures]),
        _mean([f.minutes for f in figures]),
        _mean([f.half_width for f in figures]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean, if all of them are there: what is not known must not make it look better."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _percent(value: float | None, of: float) -> float | None:
    """None where the maximum is not known to be above 0: no percentage is too large then."""
    return 100 * value / of if value is not None and of > 0 else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def ours_markdown(comparisons: Sequence[Comparison]) -> list[str]:
    """VHAGaR of the paper and ours, side by side."""
    heads = ["network", "perturbation", "pairs", "paper: lower", "upper", "gap", "min"]
    heads += ["here: lower", "upper", "gap", "min"]
    lines = [_line(heads), _line(["---", "---", *["---:"] * (len(heads) - 2)])]
    for one in comparisons:
        if OURS not in one.here:
            continue
        paper, here = one.row.methods[OURS], one.here[OURS]
        cells = [one.row.network, f"`{one.row.perturbation}`", str(one.pairs[OURS])]
        for part in (paper, here):
            cells += [_number(part.lower), _number(part.upper), _number(part.gap)]
            cells.append(_minutes(part.minutes))
        lines.append(_line(cells))
    return lines


def baselines_markdown(comparisons: Sequence[Comparison]) -> list[str]:
    """The baselines of the paper and those that were run."""
    names = ("marabou", "dataset", "random")
    heads = ["network", "perturbation"]
    heads += [f"{name}, {where}" for name in names for where in ("paper", "here")]
    lines = [_line(heads), _line(["---", "---", *["---:"] * (len(heads) - 2)])]
    for one in comparisons:
        cells = [one.row.network, f"`{one.row.perturbation}`"]
        for name in names:
            cells += [_bounds(one.row.methods[name]), _bounds(one.here.get(name))]
        lines.append(_line(cells))
    return lines


def summary_markdown(found: Sequence[Against]) -> list[str]:
    """Means over rows, and ratios."""
    heads = ["compared with", "rows", "its lower", "its upper", "its gap", "its min"]
    heads += ["our lower", "our upper", "our gap", "our min", "its gap / ours", "our lower / its"]
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    for one in found:
        cells = [one.name, str(one.rows)]
        for part in (one.other, one.ours):
            cells += [_number(part.lower), _number(part.upper), _number(part.gap)]
            cells.append(_minutes(part.minutes))
        lines.append(_line([*cells, _number(one.gap_ratio), _number(one.lower_ratio)]))
    return lines


def _bounds(figures: Figures | None) -> str:
    """`3 to 44` for an interval, `1.7 +- 0.2` for a mean, and the minutes."""
    if figures is None:
        return "-"
    if figures.lower is None:
        return "NA" if figures.minutes is None else "no sample"
    text = _number(figures.lower)
    if figures.half_width is not None:
        text += f" +- {_number(figures.half_width)}"
    if figures.upper is not None:
        text += f" to {_number(figures.upper)}"
    return f"{text} ({_minutes(figures.minutes)} min)"


def _minutes(value: float | None) -> str:
    return "<0.1" if value is not None and value < 0.05 else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value and abs(value) < 0.095:
        return f"{value:.1g}"
    return f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
