"""Outer, semi and anti joins of two streams without windows, on columns that grow.

What ON says of one stream alone keeps its rows from meeting others, where they are given without a partner:
such a row has no key. Where they are not, it is a filter below the join. RIGHT is LEFT the other way round.

    a LEFT JOIN b ON a.k = b.k AND a.v > 3 AND b.v > 5 AND a.x < b.x
    key of a: k if v > 3, else NULL      b: those with v > 5      checked on pairs: a.x < b.x

An output that is computed below the join, of the side that may be missing, is NULL where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.expressions.expression import (
    Call,
    Column,
    Expression,
    Literal,
    columns_of,
    conjunction,
    conjuncts,
)
from penstock.engine.plan.plan import OrderedJoinNode, OrderedKind, PlanNode, SideNode
from penstock.engine.rows.types import SqlType
from penstock.optimizer.rewrite.flatten_input import Flat, flatten_input, substitute
from penstock.optimizer.rewrite.prune_columns import columns_in, moved, moved_all
from penstock.optimizer.rewrite.simplify_condition import simplify_all
from penstock.optimizer.tree.logical import Join, Node

from .plan_many import ahead, columns_of_all, equated, owner_of, pair_of, starts_of, variables_of
from .plan_ordered import Keys, is_unbounded, ordered_keys
from .plan_streams import SideInput, filter_of, select, side_input, time_of

KINDS: dict[str, OrderedKind] = {
    "left": "left", "right": "left", "full": "full", "semi": "semi", "anti": "anti",
}  # fmt: skip
GIVEN_ALONE = {"left": (0,), "right": (1,), "full": (0, 1), "semi": (), "anti": (0,)}
"""Sides, as they are written, whose rows are given without a partner."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a join says, over the columns of both streams: equalities of all keys, that which grows first; of
    each side, what lets its rows in, and what lets them meet others; and what else makes pairs."""

    variables: list[Keys]
    predicates: list[tuple[Expression, ...]]
    meets: list[tuple[Expression, ...]]
    rest: tuple[Expression, ...]


def is_final_join(join: Join) -> bool:
    """Whether columns that grow bound what it keeps."""
    if join.kind == "inner" or not all(map(is_unbounded, (join.left, join.right))):
        return False
    sides = [side_input(join.left), side_input(join.right)]
    found = ordered_keys(equated(conditions_of(join, sides), sides), sides)
    return found is not None and not any(found.per)


def is_per(join: Join) -> bool:
    """Whether columns that grow would bound it, were they not PER others."""
    sides = [side_input(join.left), side_input(join.right)]
    return ordered_keys(equated(conditions_of(join, sides), sides), sides, False) is not None


def conditions_of(join: Join, sides: list[SideInput]) -> tuple[Expression, ...]:
    """What ON says, over the columns of both streams."""
    columns = columns_of_all(sides)
    return simplify_all(tuple(substitute(part, columns) for part in conjuncts(join.condition)))


def plan_final_join(node: Node, counting: bool) -> PlanNode:
    """The plan of such a join under filters and projections."""
    flat = flatten_input(node)
    join = flat.base
    assert isinstance(join, Join), "a join"
    sides = [side_input(join.left), side_input(join.right)]
    starts = starts_of(sides)
    said = read(join, sides)
    predicates, outputs = above(join, flat, sides, said)
    if counting:
        outputs = ()
    # 1. what is said of the answer: of the first side's rows alone before they meet others
    if join.kind in ("left", "semi", "anti"):
        early = tuple(one for one in predicates if all(i < starts[1] for i in columns_of(one)))
        said.predicates[0] += early
        predicates = tuple(one for one in predicates if one not in early)
    # 2. what is read
    used = columns_in(*outputs, *predicates, *said.rest)
    order = [1, 0] if is_swapped(join, sides) else [0, 1]
    nodes = []
    for number in order:
        own = tuple(variable[number] for variable in said.variables)
        kept = tuple(i - starts[number] for i in used if owner_of(i, starts) == number)
        only = conjunction(said.meets[number])
        if only is not None:
            own = (Call(own[0].type, "case", (only, own[0], Literal(own[0].type, None))), *own[1:])
        nodes.append(SideNode(sides[number].window, filter_of(said.predicates[number]), own, kept))
    given = [column for number in order for column in used if owner_of(column, starts) == number]
    places = {column: place for place, column in enumerate(given)}
    growing = [said.variables[0][number] for number in order]
    made = OrderedJoinNode(
        tuple(sides[number].source for number in order),
        tuple(nodes),
        (tuple(range(len(said.variables))),) * 2,
        tuple(column.index for column in growing if isinstance(column, Column)),
        "key",
        KINDS[join.kind],
        moved(conjunction(said.rest), places),
    )
    return select(made, moved(conjunction(predicates), places), moved_all(outputs, places))


def is_swapped(join: Join, sides: list[SideInput]) -> bool:
    """Whether the second stream is the first side: of RIGHT, and of FULL so that equal joins are alike."""
    return join.kind == "right" or (join.kind == "full" and sides[1].base.stream < sides[0].base.stream)


def read(join: Join, sides: list[SideInput]) -> Said:
    """What a join says of rows, sorted out."""
    starts = starts_of(sides)
    parts = conditions_of(join, sides)
    pairs = equated(parts, sides)
    found = ordered_keys(pairs, sides)
    assert found is not None, "a join that columns bound"
    ordered = found.keys
    variables = [ordered]
    variables += [one for one in variables_of(pairs) if not set(one.items()) & set(ordered.items())]
    served = {(side, expression) for variable in variables for side, expression in variable.items()}
    said = Said(variables, [side.predicates for side in sides], [(), ()], ())
    rest = []
    for part in parts:
        owners = {owner_of(index, starts) for index in columns_of(part)}
        if len(owners) > 1:
            if not ((pair := pair_of(part, sides)) and set(pair) <= served):
                rest.append(part)
            continue
        for number in owners or {0, 1}:
            kept = said.meets if number in GIVEN_ALONE[join.kind] else said.predicates
            kept[number] += (ahead(part, -starts[number] if owners else 0),)
    return Said(said.variables, said.predicates, said.meets, tuple(rest))


def above(
    join: Join, flat: Flat, sides: list[SideInput], said: Said
) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Conditions and outputs above a join, over the columns of both streams."""
    columns: list[Expression] = []
    for number, (side, start) in enumerate(zip(sides, starts_of(sides), strict=True)):
        is_always_there = join.kind in ("semi", "anti") or GIVEN_ALONE[join.kind] == (number,)
        there = time_of(side.base)
        for output in side.outputs:
            if not is_always_there and not isinstance(output, Column):
                absent = Call(SqlType.BOOLEAN, "is_null", (there,))
                output = Call(output.type, "case", (absent, Literal(output.type, None), output))
            columns.append(ahead(output, start))
    over = tuple(columns)
    return (
        simplify_all(tuple(substitute(one, over) for one in flat.predicates)),
        tuple(substitute(one, over) for one in flat.outputs),
    )
