"""A logical tree as SQL for DuckDB, so that two trees can be compared by what they answer.

Every relation has the columns c0, c1, ...; streams and tables are read as tables of their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
from oracle import plain

from penstock.engine.expressions.expression import INFIX, Column, Expression, Literal, write_literal
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
)

Name = Callable[[int], str]


def answer(con: duckdb.DuckDBPyConnection, node: Node) -> Counter[tuple[Any, ...]]:
    """The bag of rows a tree stands for."""
    return Counter(plain(row) for row in con.execute(sql_of(node)).fetchall())


def sql_of(node: Node) -> str:
    match node:
        case StreamScan():
            return f"SELECT {columns(node)} FROM {node.stream}"
        case TableScan():
            return f"SELECT {columns(node)} FROM {node.table}"
        case Filter():
            return f"SELECT * FROM ({sql_of(node.input)}) AS t WHERE {write(node.predicate, inner)}"
        case Project():
            return f"SELECT {listed(node.expressions)} FROM ({sql_of(node.input)}) AS t"
        case Distinct():
            return f"SELECT DISTINCT * FROM ({sql_of(node.input)}) AS t"
        case UnionAll():
            return " UNION ALL ".join(f"(SELECT * FROM ({sql_of(one)}))" for one in node.inputs)
        case SetOperation():
            return f"(SELECT * FROM ({sql_of(node.left)})) {node.word} (SELECT * FROM ({sql_of(node.right)}))"
        case Aggregate():
            calls = [
                f"{call.function}({'DISTINCT ' if call.distinct else ''}"
                f"{'*' if call.argument is None else write(call.argument, inner)})"
                for call in node.aggregates
            ]
            keys = [write(key, inner) for key in node.keys]
            given = ", ".join(f"{text} AS c{i}" for i, text in enumerate([*keys, *calls]))
            by = f" GROUP BY {', '.join(keys)}" if keys else ""
            return f"SELECT {given} FROM ({sql_of(node.input)}) AS t{by}"
        case Join():
            return join_sql(node)


def join_sql(node: Join) -> str:
    width = len(node.left.fields)

    def side(i: int) -> str:
        return f"l.c{i}" if i < width else f"r.c{i - width}"

    on = "TRUE" if node.condition is None else write(node.condition, side)
    left, right = sql_of(node.left), sql_of(node.right)
    if node.kind in ("semi", "anti"):
        word = "NOT EXISTS" if node.kind == "anti" else "EXISTS"
        return f"SELECT * FROM ({left}) AS l WHERE {word} (SELECT 1 FROM ({right}) AS r WHERE {on})"
    given = ", ".join(f"{side(i)} AS c{i}" for i in range(len(node.fields)))
    return f"SELECT {given} FROM ({left}) AS l {node.kind.upper()} JOIN ({right}) AS r ON {on}"


def columns(node: StreamScan | TableScan) -> str:
    return ", ".join(f"{field.name} AS c{i}" for i, field in enumerate(node.fields))


def listed(expressions: tuple[Expression, ...]) -> str:
    return ", ".join(f"{write(one, inner)} AS c{i}" for i, one in enumerate(expressions))


def inner(index: int) -> str:
    return f"c{index}"


def write(expression: Expression, name: Name) -> str:
    match expression:
        case Column():
            return name(expression.index)
        case Literal():
            return write_literal(expression)
    parts = [f"({write(one, name)})" for one in expression.arguments]
    match expression.function:
        case "not":
            return f"NOT {parts[0]}"
        case "is_null":
            return f"{parts[0]} IS NULL"
        case "cast":
            return f"CAST({parts[0]} AS {expression.type})"
        case "in":
            return f"{parts[0]} IN ({', '.join(parts[1:])})"
        case function:
            return f" {INFIX[function]} ".join(parts)
