"""From what a file holds to what a stream declares: which columns, and batches up to the first bad row.

How values become those of a declared type is the engine's part (convert.py there), so that a file and a push
of the same data mean the same. A column's unit of time is in the metadata of its field.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.intake import convert
from penstock.engine.intake.convert import parse_times
from penstock.engine.intake.declared import fitting_columns
from penstock.engine.intake.time_units import TimeUnit, unit_of
from penstock.engine.rows.errors import DataError, SchemaError, did_you_mean
from penstock.engine.rows.types import SqlType, from_arrow

__all__ = [
    "check_types",
    "convert_batch",
    "convert_column",
    "convert_rows",
    "match_columns",
    "parse_times",
    "sql_type",
]

SHOWN_COLUMNS = 12


def match_columns(declared: Sequence[str], found: Sequence[str], source: str) -> list[int]:
    """For each declared column its position in the file: the exact name, else the only one but for case."""
    positions = []
    for name, fitting in zip(declared, fitting_columns(declared, found), strict=True):
        if not fitting:
            hint = did_you_mean(name, found) or ""
            meant = f" ({hint[0].lower()}{hint[1:]})" if hint.startswith("Did") else ""
            raise SchemaError(f"Expected a column `{name}`, found {list_names(found)}{meant}", source=source)
        if len(fitting) > 1:
            raise SchemaError(f"Expected one column `{name}`, found {len(fitting)} of them", source=source)
        positions.append(fitting[0])
    return positions


def check_types(declared: pa.Schema, found: pa.Schema, order: Sequence[int], source: str) -> None:
    """Raises SchemaError if the type of a column, at its position, is never read as the declared one."""
    for field, position in zip(declared, order, strict=True):
        convert.check_type(found.field(position).type, sql_type(field), field.name, source)


def list_names(names: Sequence[str]) -> str:
    """The names in backticks, the first few if there are many."""
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN_COLUMNS])
    more = len(names) - SHOWN_COLUMNS
    return (shown or "no columns") + (f" and {more} more" if more > 0 else "")


def convert_batch(batch: pa.RecordBatch, schema: pa.Schema, is_written: bool = False) -> pa.RecordBatch:
    """The columns of `batch`, which stand in the order of `schema`, in its types; errors have local rows."""
    pairs = zip(batch.columns, schema, strict=True)
    columns = [convert_column(column, field, is_written) for column, field in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def convert_rows(
    batch: pa.RecordBatch, schema: pa.Schema, is_written: bool = False
) -> tuple[pa.RecordBatch, DataError | None]:
    """The rows before the first bad one, and what is wrong with that one; all rows and None if none is bad.

    is_written: of a format that has nothing but text. What a run gives before it stops at a bad row must not
    depend on where batches were cut.
    """
    try:
        return convert_batch(batch, schema, is_written), None
    except DataError as error:
        if error.row is None:
            raise
        if error.row == 1:
            return pa.RecordBatch.from_pylist([], schema=schema), error
        # Another column may have a bad value in an earlier row.
        good, earlier = convert_rows(batch.slice(0, error.row - 1), schema, is_written)
        return good, earlier or error


def convert_column(column: pa.Array, field: pa.Field, is_written: bool = False) -> pa.Array:
    """The column in the type of `field`, or a DataError with the row, from 1, of the first bad value."""
    unit: TimeUnit = unit_of(field) or "us"
    return convert.convert_column(column, sql_type(field), field.name, None, unit, is_written)


def sql_type(field: pa.Field) -> SqlType:
    """The SQL type a declared column has."""
    declared = from_arrow(field.type)
    assert declared is not None, f"a stream cannot declare {field.type}"
    return declared
