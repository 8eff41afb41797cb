"""Results into files, one per query, in a stream; whatever has been written can be read after any end.

CSV and JSON lines grow under their own name, so that they can be followed while they grow. Parquet is
unreadable until its footer is written: it grows as `name.parquet.part` and gets its name when closed, which
the caller does also when interrupted.
"""

from __future__ import annotations

import errno
import os
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any, Literal, Protocol

import pyarrow as pa

from penstock.engine.errors import FileError, UsageError

from .json_text import to_json_lines
from .source import file_error

OutputFormat = Literal["parquet", "csv", "jsonl"]

SAFE = set(string.ascii_letters + string.digits + "_-.")
LONGEST_NAME_BYTES = 200
# A row group is at least this long, unless many queries would then hold too much at once.
GROUP_ROWS = 1 << 17
HELD_ROWS = 1 << 22
GROUP_BYTES = 32 << 20  # or when wide rows have become so much
SMALLEST_GROUP_ROWS = 1 << 12
SPARE_FILES = 64


class Writer(Protocol):
    """Where the results of one query go."""

    path: str

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def open_writers(
    folder: str, format_: OutputFormat, schemas: Mapping[str, pa.Schema], *, overwrite: bool = False
) -> dict[str, Writer]:
    """A writer per query, its file in `folder`, made if need be; without `overwrite` no file is replaced."""
    paths = {name: os.path.join(folder, f"{file_name(name)}.{format_}") for name in schemas}
    with writing(folder):
        os.makedirs(folder, exist_ok=True)
    for path in paths.values():
        if os.path.lexists(path) and not overwrite:
            raise UsageError(f"Expected no file at `{path}`, found one; give --overwrite to replace it")
    _allow_files(len(paths))
    group_rows = max(SMALLEST_GROUP_ROWS, min(GROUP_ROWS, HELD_ROWS // max(1, len(paths))))
    writers: dict[str, Writer] = {}
    try:
        for name, path in paths.items():
            with writing(path):
                match format_:
                    case "parquet":
                        writers[name] = ParquetWriter(path, schemas[name], group_rows)
                    case "csv":
                        writers[name] = CsvWriter(path, schemas[name])
                    case "jsonl":
                        writers[name] = JsonLinesWriter(path)
    except BaseException:
        for writer in writers.values():
            writer.close()
        raise
    return writers


class ParquetWriter:
    """Gathers small batches into row groups."""

    def __init__(self, path: str, schema: pa.Schema, group_rows: int) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._schema = schema
        self._group_rows = group_rows
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self._part = path + ".part"
        self._writer = pq.ParquetWriter(self._part, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += len(batch)
        self._held_bytes += batch.nbytes
        if self._held_rows >= self._group_rows or self._held_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        with writing(self.path):
            self._writer.write_table(table, row_group_size=GROUP_ROWS)

    def close(self) -> None:
        if self._held:
            self._flush()
        with writing(self.path):
            self._writer.close()
            os.replace(self._part, self.path)


class CsvWriter:
    """A header, then a line per row; text is quoted, NULL is an empty field."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        import pyarrow.csv as pa_csv

        self.path = path
        self._file = pa.OSFile(path, "wb")
        self._writer: Any = pa_csv.CSVWriter(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        with writing(self.path):
            self._writer.write_batch(batch)

    def close(self) -> None:
        with writing(self.path):
            self._writer.close()
            self._file.close()


class JsonLinesWriter:
    """A JSON object per line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115

    def write(self, batch: pa.RecordBatch) -> None:
        left = memoryview(to_json_lines(batch))
        with writing(self.path):
            while left:
                left = left[self._file.write(left) :]

    def close(self) -> None:
        with writing(self.path):
            self._file.close()


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns what the system says against writing `path` into a FileError of one line."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: str, error: OSError) -> FileError:
    """The FileError for a failed write."""
    reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
    return file_error(f"Expected to write `{path}`, found: {reason}", path)


def file_name(query: str) -> str:
    """The query's name with what is not a letter, digit, `_`, `-` or `.` as %XX; long ones end in a hash."""
    escaped = "".join(
        letter if letter in SAFE or letter.isalnum() else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in query
    )
    if escaped.startswith("."):
        escaped = "%2E" + escaped[1:]
    if len(escaped.encode()) <= LONGEST_NAME_BYTES:
        return escaped
    start = escaped.encode()[: LONGEST_NAME_BYTES - 40].decode(errors="ignore")
    return f"{start}~{blake2b(query.encode(), digest_size=16).hexdigest()}"


def _allow_files(count: int) -> None:
    """Raise the process's limit of open files, as far as the system lets us, to hold `count` results open."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = count + _open_files(soft) + SPARE_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _open_files(limit: int) -> int:
    """How many files the process has open: the limit, if none is free, as to list them takes one."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError as error:
        return limit if error.errno == errno.EMFILE else 0
