"""Where difference, semi and anti joins may be moved past an inner join: every rule, with its conditions.

A bag has each row so many times: m(a). An inner join gives m(a) m(c) for each pair that satisfies its
condition, EXCEPT ALL max(mA - mB, 0), EXCEPT 1 where mA > 0 and mB = 0.

pull_difference      (A - B) JOIN C   =   (A JOIN C) - (B JOIN C)
    EXCEPT ALL       always: max(mA - mB, 0) mC = max(mA mC - mB mC, 0)
    EXCEPT           if C has no row twice, or if nobody above cares how often a row is there; else the left
                     has a row as often as C does, the right once
    columns          all columns of A and B are compared, none is lost on the way: a row of A that differs
                     from a row of B may look like it without the column that tells them apart
    NULL             equals NULL in a difference and never in a join: rows of A and B that are the same join
                     the same rows of C, or none
    condition        must tell equal rows alike: 0.0 and -0.0 are the same to a difference, not to a division
                     or to a cast to text. Only comparisons of columns and constants are let through; they
                     cannot fail either, on rows that the difference would have taken away

factor_difference    (A JOIN C) - (B JOIN C)   =   (A - B) JOIN C
    the other way round, for queries that are written so. C must be the same relation on both sides, joined
    by equality with the same expressions of C; each column that is compared is of C on both sides (the
    same), or of A and B; and the keys must be among what is compared, on either side of the equality. Else
    A - B would compare more than the query does. What is compared cannot fail: it is evaluated for rows that
    join with nothing, too.
    EXCEPT ALL       as it stands
    EXCEPT           with C's rows made distinct, unless nobody above cares

order_hopping_joins         (A ANTI JOIN B) JOIN C   =   (A JOIN C) ANTI JOIN B       (and SEMI JOIN)
    set and bag      always: a row of A is there or not, whatever it is joined with; C's duplicates stay
    columns          B is compared with columns of A alone. If its condition reads C too, it stays above
    NULL             a comparison with NULL is no match, above the join as below it
    condition        cannot fail: it is evaluated for other rows than before
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.engine.expressions.expression import (
    Call,
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    move_columns,
    walk,
)
from penstock.engine.rows.types import SqlType
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    Node,
    Position,
    Project,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
)

from .flatten_input import flatten_input, named
from .order_joins import Cluster, gather

PLAIN = (
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "is_null",
    "and",
    "or",
    "not",
    "in",
)
NOWHERE = Position(0, 0)


def pull_difference(join: Join, sets: bool = False) -> SetOperation | None:
    """(A - B) JOIN C as (A JOIN C) - (B JOIN C); sets: nobody above cares how often a row is there."""
    difference = difference_of(join.left)
    if join.kind != "inner" or difference is None or not is_plain(conjuncts(join.condition)):
        return None
    if not (difference.all or sets or has_no_duplicates(join.right)):
        return None
    return replace(
        difference,
        left=replace(join, left=difference.left),
        right=replace(join, left=difference.right),
    )


def difference_of(node: Node) -> SetOperation | None:
    """A difference, with filters above it put into both its inputs; None if a projection stands above it."""
    flat = flatten_input(node)
    base = flat.base
    if not (isinstance(base, SetOperation) and base.kind == "except" and is_plain(flat.predicates)):
        return None
    if any(not isinstance(one, Column) or one.index != i for i, one in enumerate(flat.outputs)):
        return None
    if len(flat.outputs) != len(base.fields):
        return None
    predicate = conjunction(flat.predicates)
    if predicate is None:
        return base
    return replace(base, left=Filter(base.left, predicate), right=Filter(base.right, predicate))


def factor_difference(node: SetOperation, sets: bool = False) -> Node | None:
    """(A JOIN C) - (B JOIN C) as (A - B) JOIN C, with the columns in the order they had."""
    if node.kind != "except":
        return None
    left, right = gather(node.left, node.position), gather(node.right, node.position)
    pairs = common_items(left.items, right.items)
    if not pairs or len(pairs) in (len(left.items), len(right.items)):
        return None
    return Factoring(node, left, right, pairs).result(sets)


class Factoring:
    """One application of factor_difference: what is common is taken out of both inputs."""

    def __init__(
        self, node: SetOperation, left: Cluster, right: Cluster, pairs: Sequence[tuple[int, int]]
    ) -> None:
        self.node = node
        self.clusters = left, right
        self.common = [one for one, _ in pairs], [two for _, two in pairs]
        self.to_left: dict[int, int] = {}
        """The common part's columns on the right, and which ones of the left they are."""
        for one, two in pairs:
            self.to_left |= dict(zip(right.columns(two), left.columns(one), strict=True))

    def result(self, sets: bool) -> Node | None:
        node, (left, _) = self.node, self.clusters
        keys = self.keys()
        outputs = self.outputs()
        if keys is None or outputs is None:
            return None
        own, shared = outputs
        for a, b, c in keys:
            if (a, b) not in own.values() and c not in shared.values():
                return None
        # 1. A - B: what is compared of them, and the keys
        columns = list(dict.fromkeys([*own.values(), *((a, b) for a, b, _ in keys)]))
        parts = [self.project(side, self.apart(side), [pair[side] for pair in columns]) for side in (0, 1)]
        difference = replace(node, left=parts[0], right=parts[1])
        # 2. C: what is compared of it, and the keys
        others = list(dict.fromkeys([*shared.values(), *(c for _, _, c in keys)]))
        common = self.project(0, self.common[0], others)
        if not node.all and not sets and not has_no_duplicates(common):
            common = Distinct(common, node.position)
        # 3. their join
        width = len(columns)
        equalities = tuple(
            Call(
                SqlType.BOOLEAN,
                "equal",
                (
                    Column(a.type, columns.index((a, b)), str(a)),
                    Column(c.type, width + others.index(c), str(c)),
                ),
            )
            for a, b, c in keys
        )
        join = Join("inner", difference, common, conjunction(equalities), left.position)
        places = {place: columns.index(pair) for place, pair in own.items()}
        places |= {place: width + others.index(one) for place, one in shared.items()}
        given = tuple(Column(field.type, places[i], named(field)) for i, field in enumerate(node.fields))
        return Project(join, given, node.fields)

    def apart(self, side: int) -> list[int]:
        """Items of one input that are not common."""
        return [i for i in range(len(self.clusters[side].items)) if i not in self.common[side]]

    def is_common(self, side: int, expression: Expression) -> bool | None:
        """Whether an expression reads the common part alone; None if it reads something of both."""
        cluster = self.clusters[side]
        found = {cluster.owner(i) in self.common[side] for i in columns_of(expression)}
        return None if len(found) > 1 else found.pop() if found else False

    def keys(self) -> list[tuple[Expression, Expression, Expression]] | None:
        """(of A, of B, of C) for each equality that joins them; None if they are not joined alike."""
        found: tuple[dict[Expression, Expression], dict[Expression, Expression]] = ({}, {})
        within: tuple[set[Expression], set[Expression]] = (set(), set())
        for side, cluster in enumerate(self.clusters):
            for part in cluster.conditions:
                common = self.is_common(side, part)
                if not columns_of(part) or not is_plain((part,)):  # one of constants belongs to neither part
                    return None
                if common:
                    within[side].add(self.as_left(side, part))
                elif common is None:
                    if not (isinstance(part, Call) and part.function == "equal"):
                        return None
                    sides = {self.is_common(side, one): one for one in part.arguments}
                    if set(sides) != {True, False} or any(not columns_of(one) for one in part.arguments):
                        return None
                    key = self.as_left(side, sides[True])
                    if key in found[side]:
                        return None
                    found[side][key] = sides[False]
        if within[0] != within[1] or set(found[0]) != set(found[1]):
            return None
        if any(found[0][key].type is not found[1][key].type for key in found[0]):
            return None
        return [(found[0][key], found[1][key], key) for key in found[0]]

    def outputs(
        self,
    ) -> tuple[dict[int, tuple[Expression, Expression]], dict[int, Expression]] | None:
        """What is compared, by its place: (of A, of B), and of C; None if one column is not of the same.

        It is worked out for other rows than before, those that join with nothing: it must not fail there.
        """
        own: dict[int, tuple[Expression, Expression]] = {}
        shared: dict[int, Expression] = {}
        for place, (one, two) in enumerate(
            zip(self.clusters[0].outputs, self.clusters[1].outputs, strict=True)
        ):
            common = self.is_common(0, one), self.is_common(1, two)
            if not is_plain((one, two)):
                return None
            if common == (True, True) and one == self.as_left(1, two):
                shared[place] = one
            elif common == (False, False):
                own[place] = one, two
            else:
                return None
        return own, shared

    def as_left(self, side: int, expression: Expression) -> Expression:
        """An expression of the common part, over the left input's columns."""
        return expression if side == 0 else move_columns(expression, self.to_left.__getitem__)

    def project(self, side: int, items: Sequence[int], expressions: Sequence[Expression]) -> Node:
        """Some items of an input joined by the conditions among them, giving the expressions."""
        cluster = self.clusters[side]
        node, columns = join_items(cluster, items)
        places = {column: place for place, column in enumerate(columns)}
        outputs = tuple(move_columns(one, places.__getitem__) for one in expressions)
        fields = tuple(Field(str(one), one.type) for one in expressions)
        return Project(node, outputs, fields)


def join_items(cluster: Cluster, items: Sequence[int]) -> tuple[Node, list[int]]:
    """Items of a cluster joined one after the other by all conditions among them, and their columns."""
    node, columns = cluster.items[items[0]], list(cluster.columns(items[0]))
    placed: set[Expression] = set()
    for item in [None, *items[1:]]:
        if item is not None:
            columns = [*columns, *cluster.columns(item)]
        places = {column: place for place, column in enumerate(columns)}
        now = [
            part
            for part in cluster.conditions
            if part not in placed and columns_of(part) <= set(columns) and columns_of(part)
        ]
        placed |= set(now)
        condition = conjunction(tuple(move_columns(part, places.__getitem__) for part in now))
        if item is not None:
            node = Join("inner", node, cluster.items[item], condition, cluster.position)
        elif condition is not None:
            node = Filter(node, condition)
    return node, columns


def common_inputs(node: SetOperation) -> list[tuple[Node, Node]]:
    """What both inputs of a difference are joined with, as it stands on either side."""
    if node.kind != "except":
        return []
    left, right = (gather(one, node.position).items for one in (node.left, node.right))
    return [(left[one], right[two]) for one, two in common_items(left, right)]


def common_items(left: Sequence[Node], right: Sequence[Node]) -> list[tuple[int, int]]:
    """Items that are the same relation on both sides, in pairs."""
    pairs: list[tuple[int, int]] = []
    for one, item in enumerate(left):
        for two, other in enumerate(right):
            if two not in [taken for _, taken in pairs] and nameless(item) == nameless(other):
                pairs.append((one, two))
                break
    return pairs


def is_plain(parts: Iterable[Expression]) -> bool:
    """Whether conditions are made of comparisons of columns and constants: cannot fail, tell equals alike."""
    return all(
        one.function in PLAIN or (one.function == "cast" and is_widening(one))
        for part in parts
        for one in walk(part)
        if isinstance(one, Call)
    )


def is_widening(cast: Call) -> bool:
    return cast.type is SqlType.DOUBLE and cast.arguments[0].type is SqlType.BIGINT


def has_no_duplicates(node: Node) -> bool:
    """Whether no row can be there twice."""
    match node:
        case Distinct() | Aggregate():
            return True
        case SetOperation():
            return not node.all or (node.kind != "union" and has_no_duplicates(node.left))
        case Filter():
            return has_no_duplicates(node.input)
        case Project():
            kept = {one.index for one in node.expressions if isinstance(one, Column)}
            return len(kept) == len(node.input.fields) and has_no_duplicates(node.input)
        case Join(kind="semi" | "anti"):
            return has_no_duplicates(node.left)
        case Join(kind="inner"):
            return has_no_duplicates(node.left) and has_no_duplicates(node.right)
        case _:
            return False


def nameless(node: Node) -> Node:
    """The same without names and places in the text: equal for the same relation, whatever it is called."""
    match node:
        case StreamScan():
            return replace(node, alias="", fields=unnamed(node.fields), position=NOWHERE)
        case TableScan():
            return replace(node, alias="", fields=unnamed(node.fields), position=NOWHERE)
        case Filter():
            return replace(node, input=nameless(node.input))
        case Project() | Aggregate():
            bare = replace(node, input=nameless(node.input), fields=unnamed(node.fields))
            return replace(bare, position=NOWHERE) if isinstance(bare, Aggregate) else bare
        case Distinct():
            return replace(node, input=nameless(node.input), position=NOWHERE)
        case Join() | SetOperation():
            return replace(node, left=nameless(node.left), right=nameless(node.right), position=NOWHERE)
        case UnionAll():
            return replace(node, inputs=tuple(map(nameless, node.inputs)), position=NOWHERE)


def unnamed(fields: Sequence[Field]) -> tuple[Field, ...]:
    return tuple(Field("", field.type) for field in fields)
