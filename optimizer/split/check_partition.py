"""Whether a query can be answered part by part, when each stream is split by one of its columns, the key.

Rows whose keys are equal are in one part, and parts know nothing of each other. The answer is that of the
whole if all that an operator has to see together is in one part:

    select, UNION ALL                  anything
    a join, of whatever kind           has an equality of the two sides' keys
    GROUP BY, DISTINCT, set operation  has the key among its columns
    ROWS window                        is PARTITION BY the key
    ORDERED, without a window          is not the key: rows of all keys tell how far keys have come
    a table                            is in every part: it may be joined to a stream's rows, not they to its
    changes that are net in an instant have the key among their columns, else two parts' would not cancel

From below upwards each node says which expressions over its columns are the key of its rows. Equalities are
passed down to the joins below, so that it does not matter where they were written. Hops need nothing: every
part has its answers at the same boundaries, and a group without rows has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from penstock.engine.expressions.expression import (
    Call,
    Column,
    Expression,
    columns_of,
    conjuncts,
    move_columns,
)
from penstock.optimizer.rewrite.flatten_input import substitute
from penstock.optimizer.rewrite.simplify_condition import simplify_all
from penstock.optimizer.tree.logical import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Position,
    Project,
    Query,
    SetOperation,
    StreamScan,
    TableScan,
    UnionAll,
    inputs_of,
)

Place = frozenset[Expression]
"""What, over a node's columns, is the key of its rows; may be empty."""
Member = TypeVar("Member")
Alike = tuple[frozenset[Expression], ...]
"""Expressions that are known to be equal in every row that counts."""


class Refusal(Exception):
    """Why not, and where."""

    def __init__(self, expected: str, found: str, position: Position) -> None:
        super().__init__(expected, found, position)
        self.expected = expected
        self.found = found
        self.position = position


def check_partition(query: Query, key: Mapping[str, int]) -> None:
    """Raises Refusal unless the streams can be split by these columns."""
    place = _Check(key).place(query.root, ())
    if not place and (query.emit == "delta" or (query.emit != "complete" and takes_back(query.root))):
        expected = "the key among the columns of a query whose changes are net"
        raise Refusal(expected, f"{listed(query.root)} alone", query.emit_position)


class _Check:
    def __init__(self, key: Mapping[str, int]) -> None:
        self._key = key

    def place(self, node: Node, alike: Alike) -> Place | None:
        """Where the node's rows are; None: every part has all of them. `alike`: said of them above."""
        match node:
            case StreamScan():
                return self._scan(node)
            case TableScan():
                return None
            case Filter():
                return self.place(node.input, merge([*alike, *equalities(node.predicate)]))
            case Project():
                below = tuple(frozenset(substitute(one, node.expressions) for one in same) for same in alike)
                found = self.place(node.input, below)
                return None if found is None else among(node.expressions, found)
            case Join():
                return self._join(node, alike)
            case UnionAll():
                return self._union(node, alike)
            case SetOperation():
                return self._set_operation(node)
            case Distinct():
                found = self.place(node.input, alike)
                if found is not None and not found:
                    raise Refusal(
                        "the key among the columns of DISTINCT", f"{listed(node)} alone", node.position
                    )
                return found
            case Aggregate():
                return self._aggregate(node)

    def _scan(self, scan: StreamScan) -> Place:
        column = self._key[scan.stream]
        field = scan.fields[column]
        if column in scan.ordered and not scan.windowed:
            raise Refusal(
                "a key that is not ORDERED, as a further equality", f"`{field.name}`", scan.position
            )
        if scan.window.kind == "rows":
            names = [name.lower() for name in scan.window.partition]
            if field.name.lower() not in names:
                written = f"{scan.alias} [{scan.window}]"
                raise Refusal("ROWS windows with PARTITION BY the key", f"`{written}`", scan.position)
        return frozenset([Column(field.type, column)])

    def _join(self, join: Join, alike: Alike) -> Place | None:
        width = len(join.left.fields)
        own = equalities(join.condition)
        # What was said above holds for rows that come out; it says nothing of rows that found no partner.
        pairs = merge([*alike, *own] if join.kind == "inner" else own)
        lefts = {"inner": pairs, "left": alike, "semi": alike, "anti": alike}.get(join.kind, ())
        rights = {"inner": pairs, "left": pairs, "semi": pairs, "anti": pairs, "right": alike}
        left = self.place(join.left, within(lefts, 0, width))
        right = self.place(
            join.right, within(rights.get(join.kind, ()), width, width + len(join.right.fields))
        )
        if right is None:
            if left is not None and join.kind in ("right", "full"):
                raise Refusal("no table whose rows are kept by an outer join", "one", join.position)
            return left
        right = frozenset(move_columns(one, lambda i: i + width) for one in right)
        if left is None:
            if join.kind not in ("inner", "right"):
                raise Refusal("no table whose rows are kept by a join", "one on its left", join.position)
            return right
        if not any(left & same and right & same for same in pairs):
            raise Refusal("every join to have an equality of the keys", "one without", join.position)
        match join.kind:
            case "inner":
                return left | right
            case "right":
                return right
            case "full":
                both = [(one, two) for one in left for two in right]
                ordered = both + [(two, one) for one, two in both]
                return frozenset(Call(one.type, "coalesce", (one, two)) for one, two in ordered)
            case _:
                return left

    def _union(self, union: UnionAll, alike: Alike) -> Place:
        places = [self.place(part, alike) for part in union.inputs]
        found = [place for place in places if place is not None]
        if len(found) < len(places):
            raise Refusal("no table in a UNION", "one", union.position)
        return frozenset.intersection(*found)

    def _set_operation(self, node: SetOperation) -> Place:
        left, right = self.place(node.left, ()), self.place(node.right, ())
        if left is None or (right is None and node.kind == "union"):
            raise Refusal(f"no table in {node.kind.upper()}", "one", node.position)
        found = left if right is None else left & right
        if not found:
            expected = f"the key among the columns of {node.kind.upper()}, in one place on both sides"
            raise Refusal(expected, listed(node), node.position)
        return found

    def _aggregate(self, node: Aggregate) -> Place | None:
        below = self.place(node.input, ())
        if below is None:
            return None
        found = among(node.keys, below)
        if not found:
            written = (
                f"GROUP BY {', '.join(map(str, node.keys))}" if node.keys else "an aggregate of all rows"
            )
            raise Refusal("the key in GROUP BY", f"`{written}`" if node.keys else written, node.position)
        return found


def takes_back(node: Node) -> bool:
    """Whether changes of an instant can cancel each other."""
    if isinstance(node, Aggregate | SetOperation | Distinct) or (
        isinstance(node, Join) and node.kind != "inner"
    ):
        return True
    return any(map(takes_back, inputs_of(node)))


def among(expressions: Iterable[Expression], place: Place) -> Place:
    """The key, where it is one of the expressions, as a column of what they give."""
    return frozenset(Column(one.type, at) for at, one in enumerate(expressions) if one in place)


def equalities(condition: Expression | None) -> Alike:
    return tuple(
        frozenset(part.arguments)
        for whole in conjuncts(condition)
        for part in simplify_all((whole,))
        if isinstance(part, Call) and part.function == "equal"
    )


def merge(groups: Iterable[frozenset[Member]]) -> tuple[frozenset[Member], ...]:
    """Groups that have something in common become one, at the place of the first."""
    merged: list[frozenset[Member]] = []
    for group in groups:
        met = [one for one in merged if one & group]
        if met:
            merged[merged.index(met[0])] = group.union(*met)
            merged = [one for one in merged if one not in met[1:]]
        else:
            merged.append(group)
    return tuple(merged)


def within(alike: Alike, start: int, end: int) -> Alike:
    """What of it is about the columns from start to end, counted from start."""
    inside = [
        frozenset(
            move_columns(one, lambda i: i - start)
            for one in same
            if all(start <= column < end for column in columns_of(one))
        )
        for same in alike
    ]
    return tuple(same for same in inside if len(same) > 1)


def listed(node: Node) -> str:
    return ", ".join(f"`{field.name}`" for field in node.fields)
