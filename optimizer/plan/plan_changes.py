"""The plan of an incremental query: a tree of operators that pass changes on.

Rows of a RANGE window carry the time at which they leave, and whoever keeps them lets them go: that is
cheapest. Where an operator has to see each row leave, or the query's approach asks for it, an Expire in
between turns leaving into a -1:

    ita, piggyback, auto   above everything, for EMIT CHANGES; below outer, semi and anti joins
    time-message           also on streams that are not joined
    nta                    on every window, so that joins are asked again for each row that leaves

Joins of two streams through RANGE windows are run by the shared window join, also here.

A hopping query is planned the same way where its operators read changes (plan_hopping.py). Its windows let
rows in and out at boundaries alone (engine/rows/hops.py), so that every operator works hop by hop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.expressions.expression import (
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    move_columns,
)
from penstock.engine.plan.approach import Approach, Netting
from penstock.engine.plan.plan import (
    AggregateCallNode,
    AggregateNode,
    ArriveNode,
    ChangeJoinNode,
    ExpireNode,
    HopAnswerNode,
    HopDeltaNode,
    JoinKind,
    LifetimeNode,
    PaneAggregateNode,
    PlanNode,
    SelectNode,
    SetOperationNode,
    SourceNode,
    StoredWindowNode,
    TableNode,
    TicksNode,
    UnionNode,
)
from penstock.engine.plan.plan_parts import plan_inputs, plan_nodes, plan_types, takes_back
from penstock.engine.rows.hops import Hops
from penstock.optimizer.bind.bind_aggregate import write_aggregate
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.rewrite.match_condition import equality_of, side_of
from penstock.optimizer.rewrite.order_joins import Cluster, collect_cluster, order_joins
from penstock.optimizer.rewrite.prune_columns import columns_in, moved, moved_all
from penstock.optimizer.rewrite.simplify_condition import simplify_all
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Query,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
)

from .plan_many import can_join_many, plan_many
from .plan_ordered import growing_items, plan_ordered
from .plan_streams import plan_join

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class ChangesPlan:
    """A plan and what the sink has to know of it."""

    node: PlanNode
    netting: Netting


def plan_changes(
    query: Query, counting: bool, approach: Approach, multiway: bool = True, evict: str = "key"
) -> ChangesPlan:
    """The plan of any sliding query; `counting`: only how many changes there are is asked.

    multiway: three or more streams may be joined as one. evict: when rows of joins without windows go.
    """
    planner = ChangesPlanner(approach, None, multiway and approach != "nta", evict)
    everything = range(len(query.fields))
    node = planner.plan(query.root, everything)
    netting = netting_of(node)
    if counting and netting == "none":
        node = planner.plan(query.root, ())
    is_net = netting != "none"  # what enters may be what leaves at the same instant
    return ChangesPlan(expired(node) if query.emit == "changes" or is_net else node, netting)


class ChangesPlanner:
    """Plans one query."""

    def __init__(
        self, approach: Approach, hops: Hops | None, multiway: bool = False, evict: str = "key"
    ) -> None:
        self._approach, self._evict = approach, evict
        self._hops = hops
        self._multiway = multiway
        # Of the operator that is being planned, in a hopping query (plan_hopping.py):
        self._whole: Hops | None = None
        self._label = ""
        self._taat = False

    def plan(self, node: Node, used: Sequence[int], joined: bool = False) -> PlanNode:
        """A plan that gives the columns `used` of a node, in that order; joined: as an input of a join."""
        flat = flatten_input(node)
        outputs = tuple(flat.outputs[i] for i in used)
        predicate = conjunction(flat.predicates)
        match flat.base:
            case StreamScan() as scan:
                return self._scan(scan, predicate, outputs, joined)
            case TableScan() as scan:
                types = tuple(field.type for field in scan.fields)
                return SelectNode(TableNode(scan.table, types), predicate, outputs)
            case Join(kind="inner"):
                cluster = self._cluster(node)
                return self._inner(cluster, tuple(cluster.outputs[i] for i in used))
            case base:
                needed = columns_in(predicate, *outputs)
                below = self._base(base, needed, joined)
                places = {column: place for place, column in enumerate(self._given(base, needed))}
                return select(below, moved(predicate, places), moved_all(outputs, places))

    @staticmethod
    def _given(base: Node, needed: Sequence[int]) -> Sequence[int]:
        """Which columns the plan of a base gives: some of its own accord give all."""
        return needed if isinstance(base, Join | UnionAll) else range(len(base.fields))

    def _base(self, base: Node, needed: Sequence[int], joined: bool) -> PlanNode:
        everything = range(len(base.fields))
        match base:
            case UnionAll():
                inputs = tuple(self.plan(p, needed, joined) for p in base.inputs)
                # a join pairs what enters with all that is there: what leaves a ROWS window has to come first
                instants = joined and self._hops is None and has_rows(inputs)
                return UnionNode(inputs, self._label, instants)
            case Distinct():
                distinct = (self.plan(base.input, everything),)
                return SetOperationNode("distinct", False, distinct, self._whole, self._label)
            case SetOperation():
                parts = self.plan(base.left, everything), self.plan(base.right, everything)
                return SetOperationNode(base.kind, base.all, parts, self._whole, self._label)
            case Aggregate():
                return self._aggregate(base)
            case Join():
                return self._match(base, needed)
            case _:
                raise AssertionError(f"{type(base).__name__} is not planned here")

    def _scan(
        self, scan: StreamScan, predicate: Expression | None, outputs: tuple[Expression, ...], joined: bool
    ) -> PlanNode:
        """Rows of a stream through its window; of a ROWS window, all rows count and are filtered above it."""
        types = tuple(field.type for field in scan.fields)
        if scan.window.kind == "range":
            node: PlanNode = SelectNode(SourceNode(scan.stream, types), predicate, outputs)
            if scan.window.size is None and self._hops is None:
                return node
            node = ArriveNode(node, scan.window, (), self._hops, self._taat, self._label)
            negated = self._approach == "nta" or (self._approach == "time-message" and not joined)
            return ExpireNode(node) if negated else node
        source, partition, places = window_columns(scan, predicate, outputs)
        node = ArriveNode(source, scan.window, partition, self._hops, self._taat, self._label)
        return select(node, moved(predicate, places), moved_all(outputs, places))

    def _aggregate(self, base: Aggregate) -> PlanNode:
        arguments = list(
            dict.fromkeys(call.argument for call in base.aggregates if call.argument is not None)
        )
        columns = (*base.keys, *arguments)
        needed = columns_in(*columns)
        below = self.plan(base.input, needed)
        places = {column: place for place, column in enumerate(needed)}
        below = select(below, None, moved_all(columns, places))
        calls = tuple(
            AggregateCallNode(
                call.function,
                None if call.argument is None else len(base.keys) + arguments.index(call.argument),
                call.distinct,
                call.type,
            )
            for call in base.aggregates
        )
        names = (*map(str, base.keys), *map(write_aggregate, base.aggregates))
        withdrawn = self._whole is None and may_withdraw(below)
        ticks = None if base.keys else self._totals()
        return AggregateNode(below, len(base.keys), calls, withdrawn, names, self._whole, ticks, self._label)

    def _totals(self) -> TicksNode | None:
        """What tells an aggregate without keys that there is an answer to give."""
        return None

    # Joins

    def _cluster(self, node: Node) -> Cluster:
        """The inputs that are joined together."""
        return collect_cluster(node)

    def _inner(self, cluster: Cluster, outputs: tuple[Expression, ...]) -> PlanNode:
        """Inner joins of any number of inputs: of streams as one, if equalities connect them, else one after
        the other."""
        if self._multiway and can_join_many(cluster):
            return self._many_join(cluster, outputs)
        items, order = cluster.items, order_joins(cluster)
        growing = growing_items(cluster)
        if len(growing) > 1:  # they are joined as one, and then with tables
            order = [*growing, *(item for item in order if item not in growing)]
        wanted = cluster.conditions
        read = {part: columns_of(part) for part in wanted}
        plan: PlanNode | None = None
        have: list[int] = []  # columns of the cluster that the plan gives, in order
        joined: set[int] = set()
        at = 0
        while at < len(order):
            pair = order[: max(2, len(growing))] if at == 0 else order[at : at + 1]
            joined |= set(pair)
            known = {column for item in joined for column in cluster.columns(item)}
            now = tuple(part for part in wanted if read[part] <= known)
            wanted = tuple(part for part in wanted if not read[part] <= known)
            keep = [i for i in columns_in(*outputs, *wanted) if i in known]
            if at == 0 and len(growing) > 1:
                plan = self._ordered_join(cluster, pair, now, keep)
            elif at == 0 and self._is_window_join(*(items[i] for i in pair)):
                plan = self._window_join(cluster, pair, now, keep)
            else:
                if plan is None:
                    have = [
                        i for i in columns_in(*now, *map(cluster.column, keep)) if cluster.owner(i) == pair[0]
                    ]
                    plan = self.plan(items[pair[0]], cluster.local(have), True)
                item = pair[-1]
                right = [i for i in columns_in(*now, *map(cluster.column, keep)) if cluster.owner(i) == item]
                other = self.plan(items[item], cluster.local(right), True)
                plan = self._pair("inner", plan, other, have, right, now, keep, cluster.column)
            have = keep
            at += len(pair)
        assert plan is not None, "a join has two inputs or more"
        places = {column: place for place, column in enumerate(have)}
        return select(plan, moved(conjunction(wanted), places), moved_all(outputs, places))

    def _is_window_join(self, *items: Node) -> bool:
        """Whether the shared window join can run it: two streams through RANGE windows."""
        bases = [flatten_input(item).base for item in items]
        scans = [base for base in bases if isinstance(base, StreamScan)]
        if self._whole is not None:
            return False
        return self._approach != "nta" and len(scans) == 2 and all(s.window.kind == "range" for s in scans)

    def _ordered_join(
        self, cluster: Cluster, growing: Sequence[int], now: tuple[Expression, ...], keep: Sequence[int]
    ) -> PlanNode:
        """The join of streams without windows, on columns that grow."""
        columns = [column for item in growing for column in cluster.columns(item)]
        places = {column: place for place, column in enumerate(columns)}
        parts = tuple(part for one in now for part in conjuncts(moved(one, places)))
        inputs = tuple(cluster.items[item] for item in growing)
        own = Cluster(inputs, parts, moved_all(tuple(map(cluster.column, keep)), places), cluster.position)
        return plan_ordered(own, own.outputs, self._evict)

    def _window_join(
        self, cluster: Cluster, pair: Sequence[int], now: tuple[Expression, ...], keep: Sequence[int]
    ) -> PlanNode:
        """The shared join of two streams, with the time at which each pair leaves."""
        left, right = (cluster.items[i] for i in pair)
        columns = [*cluster.columns(pair[0]), *cluster.columns(pair[1])]
        places = {column: place for place, column in enumerate(columns)}
        condition = moved(conjunction(now), places)
        join = Join("inner", left, right, condition, cluster.position)
        outputs = moved_all(tuple(map(cluster.column, keep)), places)
        node = plan_join(join, (), outputs, times=True)
        scans = [flatten_input(item).base for item in (left, right)]
        sizes = [scan.window.size for scan in scans if isinstance(scan, StreamScan)]
        return LifetimeNode(node, (sizes[0], sizes[1]), self._hops, self._taat, self._label)

    def _many_join(self, cluster: Cluster, outputs: tuple[Expression, ...]) -> PlanNode:
        """The shared join of three or more streams, with the time at which each of its rows leaves."""
        keep = columns_in(*outputs)
        node = plan_many(cluster, tuple(map(cluster.column, keep)), times=True)
        scans = [flatten_input(item).base for item in cluster.items]
        sizes = tuple(scan.window.size for scan in scans if isinstance(scan, StreamScan))
        places = {column: place for place, column in enumerate(keep)}
        return select(LifetimeNode(node, sizes, label=self._label), None, moved_all(outputs, places))

    def _match(self, join: Join, needed: Sequence[int]) -> PlanNode:
        """Outer, semi and anti joins: both inputs show each row leave."""
        width = len(join.left.fields)
        left, right = join.left, join.right
        conditions: list[Expression] = []
        for part in simplify_all(conjuncts(join.condition)):
            side = side_of(part, width)
            if side == "right" and join.kind in ("left", "semi", "anti"):
                right = Filter(right, move_columns(part, lambda i: i - width))
            elif side == "left" and join.kind in ("right", "semi"):
                left = Filter(left, part)
            else:
                conditions.append(part)
        used = columns_in(*conditions, *(column_of(join, i) for i in needed))
        lefts, rights = [i for i in used if i < width], [i for i in used if i >= width]
        plans = self.plan(left, lefts, True), self.plan(right, [i - width for i in rights], True)
        one, two = expired(plans[0]), expired(plans[1])
        column = partial(column_of, join)
        return self._pair(join.kind, one, two, lefts, rights, tuple(conditions), needed, column)

    def _pair(
        self,
        kind: JoinKind,
        left: PlanNode,
        right: PlanNode,
        lefts: Sequence[int],
        rights: Sequence[int],
        conditions: tuple[Expression, ...],
        keep: Sequence[int],
        column: Callable[[int], Column],
    ) -> PlanNode:
        """A join of two plans. lefts, rights: what their columns are called in `conditions` and `keep`."""
        places = {column: place for place, column in enumerate([*lefts, *rights])}
        local = tuple(part for one in conditions for part in conjuncts(moved(one, places)))
        width = len(lefts)
        pairs = {part: found for part in local if (found := equality_of(part, width))}
        residual = conjunction(tuple(part for part in local if part not in pairs))
        left, left_keys = with_keys(left, tuple(one for one, _ in pairs.values()), 0)
        right, right_keys = with_keys(right, tuple(two for _, two in pairs.values()), width)
        more = len(plan_types(left)) - width  # keys that had to be computed stand behind the left's columns
        if more and residual is not None:
            residual = move_columns(residual, lambda i: i + more if i >= width else i)
        instants = has_rows((left, right))
        above: Expression | None = None
        if kind == "inner" and (takes_back(left) or takes_back(right)):
            residual, above = None, residual  # a select knows what to do with rows that do not last
        text = " AND ".join(f"{one} = {two}" for one, two in pairs.values())
        node = ChangeJoinNode(
            kind, left, right, left_keys, right_keys, residual, instants, text, self._whole, self._label
        )
        types = plan_types(node)
        at = {i: places[i] + (more if places[i] >= width else 0) for i in keep}
        return select(node, above, tuple(Column(types[at[i]], at[i], column(i).name) for i in keep))


def window_columns(
    scan: StreamScan, predicate: Expression | None, outputs: tuple[Expression, ...]
) -> tuple[PlanNode, tuple[int, ...], dict[int, int]]:
    """What a ROWS window reads of its stream: the columns, those it is partitioned by, where each is now."""
    names = [field.name.lower() for field in scan.fields]
    partition = [names.index(name.lower()) for name in scan.window.partition]
    used = sorted({*columns_in(predicate, *outputs), *partition})
    places = {column: place for place, column in enumerate(used)}
    types = tuple(scan.fields[i].type for i in used)
    return SourceNode(scan.stream, types, tuple(used)), tuple(places[i] for i in partition), places


def column_of(node: Node, index: int) -> Column:
    field = node.fields[index]
    return Column(field.type, index, f"{field.source}.{field.name}" if field.source else field.name)


def with_keys(node: PlanNode, keys: tuple[Expression, ...], first: int) -> tuple[PlanNode, tuple[int, ...]]:
    """The node with its keys as columns, and where they are; computed ones are put behind the others."""
    local = tuple(move_columns(key, lambda i: i - first) for key in keys)
    if all(isinstance(key, Column) for key in local):
        return node, tuple(key.index for key in local if isinstance(key, Column))
    types = plan_types(node)
    own = tuple(Column(type_, i, f"#{i}") for i, type_ in enumerate(types))
    computed = tuple(dict.fromkeys(key for key in local if not isinstance(key, Column)))
    places = tuple(key.index if isinstance(key, Column) else len(own) + computed.index(key) for key in local)
    return SelectNode(node, None, own + computed), places


def select(node: PlanNode, predicate: Expression | None, outputs: tuple[Expression, ...]) -> PlanNode:
    """A select, left out where it would change nothing."""
    width = len(plan_types(node))
    same = len(outputs) == width and all(
        isinstance(o, Column) and o.index == i for i, o in enumerate(outputs)
    )
    if predicate is None and same:
        return node
    if isinstance(node, SelectNode) and node.predicate is None and node.outputs is not None:
        below = None if predicate is None else substitute(predicate, node.outputs)
        return SelectNode(node.input, below, tuple(substitute(one, node.outputs) for one in outputs))
    return SelectNode(node, predicate, outputs)


def has_rows(plans: Sequence[PlanNode]) -> bool:
    """Whether there are ROWS windows, whose changes come when an instant is over."""
    return any(is_rows(node) for plan in plans for node in plan_nodes(plan))


def is_rows(node: PlanNode) -> bool:
    return isinstance(node, ArriveNode) and node.window.kind == "rows"


def may_withdraw(node: PlanNode) -> bool:
    """Whether a -1 can come out."""
    match node:
        case AggregateNode() | SetOperationNode() | ExpireNode() | HopDeltaNode() | PaneAggregateNode():
            return True
        case StoredWindowNode():
            return not node.whole
        case ChangeJoinNode() if node.kind != "inner":
            return True
        case ArriveNode():
            return node.window.kind == "rows"
        case _:
            return any(map(may_withdraw, plan_inputs(node)))


def has_ends(node: PlanNode) -> bool:
    """Whether rows can come out that leave by themselves."""
    match node:
        case AggregateNode() | SetOperationNode() | ExpireNode() | PaneAggregateNode() | StoredWindowNode():
            return False
        case HopAnswerNode() | HopDeltaNode():
            return False
        case ChangeJoinNode() if node.kind != "inner":
            return False
        case ArriveNode():
            return node.window.kind == "range" and node.window.size is not None
        case LifetimeNode():
            return any(node.sizes)
        case _:
            return any(map(has_ends, plan_inputs(node)))


def expired(node: PlanNode) -> PlanNode:
    """The same with a -1 for each row that leaves."""
    return ExpireNode(node) if has_ends(node) else node


def netting_of(node: PlanNode) -> Netting:
    """Whether changes of one instant can cancel each other."""
    if not takes_back(node):
        return "none"
    if isinstance(node, SelectNode) and node.outputs is not None:
        kept = {output.index for output in node.outputs if isinstance(output, Column)}
        if kept == set(range(len(plan_types(node.input)))):
            node = node.input
    return "between" if isinstance(node, AggregateNode | SetOperationNode) else "all"
