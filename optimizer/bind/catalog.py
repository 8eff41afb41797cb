"""What has been declared: streams and tables with their columns. Names fold case as SQL's do."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.intake.ahead_rule import AheadRule
from penstock.engine.intake.order_rule import OrderRule
from penstock.engine.intake.time_units import TimeUnit, with_unit
from penstock.engine.rows.types import ARROW_TYPES, SqlType


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A declared column; `unit`: of integers in a column of times, if one was declared; `order`: of one that
    grows."""

    name: str
    type: SqlType
    unit: TimeUnit | None = None
    order: OrderRule | None = None

    @property
    def field(self) -> pa.Field:
        """What is pushed to it, or read from files."""
        return with_unit(pa.field(self.name, ARROW_TYPES[self.type]), self.unit)


@dataclass(frozen=True, slots=True)
class StreamDef:
    """A declared stream: `time_column` is an index into `columns`, `slack_us` how late a row may be.

    `ahead`: how far ahead of its stream one may be; `idle_us`: how far others may be until they wait no more.
    """

    name: str
    columns: tuple[ColumnDef, ...]
    time_column: int
    slack_us: int = 0
    ahead: AheadRule | None = None
    idle_us: int | None = None

    @property
    def ordered(self) -> tuple[int, ...]:
        """The columns that are declared ORDERED."""
        return tuple(place for place, column in enumerate(self.columns) if column.order is not None)

    @property
    def per(self) -> tuple[tuple[int, ...], ...]:
        """Of each of these, the columns that it is PER."""
        return tuple(column.order.per for column in self.columns if column.order is not None)


@dataclass(frozen=True, slots=True)
class TableDef:
    """A declared static table."""

    name: str
    columns: tuple[ColumnDef, ...]


class Catalog:
    """Declared relations by name, whatever the case the name is written in."""

    def __init__(self) -> None:
        self._relations: dict[str, StreamDef | TableDef] = {}

    def find(self, name: str) -> StreamDef | TableDef | None:
        return self._relations.get(name.lower())

    def add(self, relation: StreamDef | TableDef) -> None:
        assert relation.name.lower() not in self._relations, "the caller reports names declared twice"
        self._relations[relation.name.lower()] = relation

    @property
    def names(self) -> list[str]:
        return [relation.name for relation in self._relations.values()]

    @property
    def streams(self) -> list[StreamDef]:
        return [relation for relation in self._relations.values() if isinstance(relation, StreamDef)]

    @property
    def tables(self) -> list[TableDef]:
        return [relation for relation in self._relations.values() if isinstance(relation, TableDef)]
