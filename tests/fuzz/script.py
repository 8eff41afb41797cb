"""What is done with an engine, as data: what can be cut down and written as a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from .ask import Tree

SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
TABLE = pa.table({"k": pa.array([1, 1, 2, None], pa.int64()), "v": pa.array([0.5, 0.5, None, 1.0])})
Row = tuple[int, int, int | None, float | None]


@dataclass
class Start:
    """A query begins. emit: INSERTS, CHANGES, DELTA or COMPLETE; the last two with a hop."""

    name: str
    tree: Tree
    emit: str
    hop: int = 1
    origin: int = 0
    counting: bool = False
    modes: str | None = None
    execution: str | None = None
    like: str | None = None
    """The query whose rows it counts, or whose changes it gives the half that enters of."""

    @property
    def sql(self) -> str:
        hop = f" HOP BY {self.hop} us ORIGIN {self.origin}" if self.hops else ""
        return f"{self.tree.drawn.penstock}{hop} EMIT {self.emit}"

    @property
    def hops(self) -> bool:
        return self.emit in ("DELTA", "COMPLETE")

    @property
    def options(self) -> dict[str, Any]:
        given = {"count_only": self.counting or None, "modes": self.modes, "execution": self.execution}
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class Push:
    stream: str
    rows: list[Row]
    chunks: int = 1


@dataclass
class Advance:
    ts: int
    stream: str | None = None


@dataclass
class Alter:
    name: str
    kind: str
    size: int

    @property
    def sql(self) -> str:
        return f"ALTER QUERY {self.name} SET WINDOW {self.size} {'us' if self.kind == 'range' else 'ROWS'}"


@dataclass
class Drop:
    name: str


@dataclass
class Restore:
    """The engine is written down and made again."""


@dataclass
class Read:
    """What is new is read, and compared with what must have come out by now."""

    name: str


@dataclass
class Close:
    drain: bool


Step = Start | Push | Advance | Alter | Drop | Restore | Read | Close


@dataclass
class Script:
    options: dict[str, Any]
    slack: dict[str, int]
    """By stream."""
    steps: list[Step]
    scheduler: int = 0
    """0: that of every day; odd: round robin by so many rows; even: dice with that seed."""
    hurry: bool = False
    """Plans are thought over after a few rows, at prices by which any may be the cheapest."""
    seed: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


def as_table(rows: list[Row], chunks: int = 1) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * len(SCHEMA)
    table = pa.table(
        [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    if chunks > 1:
        size = max(1, table.num_rows // chunks)
        return pa.concat_tables([table.slice(at, size) for at in range(0, table.num_rows, size)])
    return table


def declare(name: str, slack: int) -> str:
    mark = f", WATERMARK FOR ts AS ts - INTERVAL '{slack}' MICROSECOND" if slack else ""
    return f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE{mark})"
