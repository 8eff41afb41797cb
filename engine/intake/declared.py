"""The columns of a relation as declared, found in any table: by exact name, else by all but its case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.engine.rows.errors import SchemaError, did_you_mean
from penstock.engine.rows.types import ARROW_TYPES, SqlType

from .convert import check_type, convert_column
from .put_together import is_cut_small, put_together
from .sound import check_sound
from .time_units import TimeUnit, doubt_unit


class Declared:
    """Finds the declared columns by name whatever the case, and converts them to their declared types."""

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        types: Sequence[SqlType],
        units: Sequence[TimeUnit | None] = (),
    ) -> None:
        """units: what integers in the columns of times were declared to be."""
        self._name = name
        self._columns = columns
        self._types = types
        self._units = units or (None,) * len(columns)
        self._known_schema: pa.Schema | None = None
        self._positions: list[int] = []
        self._is_in_place = self._fits = False
        times = enumerate(zip(types, self._units, strict=True))
        self._doubted = [n for n, (type_, unit) in times if type_ is SqlType.TIMESTAMP and unit is None]
        """Columns of times in which no integer has come yet that could be in another unit."""
        self._seen: list[int] = []
        """Those in which one is about to come."""

    def take(self, table: pa.Table) -> pa.Table:
        """The declared columns of the table; raises SchemaError or DataError, and changes nothing."""
        self._seen = []
        if table.schema != self._known_schema:
            self._look_at(table.schema)
        if not self._is_in_place:
            table = table.select(self._positions)
        if is_cut_small(table):
            table = put_together(table, self._columns, self._name)
        if self._fits:
            for column, name in zip(table.columns, self._columns, strict=True):
                check_sound(column, name, self._name)
            return table
        declared = zip(table.columns, self._types, self._columns, self._units, strict=True)
        columns = [
            convert_column(column, type_, name, self._name, unit or "us")
            for column, type_, name, unit in declared
        ]
        self._seen = [n for n in self._doubted if doubt_unit(table.column(n), self._columns[n], self._name)]
        return pa.Table.from_arrays(columns, names=self._columns)

    def accept(self) -> None:
        """What was taken last comes in: its first integers have been the first ones."""
        if self._seen:
            self._doubted = [n for n in self._doubted if n not in self._seen]
            self._seen = []

    def _look_at(self, schema: pa.Schema) -> None:
        """Find the declared columns in a schema, and see whether their types can be read."""
        positions = self._find(schema.names)
        types = [schema.field(position).type for position in positions]
        for found, type_, name in zip(types, self._types, self._columns, strict=True):
            check_type(found, type_, name, self._name)
        self._positions = positions
        self._is_in_place = positions == list(range(len(schema.names)))
        self._fits = types == [ARROW_TYPES[type_] for type_ in self._types]
        self._known_schema = schema

    def _find(self, names: list[str]) -> list[int]:
        """Where the declared columns stand among `names`."""
        places = []
        fitting = fitting_columns(self._columns, names)
        for name, type_, found in zip(self._columns, self._types, fitting, strict=True):
            if not found:
                raise SchemaError(
                    f"Expected a column `{name}` ({type_}), found none",
                    source=self._name,
                    hint=did_you_mean(name, names),
                )
            if len(found) > 1:
                rivals = " and ".join(f"`{names[place]}`" for place in found[:2])
                raise SchemaError(f"Expected one column `{name}`, found {rivals}", source=self._name)
            places.append(found[0])
        return places


def fitting_columns(declared: Sequence[str], found: Sequence[str]) -> Iterator[list[int]]:
    """For each declared column the positions that may be meant: the exact name, else all but for case.

    It is there if that is one.
    """
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for position, name in enumerate(found):
        exact.setdefault(name, []).append(position)
        folded.setdefault(name.strip().lower(), []).append(position)
    for name in declared:
        yield exact.get(name) or folded.get(name.lower(), [])
