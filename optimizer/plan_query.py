"""From what a query asks for to a plan the engine can run; what cannot be run yet is refused by name.

1. flatten    sub-queries and projections away, so that everything is over the streams' columns
2. place      each conjunct where it costs least: on one side, in the index, on the pairs
3. prune      to the columns somebody reads
4. choose     an index for each direction, by cost
"""

from __future__ import annotations

from penstock.engine.errors import UnsupportedError
from penstock.engine.expression import Expression, conjunction, conjuncts, move_columns
from penstock.engine.plan import JoinNode, PlanNode, SelectNode, SideNode, SourceNode, UnionNode, WindowNode
from penstock.engine.window import Window

from .choose_indexes import IndexChooser
from .flatten_input import Flat, flatten_input, substitute
from .logical import (
    Aggregate,
    Distinct,
    Join,
    Node,
    Position,
    Query,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
)
from .match_condition import match_condition, side_of
from .prune_columns import columns_in, moved, moved_all, prune_columns


def plan_query(query: Query, choose: IndexChooser, counting: bool) -> PlanNode:
    """The plan of a bound query; `counting`: only how many rows there are is asked, not what is in them."""
    refuse_unbuilt(query)
    return prune_columns(plan_node(query.root, choose, counting))


def refuse_unbuilt(query: Query) -> None:
    """Name the first thing the query asks for that cannot be run."""
    if query.hop is not None:
        raise refused("HOP BY (hopping windows)", query.hop.position)
    refuse_operators(query.root)  # before the EMIT they imply: clearer
    if query.emit != "inserts":
        raise refused(f"EMIT {query.emit.upper()}", query.emit_position)


def refused(what: str, position: Position) -> UnsupportedError:
    return UnsupportedError(f"{what} is not supported yet", line=position.line, column=position.column)


def refuse_operators(node: Node) -> None:
    """Name the first operator that cannot be run."""
    base = flatten_input(node).base
    if not isinstance(base, StreamScan | UnionAll) and not (isinstance(base, Join) and base.kind == "inner"):
        raise refuse(base)
    for part in inputs_of(base):
        refuse_operators(part)


def refuse(node: Node) -> UnsupportedError:
    """Why this node cannot be run."""
    match node:
        case Aggregate():
            return refused("GROUP BY" if node.keys else "An aggregate", node.position)
        case Distinct():
            return refused("DISTINCT", node.position)
        case SetOperation():
            return refused(f"{node.kind.upper()}{' ALL' if node.all else ''}", node.position)
        case TableScan():
            return refused(f"Reading the table `{node.table}`", node.position)
        case Join() if node.kind in ("semi", "anti"):
            words = "EXISTS / SEMI JOIN" if node.kind == "semi" else "NOT EXISTS / ANTI JOIN"
            return refused(words, node.position)
        case Join() if node.kind != "inner":
            return refused(f"{node.kind.upper()} JOIN", node.position)
        case Join():
            return refused("A join of more than two streams", node.position)
        case UnionAll():
            return refused("A join with a UNION ALL", node.position)
        case _:
            raise AssertionError(f"{type(node).__name__} can be run")


def plan_node(node: Node, choose: IndexChooser, counting: bool) -> PlanNode:
    """The plan of one query block: a stream, a join or a union under filters and projections."""
    flat = flatten_input(node)
    outputs = () if counting else flat.outputs
    match flat.base:
        case StreamScan() as scan:
            return plan_scan(scan, conjunction(flat.predicates), outputs)
        case UnionAll() as union:
            inputs = tuple(plan_node(part, choose, counting and not flat.predicates) for part in union.inputs)
            return select(UnionNode(inputs), conjunction(flat.predicates), outputs)
        case Join(kind="inner") as join:
            return plan_join(join, flat.predicates, outputs, choose)
        case base:
            raise refuse(base)


def plan_scan(scan: StreamScan, predicate: Expression | None, outputs: tuple[Expression, ...]) -> PlanNode:
    """Rows of one stream. A RANGE window lets every row in, a ROWS window those not displaced at once."""
    refuse_partition(scan)
    source: PlanNode = SourceNode(scan.stream, tuple(field.type for field in scan.fields))
    if scan.window.kind == "rows":
        source = WindowNode(source, scan.window)
    return SelectNode(source, predicate, outputs)


def refuse_partition(scan: StreamScan) -> None:
    if scan.window.partition:
        raise refused("PARTITION BY in a window", scan.position)


def select(node: PlanNode, predicate: Expression | None, outputs: tuple[Expression, ...]) -> PlanNode:
    """A select, left out where it would change nothing but which columns are there to be counted."""
    if predicate is None and not outputs:
        return node
    return SelectNode(node, predicate, outputs)


def plan_join(
    join: Join, predicates: tuple[Expression, ...], outputs: tuple[Expression, ...], choose: IndexChooser
) -> PlanNode:
    """A join of two streams with everything that is said about it, in WHERE or ON."""
    # 1. flatten: everything over the left stream's columns, then the right's
    left, right = side_input(join.left), side_input(join.right)
    width = len(left.base.fields)

    def ahead(expression: Expression) -> Expression:
        return move_columns(expression, lambda i: i + width)

    def back(expression: Expression) -> Expression:
        return move_columns(expression, lambda i: i - width)

    columns = left.outputs + tuple(map(ahead, right.outputs))
    said = conjuncts(join.condition) + predicates
    parts = tuple(part for whole in said for part in conjuncts(substitute(whole, columns)))
    outputs = tuple(substitute(output, columns) for output in outputs)
    # 2. place: on one side, in the index, on the pairs
    sides = {part: side_of(part, width) for part in parts}
    of_left = left.predicates + tuple(part for part in parts if sides[part] in ("left", "none"))
    of_right = right.predicates + tuple(back(part) for part in parts if sides[part] == "right")
    match = match_condition(tuple(part for part in parts if sides[part] == "both"), width)
    used = columns_in(*outputs, *match.residual)
    kept = tuple(i for i in used if i < width), tuple(i - width for i in used if i >= width)
    # 3. choose
    left_side = SideNode(left.window, conjunction(of_left), match.left_keys, kept[0], "scan")
    right_keys = tuple(map(back, match.right_keys))
    right_side = SideNode(right.window, conjunction(of_right), right_keys, kept[1], "scan")
    node = choose(JoinNode(left.source, right.source, left_side, right_side, match.condition))
    places = {column: place for place, column in enumerate(used)}
    return select(node, moved(conjunction(match.residual), places), moved_all(outputs, places))


class SideInput:
    """An input of a join, flattened to one stream."""

    def __init__(self, flat: Flat, scan: StreamScan) -> None:
        self.base = scan
        self.outputs = flat.outputs
        self.predicates = flat.predicates
        self.window: Window = scan.window
        self.source = SourceNode(scan.stream, tuple(field.type for field in scan.fields))


def side_input(node: Node) -> SideInput:
    """A join's input must be one stream, under whatever filters and projections."""
    flat = flatten_input(node)
    if not isinstance(flat.base, StreamScan):
        raise refuse(flat.base)
    refuse_partition(flat.base)
    return SideInput(flat, flat.base)
