"""The key by which a set of queries can be split over many engines: a column of each stream.

Columns that a join equates, or that stand in one place of a set operation, are links. What hangs together by
links is tried first, in the order in which the queries say it; then other columns, the time last. The first
choice that serves all queries is the key: `check_partition` says which it serves. Streams that no query
reads together are thought over by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product

from penstock.engine.expressions.expression import Column
from penstock.engine.rows.errors import UnsupportedError, UsageError, did_you_mean
from penstock.optimizer.bind.catalog import Catalog, StreamDef
from penstock.optimizer.tree.logical import (
    Aggregate,
    Filter,
    Join,
    Node,
    Project,
    Query,
    SetOperation,
    StreamScan,
    UnionAll,
    inputs_of,
    streams_of,
)

from .check_partition import Refusal, check_partition, equalities, merge

Link = frozenset[tuple[str, int]]
"""Columns of streams, (stream, column), that are equal or in one place."""
MOST_CHOICES = 1000


def find_partition_key(
    queries: Mapping[str, Query], catalog: Catalog, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The key column of every stream the queries read; raises UnsupportedError if there is no such key.

    given: the columns to take, by stream; others are found.
    """
    streams = {stream.name: stream for stream in catalog.streams}
    fixed = {stream: column_at(streams[stream], name) for stream, name in (given or {}).items()}
    links = merge(link for query in queries.values() for link in links_of(query.root))
    key: dict[str, str] = {}
    for group in merge(frozenset(streams_of(query.root)) for query in queries.values()):
        readers = {name: query for name, query in queries.items() if set(streams_of(query.root)) & group}
        order = [name for name in streams if name in group]
        found = first_fitting(readers, choices([streams[name] for name in order], links, fixed), catalog)
        key |= {name: streams[name].columns[column].name for name, column in found.items()}
    return key


def column_at(stream: StreamDef, name: str) -> int:
    names = [column.name for column in stream.columns]
    for at, column in enumerate(names):
        if column.lower() == name.lower():
            return at
    hint = did_you_mean(name, names) or ""
    raise UsageError(f"Expected a column of `{stream.name}` as its key, found `{name}`. {hint}".rstrip())


def choices(
    streams: list[StreamDef], links: Iterable[Link], fixed: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """A column of each stream, as many ways as make sense."""
    names = [stream.name for stream in streams]
    for link in [*links, frozenset[tuple[str, int]]()]:
        if link and not any(stream in names for stream, _ in link):
            continue
        columns = []
        for stream in streams:
            linked = sorted(column for name, column in link if name == stream.name)
            others = [at for at in range(len(stream.columns)) if at != stream.time_column]
            others.append(stream.time_column)
            columns.append([fixed[stream.name]] if stream.name in fixed else linked or others)
        for choice in islice(product(*columns), MOST_CHOICES):
            yield dict(zip(names, choice, strict=True))


def first_fitting(
    queries: Mapping[str, Query], tried: Iterable[dict[str, int]], catalog: Catalog
) -> dict[str, int]:
    """The first choice that serves all queries; else the error is that of the one that serves most."""
    best, most = None, -1
    for key in tried:
        refused = {}
        for name, query in queries.items():
            try:
                check_partition(query, key)
            except Refusal as error:
                refused[name] = error
        if not refused:
            return key
        if len(queries) - len(refused) > most:
            most, best = len(queries) - len(refused), (key, *next(iter(refused.items())))
    assert best is not None, "a stream has a column"
    key, name, refusal = best
    columns = {stream.name: stream.columns for stream in catalog.streams}
    written = ", ".join(f"{stream}.{columns[stream][at].name}" for stream, at in key.items())
    raise UnsupportedError(
        f"Expected {refusal.expected} in query `{name}`, so that it can be split by `{written}`, "
        f"found {refusal.found}",
        line=refusal.position.line,
        column=refusal.position.column,
    )


def links_of(node: Node) -> Iterator[Link]:
    """The links a query makes, as they are written."""
    for part in inputs_of(node):
        yield from links_of(part)
    match node:
        case Join() | Filter():
            inputs = [origins(part) for part in inputs_of(node)]
            columns = [origin for part in inputs for origin in part]
            for same in equalities(node.condition if isinstance(node, Join) else node.predicate):
                if all(isinstance(one, Column) for one in same):
                    yield frozenset().union(*(columns[one.index] for one in same if isinstance(one, Column)))
        case UnionAll() | SetOperation():
            for place in zip(*map(origins, inputs_of(node)), strict=True):
                yield frozenset().union(*place)


def origins(node: Node) -> list[Link]:
    """The columns of streams that each of the node's columns is, unchanged."""
    match node:
        case StreamScan():
            return [frozenset([(node.stream, at)]) for at in range(len(node.fields))]
        case Project():
            below = origins(node.input)
            return [below[one.index] if isinstance(one, Column) else frozenset() for one in node.expressions]
        case Join():
            both = [origin for part in inputs_of(node) for origin in origins(part)]
            return both[: len(node.fields)]
        case UnionAll() | SetOperation():
            places = zip(*map(origins, inputs_of(node)), strict=True)
            return [frozenset().union(*place) for place in places]
        case Aggregate():
            below = origins(node.input)
            keys = [below[one.index] if isinstance(one, Column) else frozenset() for one in node.keys]
            return [*keys, *([frozenset()] * (len(node.fields) - len(keys)))]
        case _ if inputs_of(node):
            return origins(inputs_of(node)[0])
        case _:
            return [frozenset() for _ in node.fields]
