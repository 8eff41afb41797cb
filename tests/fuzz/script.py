"""What is done with an engine, as data: what can be cut down and written as a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from .ask import Bare, Tree
from .entry import Declared, Row

SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
TABLE = pa.table({"k": pa.array([1, 1, 2, None], pa.int64()), "v": pa.array([0.5, 0.5, None, 1.0])})


@dataclass
class Start:
    """A query begins. emit: INSERTS, CHANGES, DELTA or COMPLETE; the last two with a hop."""

    name: str
    tree: Tree
    emit: str
    hop: int = 1
    origin: int = 0
    counting: bool = False
    forced: dict[str, Any] = field(default_factory=dict)
    """Options of this query alone."""
    late: str | None = None
    hears: str = ""
    """calls: somebody subscribes to it; raises: and raises when called."""
    fails: bool = False
    """It stops when it meets a key of 0."""
    in_text: bool = False
    """By CREATE QUERY."""
    like: str | None = None
    """The query whose rows it counts, or whose changes it gives the half that enters of."""

    def is_company_of(self, other: Start) -> bool:
        """Whether it was drawn to be compared with that one, and not with another that had its name."""
        alike = self.tree is other.tree and (self.hop, self.origin) == (other.hop, other.origin)
        return alike and other.emit == (self.emit if self.counting else "INSERTS")

    @property
    def sql(self) -> str:
        text = self.tree.drawn.penstock
        if self.fails:
            text = f"SELECT k, CAST(6 // k AS DOUBLE) AS v FROM ({text}) AS sound"
        whole = next((one for one in self.tree.references if isinstance(one, Bare) and one.size), None)
        if whole is not None:
            text += f" WINDOW {whole.size} {'us' if whole.kind == 'range' else 'ROWS'}"
        if self.hops:
            text += f" HOP BY {self.hop} us ORIGIN {self.origin}"
        return f"{text} EMIT {self.emit}" + (f" LATE {self.late}" if self.late else "")

    @property
    def hops(self) -> bool:
        return self.emit in ("DELTA", "COMPLETE")

    @property
    def options(self) -> dict[str, Any]:
        return {**self.forced, **({"count_only": True} if self.counting else {})}


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
class Advance:
    ts: int
    stream: str | None = None


@dataclass
class Push:
    stream: str
    rows: list[Row]
    chunks: int = 1
    within: Start | Alter | Drop | Advance | Push | None = None
    """What the first who is called meanwhile asks for."""


@dataclass
class Restore:
    """The engine is written down and made again."""

    to_file: bool = False


@dataclass
class Wrong:
    """Something that is refused, and leaves all as it was."""

    kind: str
    stream: str


@dataclass
class Look:
    """Whatever can be asked is asked."""


@dataclass
class Read:
    """What is new is read, and compared with what must have come out by now."""

    name: str


@dataclass
class Close:
    drain: bool


Step = Start | Push | Advance | Alter | Drop | Restore | Wrong | Look | Read | Close


@dataclass
class Script:
    options: dict[str, Any]
    streams: dict[str, Declared]
    steps: list[Step]
    scheduler: int = 0
    """0: that of every day; odd: round robin by so many rows; even: dice with that seed."""
    hurry: bool = False
    """Plans are thought over after a few rows, at prices by which any may be the cheapest."""
    seed: int = 0


def as_table(rows: list[Row], chunks: int = 1) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * len(SCHEMA)
    table = pa.table(
        [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    if chunks > 1:
        size = max(1, table.num_rows // chunks)
        return pa.concat_tables([table.slice(at, size) for at in range(0, table.num_rows, size)])
    return table
