"""Mutants of a module: small faults, one at a time, made by machine.

A mutant changes one expression or drops one statement inside a function, or changes a constant of
the module. Texts of messages, annotations and decorators are left alone: they decide nothing.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
# Operations whose second operand may be forgotten.
_TERMS = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr)
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("fmin", "fmax"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("floor", "ceil"),
    ("any", "all"),
)
_SWAPPED = {old: new for a, b in _PAIRS for old, new in ((a, b), (b, a))}
_COMPOUND = (ast.FunctionDef, ast.If, ast.For, ast.While, ast.With, ast.Try)
_SQL_WORDS = ("SELECT ", "UPDATE ", "INSERT ", "DELETE ")
_SQL = (
    (" AND ", " OR "),
    (" < ", " <= "),
    (" + ", " - "),
    (" = NULL", " = 0"),
    ("OR IGNORE", "OR REPLACE"),
    (" ORDER BY place", ""),
    ("'open'", "'closed'"),
)


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is and what it changes.

    `constant` names the module's constant that it changes, where it is outside functions; `number`
    is its place among the mutants of the module.
    """

    module: str
    function: str
    line: int
    change: str
    number: int
    constant: str | None = None

    @property
    def key(self) -> str:
        """Names the mutant as long as its function says the same, wherever its lines are."""
        return f"{self.module} | {self.function} | {self.change}"


@dataclass(frozen=True)
class _Place:
    """A node of the syntax tree, and where it hangs."""

    parent: ast.AST
    field: str
    index: int | None

    @property
    def node(self) -> Any:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module's source, in the order of its functions."""
    seen: Counter[str] = Counter()
    found = []
    for number, (function, constant, place, changed) in enumerate(_changes(ast.parse(source))):
        change = _described(place, changed)
        seen[f"{function}: {change}"] += 1
        times = seen[f"{function}: {change}"]
        named = change if times == 1 else f"{change} (number {times})"
        found.append(Mutant(module, function, place.node.lineno, named, number, constant))
    return found


def code_of(mutant: Mutant, source: str, path: str) -> CodeType:
    """The module's code with the fault, on the same lines as without it."""
    tree = ast.parse(source)
    _, _, place, changed = next(itertools.islice(_changes(tree), mutant.number, None))
    place.put(ast.fix_missing_locations(ast.copy_location(changed, place.node)))
    return compile(tree, path, "exec")


def _changes(tree: ast.Module) -> Iterator[tuple[str, str | None, _Place, ast.AST]]:
    for function, constant, place in _places(tree):
        for changed in _variants(place.node):
            yield function, constant, place, changed


def _described(place: _Place, changed: ast.AST) -> str:
    """What becomes of what; a constant alone would say too little."""
    original = place.node
    shown = isinstance(original, ast.Constant) and not isinstance(place.parent, _COMPOUND)
    before = _text(place.parent if shown else original)
    place.put(changed)
    after = _text(place.parent if shown else changed)
    place.put(original)
    return f"{before} -> {after}"


def _text(node: ast.AST) -> str:
    if isinstance(node, (ast.If, ast.While)):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _places(tree: ast.Module) -> Iterator[tuple[str, str | None, _Place]]:
    """Every node that may change, with its function's name or that of its constant."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            for place in _inside(statement, "value"):
                yield name, name, place
    for name, function in _functions(tree, ""):
        for place in _inside(function, "body"):
            yield name, None, place


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.If):
            yield from _functions(child, prefix)


def _inside(parent: ast.AST, field: str) -> Iterator[_Place]:
    value = getattr(parent, field)
    items = enumerate(value) if isinstance(value, list) else [(None, value)]
    for index, node in items:
        if not isinstance(node, ast.AST) or _is_left_alone(node):
            continue
        yield _Place(parent, field, index)
        if isinstance(node, ast.Raise):
            continue
        for name in node._fields:
            if name not in ("annotation", "returns", "decorator_list", "args") or isinstance(
                node, ast.Call
            ):
                yield from _inside(node, name)


def _is_left_alone(node: ast.AST) -> bool:
    """Texts, types and what only an error says; its `raise` is still dropped."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring
    return isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr))


def _variants(node: Any) -> Iterator[ast.AST]:
    yield from _OPERATORS.get(type(node), lambda node: ())(node)


def _compare(node: ast.Compare) -> Iterator[ast.AST]:
    for k, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            changed = copy.deepcopy(node)
            changed.ops[k] = other()
            yield changed


def _binary(node: ast.BinOp) -> Iterator[ast.AST]:
    other = _ARITHMETIC.get(type(node.op))
    if _has_text(node) or _is_type(node):
        return
    if other is not None:
        yield ast.BinOp(node.left, other(), node.right)
    if isinstance(node.op, _TERMS):
        yield node.left
    if isinstance(node.op, (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)):
        yield node.right


def _has_text(node: ast.BinOp) -> bool:
    parts = (node.left, node.right)
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in parts
    )


def _is_type(node: ast.BinOp) -> bool:
    """`X | None` and the like."""
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(part, ast.Constant) and part.value is None for part in (node.left, node.right)
    )


def _boolean(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for k in range(len(node.values)):
        rest = node.values[:k] + node.values[k + 1 :]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    yield node.operand


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value > 0:
            yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value + 1.0 if value in (0.0, 1.0) else value * 2.0)
    elif isinstance(value, str) and value.startswith(_SQL_WORDS):
        for old, new in _SQL:
            if old in value:
                yield ast.Constant(value.replace(old, new, 1))


def _call(node: ast.Call) -> Iterator[ast.AST]:
    changed = copy.deepcopy(node)
    if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        changed.func = ast.Name(_SWAPPED[node.func.id], ast.Load())
        yield changed
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _SWAPPED:
        changed.func = ast.Attribute(node.func.value, _SWAPPED[node.func.attr], ast.Load())
        yield changed


def _condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[ast.AST]:
    """Negate a condition; a comparison is negated where it stands."""
    if isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        return
    changed = copy.copy(node)
    changed.test = ast.UnaryOp(ast.Not(), node.test)
    yield changed


def _dropped(node: ast.stmt) -> Iterator[ast.AST]:
    yield ast.Pass()


def _augmented(node: ast.AugAssign) -> Iterator[ast.AST]:
    other = _ARITHMETIC.get(type(node.op))
    if other is not None:
        yield ast.AugAssign(node.target, other(), node.value)
    yield ast.Pass()


_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.Constant: _constant,
    ast.Call: _call,
    ast.If: _condition,
    ast.While: _condition,
    ast.IfExp: _condition,
    ast.Expr: _dropped,
    ast.Raise: _dropped,
    ast.Continue: _dropped,
    ast.Break: _dropped,
    ast.AugAssign: _augmented,
}
