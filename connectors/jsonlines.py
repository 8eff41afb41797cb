"""JSON lines: one object per line, a missing key is NULL, keys the stream does not declare are ignored.

The text is cut into blocks at line ends and each block goes through Arrow's parser. A block it refuses is
read again line by line, which accepts what is right but uncommon (times as text and as numbers in one
column, "NaN" as text) and otherwise names the row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.intake.convert import wanted
from penstock.engine.intake.sound import shorten
from penstock.engine.intake.time_units import unit_of
from penstock.engine.rows.errors import DataError, FileError
from penstock.engine.rows.types import SqlType

from .batch import Int64s
from .blocks import Rest, cut_blocks
from .convert import match_columns, sql_type
from .read_rules import CUT, STRICT, ReadRules
from .source import Source, show_path

NAMED_ROWS = 1000
DEEPEST = 500  # Python's parser goes a little deeper, Arrow's as deep as you like
TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
OPENERS = np.frombuffer(b"{[", np.uint8)
CLOSERS = np.frombuffer(b"}]", np.uint8)
NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonLinesReader:
    """Keys are matched to declared columns once, by the first rows that have any."""

    is_written = False

    def __init__(self, source: Source, schema: pa.Schema, rules: ReadRules = STRICT) -> None:
        self.numbers: Int64s | None = None
        self._source = source
        self._rules = rules
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
                if self._rules.bad_rows is not None:
                    continue
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
            self._block = block
            read = pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
            try:
                if has_deep_line(block):
                    raise pa.ArrowInvalid("Arrow does not mind")
                table = pa_json.read_json(pa.BufferReader(block), read, options)
                batches = table.select(self._keys).combine_chunks().to_batches(len(block))
                numbers = np.arange(self._rows_done + 1, self._rows_done + 1 + len(table))
                error, rows_done = None, self._rows_done + len(table)
            except pa.ArrowInvalid:
                rows, numbers, rows_done, error = self._parse_slowly(block)
                batches = [rows]
            for batch in batches:
                self.numbers, numbers = numbers[: len(batch)], numbers[len(batch) :]
                if len(batch):
                    yield batch
            if error is not None:
                raise error
            self._rows_done = rows_done
            block = next(self._blocks, b"")

    def _parse_line(self, line: bytes, row: int) -> dict[str, Any]:
        if is_deep(line):
            raise DataError(
                f"Expected JSON nested at most {DEEPEST} deep, found it deeper", source=self._path, row=row
            )
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

    def _parse_slowly(self, block: bytes) -> tuple[pa.RecordBatch, Int64s, int, DataError | None]:
        """The good rows up to the first that is refused, their numbers, the last row, and what is wrong."""
        columns: list[list[Any]] = [[] for _ in self._keys]
        numbers: list[int] = []
        failure = None
        lines = _lines(block)
        for row, line in enumerate(lines, start=self._rows_done + 1):
            is_last = row == self._rows_done + len(lines) and isinstance(block, Rest)
            try:
                values = self._read_values(line, row)
            except DataError as error:
                failure = self._leave_out(error, line, row, is_last and _is_cut(line))
                if failure is not None:
                    break
                continue
            numbers.append(row)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        arrays = [
            pa.array(column, pa.string() if sql_type(field) is SqlType.TIMESTAMP else field.type)
            for field, column in zip(self._schema, columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=self._keys)
        return batch, np.array(numbers, np.int64), self._rows_done + len(lines), failure

    def _leave_out(self, error: DataError, line: bytes, row: int, is_cut: bool) -> DataError | None:
        """None if the row is left out, else the error it is refused with."""
        if self._rules.bad_rows is not None:
            text = line.decode("utf-8", errors="replace")
            self._rules.bad_rows.add(self._path, row, error.message, text)
        elif is_cut and self._rules.allow_partial:
            self._rules.leave_out_cut(self._path, row)
        else:
            return DataError(error.message, source=self._path, row=row, hint=CUT) if is_cut else error
        return None

    def text_of(self, row: int) -> str | None:
        return _lines(self._block)[row - self._rows_done - 1].decode("utf-8", errors="replace")

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
        return self._source.share_done

    def close(self) -> None:
        self._source.close()


def _lines(block: bytes) -> list[bytes]:
    return [line for line in block.split(b"\n") if line.strip()]


def _is_cut(line: bytes) -> bool:
    """Whether a bad line is no JSON at all, as when the rest of it is missing."""
    try:
        return not is_deep(line) and json.loads(line) is None
    except ValueError:
        return True


def has_deep_line(block: bytes) -> bool:
    """Whether some line is nested too deep; two counts tell that of nearly every block."""
    openers = block.count(b"{") + block.count(b"[")
    return openers > DEEPEST and any(map(is_deep, block.split(b"\n")))


def is_deep(line: bytes) -> bool:
    """Whether JSON is nested deeper than what reads it can follow; brackets within texts do not count."""
    if line.count(b"{") + line.count(b"[") <= DEEPEST:
        return False
    text = np.frombuffer(TEXTS.sub(b"", line), np.uint8)
    steps = np.isin(text, OPENERS).astype(np.int64) - np.isin(text, CLOSERS)
    return bool(np.cumsum(steps).max(initial=0) > DEEPEST)


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
