"""How many rows each part of a hopping query has at a boundary, and how many of them are new.

Rates, windows and the hop give rows and changes of the streams; of conditions nothing is known but their form
(statistics.py), unless the number of a column's different values is. An estimate depends on what is joined
and subtracted, never on the order: plans of the same answer have the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.engine.expressions.expression import Call, Column, Expression, columns_of, conjuncts
from penstock.optimizer.costs.statistics import (
    DEFAULT_HALF,
    DEFAULT_KEYS,
    DEFAULT_PASS,
    UNBOUNDED_S,
    Rates,
    window_rows,
)
from penstock.optimizer.rewrite.difference_rules import common_inputs
from penstock.optimizer.rewrite.flatten_input import flatten_input
from penstock.optimizer.rewrite.match_condition import FLIPPED, equality_of
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Position,
    Project,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
    nodes_of,
)

from .hopping_cost import Flow, mixes, together, touched

TABLE_ROWS = 1_000.0  # of a table nothing is known of
DEFAULT_REMAINS = 0.5  # of the rows of a difference, intersection, semi or anti join's left input
LEAST_LEFT = 1e-9
LEAST_SHARE = 1e-100  # of the pairs of a join: what is computed of it stays a number
DEFAULT_DISTINCT = 0.5  # of rows that differ from all others

Origin = tuple[str, str]
"""A stream and one of its columns."""


@dataclass(frozen=True, slots=True)
class Met:
    """Of all pairs of two inputs, the shares with equal keys and those that satisfy the whole condition."""

    keys: float
    pairs: float


@dataclass(frozen=True)
class Estimates:
    """What is assumed of streams and conditions."""

    rates: Rates
    hop_us: int
    keys: Mapping[Origin, float] = field(default_factory=dict)
    """Different values of a column in its window."""
    remains: Mapping[Position, float] = field(default_factory=dict)
    """Of the left input's rows, the share that a difference, semi or anti join leaves, by where it stands."""
    written: Mapping[Position, float] = field(default_factory=dict)
    """Of each set operation as it is written, the rows of its right input for each of its left."""
    same: Mapping[Position, Position] = field(default_factory=dict)
    """What both inputs of a difference read, by its place on the right: its place on the left."""

    def as_written(self, root: Node) -> Self:
        """Estimates for this query's plans: what is the same is estimated alike in all of them.

        A difference above a join has inputs of other numbers of rows than below it, but takes away the same;
        what both its inputs are joined with is there once below it.
        """
        written: dict[Position, float] = {}
        same: dict[Position, Position] = {}

        def visit(node: Node) -> Flow:
            inputs = [visit(part) for part in inputs_of(node)]
            if isinstance(node, SetOperation):
                written[node.position] = ratio(*inputs)
                for pair in common_inputs(node):
                    for left, right in zip(*map(places_in, pair), strict=True):
                        if left != right:
                            same[right] = same.get(left, left)
            return self.flow(node, inputs)

        visit(root)
        return replace(self, written=written, same=same)

    def place(self, position: Position) -> Position:
        """Where a relation stands; where it stands first, if a difference reads it on both sides."""
        return self.same.get(position, position)

    def scan(self, scan: StreamScan) -> Flow:
        """Rows of a window, of which a hop replaces as many as come; all if the hop is longer."""
        rows = max(1.0, window_rows(scan.window, self.rates.of_stream(scan.stream)))
        window_us = UNBOUNDED_S * 1e6 if scan.window.size is None else scan.window.size
        return Flow(
            rows, frozenset({(self.place(scan.position), min(1.0, self.hop_us / max(1, window_us)))}), True
        )

    def flow(self, node: Node, inputs: Sequence[Flow]) -> Flow:
        """What a node gives if its inputs give this."""
        match node:
            case StreamScan():
                return self.scan(node)
            case TableScan():
                return Flow(TABLE_ROWS, frozenset())
            case Filter():
                share = DEFAULT_PASS ** len(conjuncts(node.predicate))
                return replace(inputs[0], rows=inputs[0].rows * share)
            case Project():
                return inputs[0]
            case Join():
                return self.joined(node, *inputs)
            case SetOperation():
                return self.set_operation(node, *inputs)
            case Distinct():
                came_with_difference = node.position in self.written  # whose rows are estimated without it
                share = 1.0 if came_with_difference else DEFAULT_DISTINCT
                return Flow(inputs[0].rows * share, inputs[0].parts)
            case UnionAll():
                rows = sum(one.rows for one in inputs)
                share = sum(one.came for one in inputs) / max(rows, 1e-9)
                is_mixed = any(one.is_mixed for one in inputs) or mixes(inputs)
                return Flow(rows, frozenset({(self.place(node.position), share)}), is_mixed=is_mixed)
            case Aggregate():
                groups = min(inputs[0].rows, self.groups(node)) if node.keys else 1.0
                same = (1 - inputs[0].changed) ** (inputs[0].rows / max(groups, 1e-9))
                return Flow(groups, frozenset({(self.place(node.position), 1 - same)}))

    def joined(self, node: Join, left: Flow, right: Flow) -> Flow:
        """The rows of a join of any kind."""
        if node.kind in ("semi", "anti"):
            hanging = self.hanging(node.position, self.condition(node).keys * right.rows)
            parts = together(left.parts, touched(right.parts, hanging))
            return Flow(left.rows * self.left_by(node.position), parts, is_mixed=left.is_mixed)
        parts = together(left.parts, right.parts)
        rows = left.rows * right.rows * self.condition(node).pairs
        if node.kind in ("left", "full"):
            rows = max(rows, left.rows)
        if node.kind in ("right", "full"):
            rows = max(rows, right.rows)
        return Flow(rows, parts, is_mixed=True)

    def set_operation(self, node: SetOperation, left: Flow, right: Flow) -> Flow:
        if node.kind == "union":
            parts = together(left.parts, right.parts)
            return Flow((left.rows + right.rows) * DEFAULT_DISTINCT, parts)
        hanging = self.hanging(node.position, self.written.get(node.position, ratio(left, right)))
        parts = together(left.parts, touched(right.parts, hanging))
        return Flow(left.rows * self.left_by(node.position), parts, is_mixed=left.is_mixed)

    def hanging(self, position: Position, met: float) -> float:
        """Of the answer of a left input that is compared with a right one, the share that hangs on that.

        These are the rows that it takes away; but a few rows of the right cannot change a long answer. met:
        rows of the right that one of the left meets.
        """
        remains = self.left_by(position)
        return min(1 - remains, met / max(remains, LEAST_LEFT))

    def left_by(self, position: Position) -> float:
        """Of its left input's rows, the share that the operator at this place leaves."""
        return self.remains.get(self.place(position), DEFAULT_REMAINS)

    def condition(self, node: Join) -> Met:
        """What a join's condition lets through."""
        width = len(node.left.fields)

        def origin(column: int) -> Origin | None:
            return origin_of(node.left, column) if column < width else origin_of(node.right, column - width)

        keys = pairs = 1.0
        for part in conjuncts(node.condition):
            share = self.share(part, origin)
            pairs *= share
            keys *= share if equality_of(part, width) else 1.0
        return Met(max(keys, LEAST_SHARE), max(pairs, LEAST_SHARE))

    def share(self, part: Expression, origin: Callable[[int], Origin | None]) -> float:
        """Of all pairs, the share that satisfies one part of a join's condition."""
        if not isinstance(part, Call):
            return DEFAULT_PASS
        if part.function == "equal":
            values = [
                self.keys.get(found, DEFAULT_KEYS) for one in part.arguments if (found := root(one, origin))
            ]
            return 1 / max(values, default=DEFAULT_KEYS)
        return DEFAULT_HALF if part.function in FLIPPED else DEFAULT_PASS

    def groups(self, node: Aggregate) -> float:
        """Groups there may be: the keys are taken to be independent."""
        values = []
        for key in node.keys:
            found = root(key, lambda column: origin_of(node.input, column))
            values.append(DEFAULT_KEYS if found is None else self.keys.get(found, DEFAULT_KEYS))
        return math.prod(values)


def ratio(left: Flow, right: Flow) -> float:
    """Rows of the right for each of the left."""
    return right.rows / max(left.rows, LEAST_LEFT)


def places_in(node: Node) -> list[Position]:
    """Where the node and what is below it stands."""
    return [one.position for one in nodes_of(node) if not isinstance(one, Filter | Project)]


def root(expression: Expression, origin: Callable[[int], Origin | None]) -> Origin | None:
    """The column of a stream that an expression of one column comes from."""
    columns = columns_of(expression)
    return origin(next(iter(columns))) if len(columns) == 1 else None


def origin_of(node: Node, column: int) -> Origin | None:
    """The column of a stream that a node's column is, through whatever passes it on unchanged."""
    flat = flatten_input(node)
    output = flat.outputs[column]
    if not isinstance(output, Column):
        return None
    match flat.base:
        case StreamScan() as scan:
            return scan.stream, scan.fields[output.index].name
        case Join() as join if output.index >= len(join.left.fields):
            return origin_of(join.right, output.index - len(join.left.fields))
        case Join() | SetOperation() as base:
            return origin_of(base.left, output.index)
        case Distinct() as base:
            return origin_of(base.input, output.index)
        case UnionAll() as base:
            return origin_of(base.inputs[0], output.index)
        case Aggregate() as base if output.index < len(base.keys):
            key = base.keys[output.index]
            return origin_of(base.input, key.index) if isinstance(key, Column) else None
        case _:
            return None
