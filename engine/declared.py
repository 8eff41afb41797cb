"""The columns of a relation as declared, found in whatever table is given."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from .convert import convert_column
from .errors import SchemaError, did_you_mean
from .types import ARROW_TYPES, SqlType


class Declared:
    """Finds the declared columns by name whatever the case, and converts them to their declared types."""

    def __init__(self, name: str, columns: Sequence[str], types: Sequence[SqlType]) -> None:
        self._name = name
        self._columns = columns
        self._types = types
        self._known_schema: pa.Schema | None = None
        self._positions: list[int] = []
        self._fits = False
        self._places = {column.lower(): place for place, column in enumerate(columns)}

    def take(self, table: pa.Table) -> pa.Table:
        """The declared columns of the table; raises SchemaError or DataError."""
        if table.schema != self._known_schema:
            self._positions = self._find(table.schema.names)
            types = [table.schema.field(position).type for position in self._positions]
            in_place = self._positions == list(range(len(table.schema.names)))
            self._fits = in_place and types == [ARROW_TYPES[type_] for type_ in self._types]
            self._known_schema = table.schema
        if self._fits:
            return table
        declared = zip(self._columns, self._types, self._positions, strict=True)
        columns = [
            convert_column(table.column(position), type_, name, self._name)
            for name, type_, position in declared
        ]
        return pa.Table.from_arrays(columns, names=self._columns)

    def _find(self, names: list[str]) -> list[int]:
        """Where the declared columns stand among `names`; one spelt as declared goes before others."""
        places: dict[int, int] = {}
        for position, name in enumerate(names):
            place = self._places.get(name.lower())
            if place is None:
                continue
            declared = self._columns[place]
            rival = names[places[place]] if place in places else None
            if rival is not None and (rival == declared) == (name == declared):
                raise SchemaError(
                    f"Expected one column `{declared}`, found `{rival}` and `{name}`", source=self._name
                )
            if rival is None or name == declared:
                places[place] = position
        for place, (name, type_) in enumerate(zip(self._columns, self._types, strict=True)):
            if place not in places:
                raise SchemaError(
                    f"Expected a column `{name}` ({type_}), found none",
                    source=self._name,
                    hint=did_you_mean(name, names),
                )
        return [places[place] for place in range(len(places))]
