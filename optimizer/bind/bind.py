"""Statements to what they mean: names, types, windows and the kind of output settled.

`bind_query` goes from a parsed query to a logical one; `bind_relation` declares a stream or table.
"""

from __future__ import annotations

from typing import Literal

from penstock.engine.rows.errors import BindError, QueryError, UnsupportedError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.read.source import fail
from penstock.optimizer.read.statements import SelectStatement
from penstock.optimizer.tree.logical import (
    Filter,
    Join,
    Node,
    Project,
    Query,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
    streams_of,
)

from .bind_context import BindContext, Tree
from .bind_relation import bind_relation
from .bind_select import SelectBinder
from .bind_set_operation import cast_columns
from .catalog import Catalog
from .check_size import check_size

Emit = Literal["inserts", "changes", "delta", "complete", "final"]

RESERVED_OUTPUTS = ("_ts", "_diff")
# Plans are walked recursively.
MAX_PLAN_DEPTH = 200


def bind_query(parsed: SelectStatement, catalog: Catalog) -> Query:
    """The query with every name, type and window settled; raises a QueryError with a position."""
    context = BindContext(parsed, catalog)
    try:
        root = SelectBinder(context).bind(parsed.tree, {})
        nodes = _walk(root, parsed)
        check_size(root, parsed.position)
    except RecursionError:
        raise fail(UnsupportedError, "A query nested this deep is not supported", parsed.position) from None
    context.refuse_unread()
    for offset, written in parsed.windows.items():
        if offset not in context.used_windows:
            message = "Expected a window behind the name of a stream, found it elsewhere"
            raise fail(BindError, message, written.position)
    tail_window = parsed.tail.window
    if tail_window is not None and not context.used_tail_window and context.used_windows:
        message = "Expected a stream without a window of its own for WINDOW, found none"
        raise fail(
            BindError, message, tail_window.position, "WINDOW at the end is for streams without `[...]`"
        )
    root = cast_columns(
        root, [SqlType.VARCHAR if field.type is SqlType.NULL else field.type for field in root.fields]
    )
    if not any(isinstance(node, StreamScan) for node in nodes):
        message = "Expected a stream in the query, found only tables"
        raise fail(BindError, message, parsed.position)
    _check_outputs(context, root)
    emit = _settle_emit(parsed, nodes)
    tail = parsed.tail
    query = Query(root, emit, tail.emit_position or parsed.position, tail.hop, tail.late, parsed.sql)
    _check_windows(nodes, emit)
    return query


def _walk(root: Node, parsed: SelectStatement) -> list[Node]:
    """All nodes, inputs in order."""
    nodes: list[Node] = []
    stack: list[tuple[Node, int]] = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_PLAN_DEPTH:
            message = f"A query of more than {MAX_PLAN_DEPTH} steps one above the other is not supported"
            raise fail(UnsupportedError, message, parsed.position)
        nodes.append(node)
        stack.extend((below, depth + 1) for below in reversed(inputs_of(node)))
    return nodes


def _check_outputs(context: BindContext, root: Node) -> None:
    for field in root.fields:
        if field.name.lower() in RESERVED_OUTPUTS:
            message = f"Expected a name other than `{field.name}` for a result column, which every result has"
            raise _at_output(context, message, field.name)


def _at_output(context: BindContext, message: str, name: str) -> QueryError:
    from sqlglot import exp

    place: Tree = context.statement.tree
    for identifier in place.find_all(exp.Identifier):
        if str(identifier.this).lower() == name.lower():
            place = identifier
            break
    return context.error(BindError, message, place, "Write another name after AS")


def _is_monotone(nodes: list[Node]) -> bool:
    """Whether nothing in the query can take a row back other than by expiry."""
    return all(
        node.kind == "inner"
        if isinstance(node, Join)
        else isinstance(node, Filter | Project | UnionAll | StreamScan | TableScan)
        for node in nodes
    )


def _is_unbounded(nodes: list[Node]) -> bool:
    """Whether there is a stream without a window."""
    return any(isinstance(node, StreamScan) and not node.windowed for node in nodes)


def _settle_emit(parsed: SelectStatement, nodes: list[Node]) -> Emit:
    tail = parsed.tail
    if tail.emit in (None, "final"):
        if tail.hop is not None:
            return "complete"
        if _is_monotone(nodes):
            return "inserts"
        return "final" if tail.emit is not None or _is_unbounded(nodes) else "changes"
    position = tail.emit_position or parsed.position
    if tail.hop is None and tail.emit in ("delta", "complete"):
        message = f"Expected HOP BY with EMIT {tail.emit.upper()}, found none"
        raise fail(BindError, message, position, "Write HOP BY 1 MINUTE before EMIT, or EMIT CHANGES")
    if tail.hop is not None and tail.emit in ("inserts", "changes"):
        message = f"Expected EMIT COMPLETE or EMIT DELTA with HOP BY, found EMIT {tail.emit.upper()}"
        raise fail(BindError, message, position)
    return tail.emit


def _check_windows(nodes: list[Node], emit: Emit) -> None:
    """A stream may go without a window only if nothing of it is kept: rows pass and are forgotten. Whether
    ORDERED columns bound what is kept is seen when the query is planned."""
    if emit == "inserts" and all(map(passes, nodes)):
        return
    for node in nodes:
        if isinstance(node, StreamScan) and not node.windowed and not node.ordered:
            raise no_window(node, any(isinstance(one, Join) for one in nodes))


def no_window(node: StreamScan, is_joined: bool) -> QueryError:
    """Nothing bounds what would have to be kept of a stream."""
    hint = (
        f"Write `{node.stream} [RANGE 5 MINUTES]`, or WINDOW 5 MINUTES at the end, "
        f"or `{node.stream} [RANGE UNBOUNDED]` to keep every row"
    )
    if is_joined:
        hint += ". Streams joined on columns that are declared ORDERED need no windows"
    return fail(BindError, f"Expected a window on `{node.stream}`, found none", node.position, hint)


def passes(node: Node) -> bool:
    """Whether rows of streams go through and are forgotten; a table is there for ever."""
    match node:
        case StreamScan() | TableScan() | Filter() | Project() | UnionAll():
            return True
        case Join(kind="inner"):
            return not (streams_of(node.left) and streams_of(node.right))
        case _:
            return False


__all__ = ["bind_query", "bind_relation", "no_window", "passes"]
