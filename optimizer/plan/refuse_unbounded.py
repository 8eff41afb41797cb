"""Queries over streams without windows that nothing bounds, or not yet: refused by name.

Rows that pass and are forgotten need no window; nor does a join of streams on columns that are declared
ORDERED, as it gives its rows: inner joins of many, outer, semi and anti joins of two. All else over a stream
without a window is refused here, and so is EMIT FINAL where nothing becomes final.
"""

from __future__ import annotations

from typing import NoReturn

from penstock.engine.expressions.expression import Column, columns_of, conjuncts
from penstock.engine.rows.errors import BindError, UnsupportedError
from penstock.optimizer.bind.bind import no_window, passes
from penstock.optimizer.read.source import fail
from penstock.optimizer.rewrite.flatten_input import flatten_input, substitute
from penstock.optimizer.rewrite.order_joins import Cluster, collect_cluster
from penstock.optimizer.rewrite.prune_columns import moved
from penstock.optimizer.tree.logical import (
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
    inputs_of,
    nodes_of,
    streams_of,
)

from .plan_final import is_final_join, is_per
from .plan_final_group import GROWING, grows, is_final_group
from .plan_many import MOST_SIDES
from .plan_ordered import can_grow, growing_items, is_ordered, per_alone
from .plan_streams import is_plain


def refuse_unbounded(query: Query) -> None:
    """Raises if a stream without a window would have to be kept whole, or what bounds it is not built."""
    if query.emit == "inserts" and all(map(passes, nodes_of(query.root))):
        return
    scans = streams_read(query.root)
    if not scans:
        if query.emit == "final":
            refuse_final(query)
        return
    refuse_node(query.root)
    joins = [one for one in nodes_of(query.root) if isinstance(one, Join)]
    is_grouped = any(isinstance(one, Aggregate) for one in nodes_of(query.root))
    is_joined = any(sum(isinstance(node, StreamScan) for node in nodes_of(one)) > 1 for one in joins)
    if not is_grouped and not is_joined:
        raise no_window(scans[0], bool(joins))
    if query.hop is not None:
        what = "a join" if is_joined else "GROUP BY"
        not_yet(f"HOP BY over {what} without windows", query.hop.position)
    is_final = is_grouped or any(one.kind != "inner" for one in joins)
    refuse_emit(query, is_final)
    scans = [one for one in nodes_of(query.root) if isinstance(one, StreamScan)]
    if not is_plain(query.root) and (is_final or not all(map(can_grow, scans))):
        not_yet("A table beside such joins and windows", query.emit_position)


def refuse_final(query: Query) -> NoReturn:
    """Windows let rows in and out, and an answer over them becomes another one."""
    base = next(one for one in nodes_of(query.root) if not passes(one))
    hint = "Write HOP BY 1 MINUTE before EMIT, or EMIT CHANGES. Over columns that are declared ORDERED, "
    hint += "leave windows out"
    name = name_of(base).removesuffix(" over a join").removesuffix(" of streams")
    name = "an aggregate" if isinstance(base, Aggregate) else name
    what = f"EMIT FINAL over windows, of {name}, is not supported yet"
    raise fail(UnsupportedError, what, query.emit_position, hint)


def refuse_emit(query: Query, is_final: bool) -> None:
    """Rows are given once and never taken back; is_final: and not as soon as they come."""
    if query.emit not in ("inserts", "final") or (is_final and query.emit != "final"):
        hint = "Its rows are given once, when they are final: write EMIT FINAL, or nothing"
        found = f"Expected EMIT FINAL without windows, found EMIT {query.emit.upper()}"
        raise fail(BindError, found, query.emit_position, hint)


def streams_read(node: Node) -> list[StreamScan]:
    """The streams without windows below a node, one that is read twice twice."""
    return [one for one in nodes_of(node) if isinstance(one, StreamScan) and not one.windowed]


def refuse_node(node: Node) -> None:
    base = flatten_input(node).base
    if isinstance(base, StreamScan | TableScan):
        return
    if isinstance(base, UnionAll):
        for part in base.inputs:
            refuse_node(part)
    elif isinstance(base, Join) and base.kind == "inner":
        refuse_cluster(collect_cluster(node))
    elif isinstance(base, Join):
        refuse_other_join(base)
    else:
        refuse_above(base)


def refuse_above(base: Node) -> None:
    """What keeps or groups the rows of streams without windows."""
    scans = streams_read(base)
    if not scans or (isinstance(base, Aggregate) and is_final_group(base)):
        return
    is_join = any(isinstance(one, Join) for one in nodes_of(base))
    if not is_join:
        if isinstance(base, Aggregate):
            refuse_group(base)
        raise no_window(scans[0], False)
    for part in inputs_of(base):  # what is wrong below comes first
        refuse_node(part)
    assert isinstance(base, Aggregate | Distinct | SetOperation | Join), "all else passes rows on"
    not_yet(f"{name_of(base)} without windows", base.position)


def refuse_group(base: Aggregate) -> None:
    """GROUP BY a column that grows, of a stream, in a way that completes no group."""
    flat = flatten_input(base.input)
    scan = flat.base
    if not isinstance(scan, StreamScan):
        return
    keys = [substitute(key, flat.outputs) for key in base.keys]
    for key in keys:
        if isinstance(key, Column) and key.index in scan.ordered:
            name = scan.fields[key.index].name
            kind = "PER column" if scan.per_of(key.index) else f"of {key.type.value}"
            not_yet(f"GROUP BY `{name}`, ORDERED {kind}, without windows", base.position)
    named = [
        f"`{scan.fields[at].name}`"
        for at in sorted(scan.ordered)
        if grows(scan, at) and scan.fields[at].type in GROWING
    ]
    if named:
        error = no_window(scan, False)
        hint = f"{error.hint}. GROUP BY {' or '.join(named)}, ORDERED, needs none"
        raise fail(BindError, f"Expected a window on `{scan.stream}`, found none", scan.position, hint)


def refuse_cluster(cluster: Cluster) -> None:
    """Inner joins next to each other."""
    bases = [flatten_input(item).base for item in cluster.items]
    unbounded = [base for base in bases if isinstance(base, StreamScan) and not base.windowed]
    streams = [base for base in bases if streams_of(base)]
    if not any(isinstance(one, StreamScan) and not one.windowed for base in bases for one in nodes_of(base)):
        return
    if len(streams) == 1 and unbounded:
        return  # rows of a stream meet tables, and are forgotten
    for scan in unbounded:
        if not scan.ordered:
            raise no_window(scan, True)
    growing = growing_part(cluster)
    if growing is not None:
        if len(growing.items) > MOST_SIDES:
            not_yet(f"A join of more than {MOST_SIDES} streams without windows", cluster.position)
        if not is_ordered(growing):
            refuse_per(growing)
            raise no_window(unbounded[0], True)
        return
    for base in bases:
        if isinstance(base, StreamScan) and base.windowed and not can_grow(base):
            kind = "a ROWS window" if base.window.kind == "rows" else "a window"
            hint = "Of streams with and without windows all need a column that is declared ORDERED"
            not_yet(f"A stream with {kind} beside one without in a join", base.position, f"{hint}, and RANGE")
        if not isinstance(base, StreamScan | TableScan):
            refuse_node(base)
            name = name_of(base).removesuffix(" over a join")
            not_yet(f"{name} in a join without windows", cluster.position)


def growing_part(cluster: Cluster) -> Cluster | None:
    """The streams that are joined without windows, and then with tables; None if there are other inputs."""
    growing = growing_items(cluster)
    if any(streams_of(node) for item, node in enumerate(cluster.items) if item not in growing):
        return None
    columns = [column for item in growing for column in cluster.columns(item)]
    places = {column: place for place, column in enumerate(columns)}
    said = tuple(part for part in cluster.conditions if columns_of(part) <= places.keys())
    parts = tuple(part for one in said for part in conjuncts(moved(one, places)))
    return Cluster(tuple(cluster.items[item] for item in growing), parts, (), cluster.position)


def refuse_other_join(join: Join) -> None:
    """Outer, semi and anti joins."""
    scans = streams_read(join)
    if not scans:
        return
    for side in (join.left, join.right):
        base = flatten_input(side).base
        if isinstance(base, StreamScan) and base.windowed:
            not_yet("A stream with a window beside one without in a join", base.position)
        if isinstance(base, TableScan):
            not_yet(f"A table in a {name_of(join)} without windows", base.position)
        if not isinstance(base, StreamScan):
            refuse_node(side)
            not_yet(f"{name_of(base)} in a {join.kind.upper()} JOIN without windows", join.position)
        if not base.ordered:
            raise no_window(base, True)
    if not is_final_join(join):
        if is_per(join):
            not_yet(f"ORDERED PER column in a {join.kind.upper()} JOIN without windows", join.position)
        raise no_window(scans[0], True)


def refuse_per(cluster: Cluster) -> None:
    """Raises if all but columns is connected that an order is PER."""
    found = per_alone(cluster)
    if found is not None:
        scan, key, alone = found
        columns = " and ".join(f"`{scan.alias}.{scan.fields[one].name}`" for one in alone)
        name, per = scan.fields[key].name, ", ".join(scan.fields[one].name for one in scan.per_of(key))
        name = f"`{scan.alias}.{name}` is ORDERED PER {per}"
        message = f"Expected equalities of {columns} with all streams, as {name}, found none"
        raise fail(BindError, message, scan.position, "Or give every stream a window")


def name_of(node: Node) -> str:
    """As it is written in SQL."""
    match node:
        case Aggregate():
            return "An aggregate over a join"
        case Distinct():
            return "DISTINCT over a join"
        case SetOperation():
            return f"{node.word} over a join"
        case Join():
            return f"{node.kind.upper()} JOIN of streams"
        case UnionAll():
            return "UNION ALL"
        case _:
            return "A sub-query"


def not_yet(
    what: str, position: Position, hint: str = "Give every stream a window, as in `[RANGE 5 MINUTES]`"
) -> NoReturn:
    raise fail(UnsupportedError, f"{what} is not supported yet", position, hint)
