"""Rows that cannot be read and are left out: counted, and written down with their reason if asked."""

from __future__ import annotations

import csv
import io
import json
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.rows.errors import DataError
from penstock.engine.rows.window import MAX_TS
from penstock.engine.rows.write_times import write_time

from .convert import convert_batch, convert_column
from .line_file import LineFile, open_lines
from .writing import writing

COLUMNS = ("file", "row", "reason", "text")
LONGEST_TEXT = 10_000  # characters
PIECE_ROWS = 256


class BadRows:
    """What is left out; written as CSV, or as JSON lines if the file is called so."""

    def __init__(self, path: str | None = None) -> None:
        self.count = 0
        self._lock = threading.Lock()  # inputs may be read by several threads
        self.path = path
        self._is_json = path is not None and path.lower().endswith((".jsonl", ".ndjson", ".json"))
        self._file: LineFile | None = None
        if path is not None:
            with writing(path):
                self._file = open_lines(path)
            if not self._is_json:
                self._write(_to_csv(COLUMNS))

    def add(self, file: str, row: int, reason: str, text: str) -> None:
        with self._lock:
            self._add(file, row, reason, text)

    def _add(self, file: str, row: int, reason: str, text: str) -> None:
        self.count += 1
        if self._file is None:
            return
        if len(text) > LONGEST_TEXT:
            text = text[: LONGEST_TEXT - 1] + "…"
        fields = (file, row, reason, text)
        if self._is_json:
            line = json.dumps(dict(zip(COLUMNS, fields, strict=True)), ensure_ascii=False) + "\n"
            self._write(line.encode("utf-8", errors="replace"))
        else:
            self._write(_to_csv(fields))

    def _write(self, line: bytes) -> None:
        assert self._file is not None, "there is a path"
        with writing(str(self.path)):
            self._file.write(line)

    def flush(self) -> None:
        if self._file is not None:
            with writing(str(self.path)):
                self._file.sync()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with writing(str(self.path)):
                file.close()


def _to_csv(fields: tuple[object, ...]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue().encode("utf-8", errors="replace")


def convert_good(
    batch: pa.RecordBatch, schema: pa.Schema, time: int | None, is_written: bool = False
) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_], dict[int, str]]:
    """The good rows in the types of `schema`, which of all they are, and of the others what is wrong.

    time: the column that must have a time in every row. is_written: of a format that has nothing but text.
    """
    reasons: dict[int, str] = {}
    for column, field in zip(batch.columns, schema, strict=True):
        for row, reason in _find_bad(column, field, is_written):
            reasons.setdefault(row, reason)
    is_good = np.ones(len(batch), bool)
    is_good[list(reasons)] = False
    good = convert_batch(batch.filter(pa.array(is_good)) if reasons else batch, schema, is_written)
    if time is None:
        return good, is_good, reasons
    times = good.column(time)
    ticks = times.cast(pa.int64()).fill_null(MAX_TS).to_numpy(zero_copy_only=False)
    is_time = (ticks > -MAX_TS) & (ticks < MAX_TS)
    if not is_time.all():
        places = np.flatnonzero(is_good)
        for at in np.flatnonzero(~is_time):
            found = f"`{write_time(int(ticks[at]))}`" if times[int(at)].is_valid else "NULL"
            reasons[int(places[at])] = f"Expected a time in column `{schema.names[time]}`, found {found}"
        is_good[places[~is_time]] = False
        good = good.filter(pa.array(is_time))
    return good, is_good, reasons


def _find_bad(column: pa.Array, field: pa.Field, is_written: bool) -> list[tuple[int, str]]:
    """The rows whose value is refused, and why; pieces without any are passed at once."""
    try:
        convert_column(column, field, is_written)
    except DataError as error:
        if error.row is None:
            raise
    else:
        return []
    bad = []
    for start in range(0, len(column), PIECE_ROWS):
        piece = column.slice(start, PIECE_ROWS)
        done = 0
        while done < len(piece):
            try:
                convert_column(piece.slice(done), field, is_written)
                break
            except DataError as error:
                done += error.row or 1
                bad.append((start + done - 1, error.message))
    return bad


def show_row(batch: pa.RecordBatch, row: int) -> str:
    """A row of a file that is no text, as JSON."""
    values: dict[str, Any] = {name: batch.column(at)[row] for at, name in enumerate(batch.schema.names)}
    shown = {}
    for name, value in values.items():
        try:
            shown[name] = value.as_py()
        except (ValueError, OverflowError, UnicodeDecodeError):
            shown[name] = str(value.cast(pa.int64())) if pa.types.is_temporal(value.type) else repr(value)
    return json.dumps(shown, ensure_ascii=False, default=str)
