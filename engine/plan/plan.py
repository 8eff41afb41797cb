"""What the engine is asked to run: a tree of frozen nodes, chosen by the optimizer, executed as it stands.

Columns are positions in the input. A plan holds no state; running it twice gives two runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.engine.expressions.expression import Call, Expression, conjunction, conjuncts
from penstock.engine.rows.band import Band
from penstock.engine.rows.hops import Hops
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER, Window


@dataclass(frozen=True, slots=True)
class SideNode:
    """One side of a join: its window, which of the window's rows take part, its key (several columns:
    equality of all), the columns it passes on. A row that takes no part still counts in a ROWS window."""

    window: Window
    predicate: Expression | None
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Rows of a stream: the columns at these positions, None for all. `types` are theirs."""

    stream: str
    types: tuple[SqlType, ...]
    columns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class WindowNode:
    """The rows of a ROWS window as they enter it: those not displaced at their own instant."""

    input: PlanNode
    window: Window


@dataclass(frozen=True, slots=True)
class SelectNode:
    """Rows for which `predicate` is true, as `outputs`; None: all rows, all columns."""

    input: PlanNode
    predicate: Expression | None
    outputs: tuple[Expression, ...] | None


@dataclass(frozen=True, slots=True)
class SharedSelectNode(SelectNode):
    """A select over a stream that is run together with the others over it; a select alone if there are none.
    One over a ROWS window of a stream is run with those over other ROWS windows of it.

    The same over all columns of the stream: rows that satisfy `common_predicate` come with these `columns`;
    `projection`, over them, makes the outputs, None if they are the outputs.
    """

    common_predicate: Expression | None
    columns: tuple[int, ...]
    projection: tuple[Expression, ...] | None

    @property
    def stream(self) -> str:
        source = self.input.input if isinstance(self.input, WindowNode) else self.input
        assert isinstance(source, SourceNode), "a select that is shared reads a stream"
        return source.stream

    @property
    def is_windowed(self) -> bool:
        """Whether it reads a ROWS window."""
        return isinstance(self.input, WindowNode)


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Pairs whose keys satisfy `condition` (None: all pairs); gives left.columns, then right.columns."""

    left: PlanNode
    right: PlanNode
    left_side: SideNode
    right_side: SideNode
    condition: Band | None


@dataclass(frozen=True, slots=True)
class Between:
    """Of a join of many streams: what variable `right` is less variable `left` lies in a band."""

    left: int
    right: int
    band: Band


@dataclass(frozen=True, slots=True)
class ManyJoinNode:
    """Rows of three or more streams, one of each: gives the columns of all sides in order.

    variables: per side, of each key the number of what it must be equal to; keys with one number are equal.
    """

    inputs: tuple[PlanNode, ...]
    sides: tuple[SideNode, ...]
    variables: tuple[tuple[int, ...], ...]
    bands: tuple[Between, ...] = ()


OrderedKind = Literal["inner", "left", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class OrderedJoinNode:
    """Rows of two and more streams, one of each, through no windows: the first key of each side is a column
    that grows, and all of these are equal. Gives the columns of all sides in order.

    variables: as of a join of many streams. ordered: of each stream, the column that grows, by its place in
    the declaration; per: of each, the variables that are the columns its order is PER, none if it is one
    sequence. evict: when a row goes. key: no row to come can have its key; fifo: as many have come
    behind it as the paper's buffer holds.
    kind: of two streams also left, full, semi and anti; semi and anti give the columns of the first side. The
    residual, over the columns of both sides, is what else makes rows partners in these.
    """

    inputs: tuple[PlanNode, ...]
    sides: tuple[SideNode, ...]
    variables: tuple[tuple[int, ...], ...]
    ordered: tuple[int, ...]
    evict: Literal["key", "fifo"] = "key"
    kind: OrderedKind = "inner"
    residual: Expression | None = None
    per: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class FinalGroupNode:
    """A row per group of rows, given once, when no row to come can be in it: keys, then the calls.

    columns: over those of the input, of rows that satisfy the predicate: the keys, of which the first grows,
    then the arguments of the calls. ordered: of a stream, the column that grows, by its place in the
    declaration; None: the input is a join on such columns.
    """

    input: PlanNode
    predicate: Expression | None
    columns: tuple[Expression, ...]
    keys: int
    calls: tuple[AggregateCallNode, ...]
    ordered: int | None
    names: tuple[str, ...] = field(default=(), compare=False)
    """Keys and aggregates, for people."""


@dataclass(frozen=True, slots=True)
class CommonSide:
    """One side of what joins have in common: keys, over all columns of the stream, and the kind of every
    member's window on this side."""

    stream: str
    kind: Literal["range", "rows"]
    keys: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class CommonJoin:
    """What joins must have in common to share their state: streams, kinds of window, keys, condition.

    `owner` is the query that shares with nobody; None: any query may join in. strategy, and the indexes of
    left and right: as all its queries force them; None: as the engine was told.
    """

    left: CommonSide
    right: CommonSide
    condition: Band | None
    owner: str | None = None
    strategy: str | None = None
    indexes: tuple[str | None, str | None] | None = None

    @property
    def sides(self) -> tuple[CommonSide, CommonSide]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class CommonManyJoin:
    """The same of joins of three or more streams: their sides, which keys are equal, which lie in a band."""

    sides: tuple[CommonSide, ...]
    variables: tuple[tuple[int, ...], ...]
    bands: tuple[Between, ...] = ()
    owner: str | None = None
    strategy: str | None = None


@dataclass(frozen=True, slots=True)
class MemberSide:
    """One side of a query's share in a common join: over all columns of the stream."""

    window: Window
    predicate: Expression | None
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemberNode:
    """What `join` would give, taken from a join in common; `sides` are as there, swapped against `join`'s.

    order: of a join of many streams, the number in common of each of `join`'s sides.
    """

    join: JoinNode | ManyJoinNode
    common: CommonJoin | CommonManyJoin
    sides: tuple[MemberSide, ...]
    swapped: bool = False
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionNode:
    """Rows of all inputs in time order. instants: rows of one ts together, once that instant is over."""

    inputs: tuple[PlanNode, ...]
    label: str = field(default="", compare=False)
    instants: bool = False


@dataclass(frozen=True, slots=True)
class TableNode:
    """Rows of a static table, all there before the first row of any stream and for ever."""

    table: str
    types: tuple[SqlType, ...]
    columns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ArriveNode:
    """Rows of a window as changes: those of a RANGE window enter with their ets, those of a ROWS window enter
    and are withdrawn. `partition`: columns of the input, for a ROWS window each."""

    input: PlanNode
    window: Window
    partition: tuple[int, ...] = ()
    hops: Hops | None = None
    taat: bool = False
    """In a hopping query: rows do not wait until their hop is over."""
    label: str = field(default="", compare=False)
    """The operator of a hopping query this is and its mode, for people; so below."""


@dataclass(frozen=True, slots=True)
class LifetimeNode:
    """Pairs of a join of two streams, or rows of a join of more, with the ets they have: the earliest of
    their rows'.

    The last columns of the input, one per stream, are the rows' ts, and are not passed on. sizes: of the
    windows, None if unbounded.
    """

    input: PlanNode
    sizes: tuple[int | None, ...]
    hops: Hops | None = None
    taat: bool = False
    label: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class StoredWindowNode:
    """Rows of a RANGE or ROWS window of a stream that satisfy `predicate`, the columns that `input` names, as
    they enter it and, as -1, when they leave. They are kept once for all such windows over the stream.

    predicate: over all columns of the stream; None for a ROWS window, in which all rows count.
    announced: rows that enter say by their ets when the -1 comes.
    hops: rows come and leave at boundaries; whole: all that are there are given at each of them; changed: of
    a ROWS window or an unbounded one, at those only at which rows have come.
    partition: columns of the stream, for a ROWS window each.
    checked: of all columns of the stream, what is made of rows above it at boundaries and may fail: a row on
    which it does fails when it comes, also if no boundary sees it.
    """

    input: SourceNode
    window: Window
    predicate: Expression | None
    announced: bool = False
    hops: Hops | None = None
    whole: bool = False
    changed: bool = False
    partition: tuple[int, ...] = ()
    label: str = field(default="", compare=False)
    checked: tuple[Expression, ...] = ()

    @property
    def size(self) -> int:
        """FOREVER if unbounded, of which whole answers alone are given."""
        return FOREVER if self.window.size is None else self.window.size

    @property
    def columns(self) -> tuple[int, ...]:
        assert self.input.columns is not None, "the columns are named"
        return self.input.columns

    @property
    def sides(self) -> tuple[MemberSide, MemberSide]:
        """As a member of a join of which it has one side only.

        What leaves at a boundary is needed until that is over: rows of a RANGE window for a hop more.
        """
        window = self.window
        if self.hops is not None and window.kind == "range" and window.size is not None:
            window = replace(window, size=window.size + self.hops.size)
        predicate = conjunction((*conjuncts(self.predicate), *map(is_made, self.checked)))
        return MemberSide(window, predicate, self.columns), MemberSide(window, None, ())


def is_made(expression: Expression) -> Expression:
    """A condition that is true if the expression does not fail."""
    is_null = Call(SqlType.BOOLEAN, "is_null", (expression,))
    return Call(SqlType.BOOLEAN, "not", (Call(SqlType.BOOLEAN, "is_null", (is_null,)),))


@dataclass(frozen=True, slots=True)
class AtTicksNode:
    """What a ROWS window or an unbounded one holds at each tick; `input` gives it whole where it has
    changed."""

    input: StoredWindowNode
    ticks: TicksNode


@dataclass(frozen=True, slots=True)
class ExpireNode:
    """The same rows without ets: what leaves by itself in the input is withdrawn by a -1 at that time."""

    input: PlanNode


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class ChangeJoinNode:
    """A join of any two inputs. Keys: columns of each side, equal in pairs; NULL equals nothing.

    residual: over the left's columns, then the right's. Gives left's columns, then right's; semi and anti
    joins left's only. An outer join gives a row without a partner once, with NULLs.
    instants: rows of one ts are joined together, once that instant is over.
    whole: both inputs give their whole answer at each of these hops, and so does the join.
    """

    kind: JoinKind
    left: PlanNode
    right: PlanNode
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    residual: Expression | None
    instants: bool = False
    text: str = field(default="", compare=False)
    """The keys' condition, for people."""
    whole: Hops | None = None
    label: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AggregateCallNode:
    """An aggregate over a column of the input; `argument` None: COUNT(*)."""

    function: Literal["count", "sum", "avg", "min", "max"]
    argument: int | None
    distinct: bool
    type: SqlType


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """A row per group: the first `keys` columns of the input are its key, then come the aggregates.

    Without keys there is always one row. withdrawn: whether -1 may come in; without them MIN and MAX need to
    keep only what can still become the answer.
    whole: the input gives its whole answer at each of these hops, and so does this. Without keys `ticks` say
    the hops, for there is a row at those without rows too.
    """

    input: PlanNode
    keys: int
    calls: tuple[AggregateCallNode, ...]
    withdrawn: bool
    names: tuple[str, ...] = field(default=(), compare=False)
    """Keys and aggregates, for people."""
    whole: Hops | None = None
    ticks: TicksNode | None = None
    label: str = field(default="", compare=False)
    announced: bool = False
    """Each row that enters says when it will be withdrawn, and so MIN and MAX need keep no more either."""


@dataclass(frozen=True, slots=True)
class SetOperationNode:
    """Rows by how often they come: DISTINCT (one input), UNION, INTERSECT [ALL], EXCEPT [ALL] (two).

    whole: the inputs give their whole answers at each of these hops, and so does this.
    """

    kind: Literal["distinct", "union", "intersect", "except"]
    all: bool
    inputs: tuple[PlanNode, ...]
    whole: Hops | None = None
    label: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class HopAnswerNode:
    """The whole answer at every boundary of a hopping query, from changes.

    ticks: say the hops, if there may be an answer before anything has come and this is not the whole query.
    """

    input: PlanNode
    hops: Hops
    ticks: TicksNode | None = None


@dataclass(frozen=True, slots=True)
class HopDeltaNode:
    """Changes at every boundary of a hopping query, from its whole answers.

    ticks: say at which boundaries there is an answer to compare, if what is below is said at ticks.
    """

    input: PlanNode
    hops: Hops
    ticks: TicksNode | None = None


@dataclass(frozen=True, slots=True)
class WholeWindowNode:
    """All rows of a window at every boundary; `partition` as in ArriveNode.

    ticks: say at which boundaries, if those are left out at which nothing can have changed.
    """

    input: PlanNode
    window: Window
    partition: tuple[int, ...]
    hops: Hops
    label: str = field(default="", compare=False)
    ticks: TicksNode | None = None


@dataclass(frozen=True, slots=True)
class TicksNode:
    """A row without columns at every boundary of a query that reads these streams.

    window: the longest bounded RANGE window, 0 if there is none, if only boundaries count at which a row
    comes or one of those windows may hold a row or has lost its last; in between the answer stays what it is.
    """

    inputs: tuple[PlanNode, ...]
    hops: Hops
    window: int | None = None


@dataclass(frozen=True, slots=True)
class WholeTableNode:
    """All rows of the input, a static table's, at every boundary."""

    input: PlanNode
    ticks: TicksNode


@dataclass(frozen=True, slots=True)
class PaneCall:
    """An aggregate over an expression of the stream's columns; `argument` None: COUNT(*)."""

    function: Literal["count", "sum", "avg", "min", "max"]
    argument: Expression | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class CommonPanes:
    """What hopping aggregates must have in common to share panes; over all columns of the stream.

    `owner` is the query that shares with nobody; None: any query may join in.
    """

    stream: str
    predicate: Expression | None
    keys: tuple[Expression, ...]
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class PaneAggregateNode:
    """A row per group of a stream's rows through a RANGE window of `size`, at each boundary: its keys, then
    the calls. Without keys there is always one row.

    emit: the whole answer, or how it differs from that of the boundary before.
    """

    input: SourceNode
    common: CommonPanes
    size: int
    hops: Hops
    calls: tuple[PaneCall, ...]
    emit: Literal["complete", "delta"]
    names: tuple[str, ...] = field(default=(), compare=False)
    """Keys and aggregates, for people."""
    label: str = field(default="", compare=False)


PlanNode = (
    SourceNode
    | WindowNode
    | SelectNode
    | JoinNode
    | ManyJoinNode
    | OrderedJoinNode
    | FinalGroupNode
    | MemberNode
    | UnionNode
    | TableNode
    | ArriveNode
    | LifetimeNode
    | StoredWindowNode
    | AtTicksNode
    | ExpireNode
    | ChangeJoinNode
    | AggregateNode
    | SetOperationNode
    | HopAnswerNode
    | HopDeltaNode
    | WholeWindowNode
    | WholeTableNode
    | TicksNode
    | PaneAggregateNode
)
