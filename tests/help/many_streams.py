"""Joins of three streams for the tests: what is asked, what DuckDB says of it, engines to ask."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
from oracle import DECLARE, SCHEMA, Oracle, Reference
from work_of import joins_of

import penstock
from penstock.engine.many_joins.many_join import ManyJoin

SHAPES = {
    "one key": ["x.k = y.k", "y.k = z.k"],
    "one key, around": ["x.k = z.k", "z.k = y.k", "y.k = x.k"],
    "a chain": ["x.k = y.k", "y.s = z.s"],
    "two keys": ["x.k = y.k", "x.s = y.s", "z.s = y.s", "z.k = x.k"],
    "two of one stream": ["x.k = y.k", "x.id = y.k", "z.k = y.k"],
    "texts": ["x.s = y.s", "x.s = z.s"],
    "numbers": ["x.v = y.v", "y.v = z.v"],
    "a sum": ["x.id + 1 = y.id", "y.id = z.id + 1"],
    "one that is less": ["x.k = y.k", "x.v < z.v"],
    "one near by": ["x.k = y.k", "y.id - z.id <= 2", "z.id <= y.id + 1"],
    "between two": ["x.k = y.k", "z.v >= x.v", "z.v < y.v"],
    "a key beside it": ["x.v = y.v", "x.s = y.s", "z.v > y.v"],
    "in order": ["x.v <= y.v", "y.id < z.id", "z.v BETWEEN x.v - 1 AND x.v + 0.5"],
    "times": ["x.ts < y.ts", "x.s = z.s"],
}
STREAMS = {"x": "a", "y": "b", "z": "c"}
KEYED = "SELECT x.id, y.id AS yid, z.id AS zid FROM a AS x, b AS y, c AS z WHERE x.k = y.k AND y.k = z.k"


def is_keyed(conditions: list[str]) -> bool:
    """Whether all are equalities."""
    return all("=" in condition.split() for condition in conditions)


class Rows(NamedTuple):
    """A ROWS window."""

    size: int


Window = int | Rows | None
"""Of so many microseconds, or rows; None: unbounded."""


def engine_of(strategy: str = "auto", **options: Any) -> penstock.Engine:
    engine = penstock.Engine(sharing=strategy, **options)
    for name in "abc":
        engine.execute(DECLARE.format(name=name))
    return engine


def many_joins(engine: penstock.Engine) -> list[ManyJoin]:
    operators = [one for group in joins_of(engine) for one in group.form.operators]
    return [one for one in operators if isinstance(one, ManyJoin)]


def push_rows(engine: penstock.Engine, name: str, rows: list[tuple[int, Any]], first: int = 0) -> None:
    """Rows as (ts, k)."""
    table = [{"ts": ts, "id": first + i, "k": k, "v": 1.0, "s": ""} for i, (ts, k) in enumerate(rows)]
    engine.push(name, pa.Table.from_pylist(table, schema=SCHEMA))


def push_each(engine: penstock.Engine, times: list[int]) -> None:
    """A row of each stream at each of these times, all with one key."""
    for ts in times:
        for name in "abc":
            push_rows(engine, name, [(ts, 0)], ts)


class Asked:
    """A join of three streams, or of one stream with itself and another."""

    def __init__(
        self,
        windows: dict[str, Window],
        conditions: list[str],
        order: list[str],
        counting: bool,
        changes: bool,
        streams: dict[str, str],
    ) -> None:
        self.windows, self.conditions, self.order = windows, conditions, order
        self.counting, self.changes, self.streams = counting, changes, streams

    def __repr__(self) -> str:
        return self.sql

    def reference(self, alias: str) -> Reference:
        window, stream = self.windows[alias], self.streams[alias]
        if isinstance(window, Rows):
            return Reference(stream, alias, "rows", window.size)
        return Reference(stream, alias, "range", window)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the windows of x, y and z."""
        return tuple(self.reference(alias).kind for alias in "xyz")

    @property
    def sql(self) -> str:
        sources = [self.reference(alias).penstock for alias in self.order]
        text = f"SELECT x.id, y.id AS yid, z.id AS zid, z.s FROM {', '.join(sources)}"
        return f"{text} WHERE {' AND '.join(self.conditions)}" + (" EMIT CHANGES" if self.changes else "")

    def entered(self, tables: dict[str, pa.Table]) -> Counter[tuple[Any, ...]]:
        """All rows that ever enter the answer with the time at which they do, by DuckDB."""
        return self.lived(tables)[0]

    def lived(
        self, tables: dict[str, pa.Table]
    ) -> tuple[Counter[tuple[Any, ...]], dict[tuple[Any, ...], int]]:
        """The same, and when each leaves."""
        refs = [self.reference(alias) for alias in "xyz"]
        wanted = Oracle(tables, refs).inserts("x.id, y.id, z.id, z.s", " AND ".join(self.conditions))
        ends = {
            row: min(one.lifetimes[id_][1] for one, id_ in zip(refs, row[1:4], strict=True)) for row in wanted
        }
        return wanted, ends
