"""Inner joins of three or more streams through RANGE windows, as one join, if equalities connect them all.

Expressions that equalities connect, over however many of them, are one variable: `a.k = b.k AND b.k = c.k`
and `c.k = a.k AND a.k = b.k` are the same join. Of a stream that has several expressions of one variable, one
is its key. Conditions that keys do not say, comparisons among them, are checked on the rows that are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.expression import FALSE, Call, Expression, columns_of, conjunction, move_columns
from penstock.engine.plan import ManyJoinNode, PlanNode, SideNode

from .flatten_input import flatten_input, substitute
from .logical import StreamScan
from .order_joins import Cluster
from .plan_streams import SideInput, filter_of, select, side_input, time_of
from .prune_columns import columns_in, moved, moved_all
from .simplify_condition import simplify_all
from .simplify_value import order_of

Term = tuple[int, Expression]
"""An expression over the columns of one stream, by the stream's place in the join."""


def can_join_many(cluster: Cluster, rows: bool = False) -> bool:
    """Whether the inputs can be joined as one; rows: also through ROWS windows."""
    bases = [flatten_input(item).base for item in cluster.items]
    if len(bases) < 3 or not all(isinstance(base, StreamScan) for base in bases):
        return False
    windows = [base.window for base in bases if isinstance(base, StreamScan)]
    if any(window.partition or (window.kind == "rows" and not rows) for window in windows):
        return False
    sides = list(map(side_input, cluster.items))
    reached, left = {0}, equated(conditions_of(cluster, sides), sides)
    while left:
        more = [pair for pair in left if reached & {one for one, _ in pair}]
        if not more:
            break
        reached |= {one for pair in more for one, _ in pair}
        left = [pair for pair in left if pair not in more]
    return len(reached) == len(sides)


def plan_many(cluster: Cluster, outputs: tuple[Expression, ...], times: bool = False) -> PlanNode:
    """The join of a cluster that can be joined as one; times: the ts of all rows come behind the outputs."""
    sides = list(map(side_input, cluster.items))
    starts = starts_of(sides)
    columns = columns_of_all(sides)
    outputs = tuple(substitute(output, columns) for output in outputs)
    if times:
        outputs += tuple(ahead(time_of(side.base), start) for side, start in zip(sides, starts, strict=True))
    # 1. on one stream, by keys, on what is found
    parts = conditions_of(cluster, sides)
    predicates: list[list[Expression]] = [list(side.predicates) for side in sides]
    between = []
    for part in parts:
        owners = {owner_of(index, starts) for index in columns_of(part)}
        if len(owners) > 1:
            between.append(part)
        elif part == FALSE:
            for own in predicates:
                own.append(part)
        else:
            owner = owners.pop() if owners else 0
            predicates[owner].append(ahead(part, -starts[owner]))
    variables = variables_of(equated(parts, sides))
    keys: list[list[Expression]] = [[] for _ in sides]
    numbers: list[list[int]] = [[] for _ in sides]
    for number, variable in enumerate(variables):
        for side, expression in variable.items():
            keys[side].append(expression)
            numbers[side].append(number)
    served = {(side, expression) for variable in variables for side, expression in variable.items()}
    rest = tuple(part for part in between if not ((pair := pair_of(part, sides)) and set(pair) <= served))
    # 2. what is read
    used = columns_in(*outputs, *rest)
    nodes = []
    for number, one in enumerate(sides):
        kept = tuple(i - starts[number] for i in used if owner_of(i, starts) == number)
        predicate = filter_of(tuple(predicates[number]))
        nodes.append(SideNode(one.window, predicate, tuple(keys[number]), kept, "hash"))
    node = ManyJoinNode(tuple(side.source for side in sides), tuple(nodes), tuple(map(tuple, numbers)))
    places = {column: place for place, column in enumerate(used)}
    return select(node, moved(conjunction(rest), places), moved_all(outputs, places))


def starts_of(sides: Sequence[SideInput]) -> list[int]:
    """Where the columns of each stream begin, all of them in a row."""
    starts = [0]
    for side in sides[:-1]:
        starts.append(starts[-1] + len(side.base.fields))
    return starts


def columns_of_all(sides: Sequence[SideInput]) -> tuple[Expression, ...]:
    """What the columns of the inputs are, over those of the streams."""
    return tuple(
        ahead(output, start)
        for side, start in zip(sides, starts_of(sides), strict=True)
        for output in side.outputs
    )


def conditions_of(cluster: Cluster, sides: Sequence[SideInput]) -> tuple[Expression, ...]:
    """What is said of the rows together, over the columns of the streams."""
    columns = columns_of_all(sides)
    return simplify_all(tuple(substitute(part, columns) for part in cluster.conditions))


def ahead(expression: Expression, by: int) -> Expression:
    return move_columns(expression, lambda i: i + by)


def owner_of(column: int, starts: Sequence[int]) -> int:
    return max(number for number, start in enumerate(starts) if start <= column)


def pair_of(part: Expression, sides: Sequence[SideInput]) -> tuple[Term, Term] | None:
    """The two sides of an equality between two streams."""
    if not (isinstance(part, Call) and part.function == "equal"):
        return None
    starts = starts_of(sides)
    terms: list[Term] = []
    for one in part.arguments:
        owners = {owner_of(index, starts) for index in columns_of(one)}
        if len(owners) != 1:
            return None
        (owner,) = owners
        terms.append((owner, ahead(one, -starts[owner])))
    return None if terms[0][0] == terms[1][0] else (terms[0], terms[1])


def equated(parts: Sequence[Expression], sides: Sequence[SideInput]) -> list[tuple[Term, Term]]:
    """What equalities between streams equate."""
    return [pair for part in parts if (pair := pair_of(part, sides))]


def variables_of(pairs: Sequence[tuple[Term, Term]]) -> list[dict[int, Expression]]:
    """What is equal, each as one expression per stream: the first of several, in an order of expressions."""
    classes: list[set[Term]] = []
    for pair in pairs:
        meets = [one for one in classes if one & set(pair)]
        classes = [one for one in classes if one not in meets] + [set(pair).union(*meets)]
    found = []
    for one in classes:
        terms = sorted(one, key=lambda term: (term[0], order_of(term[1])))
        keys: dict[int, Expression] = {}
        for side, expression in terms:
            keys.setdefault(side, expression)
        found.append(keys)
    return found
