"""JSON lines: one object per line, a missing key is NULL, keys the stream does not declare are ignored.

The text is cut into blocks at line ends and each block goes through Arrow's parser. A block it refuses is
read again line by line, which accepts what is right but uncommon (times as text and as numbers in one
column, "NaN" as text) and otherwise names the row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.engine.convert import wanted
from penstock.engine.errors import DataError, FileError
from penstock.engine.sound import shorten
from penstock.engine.time_units import unit_of
from penstock.engine.types import SqlType

from .blocks import cut_blocks
from .convert import match_columns, sql_type
from .source import Source, show_path

NAMED_ROWS = 1000
NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonLinesReader:
    """Keys are matched to declared columns once, by the first rows that have any."""

    is_written = False

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        self._source = source
        self._schema = schema
        self._path = show_path(source.path)
        self._rows_done = 0
        self._blocks = cut_blocks(source)
        self._first = next(self._blocks, b"")
        if not self._first:
            raise FileError("Expected rows, found only blank lines", source=self._path)
        self._keys, self._parsed = self._match_keys(self._first)

    def _match_keys(self, block: bytes) -> tuple[list[str], pa.Schema]:
        """The key of each column, and the types to parse with: times as the text or numbers they are."""
        rows = []
        for number, line in enumerate(_lines(block)[:NAMED_ROWS], start=1):
            try:
                rows.append(self._parse_line(line, number))
            except DataError:
                if not rows:
                    raise
                break  # what is wrong will be said when the rows before it have been given
        found = list(dict.fromkeys(key for row in rows for key in row))
        keys = [found[at] for at in match_columns(self._schema.names, found, self._path)]
        fields = []
        for key, field in zip(keys, self._schema, strict=True):
            type_ = field.type
            if sql_type(field) is SqlType.TIMESTAMP:
                first = next((row[key] for row in rows if row.get(key) is not None), None)
                type_ = pa.int64() if isinstance(first, int) else pa.string()
            fields.append(pa.field(key, type_))
        return keys, pa.schema(fields)

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.json as pa_json

        options = pa_json.ParseOptions(
            explicit_schema=self._parsed, unexpected_field_behavior="ignore", newlines_in_values=False
        )
        block = self._first
        while block:
            read = pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
            try:
                table = pa_json.read_json(pa.BufferReader(block), read, options)
                batches = table.select(self._keys).combine_chunks().to_batches(len(block))
                error = None
            except pa.ArrowInvalid:
                rows, error = self._parse_slowly(block)
                batches = [rows]
            for batch in batches:
                self._rows_done += len(batch)
                yield batch
            if error is not None:
                raise error
            block = next(self._blocks, b"")

    def _parse_line(self, line: bytes, row: int) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except UnicodeDecodeError as error:
            raise DataError(
                f"Expected UTF-8 text, found the byte `0x{line[error.start]:02x}`", source=self._path, row=row
            ) from None
        except ValueError:
            value = None
        if isinstance(value, dict):
            return value
        raise DataError(
            f"Expected a JSON object, found `{shorten(line.decode('utf-8', errors='replace'))}`",
            source=self._path,
            row=row,
            hint="JSON lines has one object per line"
            if row == 1 and line.lstrip().startswith(b"[")
            else None,
        )

    def _parse_slowly(self, block: bytes) -> tuple[pa.RecordBatch, DataError | None]:
        """The rows before the first bad one, and what is wrong with that one."""
        columns: list[list[Any]] = [[] for _ in self._keys]
        failure = None
        for row, line in enumerate(_lines(block), start=self._rows_done + 1):
            try:
                values = self._read_values(line, row)
            except DataError as error:
                failure = error
                break
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        arrays = [
            pa.array(column, pa.string() if sql_type(field) is SqlType.TIMESTAMP else field.type)
            for field, column in zip(self._schema, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._keys), failure

    def _read_values(self, line: bytes, row: int) -> list[Any]:
        found = self._parse_line(line, row)
        values = []
        for key, field in zip(self._keys, self._schema, strict=True):
            try:
                values.append(_as_declared(found.get(key), sql_type(field)))
            except ValueError:
                raise DataError(
                    f"Expected {wanted(sql_type(field), unit_of(field) or 'us')} in column `{field.name}`,"
                    f" found `{shorten(json.dumps(found[key], ensure_ascii=False))}`",
                    source=self._path,
                    row=row,
                ) from None
        return values

    def share_done(self) -> float:
        return self._source.bytes_done / self._source.bytes_total if self._source.bytes_total else 0.0

    def close(self) -> None:
        self._source.close()


def _lines(block: bytes) -> list[bytes]:
    return [line for line in block.split(b"\n") if line.strip()]


def _as_declared(value: Any, declared: SqlType) -> Any:
    """The value as the declared type's, times still as text; ValueError if it is not one."""
    if value is None:
        return None
    is_int = isinstance(value, int) and not isinstance(value, bool)
    match declared:
        case SqlType.BIGINT if is_int and -(1 << 63) <= value < 1 << 63:
            return value
        case SqlType.BIGINT if isinstance(value, float) and abs(value) < 1 << 63 and value.is_integer():
            return int(value)
        case SqlType.DOUBLE if is_int or isinstance(value, float):
            return float(value)
        case SqlType.DOUBLE if isinstance(value, str) and value in NOT_FINITE:
            return NOT_FINITE[value]
        case SqlType.BOOLEAN if isinstance(value, bool):
            return value
        case SqlType.VARCHAR if isinstance(value, str):
            value.encode()  # a lone surrogate is no text; UnicodeEncodeError is a ValueError
            return value
        case SqlType.TIMESTAMP if is_int or isinstance(value, str):
            return str(value)
    raise ValueError
