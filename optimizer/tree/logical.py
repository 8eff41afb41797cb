"""What a query asks for, after names and types are settled and before anything is chosen.

A tree of frozen nodes. Every node has `fields`: the name, type and source of each column it gives.
Expressions refer to their input's columns by position; a join's input is its left columns, then its right.
Every node the language has is here; which of them can be run is the planner's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.engine.expressions.expression import Expression
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window


@dataclass(frozen=True, slots=True)
class Field:
    """A column a node gives; `source` is the alias it can be qualified with, None if computed."""

    name: str
    type: SqlType
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the text something stands, for messages; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class StreamScan:
    """All columns of a stream's window; `windowed` is false if none was written and the query needs none.

    `ordered`: the columns that are declared ORDERED; `per`: of each, the columns that it is PER."""

    stream: str
    alias: str
    window: Window
    fields: tuple[Field, ...]
    position: Position
    time_column: int
    windowed: bool = True
    ordered: tuple[int, ...] = ()
    per: tuple[tuple[int, ...], ...] = ()

    def per_of(self, column: int) -> tuple[int, ...]:
        """The columns whose values have a sequence each of a column that is ORDERED."""
        return self.per[self.ordered.index(column)]


@dataclass(frozen=True, slots=True)
class TableScan:
    """All columns of a static table."""

    table: str
    alias: str
    fields: tuple[Field, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which `predicate` is true (not NULL); also HAVING, above an Aggregate."""

    input: Node
    predicate: Expression

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Project:
    """One expression per field."""

    input: Node
    expressions: tuple[Expression, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """`condition` is over left then right columns; None joins all. semi and anti give left's fields."""

    kind: Literal["inner", "left", "right", "full", "semi", "anti"]
    left: Node
    right: Node
    condition: Expression | None
    position: Position

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields if self.kind in ("semi", "anti") else self.left.fields + self.right.fields


@dataclass(frozen=True, slots=True)
class UnionAll:
    """All rows of all inputs; fields are the first input's, inputs are cast to their types."""

    inputs: tuple[Node, ...]
    position: Position

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.inputs[0].fields


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION (without ALL), INTERSECT [ALL], EXCEPT [ALL]."""

    kind: Literal["union", "intersect", "except"]
    all: bool
    left: Node
    right: Node
    position: Position

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields

    @property
    def word(self) -> str:
        """As it is written in SQL."""
        return f"{self.kind.upper()}{' ALL' if self.all else ''}"


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row once."""

    input: Node
    position: Position

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`argument` None is COUNT(*)."""

    function: Literal["count", "sum", "avg", "min", "max"]
    argument: Expression | None
    distinct: bool
    type: SqlType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group: its keys, then its aggregates. No keys: one row for everything."""

    input: Node
    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    fields: tuple[Field, ...]
    position: Position


Node = StreamScan | TableScan | Filter | Project | Join | UnionAll | SetOperation | Distinct | Aggregate


@dataclass(frozen=True, slots=True)
class Hop:
    """One answer per multiple of `size_us` since `origin_us`."""

    size_us: int
    origin_us: int
    position: Position


@dataclass(frozen=True, slots=True)
class Query:
    """A bound query: its tree and its tail. `emit` is as written, or the default of its kind."""

    root: Node
    emit: Literal["inserts", "changes", "delta", "complete", "final"]
    emit_position: Position
    hop: Hop | None
    late: Literal["drop", "error"] | None
    sql: str

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.root.fields


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for part in inputs_of(node):
        yield from nodes_of(part)


def inputs_of(node: Node) -> tuple[Node, ...]:
    """The node's inputs, left to right."""
    match node:
        case StreamScan() | TableScan():
            return ()
        case Join() | SetOperation():
            return (node.left, node.right)
        case UnionAll():
            return node.inputs
        case _:
            return (node.input,)


def streams_of(node: Node) -> tuple[str, ...]:
    """Names of the streams below, each once, in the order they are read."""
    if isinstance(node, StreamScan):
        return (node.stream,)
    return tuple(dict.fromkeys(name for part in inputs_of(node) for name in streams_of(part)))


def tables_of(node: Node) -> tuple[str, ...]:
    """Names of the tables below, each once."""
    if isinstance(node, TableScan):
        return (node.table,)
    return tuple(dict.fromkeys(name for part in inputs_of(node) for name in tables_of(part)))
