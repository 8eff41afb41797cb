"""What `-i stream=file` means: which files, in which order, read one after the other as one input."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.errors import DataError, UsageError
from penstock.engine.time_units import doubt_unit, unit_of
from penstock.engine.types import SqlType

from .batch import NO_TIME, Batch, running_times
from .convert import convert_rows, sql_type
from .readers import BATCH_ROWS, Reader, open_reader, rows_of_batch
from .source import STANDARD_INPUT, file_error, reading, show_path

NO_TIMES = np.zeros(BATCH_ROWS, np.int64)  # of the rows of a table


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One `-i`: the stream's name as written, and the files in reading order."""

    stream: str
    paths: tuple[str, ...]


def parse_input(text: str) -> InputSpec:
    """`temperature=hum/*.csv` as a stream and its files; a pattern that matches nothing is a FileError."""
    stream, equals, pattern = text.partition("=")
    if not equals or not stream.strip() or not pattern.strip():
        raise UsageError(f"Expected `-i stream=file`, found `-i {text}`")
    return InputSpec(stream.strip(), tuple(expand(pattern.strip())))


def expand(pattern: str) -> list[str]:
    """The files a path or pattern (`*` within a folder, `**` across) names, in natural order of names."""
    if pattern == STANDARD_INPUT:
        return [pattern]
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", pattern):
        raise file_error(f"Expected a local file, found `{pattern}`; only local files are read", pattern)
    path = os.path.expanduser(pattern)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    found = [name for name in glob.glob(path, recursive=True) if not os.path.isdir(name)]
    if not found:
        raise file_error(f"Expected files matching `{pattern}`, found none", pattern)
    return sorted(found, key=natural_key)


def natural_key(path: str) -> list[tuple[int, int, str]]:
    """Sorts `part2` before `part10`: runs of digits compare as numbers."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path)]


class Input:
    """The files of one `-i`, read one after the other in batches of at most BATCH_ROWS rows, and about
    BATCH_BYTES bytes. Rows of a table have no time column.

    The first file is opened at once, so that a wrong path or a missing column is known before anything runs.
    """

    def __init__(
        self,
        paths: Sequence[str],
        schema: pa.Schema,
        time_column: str | None,
        names: list[str],
    ) -> None:
        self._paths = paths
        self._schema = schema
        self._time = None if time_column is None else schema.get_field_index(time_column)
        self._names = names
        sizes = [os.path.getsize(path) if os.path.isfile(path) else None for path in paths]
        self._sizes = [size or 0 for size in sizes]
        self.bytes_total = None if None in sizes else sum(self._sizes)
        self._files_done = 0
        self._doubted = [
            n for n, field in enumerate(schema) if sql_type(field) is SqlType.TIMESTAMP and not unit_of(field)
        ]
        """Columns of times in which no integer has come yet that could be in another unit."""
        self.rows_decoded = 0
        self._reader: Reader | None = open_reader(paths[0], schema)
        for path in paths[1:]:
            if not os.path.exists(path):
                raise file_error(f"Expected a file at `{path}`, found none", path)
        self._batches = self._read()

    def read(self) -> Batch | None:
        """The next rows, None at the end."""
        return next(self._batches, None)

    def _read(self) -> Iterator[Batch]:
        latest = int(NO_TIME)
        for path in self._paths:
            self._reader = self._reader or open_reader(path, self._schema)
            file = len(self._names)
            self._names.append(show_path(path))
            rows_done = 0
            for batch in self._converted(path, self._reader):
                times = NO_TIMES[: len(batch)]
                if self._time is not None:
                    times = running_times(batch.column(self._time), latest)
                rows = np.arange(rows_done + 1, rows_done + len(batch) + 1)
                files = np.full(len(batch), file)
                rows_done += len(batch)
                latest = int(times[-1])
                yield Batch(batch, times, files, rows, self._names)
            self._reader.close()
            self._reader = None
            self._files_done += 1

    def _converted(self, path: str, reader: Reader) -> Iterator[pa.RecordBatch]:
        rows_done = 0
        with reading(path, "rows"):
            for whole in reader.batches():
                self.rows_decoded += len(whole)
                size = rows_of_batch(whole.nbytes / max(1, len(whole)))
                for start in range(0, len(whole), size):
                    part = whole.slice(start, size)
                    try:
                        batch, error = convert_rows(part, self._schema, reader.is_written)
                        self._doubt_units(part, len(batch))
                    except DataError as wrong:
                        row = None if wrong.row is None else rows_done + wrong.row
                        raise type(wrong)(
                            wrong.message, source=show_path(path), row=row, hint=wrong.hint
                        ) from None
                    rows_done += len(batch)
                    if len(batch):
                        yield batch
                    if error is not None:
                        raise type(error)(
                            error.message, source=show_path(path), row=rows_done + 1, hint=error.hint
                        )

    def _doubt_units(self, rows: pa.RecordBatch, good: int) -> None:
        """Raises if the first integer in a column of times, among the good rows, looks like another unit."""
        for n in list(self._doubted):
            if doubt_unit(rows.column(n).slice(0, good), self._schema.names[n], None):
                self._doubted.remove(n)

    @property
    def bytes_done(self) -> float:
        """Bytes of the files read so far, for the share that is done."""
        done = float(sum(self._sizes[: self._files_done]))
        if self._reader is not None:
            done += self._sizes[self._files_done] * self._reader.share_done()
        return done

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
