"""CSV with a header row, block by block through Arrow's parser; rows count from 1 without the header."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.rows.errors import DataError, FileError, SchemaError

from .batch import Int64s
from .blocks import Rest, cut_blocks
from .convert import match_columns
from .quoted_records import find_long, is_open, split_records
from .read_rules import CUT, STRICT, ReadRules
from .source import Source, show_path

HEADER_BYTES = 1 << 20
OTHER_DELIMITERS = ";|\t,"


class CsvReader:
    """Every value comes as text, NULL where the field is empty and not quoted."""

    is_written = True

    def __init__(
        self, source: Source, schema: pa.Schema, delimiter: str = ",", rules: ReadRules = STRICT
    ) -> None:
        self.numbers: Int64s | None = None
        self._source = source
        self._delimiter = delimiter
        self._rules = rules
        self._bad: list[Any] = []  # rows of the block with too few or too many fields
        self._block = b""
        self._records: list[bytes] | None = None
        self._rows_before = 0  # the block
        self._path = show_path(source.path)
        self._names = self._read_header()
        try:
            self._positions = match_columns(schema.names, self._names, self._path)
        except SchemaError as error:
            if len(self._names) > 1 or not set(OTHER_DELIMITERS) & set(self._names[0]):
                raise
            hint = "Fields must be separated by commas, or in a .tsv file by tabs"
            raise SchemaError(error.message, source=error.source, hint=hint) from None

    def _read_header(self) -> list[str]:
        """Takes the header off the source, and blank lines before it."""
        while True:
            head = b""
            while (
                b"\n" not in head and len(head) < HEADER_BYTES and (more := self._source.read(HEADER_BYTES))
            ):
                head += more
            line, end, rest = head.partition(b"\n")
            self._source.unread(rest)
            text = line.decode("utf-8-sig").strip("\r")
            if is_open(line, self._delimiter):
                raise FileError(
                    "Expected a header row in one line, found a quote that it does not close",
                    source=self._path,
                )
            if text.strip():
                return next(csv.reader([text], delimiter=self._delimiter))
            if not end:
                raise FileError("Expected a header row, found only blank lines", source=self._path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for block in self._cut_blocks():
            long = find_long(
                block, self._delimiter, self._rules.limit.most_bytes, self._rules.limit.most_lines
            )
            self._block = block if long is None else block[:long]
            if self._block:
                yield from self._read_block()
            if long is not None:
                raise self._rules.limit.error(self._path, self._rows_before + 1)

    def _cut_blocks(self) -> Iterator[bytes]:
        """Text is read here and not by a reader of Arrow's, which reads ahead in a thread of its own: if that
        asks for Python at the end of the process, it hangs or aborts it. So the rows of a pipe go on as they
        come, and an interrupt is heard.
        """
        blocks = cut_blocks(self._source, delimiter=self._delimiter, limit=self._rules.limit)
        while True:
            try:
                block = next(blocks, b"")
            except DataError as error:
                row = self._rows_before + 1
                raise type(error)(error.message, source=error.source, row=row, hint=error.hint) from None
            if not block:
                return
            if not isinstance(block, Rest) or not is_open(block, self._delimiter):
                yield block
            else:
                self._leave_out_last(block, "Expected a closing quote, found the end of the file")

    def _leave_out_last(self, block: bytes, reason: str) -> None:
        """The file ends within a record, which no line end follows."""
        row, bad_rows = self._rows_before + 1, self._rules.bad_rows
        if bad_rows is not None:
            bad_rows.add(self._path, row, reason, block.decode("utf-8", errors="replace"))
        elif self._rules.allow_partial:
            self._rules.leave_out_cut(self._path, row)
        else:
            raise DataError(reason, source=self._path, row=row, hint=CUT)

    def _read_block(self) -> Iterator[pa.RecordBatch]:
        """The good rows, those before the first bad one if bad rows are refused."""
        self._records, self._bad = None, []
        table = self._parse(self._block)
        numbers = np.arange(self._rows_before + 1, self._rows_before + 1 + len(table) + len(self._bad))
        error = None
        if self._bad:
            numbers = np.delete(numbers, [row.number - 1 for row in self._bad])
            error = self._judge_bad()
            if error is not None:
                assert error.row is not None, "who judges"
                table = table.slice(0, int(np.searchsorted(numbers, error.row)))
        at = 0
        for batch in table.to_batches():
            if len(batch):
                self.numbers = numbers[at : at + len(batch)]
                at += len(batch)
                yield batch
        if error is not None:
            raise error
        self._rows_before += len(table) + len(self._bad)

    def _judge_bad(self) -> DataError | None:
        """What is wrong with the first row of other than as many fields, None if such rows are left out."""
        for row in self._bad:
            number = self._rows_before + row.number
            reason = f"Expected {row.expected_columns} fields as in the header, found {row.actual_columns}"
            is_cut = isinstance(self._block, Rest) and row.actual_columns < row.expected_columns
            if self._rules.bad_rows is not None:
                self._rules.bad_rows.add(self._path, number, reason, row.text or "")
            elif is_cut and self._rules.allow_partial:
                self._rules.leave_out_cut(self._path, number)
            else:
                return DataError(reason, source=self._path, row=number, hint=CUT if is_cut else None)
        return None

    def _parse(self, block: bytes) -> pa.Table:
        """The columns asked for, as text; rows with too few or too many fields are left out and noted."""
        import pyarrow.csv as pa_csv

        # Columns go by position: names in the header may be doubled or differ in case from the declared.
        names = [str(position) for position in range(len(self._names))]
        wanted = [names[position] for position in self._positions]
        # Without threads, Arrow knows the number of a bad row.
        read = pa_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1)
        parse = pa_csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._note_bad_row
        )
        convert = pa_csv.ConvertOptions(
            include_columns=list(dict.fromkeys(wanted)),
            column_types=dict.fromkeys(wanted, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        )
        return pa_csv.read_csv(pa.BufferReader(block), read, parse, convert).select(wanted)

    def _note_bad_row(self, row: Any) -> str:
        self._bad.append(row)
        return "skip"

    def text_of(self, row: int) -> str | None:
        """The record as it stands in the block that is being given."""
        if self._records is None:
            self._records = split_records(self._block, self._delimiter)
        at = row - self._rows_before - 1
        return self._records[at].decode("utf-8", errors="replace").rstrip("\r")

    def share_done(self) -> float:
        return self._source.share_done

    def close(self) -> None:
        self._source.close()
