"""What `-i stream=file` means: which files, in which order, read one after the other as one input."""

from __future__ import annotations

import glob
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.engine.intake.time_units import doubt_unit, unit_of
from penstock.engine.rows.errors import DataError, UsageError
from penstock.engine.rows.types import SqlType

from .bad_rows import BadRows, convert_good, show_row
from .batch import NO_TIME, Batch, Int64s, running_times
from .convert import convert_rows, sql_type
from .read_rules import STRICT, ReadRules
from .readers import BATCH_ROWS, Reader, open_reader, rows_of_batch
from .source import STANDARD_INPUT, file_error, reading, show_path

Converted = TypeVar("Converted")
NAMING = threading.Lock()  # inputs of one stream may be read by threads, and number their files together
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
        rules: ReadRules = STRICT,
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
        self._rules = rules
        self.rows_decoded = 0
        self._reader: Reader | None = open_reader(paths[0], schema, rules)
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
            self._reader = self._reader or open_reader(path, self._schema, self._rules)
            with NAMING:
                file = len(self._names)
                self._names.append(show_path(path))
            for batch, rows in self._converted(path, self._reader):
                times = NO_TIMES[: len(batch)]
                if self._time is not None:
                    times = running_times(batch.column(self._time), latest)
                files = np.full(len(batch), file)
                latest = int(times[-1])
                yield Batch(batch, times, files, rows, self._names)
            self._reader.close()
            self._reader = None
            self._files_done += 1

    def _converted(self, path: str, reader: Reader) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Rows in the declared types, and which rows of the file they are."""
        rows_before = 0
        with reading(path, "rows"):
            for whole in reader.batches():
                self.rows_decoded += len(whole)
                numbers = reader.numbers
                if numbers is None:
                    numbers = np.arange(rows_before + 1, rows_before + 1 + len(whole))
                rows_before += len(whole)
                size = rows_of_batch(whole.nbytes / max(1, len(whole)))
                for start in range(0, len(whole), size):
                    part, own = whole.slice(start, size), numbers[start : start + size]
                    if self._rules.bad_rows is not None:
                        part, own = self._leave_out_bad(path, reader, part, own, self._rules.bad_rows)
                        if len(part):
                            yield part, own
                        continue
                    batch, error = self._convert(
                        path, own, partial(convert_rows, part, self._schema, reader.is_written)
                    )
                    self._convert(path, own, partial(self._doubt_units, part.slice(0, len(batch))))
                    if len(batch):
                        yield batch, own[: len(batch)]
                    if error is not None:
                        row = int(own[len(batch)])
                        raise type(error)(error.message, source=show_path(path), row=row, hint=error.hint)

    def _leave_out_bad(
        self, path: str, reader: Reader, part: pa.RecordBatch, numbers: Int64s, bad_rows: BadRows
    ) -> tuple[pa.RecordBatch, Int64s]:
        """The good rows of some, and their numbers."""
        convert = partial(convert_good, part, self._schema, self._time, reader.is_written)
        good, is_good, reasons = self._convert(path, numbers, convert)
        self._convert(path, numbers[is_good], partial(self._doubt_units, part.filter(pa.array(is_good))))
        for at in sorted(reasons):
            number = int(numbers[at])
            text = reader.text_of(number)
            bad_rows.add(show_path(path), number, reasons[at], show_row(part, at) if text is None else text)
        return good, numbers[is_good]

    @staticmethod
    def _convert(path: str, numbers: Int64s, action: Callable[[], Converted]) -> Converted:
        """Errors of rows with these numbers, or of a whole column, are errors of the file."""
        try:
            return action()
        except DataError as error:
            row = None if error.row is None else int(numbers[error.row - 1])
            raise type(error)(error.message, source=show_path(path), row=row, hint=error.hint) from None

    def _doubt_units(self, rows: pa.RecordBatch) -> None:
        """Raises if the first integer in a column of times looks like another unit."""
        for n in list(self._doubted):
            if doubt_unit(rows.column(n), self._schema.names[n], None):
                self._doubted.remove(n)

    @property
    def bytes_done(self) -> float:
        """Bytes of the files read so far, for the share that is done."""
        done = float(sum(self._sizes[: self._files_done]))
        if self._reader is not None:
            done += self._sizes[self._files_done] * self._reader.share_done()
        return done

    @property
    def is_ready(self) -> bool:
        """Whether rows can be had without waiting for who writes them: they are on a disk."""
        return True

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
