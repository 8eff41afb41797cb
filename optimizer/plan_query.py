"""From what a query asks for to a plan the engine can run; what cannot be run yet is refused by name.

1. flatten    sub-queries and projections away, so that everything is over the streams' columns
2. place      each conjunct where it costs least: on one side, in the index, on the pairs
3. prune      to the columns somebody reads
4. choose     an index for each direction, by cost
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.engine.errors import UnsupportedError
from penstock.engine.expression import Expression, columns_of, conjunction, conjuncts, move_columns
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
)
from .match_condition import match_condition, side_of


def plan_query(query: Query, choose: IndexChooser, counting: bool) -> PlanNode:
    """The plan of a bound query; `counting`: only how many rows there are is asked, not what is in them."""
    if query.hop is not None:
        raise refused("HOP BY (hopping windows)", query.hop.position)
    if query.emit != "inserts":
        refuse_operators(query.root)
        raise refused(f"EMIT {query.emit.upper()}", query.emit_position)
    return plan_node(query.root, choose, counting)


def refused(what: str, position: Position) -> UnsupportedError:
    return UnsupportedError(f"{what} is not supported yet", line=position.line, column=position.column)


def refuse_operators(node: Node) -> None:
    """Name the first operator that cannot be run: clearer than naming the EMIT it implies."""
    from .logical import inputs_of

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
    # 1. flatten
    sides = [side_input(part) for part in (join.left, join.right)]
    widths = [len(side.base.fields) for side in sides]
    shifted = tuple(move_columns(output, lambda i: i + widths[0]) for output in sides[1].outputs)
    columns = sides[0].outputs + shifted
    said = conjuncts(join.condition) + predicates
    parts = tuple(part for whole in said for part in conjuncts(substitute(whole, columns)))
    outputs = tuple(substitute(output, columns) for output in outputs)
    # 2. place
    left_width = widths[0]
    own: dict[str, list[Expression]] = {"left": list(sides[0].predicates), "right": []}
    own["right"] = [move_columns(part, lambda i: i + left_width) for part in sides[1].predicates]
    shared: list[Expression] = []
    for part in parts:
        side = side_of(part, left_width)
        own["left" if side == "none" else side].append(part) if side != "both" else shared.append(part)
    match = match_condition(tuple(shared), left_width)
    residual = conjunction(match.residual)
    # 3. prune
    used = columns_read((*outputs, *match.residual))
    kept = [i for i in used if i < left_width], [i for i in used if i >= left_width]
    places = {column: place for place, column in enumerate((*kept[0], *kept[1]))}
    # 4. choose
    back: Callable[[int], int] = lambda i: i - left_width  # noqa: E731
    nodes = (
        SideNode(
            sides[0].window,
            conjunction(tuple(own["left"])),
            match.left_keys,
            tuple(kept[0]),
            "scan",
        ),
        SideNode(
            sides[1].window,
            moved(conjunction(tuple(own["right"])), back),
            tuple(move_columns(key, back) for key in match.right_keys),
            tuple(i - left_width for i in kept[1]),
            "scan",
        ),
    )
    node = choose(JoinNode(sides[0].source, sides[1].source, *nodes, match.condition))
    return select(
        node,
        moved(residual, places.__getitem__),
        tuple(move_columns(output, places.__getitem__) for output in outputs),
    )


def moved(expression: Expression | None, where: Callable[[int], int]) -> Expression | None:
    return None if expression is None else move_columns(expression, where)


def columns_read(expressions: Iterable[Expression]) -> list[int]:
    return sorted({index for expression in expressions for index in columns_of(expression)})


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
