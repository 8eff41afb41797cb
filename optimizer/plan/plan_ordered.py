"""Inner joins of streams without windows, on columns that grow: one join in one step, of any number of them.

One variable of the join, which equalities connect over however many of them, must have a column that is
declared ORDERED on every stream. What it does not say is a further key, or is checked on the rows that are
found. If it is ORDERED PER columns, these must be connected with all streams, too: else a row of a value that
has never come could still have any key. Sides are in the order of their streams' names: whoever names them in
another order has the same join.

    a.k = b.k AND b.k = c.k AND a.j = b.j AND a.v > c.v
    ordered: k of a, b and c      key: j of a and b      checked: a.v > c.v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.expressions.expression import Column, Expression, conjunction
from penstock.engine.plan.plan import OrderedJoinNode, PlanNode, SideNode
from penstock.engine.rows.errors import UnsupportedError
from penstock.optimizer.read.source import fail
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.rewrite.order_joins import Cluster
from penstock.optimizer.rewrite.prune_columns import columns_in, moved, moved_all
from penstock.optimizer.rewrite.simplify_value import order_of
from penstock.optimizer.tree.logical import Node, StreamScan

from .plan_many import (
    MOST_SIDES,
    Term,
    classes_of,
    columns_of_all,
    conditions_of,
    equated,
    owner_of,
    pair_of,
    place,
    starts_of,
    variables_of,
)
from .plan_streams import SideInput, filter_of, select, side_input

Keys = dict[int, Expression]
"""What is equal on some streams: an expression of each."""


@dataclass(frozen=True, slots=True)
class Growing:
    """keys: of each stream, its column that grows; per: of each, for each column that this is PER, that and
    what is equal to it on the others."""

    keys: Keys
    per: tuple[tuple[Keys, ...], ...]


def is_ordered(cluster: Cluster) -> bool:
    """Whether columns that grow bound what a join without windows keeps."""
    if not 2 <= len(cluster.items) <= MOST_SIDES or not all(map(can_grow, cluster.items)):
        return False
    sides = list(map(side_input, cluster.items))
    return ordered_keys(equated(conditions_of(cluster, sides), sides), sides) is not None


def is_unbounded(node: Node) -> bool:
    """Whether it is a stream without a window that has a column that grows."""
    base = flatten_input(node).base
    return isinstance(base, StreamScan) and not base.windowed and bool(base.ordered)


def can_grow(node: Node) -> bool:
    """Whether it is a stream with a column that grows, and with no window or one of RANGE: its rows go when
    they leave that, too."""
    base = flatten_input(node).base
    if not isinstance(base, StreamScan) or not base.ordered:
        return False
    return not base.windowed or (base.window.kind == "range" and not base.window.partition)


def growing_items(cluster: Cluster) -> list[int]:
    """The inputs that are joined as one because columns grow; none if no stream is without a window."""
    if not any(map(is_unbounded, cluster.items)):
        return []
    return [item for item, node in enumerate(cluster.items) if can_grow(node)]


def ordered_keys(
    pairs: Sequence[tuple[Term, Term]], sides: Sequence[SideInput], per: bool = True
) -> Growing | None:
    """Of each stream, its column that grows, all of them equal, and what these are PER; None if there is no
    such variable. per: columns that others are PER count only where they are connected with all streams."""
    classes = whole_classes(pairs, len(sides))
    whole = connected(classes)

    def is_bound(side: int, column: int) -> bool:
        return not per or all((side, other) in whole for other in sides[side].base.per_of(column))

    for one in classes:
        keys: Keys = {}
        for number, side in enumerate(sides):
            columns = [term for owner, term in one if owner == number and isinstance(term, Column)]
            growing = [column for column in columns if column.index in side.base.ordered]
            growing = [column for column in growing if is_bound(number, column.index)]
            if growing:
                keys[number] = min(growing, key=lambda column: column.index)
        if len(keys) == len(sides):
            return Growing(keys, _values(keys, sides, whole) if per else ())
    return None


def whole_classes(pairs: Sequence[tuple[Term, Term]], count: int) -> list[set[Term]]:
    """What is equal on all streams."""
    return [one for one in classes_of(pairs) if {owner for owner, _ in one} == set(range(count))]


def connected(classes: Sequence[set[Term]]) -> dict[tuple[int, int], set[Term]]:
    """By stream and column, to what it is equal."""
    return {(owner, term.index): one for one in classes for owner, term in one if isinstance(term, Column)}


def per_alone(cluster: Cluster) -> tuple[StreamScan, int, list[int]] | None:
    """A stream whose column that grows is connected with all streams, and columns that this is PER are not:
    it, that column and these; None if there is none."""
    sides = list(map(side_input, cluster.items))
    pairs = equated(conditions_of(cluster, sides), sides)
    growing = ordered_keys(pairs, sides, False)
    whole = connected(whole_classes(pairs, len(sides)))
    for side, key in growing.keys.items() if growing else ():
        assert isinstance(key, Column), "a column that grows"
        base = sides[side].base
        alone = [one for one in base.per_of(key.index) if (side, one) not in whole]
        if alone:
            return base, key.index, alone
    return None


def _values(
    keys: Keys, sides: Sequence[SideInput], whole: dict[tuple[int, int], set[Term]]
) -> tuple[tuple[Keys, ...], ...]:
    """Of each stream, for each column that its order is PER, that and what is equal to it on the others."""
    per = []
    for number, side in enumerate(sides):
        growing = keys[number]
        assert isinstance(growing, Column), "a column that grows"
        per.append([(number, column) for column in side.base.per_of(growing.index)])
    wanted = {one for own in per for one in own}

    def known_by(side: int, column: int) -> Keys:
        """On each stream one of the terms, a column that some order is PER before all others."""
        found: Keys = {}
        for owner, term in sorted(whole[side, column], key=lambda term: (term[0], order_of(term[1]))):
            is_wanted = isinstance(term, Column) and (owner, term.index) in wanted
            is_own = isinstance(term, Column) and (owner, term.index) == (side, column)
            if owner not in found or is_own or (is_wanted and owner != side):
                found[owner] = term
        return found

    return tuple(tuple(known_by(*one) for one in own) for own in per)


def plan_ordered(cluster: Cluster, outputs: tuple[Expression, ...], evict: str) -> PlanNode:
    """The join of a cluster that columns bound."""
    sides = list(map(side_input, cluster.items))
    starts = starts_of(sides)
    columns = columns_of_all(sides)
    outputs = tuple(substitute(output, columns) for output in outputs)
    # 1. on one stream, by keys, on what is found
    parts = conditions_of(cluster, sides)
    predicates, between = place(parts, sides)
    pairs = equated(parts, sides)
    found = ordered_keys(pairs, sides)
    assert found is not None, "a join that columns bound"
    ordered = found.keys
    variables = [ordered]
    for one in (one for own in found.per for one in own):
        if one not in variables:
            variables.append(one)
    said = {item for one in variables for item in one.items()}
    variables += [one for one in variables_of(pairs) if not set(one.items()) & said]
    served = {(side, expression) for variable in variables for side, expression in variable.items()}
    rest = tuple(part for part in between if not ((pair := pair_of(part, sides)) and set(pair) <= served))
    if evict == "fifo" and any(found.per):
        message = "ORDERED PER column with evict=`fifo` is not supported"
        raise fail(UnsupportedError, message, cluster.position, "Let rows go by their keys: evict=`key`")
    # 2. what is read
    used = columns_in(*outputs, *rest)
    order = sorted(range(len(sides)), key=lambda number: sides[number].base.stream)
    nodes = []
    for number in order:
        own = tuple(variable[number] for variable in variables if number in variable)
        kept = tuple(i - starts[number] for i in used if owner_of(i, starts) == number)
        nodes.append(SideNode(sides[number].window, filter_of(predicates[number]), own, kept))
    growing = [ordered[number] for number in order]
    node = OrderedJoinNode(
        tuple(sides[number].source for number in order),
        tuple(nodes),
        tuple(tuple(n for n, variable in enumerate(variables) if number in variable) for number in order),
        tuple(column.index for column in growing if isinstance(column, Column)),
        "fifo" if evict == "fifo" else "key",
        per=tuple(tuple(variables.index(one) for one in found.per[number]) for number in order),
    )
    given = [column for number in order for column in used if owner_of(column, starts) == number]
    places = {column: place for place, column in enumerate(given)}
    if not outputs and not rest:
        return node
    chosen = outputs or ()
    return select(node, moved(conjunction(rest), places), moved_all(chosen, places))
