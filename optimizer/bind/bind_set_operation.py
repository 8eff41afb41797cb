"""UNION [ALL], EXCEPT [ALL], INTERSECT [ALL]: inputs cast to common types, chains bound without recursion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from penstock.engine.expressions.expression import Column
from penstock.engine.rows.errors import BindError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.names.functions import cast
from penstock.optimizer.read.source import fail
from penstock.optimizer.tree.logical import Node, Position, Project, SetOperation, UnionAll

from .bind_context import BindContext, Tree

Kind = Literal["union", "intersect", "except"]
KINDS: dict[str, Kind] = {"Union": "union", "Intersect": "intersect", "Except": "except"}


def bind_chain(context: BindContext, tree: Tree, bind: Callable[[Tree], Node]) -> Node:
    """A chain of set operations, from its leftmost input on; runs of UNION ALL become one node."""
    operations: list[Tree] = []
    while type(tree).__name__ in KINDS and (not operations or not _has_with(tree)):
        context.read_only(tree, ("this", "expression", "distinct", "with_", "with"))
        operations.append(tree)
        tree = tree.this
    # INTERSECT binds tighter than the others; not every release of the stock parser knows.
    parts: list[tuple[Tree | None, Node]] = [(None, bind(tree))]
    for operation in reversed(operations):
        right = bind(operation.expression)
        if KINDS[type(operation).__name__] == "intersect":
            before, left = parts[-1]
            parts[-1] = (before, _set_operation(context, operation, left, right))
        else:
            parts.append((operation, right))
    return _fold(context, parts)


def _fold(context: BindContext, parts: list[tuple[Tree | None, Node]]) -> Node:
    """UNION and EXCEPT, left to right; each part has the operation before it."""
    node = parts[0][1]
    run: list[Node] = []
    run_position: Position | None = None
    for operation, right in parts[1:]:
        assert operation is not None, "only the first part has none"
        if type(operation).__name__ == "Union" and operation.args.get("distinct") is False:
            run = run or [node]
            run_position = run_position or context.keyword_position(operation.expression, "UNION")
            run.append(right)
            continue
        if run_position is not None:
            node, run, run_position = _union_all(run, run_position), [], None
        node = _set_operation(context, operation, node, right)
    return node if run_position is None else _union_all(run, run_position)


def _set_operation(context: BindContext, operation: Tree, left: Node, right: Node) -> SetOperation:
    kind = KINDS[type(operation).__name__]
    keeps_all = operation.args.get("distinct") is False
    position = context.keyword_position(operation.expression, kind)
    left, right = _align([left, right], position, kind.upper())
    return SetOperation(kind, keeps_all, left, right, position)


def _has_with(tree: Tree) -> bool:
    return bool(tree.args.get("with_") or tree.args.get("with"))


def _union_all(inputs: list[Node], position: Position) -> UnionAll:
    flat = [part for node in inputs for part in (node.inputs if isinstance(node, UnionAll) else (node,))]
    return UnionAll(tuple(_align(flat, position, "UNION ALL")), position)


def _align(inputs: list[Node], position: Position, name: str) -> list[Node]:
    """The inputs with as many columns, of the same types; names are the first input's."""
    width = len(inputs[0].fields)
    for node in inputs[1:]:
        if len(node.fields) != width:
            columns = f"{width} column{'' if width == 1 else 's'}"
            message = f"Expected {columns} on both sides of {name}, found {len(node.fields)}"
            raise fail(BindError, message, position)
    types: list[SqlType] = []
    for place in range(width):
        found = {node.fields[place].type for node in inputs} - {SqlType.NULL}
        if len(found) > 1 and found != {SqlType.BIGINT, SqlType.DOUBLE}:
            given = " and ".join(sorted(str(type_) for type_ in found))
            column = inputs[0].fields[place].name
            message = f"Expected one type for column `{column}` of {name}, found {given}"
            raise fail(BindError, message, position, "Write a CAST on one side")
        types.append(SqlType.DOUBLE if len(found) > 1 else found.pop() if found else SqlType.NULL)
    return [cast_columns(node, types) for node in inputs]


def cast_columns(node: Node, types: list[SqlType]) -> Node:
    """The node with its columns cast to the types."""
    if all(field.type is type_ for field, type_ in zip(node.fields, types, strict=True)):
        return node
    fields = tuple(replace(field, type=type_) for field, type_ in zip(node.fields, types, strict=True))
    if isinstance(node, Project):
        expressions = tuple(cast(part, type_) for part, type_ in zip(node.expressions, types, strict=True))
        return Project(node.input, expressions, fields)
    columns = (Column(field.type, index, field.name) for index, field in enumerate(node.fields))
    return Project(
        node, tuple(cast(column, type_) for column, type_ in zip(columns, types, strict=True)), fields
    )
