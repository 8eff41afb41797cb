"""What a query must answer, computed by DuckDB from the meaning of windows alone.

Every row of a stream lives from its ts until, exclusively, its ets; at instant T a window holds the rows with
ts <= T < ets. The answer at T is plain SQL over those rows. Nothing here knows how the engine works.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

FOREVER = (1 << 63) - 1
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())]
)
DECLARE = "CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR)"


@dataclass
class Reference:
    """A stream in FROM: `alias` sees `stream` through a window."""

    stream: str
    alias: str
    kind: str = "range"
    size: int | None = None
    partition: str = ""
    lifetimes: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def penstock(self) -> str:
        if self.size is None:
            return f"{self.stream} [RANGE UNBOUNDED] AS {self.alias}"
        unit = " MICROSECONDS" if self.kind == "range" else ""
        by = f"PARTITION BY {self.partition} " if self.partition else ""
        return f"{self.stream} [{by}{self.kind.upper()} {self.size}{unit}] AS {self.alias}"


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all oracles: to make it takes longer than most of them do. Each has a connection of its own,
    and in it tables that no other sees."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    return con


class Oracle:
    """Streams in DuckDB, as each reference to them sees them."""

    def __init__(self, streams: dict[str, pa.Table], references: list[Reference]) -> None:
        self._con = database().cursor()
        self.references = references
        self._spans: list[tuple[int, int]] = []
        self._answers: dict[tuple[Any, ...], Counter[tuple[Any, ...]]] = {}
        for name, table in streams.items():
            self._con.register(f"in_{name}", table)
        for one in references:
            if one.size is None:
                ets = str(FOREVER)
            elif one.kind == "range":
                ets = f"ts + {one.size}"
            else:
                by = f"PARTITION BY {one.partition} " if one.partition else ""
                ets = f"coalesce(lead(ts, {one.size}) OVER ({by}ORDER BY ts, id), {FOREVER})"
            life = f"SELECT *, {ets} AS ets FROM in_{one.stream}"
            self._con.execute(f"CREATE TEMP TABLE life_{one.alias} AS {life}")
            rows = self._con.execute(f"SELECT id, ts, ets FROM life_{one.alias}").fetchall()
            one.lifetimes = {row[0]: row[1:] for row in rows}
            self._spans += [row[1:] for row in rows]

    def answer(self, sql: str, instant: int) -> Counter[tuple[Any, ...]]:
        """Plain SQL over the windows' contents at an instant; `sql` reads the aliases as tables.

        It is a function of the contents alone, and asked once for instants at which these are the same.
        """
        contents = sql, *(ts <= instant < ets for ts, ets in self._spans)
        if contents not in self._answers:
            self._answers[contents] = self._ask(sql, instant)
        return Counter(self._answers[contents])

    def _ask(self, sql: str, instant: int) -> Counter[tuple[Any, ...]]:
        views = ", ".join(
            f"{one.alias} AS (SELECT * FROM life_{one.alias} WHERE ts <= {instant} AND {instant} < ets)"
            for one in self.references
        )
        return Counter(plain(row) for row in self._con.execute(f"WITH {views} {sql}").fetchall())

    def inserts(self, select: str, condition: str) -> Counter[tuple[Any, ...]]:
        """All rows that ever enter a join's answer, with the time they enter: lifetimes that overlap."""
        names = [one.alias for one in self.references]
        entered = f"greatest({', '.join(f'{name}.ts' for name in names)})"
        sql = (
            f"SELECT {entered}, {select} FROM {', '.join(f'life_{name} AS {name}' for name in names)} "
            f"WHERE ({condition}) AND {entered} < least({', '.join(f'{name}.ets' for name in names)})"
        )
        return Counter(plain(row) for row in self._con.execute(sql).fetchall())


def longest_window(references: list[Reference]) -> int:
    """Of those that rows leave by themselves; 0 if there is none."""
    return max((one.size or 0 for one in references if one.kind == "range"), default=0)


def last_hop(times: list[int], passed: int, hop: int, origin: int) -> int:
    """The boundary at which a hopping query ends: the first at or after its last row, at one of these times,
    or the last one by when time had passed already."""
    end = max(times)
    return max(end + (origin - end) % hop, passed - (passed - origin) % hop)


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that compares: NaN equals itself, -0.0 is 0.0."""
    return tuple("NaN" if value != value else value for value in row)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Result rows with `_ts` as microseconds."""
    columns = [table.column(0).cast(pa.int64()), *table.columns[1:]]
    return [plain(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
