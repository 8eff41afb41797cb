"""Plans of queries that only let rows in: selects, joins of streams and unions of those, EMIT INSERTS.

1. flatten    sub-queries and projections away, so that everything is over the streams' columns; conditions
              into their normal form, all of them together, since two may say one thing
2. place      each conjunct where it costs least: on one side, in the index, on the pairs
3. prune      to the columns somebody reads
"""

from __future__ import annotations

from penstock.engine.expressions.expression import (
    FALSE,
    Column,
    Expression,
    conjunction,
    conjuncts,
    move_columns,
)
from penstock.engine.plan.plan import (
    JoinNode,
    PlanNode,
    SelectNode,
    SideNode,
    SourceNode,
    UnionNode,
    WindowNode,
)
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window
from penstock.optimizer.rewrite.flatten_input import Flat, flatten_input, substitute
from penstock.optimizer.rewrite.match_condition import match_condition, side_of
from penstock.optimizer.rewrite.order_joins import collect_cluster
from penstock.optimizer.rewrite.prune_columns import columns_in, moved, moved_all
from penstock.optimizer.rewrite.simplify_condition import simplify_all, simplify_condition
from penstock.optimizer.tree.logical import Aggregate, Join, Node, StreamScan, UnionAll, nodes_of


def is_plain(node: Node, multiway: bool = True) -> bool:
    """Whether the query can be planned here; multiway: three or more streams may be joined as one."""
    base = flatten_input(node).base
    match base:
        case StreamScan():
            return not base.window.partition
        case UnionAll():
            return all(is_plain(part, multiway) for part in base.inputs)
        case Join(kind="inner"):
            if not all(scan.windowed for scan in nodes_of(base) if isinstance(scan, StreamScan)):
                from .plan_ordered import is_ordered

                return is_ordered(collect_cluster(node))
            sides = [flatten_input(part).base for part in (base.left, base.right)]
            if all(isinstance(side, StreamScan) for side in sides):
                return not any(isinstance(side, StreamScan) and side.window.partition for side in sides)
            from .plan_many import can_join_many

            return multiway and can_join_many(collect_cluster(node), rows=True)
        case Aggregate():
            from .plan_final_group import is_final_group

            return is_final_group(base)
        case Join():
            from .plan_final import is_final_join

            return is_final_join(base)
        case _:
            return False


def plan_node(node: Node, counting: bool, evict: str = "key") -> PlanNode:
    """The plan of one query block: a stream, a join or a union under filters and projections.

    evict: when rows of a join without windows go."""
    flat = flatten_input(node)
    outputs = () if counting else flat.outputs
    match flat.base:
        case StreamScan() as scan:
            return plan_scan(scan, filter_of(flat.predicates), outputs)
        case UnionAll() as union:
            inputs = tuple(plan_node(part, counting and not flat.predicates, evict) for part in union.inputs)
            return select(UnionNode(inputs), conjunction(flat.predicates), outputs)
        case Join(kind="inner") as join:
            cluster = collect_cluster(node)
            if not all(scan.windowed for scan in nodes_of(join) if isinstance(scan, StreamScan)):
                from .plan_ordered import plan_ordered

                return plan_ordered(cluster, () if counting else cluster.outputs, evict)
            if len(cluster.items) == 2:
                return plan_join(join, flat.predicates, outputs)
            from .plan_many import plan_many

            return plan_many(cluster, () if counting else cluster.outputs)
        case Aggregate():
            from .plan_final_group import plan_final_group

            return plan_final_group(node, counting)
        case Join():
            from .plan_final import plan_final_join

            return plan_final_join(node, counting)
        case base:
            raise AssertionError(f"{type(base).__name__} is not a plain query")


def plan_scan(scan: StreamScan, predicate: Expression | None, outputs: tuple[Expression, ...]) -> PlanNode:
    """Rows of one stream. A RANGE window lets every row in, a ROWS window those not displaced at once."""
    source: PlanNode = SourceNode(scan.stream, tuple(field.type for field in scan.fields))
    if scan.window.kind == "rows":
        source = WindowNode(source, scan.window)
    return SelectNode(source, predicate, outputs)


def select(node: PlanNode, predicate: Expression | None, outputs: tuple[Expression, ...]) -> PlanNode:
    """A select, left out where it would change nothing but which columns are there to be counted."""
    if predicate is None and not outputs:
        return node
    return SelectNode(node, predicate, outputs)


def plan_join(
    join: Join,
    predicates: tuple[Expression, ...],
    outputs: tuple[Expression, ...],
    times: bool = False,
) -> PlanNode:
    """A join of two streams with everything that is said about it, in WHERE or ON.

    times: give the two rows' ts as well, behind the outputs.
    """
    # 1. flatten: everything over the left stream's columns, then the right's
    left, right = side_input(join.left), side_input(join.right)
    width = len(left.base.fields)

    def ahead(expression: Expression) -> Expression:
        return move_columns(expression, lambda i: i + width)

    def back(expression: Expression) -> Expression:
        return move_columns(expression, lambda i: i - width)

    columns = left.outputs + tuple(map(ahead, right.outputs))
    said = conjuncts(join.condition) + predicates
    parts = simplify_all(tuple(substitute(whole, columns) for whole in said))
    outputs = tuple(substitute(output, columns) for output in outputs)
    if times:
        outputs += (time_of(left.base), ahead(time_of(right.base)))
    # 2. place: on one side, in the index, on the pairs
    sides = {part: side_of(part, width) for part in parts}
    on_left = tuple(part for part in parts if sides[part] in ("left", "none"))
    on_right = tuple(back(part) for part in parts if sides[part] == "right" or part == FALSE)
    between = tuple(part for part in parts if sides[part] == "both")
    match = match_condition(between, width, right.base.stream < left.base.stream)
    used = columns_in(*outputs, *match.residual)
    kept = tuple(i for i in used if i < width), tuple(i - width for i in used if i >= width)
    left_side = SideNode(left.window, filter_of(left.predicates + on_left), match.left_keys, kept[0])
    right_keys = tuple(map(back, match.right_keys))
    right_side = SideNode(right.window, filter_of(right.predicates + on_right), right_keys, kept[1])
    node = JoinNode(left.source, right.source, left_side, right_side, match.condition)
    places = {column: place for place, column in enumerate(used)}
    return select(node, moved(conjunction(match.residual), places), moved_all(outputs, places))


def filter_of(parts: tuple[Expression, ...]) -> Expression | None:
    """The AND of what is said of one stream, None if that lets all rows in."""
    whole = conjunction(parts)
    return None if whole is None else conjunction(conjuncts(simplify_condition(whole)))


def time_of(scan: StreamScan) -> Column:
    """The column that says when a row came."""
    return Column(SqlType.TIMESTAMP, scan.time_column, f"{scan.alias}.{scan.fields[scan.time_column].name}")


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
    assert isinstance(flat.base, StreamScan), "a window join reads two streams"
    return SideInput(flat, flat.base)
