"""What a script says, statement by statement, before any name is looked up.

Every statement knows where it begins and its own text, without the semicolon. Positions are those of the
whole text that was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.engine.intake.ahead_rule import AheadRule
from penstock.engine.intake.time_units import TimeUnit
from penstock.engine.rows.window import Window
from penstock.optimizer.tree.logical import Hop, Position

from .source import Source


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """A window as it stands in the text; `position` is that of its `[` or of WINDOW."""

    window: Window
    position: Position


@dataclass(frozen=True, slots=True)
class WrittenOrder:
    """ORDERED behind a column. rows: the number before ROWS; keys: a number that stands alone, as written;
    duration_us: a duration. `position`: of ORDERED; `size_position`: of what stands behind WITHIN.
    per: the columns behind PER, and where each stands."""

    position: Position
    rows: int | None = None
    keys: str | None = None
    duration_us: int | None = None
    size_position: Position | None = None
    per: tuple[tuple[str, Position], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column of CREATE, its type still as written; what stands behind UNIT, and where; and ORDERED."""

    name: str
    type_name: str
    position: Position
    type_position: Position
    unit: TimeUnit | None
    unit_position: Position
    order: WrittenOrder | None = None


@dataclass(frozen=True, slots=True)
class Tail:
    """What stands behind the relational part; None where nothing was written."""

    window: WrittenWindow | None = None
    hop: Hop | None = None
    emit: Literal["inserts", "changes", "delta", "complete", "final"] | None = None
    emit_position: Position | None = None
    late: Literal["drop", "error"] | None = None


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A query: the stock parser's tree of its relational part, and what was lifted out before.

    `windows` is keyed by the offset of the name or alias a `[...]` stands behind, `item_texts` (for the names
    of columns without an alias) by the offset at which an item of a SELECT list begins.
    """

    tree: Any
    windows: Mapping[int, WrittenWindow]
    item_texts: Mapping[int, str]
    tail: Tail
    source: Source
    position: Position
    sql: str


@dataclass(frozen=True, slots=True)
class CreateStream:
    """`time_column` is the column named in WATERMARK, None without one."""

    name: str
    columns: tuple[WrittenColumn, ...]
    time_column: str | None
    time_position: Position | None
    slack_us: int
    position: Position
    name_position: Position
    sql: str
    ahead: AheadRule | None = None
    idle_us: int | None = None


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A static table."""

    name: str
    columns: tuple[WrittenColumn, ...]
    position: Position
    name_position: Position
    sql: str


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """A named continuous query."""

    name: str
    select: SelectStatement
    position: Position
    name_position: Position
    sql: str


@dataclass(frozen=True, slots=True)
class DropQuery:
    """The end of a query."""

    name: str
    position: Position
    name_position: Position
    sql: str


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """A new window for the streams of a query."""

    name: str
    window: Window
    position: Position
    name_position: Position
    sql: str


Statement = CreateStream | CreateTable | CreateQuery | DropQuery | AlterQuery | SelectStatement
