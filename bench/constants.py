"""Generate docs/constants.md: every numeric constant of the source, and the evidence for it.

    python bench/constants.py

The table is read from the source by `ast`. A constant's comment is the text of the table; the
evidence is what follows "Measured:" in the comment, and "guess" for a tuning constant without any.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, DOCUMENT = ROOT / "src" / "vhagar", ROOT / "docs" / "constants.md"

TUNING = "Tuning"
# Constants that are not for tuning, by patterns of `path:NAME`. The first match counts.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Rounding and tolerances": (
        "*ULP",
        "*ROUNDING",
        "*UNDERFLOW",
        "*TOLERANCE",
        "*_ROOM",
        "*GRID_SNAP",
        "*STAYS",
        "*SMALLEST_COEFFICIENT",
        "*_LARGEST_SLACK",
        "*_NEGLIGIBLE",
        "*_FLOAT32_*",
        "*TIE",
        "relaxation/hexagon.py:_MARGIN",
        "relaxation/positive_definite.py:_EXTRA_OPERATIONS",
        "relaxation/quadratic/proven.py:_SMALLEST",
        "relaxation/quadratic/proven.py:_LARGEST",
        "relaxation/spectral/slopes.py:_CLEAR",
        "search/*:_RESOLUTION",
        "*:_SAME",
        "attack/local_search.py:SAME",
        "*:_MARGINS",
        "*_NEARLY_ZERO",
        "relaxation/adam.py:_EPSILON",
        "*_SMALLEST_MASS",
        "dependency/algorithm.py:_VISIBLE",
        "guard/membership.py:_LOST",
        "guard/membership.py:_DIGITS",
        "guard/membership.py:_MOST_EXPONENT",
        "local/branching.py:_CLEARLY",
        "local/certificate.py:_CLAIMED",
        "local/engine_search.py:_HEAD_START",
        "local/quadratic_proof.py:_CLEARLY",
        "local/quadratic.py:SMALLEST",
        "local/quadratic.py:LARGEST",
        "perturbation/domain/emptiness.py:_LEAST",
        "perturbation/domain/projection.py:*_SPARE",
        "perturbation/domain/projection.py:_CLOSE",
        "perturbation/domain/projection.py:_GRID",
        "perturbation/support.py:_STEEPEST",
        "perturbation/domain/zonotope.py:_INSIDE",
        "relaxation/lp/lazy_rows.py:_OUTSIDE",
        "relaxation/lp/row_duals.py:*_TOTAL",
        "search/bounders/lp.py:_NOT_TIGHT",
        "search/entry_splits.py:_WHOLE",
        "search/mip/infeasibility_check.py:_ROOMY",
        "search/mip/target.py:_VISIBLE_MARGIN",
        "search/pseudocosts.py:_SMALLEST_DECREASE",
        "solver/backends/scip.py:_PRODUCT_GAP",
    ),
    "Limits on sizes": (
        "network/*:*LARGEST*",
        "network/*:_SMALL_TENSOR",
        "perturbation/*:*LARGEST",
        "perturbation/*:_MOST_MAPS",
        "perturbation/*:_LONGEST_NAME",
        "sweep/validation.py:*",
        "sweep/column_checks.py:*",
        "baseline/solver.py:_LONGEST",
        "export/conditions.py:_MOST_VALUES",
        "local/specification.py:_LARGEST",
        "local/vnnlib*.py:_MOST_*",
        "*:_MOST_PRODUCTS",
        "search/entry_splits.py:_LARGEST_*",
        "search/proofs/review.py:_LEAST_*",
    ),
    "Conventions": (
        "fitting/data_rows.py:*",
        "fitting/fit.py:_LEAST_REACH",
        "fitting/sources.py:_BEYOND",
        "*CHANNELS",
        "network/torch/module.py:_SAMPLES",
        "perturbation/domain/parts.py:_ROUNDS",
    ),
    "Methods for comparison": ("baseline/*",),
    "Ways to compute the same": (
        "*_LARGEST_DENSE",
        "*_MOST_DENSE",
        "local/elimination.py:_FULL",
        "relaxation/influence_cones.py:*",
        "relaxation/lp/lazy_rows.py:_FEWEST",
        "relaxation/lp/region_model.py:_ROWS_FOR_INTERIOR_POINTS",
        "relaxation/positive_definite.py:_NARROW",
        "relaxation/spectral/expansion.py:_DENSE",
        "relaxation/spectral/norms.py:_SMALL",
    ),
    "Guards": (
        "perturbation/rotation.py:_MOST_PIECES",
        "perturbation/domain/projection.py:_NEWTON_STEPS",
        "perturbation/domain/zonotope.py:_MOST_PROGRAMS",
        "relaxation/quadratic/*HALVINGS",
        "relaxation/quadratic/optimise.py:_MOST_GROWTHS",
        "relaxation/spectral/scalings.py:_LARGEST_LOG",
        "search/mip/polish.py:*_SECONDS",
        "solver/highs_lp.py:_INTERIOR_ITERATIONS",
        "solver/simplex.py:_ITERATIONS_EACH",
        "solver/simplex.py:_MOST_EMPHASIS",
        "solver/simplex.py:_PATIENCE",
    ),
    "Blocks and caches": (
        "*CHUNK",
        "*_BLOCK*",
        "*_ENTRIES",
        "*_FEW",
        "*MOST_KEPT",
        "*MOST_IN_MEMORY",
        "coverage.py:_ATTACKED_AT_ONCE",
        "local/branching.py:_*_BATCH",
        "*:_MOST_AT_ONCE",
        "local/branching.py:_SECONDS",
        "local/run.py:_MOST_NEURONS",
        "*PIXELS_AT_ONCE",
        "search/confidence_probe.py:_MOST_UNITS",
        "*_MOST_MODELS",
        "*_MOST_REGIONS",
        "*_MOST_BASES",
        "*_MOST_CONVEX",
        "*_MOST_MULTIPLIERS",
        "*_MOST_OPEN",
        "*_MOST_RECORDED",
        "*_MOST_ROOTS",
        "*MOST_BOXES",
        "*_STATES_SHARE",
        "*_CPU_BYTES",
        "*NUMBERS_EACH",
    ),
    "Polling and waiting": (
        "runtime/*",
        "sweep/*_EVERY",
        "sweep/*SECONDS",
        "sweep/*_PATIENCE*",
        "sweep/*LEASE",
        "solver/backends/listener.py:*",
        "*_GRACE*",
        "attack/*:_REPORT_EVERY",
        "attack/concurrent.py:_LARGEST_SHARE",
        "local/run.py:_TO_PROVE",
        "result/live.py:*",
        "search/input_process.py:_REPORT_*",
        "search/mip/preparation_tasks.py:_PATIENCE",
        "search/bounders/gpu/gpu_worker.py:_SECONDS",
        "search/node_search.py:_LISTENING",
        "search/node_search.py:_QUANTUM_NODES",
        "search/rounds.py:_BETWEEN_LOOKS",
        "search/search.py:_PATIENCE",
        "search/search_pool.py:*",
        "search/worker.py:*",
        "search/*:_LAST_WORDS",
        "sweep/store.py:_MOST_LOSSES",
    ),
}
# Left out of the document: the layout of what is shown, and numbers that a format, a library or a
# definition fixes.
UNLISTED = (
    "cli/*",
    "report/*",
    "result/figure.py:*",
    "result/figure_drawing.py:*",
    "result/notebook.py:*",
    "perturbation/quotients.py:*",
    "result/numbers.py:*",
    "result/timeline.py:*",
    "result/words.py:*",
    "result/evidence.py:*",
    "errors.py:*",
    "fitting/picture.py:*",
    "fitting/words.py:*",
    "perturbation/*:_MOST_NAMED",
    "perturbation/*:_MOST_SHOWN",
    "*SCHEMA*",
    "*FORMAT*",
    "*OPSET",
    "*VERSION",
    "*:NO_*",
    "*:_NO_*",
    "*:_NONE",
    "*PIXELS",
    "*FIRST_COPY",
    "*CORNERS",
    "*_OF_ONE_COPY",
    "*:_LEVEL",
    "*:_FEASIBLE",
    "*:_TOO_LARGE",
    "*_SLICE_BY_INPUTS",
    "network/wire_format.py:*",
    "search/node.py:*",
    "search/search.py:HERE",
    "search/input_search.py:LEAF",
    "relaxation/lp/cost.py:*_ROWS",
    "solver/highs_lp.py:MOST",
    "baseline/defaults.py:*",
    "attack/engine.py:_PAPER_INPUTS",
)
_TEXTS = {
    TUNING: "These affect speed and tightness only: every interval is valid, whatever their "
    "values.",
    "Rounding and tolerances": "These bound rounding errors, or say when two numbers count as "
    "equal. The comment is the reason for the value.",
    "Limits on sizes": "Inputs beyond these are refused as damaged, or as out of proportion.",
    "Ways to compute the same": "These choose between two ways to compute the same numbers, "
    "such as dense and sparse matrices.",
    "Guards": "These end what would otherwise take forever or overflow; what goes well stays far "
    "from them.",
    "Blocks and caches": "These bound memory, or fit blocks of work into a cache.",
    "Conventions": "These are part of what a question, a domain or a proof means where nothing "
    "else is said; whoever changes one changes the question.",
    "Methods for comparison": "These belong to the methods for comparison. The paper does not say.",
    "Polling and waiting": "These are seconds between two looks at other processes, or how long "
    "to wait for one.",
}


@dataclass(frozen=True)
class Constant:
    """One numeric constant of a module."""

    path: str
    name: str
    value: str
    comment: str

    def matches(self, patterns: Iterable[str]) -> bool:
        return any(fnmatch(f"{self.path}:{self.name}", pattern) for pattern in patterns)

    @property
    def section(self) -> str:
        for section, patterns in SECTIONS.items():
            if self.matches(patterns):
                return section
        return TUNING

    @property
    def reason(self) -> str:
        return self.comment.partition("Measured:")[0].strip()

    @property
    def evidence(self) -> str:
        return self.comment.partition("Measured:")[2].strip() or "guess"


def constants(source: Path = SOURCE) -> list[Constant]:
    """Return the numeric constants at module level that are listed, by path and line."""
    found = [
        Constant(path.relative_to(source).as_posix(), name, value, comment)
        for path in sorted(source.rglob("*.py"))
        for name, value, comment in constants_of(path.read_text())
    ]
    return [one for one in found if not one.matches(UNLISTED)]


def constants_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and comment of each numeric constant of a module."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        pairs = [(name, value) for name, value in _assigned(node) if _is_number(value)]
        if not pairs:
            continue
        comment = _comment(lines, node.lineno, node.end_lineno or node.lineno)
        for name, value in pairs:
            yield name, ast.unparse(value), comment


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets, values = [node.target], [node.value]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        targets = node.targets[0].elts  # type: ignore[assignment]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else []
    elif isinstance(node, ast.Assign):
        targets, values = node.targets, [node.value]  # type: ignore[assignment]
    else:
        return
    for target, value in zip(targets, values, strict=False):
        if isinstance(target, ast.Name) and target.id.isupper():
            yield target.id, value


def _is_number(value: ast.expr) -> bool:
    """Whether an expression consists of numbers, and of other constants, only."""
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.Name)
    parts = [part for part in ast.walk(value) if isinstance(part, ast.expr)]
    if not all(isinstance(part, allowed) for part in parts):
        return False
    found = [part.value for part in parts if isinstance(part, ast.Constant)]
    return bool(found) and all(type(number) in (int, float) for number in found)


def _comment(lines: list[str], first: int, last: int) -> str:
    above: list[str] = []
    for line in reversed(lines[: first - 1]):
        if not line.startswith("#"):
            break
        above.insert(0, line.lstrip("# "))
    beside = lines[last - 1].partition("  # ")[2]
    return " ".join([*above, beside]).strip()


def page(found: list[Constant]) -> str:
    """Return the document."""
    lines = [
        "# Constants",
        "",
        "The numeric constants of `src/vhagar`, generated by `python bench/constants.py`. The last "
        'column of the tuning constants is the measurement that their values rest on, or "guess" '
        "where nobody has varied them systematically. Not listed: the layout of what is shown, and "
        "numbers that a format, a library, the paper or a definition fixes.",
    ]
    for section, text in _TEXTS.items():
        rows = [one for one in found if one.section == section]
        evidence = section == TUNING
        lines += ["", f"## {section}", "", text, ""]
        lines += [
            "| constant | in | meaning |" + (" evidence |" if evidence else ""),
            "| --- | --- | --- |" + (" --- |" if evidence else ""),
        ]
        # Constants with a comment in common have a row in common.
        for (path, _), same in groupby(rows, key=lambda one: (one.path, one.comment)):
            first, *more = same
            values = "<br>".join(f"`{one.name} = {one.value}`" for one in (first, *more))
            cells = [values, f"`{path}`"]
            cells += [first.reason, first.evidence] if evidence else [first.comment]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(page(constants()))
