"""Small edits of a module's functions that change what they do, one at a time, numbered in order of the text.

Not edited: assertions and what only they need (`_check`), `raise`, `__repr__`, names and annotations, and
functions that are compiled (their machine code would have to be made anew for each edit).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip
WORDS = {"left": "right", "right": "left"}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
WHOLE = ast.Name | ast.Attribute | ast.Call
"""Conditions that are turned round as they are."""
COMPILED = {"kernel", "part", "expand", "overload", "intrinsic"}


@dataclass(frozen=True)
class Edit:
    """One edit: where, and what it makes of what."""

    file: str
    function: str
    line: int
    number: int
    change: str
    """What of what, within which line, and if that is not enough, the how manieth."""

    @property
    def name(self) -> str:
        """The same for as long as the line it is in: without line and number."""
        return f"{self.file} {self.function}: {self.change}"


def edits_of(path: Path, file: str) -> list[Edit]:
    """All edits of a file."""
    text = path.read_text()
    lines, known, found = text.splitlines(), Counter[tuple[str, str]](), []
    for number, (function, _, node, after) in enumerate(sites(ast.parse(text))):
        change = f"{written(node)} -> {written(after)}"
        if not isinstance(node, ast.stmt):
            change += f" in {lines[node.lineno - 1].strip()}"
        known[function, change] += 1
        again = known[function, change]
        found.append(Edit(file, function, node.lineno, number, change + (f" ({again})" if again > 1 else "")))
    return found


def edited(path: Path, number: int) -> ast.Module:
    """The file with one edit made."""
    tree = ast.parse(path.read_text())
    for at, (_, parent, node, after) in enumerate(sites(tree)):
        if at == number:
            replace(parent, node, ast.copy_location(after, node))
            return ast.fix_missing_locations(tree)
    raise ValueError(f"expected fewer than {number} edits of {path}")


def sites(tree: ast.Module) -> Iterator[tuple[str, ast.AST, ast.AST, ast.AST]]:
    """Function, parent, node and what could stand in its place."""
    for function, body in functions(tree.body, ""):
        for parent, node in walk(body):
            for after in alternatives(node, function):
                yield function, parent, node, after


def functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and is_edited(node):
            yield f"{prefix}{node.name}", node


def is_edited(node: ast.FunctionDef) -> bool:
    return node.name != "__repr__" and not is_compiled(node) and not is_check(node)


def is_check(node: ast.FunctionDef) -> bool:
    """Whether it is there for its assertions."""
    return node.name.startswith("_check") and any(isinstance(one, ast.Assert) for one in ast.walk(node))


def is_compiled(node: ast.FunctionDef) -> bool:
    return bool(COMPILED & {ast.unparse(one).split("(")[0] for one in node.decorator_list})


def walk(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every node below that may be edited, with its parent."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args" if is_definition(node) else ""):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_left_alone(child):
                yield node, child
                yield from walk(child)


def is_left_alone(node: ast.AST) -> bool:
    """What is said of mistakes, and `zip(..., strict=True)`, which is an assertion."""
    return isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr) or (
        isinstance(node, ast.keyword) and node.arg == "strict"
    )


def is_definition(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.Lambda)


def alternatives(node: ast.AST, function: str) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[one]) if type(one) in COMPARISONS:
            other = copy.deepcopy(node)
            other.ops = [COMPARISONS[type(one)]()]
            yield other
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp() if type(node.op) in ARITHMETIC and not is_text(node):
            yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield ast.Constant(node.value + 1)
        case ast.Constant(value=str()) if node.value in WORDS:
            yield ast.Constant(WORDS[node.value])
        case ast.Name() if node.id in NAMES:
            yield ast.Name(NAMES[node.id], ast.Load())
        case ast.Attribute(value=ast.Name(id="np")) if node.attr in NAMES:
            yield ast.Attribute(node.value, NAMES[node.attr], ast.Load())
        case ast.If() | ast.While() | ast.IfExp() if isinstance(
            node.test, ast.Name | ast.Attribute | ast.Call
        ):
            other = copy.deepcopy(node)
            other.test = ast.UnaryOp(ast.Not(), other.test)
            yield other
        case ast.Expr(value=ast.Call()) if "super()" in ast.unparse(node):
            return  # without it the function would have no `__class__`, and could not be exchanged
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute()]) if not function.endswith("__init__"):
            yield ast.Pass()


def is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def replace(parent: ast.AST, node: ast.AST, after: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, name, after)
        elif isinstance(value, list) and any(one is node for one in value):
            setattr(parent, name, [after if one is node else one for one in value])


def written(node: ast.AST) -> str:
    """Its first line."""
    lines = ast.unparse(node).splitlines() or ["pass"]
    return lines[0] if len(lines) == 1 else f"{lines[0]} ..."
