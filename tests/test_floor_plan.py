"""Rooms import downwards: every import of the source is read, lazy and type-only ones included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import vhagar
from vhagar.perturbation import AbstractPiece

ROOT = Path(vhagar.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def rooms_of_the_plan() -> list[str]:
    """The rooms from top to bottom, as the table in CONTRIBUTING.md has them."""
    plan = CONTRIBUTING.read_text().split("<!-- floor plan -->")[1]
    rows = [line.split("|")[1] for line in plan.splitlines() if line.startswith("| `")]
    return [room.strip().strip("`").removesuffix("/").removesuffix(".py") for room in rows]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


def imported_modules(path: Path) -> Iterator[str]:
    """Every module of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            module = node.module or ""
            names = [
                f"{module}.{alias.name}" if f"{module}.{alias.name}" in MODULES else module
                for alias in node.names
            ]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "vhagar")


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_the_plan_has_every_room() -> None:
    inside = {room_of(module) for module in MODULES} - {"__main__"}
    plan = rooms_of_the_plan()
    assert sorted(plan) == sorted(inside)
    assert len(plan) == len(set(plan))


def test_rooms_import_downwards() -> None:
    order = {room: place for place, room in enumerate(["__main__", *rooms_of_the_plan()])}
    upwards = [
        f"{module} imports {imported}"
        for module, path in MODULES.items()
        for imported in imported_modules(path)
        if order[room_of(imported)] < order[room_of(module)]
    ]
    assert upwards == []


def test_no_modules_import_each_other() -> None:
    edges = {module: set(imported_modules(path)) - {module} for module, path in MODULES.items()}
    edges["vhagar"] = set()  # the export table imports everything when asked, and nothing before
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " imports ".join([*path[path.index(module) :], module])
        if module in done:
            return
        for imported in sorted(edges[module]):
            visit(imported, (*path, module))
        done.add(module)

    for module in sorted(edges):
        visit(module, ())


def test_an_upward_import_is_seen(tmp_path: Path) -> None:
    lazy = tmp_path / "lazy.py"
    lazy.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from vhagar.search import node\n"
        "def late():\n    import vhagar.cli.main\n    from vhagar.problem import Problem\n"
    )
    found = set(imported_modules(lazy))
    assert found == {"vhagar.search.node", "vhagar.cli.main", "vhagar.problem"}


def test_pieces_are_read_as_data() -> None:
    """Nobody outside `perturbation/` asks which class a piece is of, or knows one by name."""
    kinds = {kind.__name__ for kind in _subclasses(AbstractPiece)}
    assert len(kinds) > 3
    for module, path in MODULES.items():
        if room_of(module) == "perturbation":
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "vhagar.perturbation"
            ):
                named = {alias.name for alias in node.names} & kinds
                assert not named, f"{path} imports {named}"
            asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if asks and node.func.id in ("isinstance", "issubclass"):
                asked = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                asked |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
                assert not asked & (kinds | {"AbstractPiece"}), f"{path} asks for {asked & kinds}"


def _subclasses(kind: type) -> set[type]:
    direct = set(kind.__subclasses__())
    return direct.union(*map(_subclasses, direct))
