"""Inner joins of three or more streams as one join.

Expressions that equalities connect, over however many of them, are one variable: `a.k = b.k AND b.k = c.k`
and `c.k = a.k AND a.k = b.k` are the same join. Of a stream that has several expressions of one variable, one
is its key. Between streams that no equality connects, a comparison that an index could serve is a band
between two variables, as in a join of two (match_condition.py). All other conditions are checked on the rows
that are found.

A stream that neither connects is joined two by two: each of its rows would look for all pairs of the others
anew. Where these hardly ever meet (3,000 rows each, one match in 30) that took 7 times as long as to go
through pairs that are kept; where each row has three matches, three quarters. What a comparison connects is
cut down before the others are looked for: if half of the rows satisfy it, that is 4 times and a quarter, if
one in 20 does, 1.2 times and a twentieth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from penstock.engine.expressions.expression import (
    FALSE,
    Call,
    Expression,
    columns_of,
    conjunction,
    move_columns,
)
from penstock.engine.plan.plan import Between, ManyJoinNode, PlanNode, SideNode
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.rewrite.match_condition import match_condition
from penstock.optimizer.rewrite.order_joins import Cluster
from penstock.optimizer.rewrite.prune_columns import columns_in, moved, moved_all
from penstock.optimizer.rewrite.simplify_condition import simplify_all
from penstock.optimizer.rewrite.simplify_value import order_of
from penstock.optimizer.tree.logical import StreamScan

from .plan_streams import SideInput, filter_of, select, side_input, time_of

# Of n sides, each finds the order in which it looks through the others in time n * n.
MOST_SIDES = 32

Term = tuple[int, Expression]
"""An expression over the columns of one stream, by the stream's place in the join."""


def can_join_many(cluster: Cluster, rows: bool = False) -> bool:
    """Whether the inputs can be joined as one; rows: also through ROWS windows."""
    bases = [flatten_input(item).base for item in cluster.items]
    if not 3 <= len(bases) <= MOST_SIDES or not all(isinstance(base, StreamScan) for base in bases):
        return False
    windows = [base.window for base in bases if isinstance(base, StreamScan)]
    if any(window.partition or (window.kind == "rows" and not rows) for window in windows):
        return False
    sides = list(map(side_input, cluster.items))
    parts = conditions_of(cluster, sides)
    variables = variables_of(equated(parts, sides))
    bands, _ = bands_of(parts, sides, variables)
    connected = variables + [variables[one.left] | variables[one.right] for one in bands]
    return len(set(components(len(sides), connected))) == 1


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
    predicates, between = place(parts, sides)
    variables = variables_of(equated(parts, sides))
    served = {(side, expression) for variable in variables for side, expression in variable.items()}
    bands, said = bands_of(between, sides, variables)
    keys: list[list[Expression]] = [[] for _ in sides]
    numbers: list[list[int]] = [[] for _ in sides]
    for number, variable in enumerate(variables):
        for side, expression in variable.items():
            keys[side].append(expression)
            numbers[side].append(number)
    rest = tuple(
        part
        for part in between
        if part not in said and not ((pair := pair_of(part, sides)) and set(pair) <= served)
    )
    # 2. what is read
    used = columns_in(*outputs, *rest)
    nodes = []
    for number, one in enumerate(sides):
        kept = tuple(i - starts[number] for i in used if owner_of(i, starts) == number)
        predicate = filter_of(predicates[number])
        nodes.append(SideNode(one.window, predicate, tuple(keys[number]), kept))
    inputs = tuple(side.source for side in sides)
    node = ManyJoinNode(inputs, tuple(nodes), tuple(map(tuple, numbers)), bands)
    places = {column: place for place, column in enumerate(used)}
    return select(node, moved(conjunction(rest), places), moved_all(outputs, places))


def place(
    parts: Sequence[Expression], sides: Sequence[SideInput]
) -> tuple[list[tuple[Expression, ...]], list[Expression]]:
    """What is said of each stream alone, and of several."""
    starts = starts_of(sides)
    predicates = [side.predicates for side in sides]
    between = []
    for part in parts:
        owners = {owner_of(index, starts) for index in columns_of(part)}
        if len(owners) > 1:
            between.append(part)
        elif part == FALSE:
            predicates = [(*own, part) for own in predicates]
        else:
            owner = owners.pop() if owners else 0
            predicates[owner] = (*predicates[owner], ahead(part, -starts[owner]))
    return predicates, between


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


def bands_of(
    parts: Sequence[Expression], sides: Sequence[SideInput], variables: list[dict[int, Expression]]
) -> tuple[tuple[Between, ...], set[Expression]]:
    """What comparisons say between streams that no equality connects, and which of the parts they say.

    Variables that they are about are added to those that there are.
    """
    starts = starts_of(sides)
    component = components(len(sides), variables)
    found, said = [], set()
    for one, two in combinations(range(len(sides)), 2):
        if component[one] == component[two]:
            continue
        width = len(sides[one].base.fields)
        moves = {one: -starts[one], two: width - starts[two]}

        def moved_to(index: int, moves: dict[int, int] = moves) -> int:
            return index + moves[owner_of(index, starts)]

        local = {
            move_columns(part, moved_to): part
            for part in parts
            if {owner_of(index, starts) for index in columns_of(part)} == {one, two}
        }
        swapped = sides[two].base.stream < sides[one].base.stream
        match = match_condition(tuple(local), width, swapped)
        if match.condition is not None:
            left = variable_of((one, match.left_keys[0]), variables)
            right = variable_of((two, ahead(match.right_keys[0], -width)), variables)
            found.append(Between(left, right, match.condition))
            said |= {part for moved_part, part in local.items() if moved_part not in match.residual}
    return tuple(found), said


def components(count: int, variables: Sequence[dict[int, Expression]]) -> list[int]:
    """Of each stream, the least that equalities connect it to."""
    found = list(range(count))
    for variable in variables:
        joined = {found[side] for side in variable}
        found = [min(joined) if one in joined else one for one in found]
    return found


def variable_of(term: Term, variables: list[dict[int, Expression]]) -> int:
    """The number of the variable that is a stream's expression, added if there is none."""
    side, expression = term
    for number, variable in enumerate(variables):
        if variable.get(side) == expression:
            return number
    variables.append({side: expression})
    return len(variables) - 1


def variables_of(pairs: Sequence[tuple[Term, Term]]) -> list[dict[int, Expression]]:
    """What is equal, each as one expression per stream: the first of several, in an order of expressions."""
    found = []
    for one in classes_of(pairs):
        terms = sorted(one, key=lambda term: (term[0], order_of(term[1])))
        keys: dict[int, Expression] = {}
        for side, expression in terms:
            keys.setdefault(side, expression)
        found.append(keys)
    return found


def classes_of(pairs: Sequence[tuple[Term, Term]]) -> list[set[Term]]:
    """Terms that equalities connect, over however many of them."""
    classes: list[set[Term]] = []
    for pair in pairs:
        meets = [one for one in classes if one & set(pair)]
        classes = [one for one in classes if one not in meets] + [set(pair).union(*meets)]
    return classes
